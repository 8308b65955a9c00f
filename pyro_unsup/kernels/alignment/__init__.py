"""Word alignment on CPU, over grids of words that lie flat."""
