"""The public names of the library, and the page that documents each: what ``__all__`` names, room by room."""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from sphinx.pycode import ModuleAnalyzer

#: Reached from here through the modules that ``__all__`` names.
ROOTS = ("pyro_unsup", "pyro_unsup.reproduce")

#: What is no name of a room but part of what public names take or give, by the room whose page has it.
BESIDES = {
    "pyro_unsup.data": ("pyro_unsup.data.options.Options", "pyro_unsup.data.bitext.BitextOptions"),
    "pyro_unsup.distributions": tuple(
        f"pyro_unsup.distributions.parts.{one}"
        for one in ["Parts", "Arcs", "Brackets", "Constituents", "States", "Stretches", "Pieces", "Links", "Clusters"]
    ),
    "pyro_unsup.infer": ("pyro_unsup.infer.engine.Engine", "pyro_unsup.infer.online.Online"),
    "pyro_unsup.models": ("pyro_unsup.models.base.Model",),
}


@dataclass(frozen=True)
class Room:
    """A public module.

    :param path: how users reach it.
    :param module: the module itself.
    """

    path: str
    module: ModuleType

    @property
    def page(self) -> str:
        """The name of its page."""
        return self.path.removeprefix("pyro_unsup.")

    @property
    def sentence(self) -> str:
        """What it is for: the first paragraph of its docstring."""
        return " ".join(inspect.getdoc(self.module).split("\n\n")[0].split())  # type: ignore[union-attr]


@dataclass(frozen=True)
class Name:
    """A public class, function or constant.

    :param path: the shortest one that leads to it.
    :param aliases: other paths that lead to it.
    """

    path: str
    value: Any
    aliases: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """As the roles of Sphinx have it."""
        if inspect.isclass(self.value):
            return "class"
        return "function" if inspect.isfunction(self.value) else "data"


def rooms() -> list[Room]:
    """Every public module, once."""
    found: list[Room] = []
    waiting = [Room(name, importlib.import_module(name)) for name in ROOTS]
    while waiting:
        room = waiting.pop(0)
        if room.module not in [one.module for one in found]:
            found.append(room)
            inner = ((name, getattr(room.module, name)) for name in room.module.__all__)
            waiting += [Room(f"{room.path}.{name}", one) for name, one in inner if isinstance(one, ModuleType)]
    return found


def names() -> dict[str, list[Name]]:
    """By the path of a room, the names that its page documents.

    A name of a room that is also one of the package is documented in its room, under the shorter path.
    """
    everywhere = rooms()
    paths: dict[int, list[tuple[str, str]]] = {}  # by the object, the rooms that have it and its paths there
    values: dict[int, Any] = {}
    for room in everywhere:
        for name in room.module.__all__:
            value = getattr(room.module, name)
            if not isinstance(value, ModuleType):
                shared = inspect.isclass(value) or inspect.isfunction(value)
                key = id(value) if shared else hash((room.path, name))  # two constants may be one object
                paths.setdefault(key, []).append((room.path, f"{room.path}.{name}"))
                values[key] = value
    found: dict[str, list[Name]] = {room.path: [] for room in everywhere}
    for key, known in paths.items():
        own = [room for room, _ in known if room != "pyro_unsup"] or ["pyro_unsup"]
        shortest, *others = (path for _, path in sorted(known, key=lambda one: one[1].count(".")))
        found[own[0]].append(Name(shortest, values[key], tuple(others)))
    return found


def besides() -> dict[str, list[Name]]:
    """What else is documented, by the path of a room."""
    found = {}
    for room, paths in BESIDES.items():
        split = (path.rpartition(".") for path in paths)
        found[room] = [Name(f"{m}.{one}", getattr(importlib.import_module(m), one)) for m, _, one in split]
    return found


def constant(name: Name) -> tuple[str, str]:
    """Type and description of a constant, from the comment above its assignment.

    It may have been made in another file than the one that names it.
    """
    room, _, last = name.path.rpartition(".")
    package = next(one.module for one in rooms() if one.path == room).__name__
    inside = {path: one for path, one in sys.modules.items() if f"{path}.".startswith(f"{package}.")}
    for module in inside.values():
        if getattr(module, last, None) is not name.value:
            continue
        analyzer = ModuleAnalyzer.for_module(module.__name__)
        analyzer.analyze()
        if comment := analyzer.attr_docs.get(("", last)):
            return type(name.value).__name__, "\n".join(comment).strip()
    return type(name.value).__name__, ""
