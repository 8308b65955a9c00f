"""Samplers of adaptor grammars: the chart of a sentence, the restaurants of its units, and the sweeps over both."""
