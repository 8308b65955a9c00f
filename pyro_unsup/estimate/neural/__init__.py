"""Tables that come from networks."""
