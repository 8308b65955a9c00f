"""Pages that are made when the site is built: written only if they change, so that Sphinx reads again what is new."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def write(folder: Path, pages: Mapping[str, str | bytes]) -> None:
    """Make a folder hold these files and no others.

    :param folder: made if need be.
    :param pages: contents by path within the folder.
    """
    for name, content in pages.items():
        path, new = folder / name, content.encode() if isinstance(content, str) else content
        if not path.is_file() or path.read_bytes() != new:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(new)
    for path in [*folder.rglob("*")]:
        if path.is_file() and path.relative_to(folder).as_posix() not in pages:
            path.unlink()
