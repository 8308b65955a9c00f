"""The reference of the Python interface: a page a room, made from the code, so that no public name can be forgotten."""

from __future__ import annotations

import inspect
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from pages import write
from public import Name, Room, besides, constant, names, rooms
from shapes import add_shapes, tidy
from sphinx.domains.python import PythonDomain
from sphinx.pycode import ModuleAnalyzer

if TYPE_CHECKING:
    from docutils.nodes import Element, TextElement
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

#: Modules that references in docstrings may name without a page of ours.
ELSEWHERE = (
    "torch",
    "pyro",
    "numpy",
    "pandas",
    "arviz",
    "xarray",
    "matplotlib",
    "contextlib",
    "collections",
    "sklearn",
)


def make(app: Sphinx) -> None:
    """Write the pages before Sphinx looks for them."""
    known, more = names(), besides()
    public = {one.value for listed in (*known.values(), *more.values()) for one in listed if one.kind == "class"}
    pages = {f"{room.page}.rst": page(room, known[room.path], public, more.get(room.path, [])) for room in rooms()}
    pages["index.rst"] = index(known)
    write(Path(app.srcdir, "reference", "api"), pages)


def index(known: dict[str, list[Name]]) -> str:
    """The list of rooms, each with its sentence."""
    lines = [
        *title("Python interface"),
        "Import the package as ``pu``: ``import pyro_unsup as pu``. A room is a module;",
    ]
    lines += ["the names that are used most are also names of the package itself.", ""]
    lines += [".. list-table::", "   :header-rows: 1", "   :widths: 28 60 12", ""]
    lines += ["   * - Room", "     - What is in it", "     - Names"]
    for room in rooms():
        lines += [
            f"   * - :doc:`{room.path} <{room.page}>`",
            f"     - {room.sentence}",
            f"     - {len(known[room.path])}",
        ]
    lines += ["", ".. toctree::", "   :hidden:", "", *(f"   {room.page}" for room in rooms())]
    return "\n".join(lines) + "\n"


def title(text: str) -> list[str]:
    return [text, "=" * len(text), ""]


def page(room: Room, listed: list[Name], public: set[type], more: list[Name]) -> str:
    """A room: what it is for, a table of its names, and each of them; then what these take or give besides."""
    lines = [*title(room.path), f".. py:module:: {room.path}", ""]
    lines += [*(inspect.getdoc(room.module) or "").splitlines(), ""]
    if listed:
        lines += [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
        for one in listed:
            role = {"class": "class", "function": "func", "data": "data"}[one.kind]
            lines += [f"   * - :py:{role}:`{one.path.rpartition('.')[2]} <{one.path}>`", f"     - {summary(one)}"]
        lines.append("")
    for one in listed:
        lines += {"class": class_, "function": function, "data": data}[one.kind](one, public)
    if more:
        lines += ["Behind these names", "-" * 18, "", "Classes that the names above have in common, take or give.", ""]
    for one in more:
        lines += class_(one, public)
    return "\n".join(lines) + "\n"


def summary(one: Name) -> str:
    """The first sentence of its description."""
    text = constant(one)[1] if one.kind == "data" else inspect.getdoc(one.value) or ""
    first = " ".join(text.split("\n\n")[0].split())
    return first.partition(". ")[0].rstrip(".:") or "\\"


def function(one: Name, public: set[type]) -> list[str]:
    return [f".. autofunction:: {one.path}", ""]


def data(one: Name, public: set[type]) -> list[str]:
    kind, text = constant(one)
    return [
        f".. py:data:: {one.path.rpartition('.')[2]}",
        f"   :type: {kind}",
        "",
        *(f"   {line}" for line in text.splitlines()),
        "",
    ]


def class_(one: Name, public: set[type]) -> list[str]:
    """A class with the members that it has of its own, and a list of those that public classes above it document."""
    own, above = members(one.value, public)
    lines = [
        f".. autoclass:: {one.path}",
        *([f"   :members: {', '.join(own)}"] if own else []),
        "   :show-inheritance:",
        "",
    ]
    for base, inherited in above.items():
        listed = ", ".join(f":py:meth:`{name} <{base.__name__}.{name}>`" for name in inherited)
        lines += [f"   From :py:class:`{base.__name__}`: {listed}.", ""]
    return lines


def members(cls: type, public: set[type]) -> tuple[list[str], dict[type, list[str]]]:
    """Members to document at a class; and those that a public class above it documents, by that class.

    What torch or Pyro asks for is documented there, and so is left out, unless the class has words of its own for it.
    """
    own: list[str] = []
    above: dict[type, list[str]] = {}
    others = [base for base in cls.__mro__[1:] if base in public]
    for base in cls.__mro__:
        if not base.__module__.startswith("pyro_unsup"):
            continue
        for name, value in {**dict.fromkeys(attributes(base)), **vars(base)}.items():
            if name.startswith("_") or name in own or any(name in listed for listed in above.values()):
                continue
            raw = getattr(value, "__func__", getattr(value, "func", value))
            method = inspect.isfunction(raw) or isinstance(raw, property)
            said = bool(getattr(raw, "__doc__", None)) if method else name in attributes(base)
            contract = next((up for up in others if documented(up, name)), None)
            if base is cls and said:
                own.append(name)
            elif contract is not None:
                above.setdefault(contract, []).append(name)
            elif said and (method or base is cls):
                own.append(name)
    return own, above


def documented(cls: type, name: str) -> bool:
    raw = vars(cls).get(name)
    raw = getattr(raw, "__func__", getattr(raw, "func", raw))
    return (inspect.isfunction(raw) or isinstance(raw, property)) and bool(raw.__doc__)


def attributes(cls: type) -> list[str]:
    """Attributes of a class that have a comment of their own."""
    analyzer = ModuleAnalyzer.for_module(cls.__module__)
    analyzer.analyze()
    return [name for owner, name in analyzer.attr_docs if owner == cls.__qualname__]


# -- references


def add_aliases(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Every path that leads to a name leads to its place: ``pyro_unsup.infer.EM`` as well as ``pyro_unsup.EM``."""
    objects = env.domains["py"].objects  # type: ignore[attr-defined]
    for listed in names().values():
        for one in listed:
            for alias in one.aliases:
                if one.path in objects and alias not in objects:
                    objects[alias] = objects[one.path]._replace(aliased=True)
    return []


def find(app: Sphinx, env: BuildEnvironment, node: pending_xref, child: TextElement) -> Element | None:
    """A reference by the end of a path, if only one name ends so: ``Fit.evaluate``, or a class by its file."""
    if node.get("refdomain") != "py":
        return None
    domain: Any = env.domains["py"]
    assert isinstance(domain, PythonDomain)
    parts = node["reftarget"].lstrip("~.").removesuffix("()").split(".")
    own = {name: entry for name, entry in domain.objects.items() if not entry.aliased}
    for size in (2, 1):
        if len(parts) < size or (size == 1 and len(parts) > 1 and not parts[-1][:1].isupper()):
            continue
        tail = "." + ".".join(parts[-size:])
        if size == 1:  # a bare name is a name of a room, not a method
            found = [
                name
                for name in own
                if name.endswith(tail) and own[name].objtype not in ("method", "attribute", "property")
            ]
        else:
            found = [name for name in own if name.endswith(tail)]
        if len(found) == 1:
            entry = own[found[0]]
            builder = app.builder
            uri = builder.get_relative_uri(node.get("refdoc", env.docname), entry.docname)
            reference = nodes.reference("", "", internal=True, refuri=f"{uri}#{entry.node_id}", reftitle=found[0])
            reference += child
            return reference
    return None


def may_be_missing(app: Sphinx, domain: Any, node: pending_xref) -> bool | None:
    """Types in signatures may be those of other libraries, or private ones; a role in a text must lead somewhere.

    A role may also name what is in another library, by its full path, or what the files of the library hold for
    themselves: it is set as code, then. What does not exist is an error.
    """
    if node.get("refdomain") != "py":
        return None
    from_a_signature = "refwarn" not in node
    target = node["reftarget"]
    private = target.rpartition(".")[2] in all_names()
    return True if from_a_signature or private or target.split(".")[0] in ELSEWHERE else None


@cache
def all_names() -> set[str]:
    """Everything that the library's files hold, public or not: docstrings also speak to those who read the code."""
    ours = {name: module for name, module in sys.modules.items() if name.startswith("pyro_unsup")}
    return {one for module in ours.values() for one in vars(module)} | {name.rpartition(".")[2] for name in ours}


def show_public_bases(app: Sphinx, name: str, value: type, options: Any, bases: list[Any]) -> None:
    """Instead of a private class, the public ones that it is made of."""
    known = {one.value for listed in (*names().values(), *besides().values()) for one in listed if one.kind == "class"}
    shown: list[Any] = []
    for base in bases:
        ours = getattr(base, "__module__", "").startswith("pyro_unsup")
        for one in base.__mro__ if ours else (base,):
            if not getattr(one, "__module__", "").startswith("pyro_unsup") and ours:
                continue
            if (one in known or not ours) and not any(isinstance(up, type) and issubclass(up, one) for up in shown):
                shown.append(one)
    bases[:] = shown or [object]


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", make)
    app.connect("autodoc-process-docstring", add_shapes)
    app.connect("autodoc-process-docstring", tidy)
    app.connect("autodoc-process-bases", show_public_bases)
    app.connect("env-updated", add_aliases)
    app.connect("missing-reference", find)
    app.connect("warn-missing-reference", may_be_missing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
