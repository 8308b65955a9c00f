"""What made a page: the command, the versions, and how the model was trained."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from .markup import Html, element, join

PACKAGES = ("pyro-ppl", "torch", "numpy")


def provenance(command: str) -> Html:
    """The command and the versions that made the page."""
    from pyro_unsup import __version__

    versions = {"pyro-unsup": __version__, **{name: _version(name) for name in PACKAGES}}
    said = ", ".join(f"{name} {number}" for name, number in versions.items())
    return join([
        element("p", "This command made the page:"),
        element("pre", element("code", command)),
        element("p", f"Versions: {said}, Python {platform.python_version()}.", class_="soft"),
    ])  # fmt: skip


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not known"
