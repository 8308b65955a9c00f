"""Combinations of models and algorithms that no paper ran."""
