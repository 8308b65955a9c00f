"""``python -m pyro_unsup`` is the same as ``pyro-unsup``."""

from pyro_unsup.cli import app

if __name__ == "__main__":
    app(prog_name="pyro-unsup")
