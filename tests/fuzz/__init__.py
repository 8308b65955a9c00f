"""Noise in place of everything that is read: one table of targets, driven by hypothesis and by atheris."""
