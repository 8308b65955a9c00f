"""Measurements: ``python -m benchmarks.NAME`` prints JSON lines, every claim a ratio taken in one run."""
