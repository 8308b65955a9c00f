"""What pytest leaves alone here: atheris changes whatever is imported after it."""

collect_ignore = ["by_atheris.py"]
