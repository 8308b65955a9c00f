"""Every public name is documented: in words, with the shapes of its arrays, fully typed, and by an example that runs.

Public is what ``__all__`` names, in the modules of ``public_modules()``; CONTRIBUTING.md says the same in words. The
rules are mechanical, and every failure names the offender. That examples run is the business of ``--doctest-modules``,
and that they import what they use, of ``conftest.py`` at the root: it leaves them nothing of their module.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from types import ModuleType
from typing import Any

import pyro_unsup as pu

#: Reached from here through the modules that ``__all__`` names. Papers are imported only by who asks for them.
ROOTS = ("pyro_unsup", "pyro_unsup.reproduce")
#: Those whose every public method is shown at work, in the class's own example or in the method's.
DATA_AND_RESULTS = (pu.Fit, pu.Samples, pu.data.Corpus, pu.data.Vocab)
ENGINES = (pu.EM, pu.Anneal, pu.StepwiseEM, pu.IncrementalEM, pu.Gradient, pu.MixtureEM, pu.HierarchicalEM)
ENGINES += (pu.CollapsedGibbs,)
#: Where methods are documented that others implement under the same name.
CONTRACTS = (pu.distributions.Structure, pu.distributions.Posterior, pu.estimate.Estimator, pu.estimate.Additive)
CONTRACTS += (pu.estimate.Parametric, pu.estimate.Differentiable)
#: Examples that are shown but not run, by the path of their name, each with the reason.
SKIPPED: dict[str, str] = {}
#: What is an array in a signature, alone or with None.
ARRAYS = re.compile(r"(\w+\.)?(Tensor|NDArray\[.*\]|ArrayLike|Array|\w+Array|Ids|Rows|Ends|Int|Float)( \| None)?")
#: What says a shape: ``(B, T)``, or the word.
SHAPE = re.compile(r"\([\w\s*+|]+,[^)]*\)|\(\)|shape|scalar", re.IGNORECASE)


def public_modules() -> dict[str, ModuleType]:
    """By the name users reach it by, every public module."""
    found: dict[str, ModuleType] = {}
    waiting = [(name, importlib.import_module(name)) for name in ROOTS]
    while waiting:
        path, module = waiting.pop(0)
        if module not in found.values():
            found[path] = module
            inner = ((name, getattr(module, name)) for name in module.__all__)
            waiting += [(f"{path}.{name}", one) for name, one in inner if isinstance(one, ModuleType)]
    return found


@dataclass(frozen=True)
class Name:
    """A public function, class or method.

    :param path: how users reach it.
    :param owner: the class, of a method.
    """

    path: str
    value: Any
    owner: type | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def doc(self) -> str:
        text = inspect.getdoc(self.value) or ""
        made_up = inspect.isclass(self.value) and text.startswith(f"{self.value.__name__}(")  # by dataclass, NamedTuple
        return "" if made_up or (inspect.isclass(self.value) and not self.value.__doc__) else text

    @property
    def code(self) -> Callable[..., Any] | None:
        """The function that has the signature; None if it is not ours, or there is none."""
        value = self.value
        if isinstance(value, property):
            value = value.fget
        elif inspect.isclass(value):
            value = vars(value).get("__init__")
        value = inspect.unwrap(getattr(value, "__func__", value), stop=lambda one: hasattr(one, "__signature__"))
        return value if getattr(value, "__module__", "").startswith("pyro_unsup") else None  # type: ignore[no-any-return]

    @property
    def parameters(self) -> list[inspect.Parameter]:
        """But for the object itself, and switches that every distribution of PyTorch has.

        Nobody calls an enumeration: it has none.
        """
        if inspect.isclass(self.value) and issubclass(self.value, Enum):
            return []
        try:
            found = list(inspect.signature(self.value).parameters.values())
        except (TypeError, ValueError):
            return []
        return [one for one in found if one.name not in ("self", "cls", "validate_args")]

    @cache  # noqa: B019 - names live as long as the tests
    def comments(self) -> dict[str, str]:
        """By parameter or field, and for what is returned, the comment at the end of its line."""
        source = self.value if inspect.isclass(self.value) else self.code
        if source is None:
            return {}
        lines = textwrap.dedent(inspect.getsource(source)).splitlines()
        (tree,) = ast.parse("\n".join(lines)).body
        fields = [one for one in getattr(tree, "body", []) if isinstance(one, ast.AnnAssign)]
        at = {ast.unparse(one.target): one.lineno for one in fields}
        inside = [one for one in getattr(tree, "body", []) if getattr(one, "name", "") == "__init__"]
        function = next(iter(inside), tree)
        if isinstance(function, ast.FunctionDef):
            for one in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
                at[one.arg] = one.lineno
            at["return"] = function.body[0].lineno - 1
        said = {name: self._around(lines, number) for name, number in at.items()}
        return {name: comment for name, comment in said.items() if comment}

    @staticmethod
    def _around(lines: list[str], number: int) -> str:
        above = lines[number - 2] if number > 1 and lines[number - 2].lstrip().startswith("#") else ""
        return " ".join(line.partition("#")[2] for line in (above, lines[number - 1]) if "#" in line)

    def texts(self) -> list[str]:
        """Where its parameters may be described: here, at the classes that it comes from, and where it refers to."""
        bases = [
            one for one in getattr(self.owner or self.value, "__mro__", ()) if one.__module__.startswith("pyro_un")
        ]
        named = {one.rpartition(".")[2] for one in re.findall(r":(?:class|func|meth):`[.~]*([\w.]+)`", self.doc)}
        others = [one.value for one in (*NAMES, *METHODS) if one.name in named]
        return [self.doc, *(inspect.getdoc(one) or "" for one in (*bases, *others))]

    def shape_of(self, parameter: str) -> bool:
        """Whether its shape is told: in a comment beside it, in its own description, or of all at once before those."""
        chunk = rf":param {re.escape(parameter)}:(.*?)(?=\n\s*:|\n\s*\n|\Z)"
        said = [one for text in self.texts() for one in re.findall(chunk, text, re.DOTALL)]
        return any(map(SHAPE.search, (self.comments().get(parameter, ""), re.split(":param|>>>", self.doc)[0], *said)))


def public_names() -> Iterator[Name]:
    """Functions and classes, each once, under the shortest path that leads to it."""
    seen = set()
    for path, module in public_modules().items():
        for name in module.__all__:
            value = getattr(module, name)
            if (inspect.isclass(value) or inspect.isfunction(value)) and value not in seen:
                seen.add(value)
                yield Name(f"{path}.{name}", value)


def public_methods() -> Iterator[Name]:
    """Methods and properties that the library gives its public classes, each where it is documented.

    What Pyro, torch or a contract of ours ask for is documented there.
    """
    seen = set()
    for one in NAMES:
        for name in dir(one.value) if inspect.isclass(one.value) else ():
            value = inspect.getattr_static(one.value, name)
            value = getattr(value, "__func__", getattr(value, "func", value))
            if name.startswith("_") or not (inspect.isfunction(value) or isinstance(value, property)):
                continue
            method = Name(f"{one.path}.{name}", value, one.value)
            elsewhere = [base for base in one.value.__mro__ if not base.__module__.startswith("pyro_unsup")]
            data = one.value in DATA_AND_RESULTS  # which implement no contract
            contract = [base for base in CONTRACTS if not data and one.value is not base and hasattr(base, name)]
            if method.code is None or any(hasattr(base, name) for base in (*elsewhere, *contract)):
                continue
            if method.code not in seen:
                seen.add(method.code)
                yield method


def options(one: Name) -> set[str]:
    """What ``**options`` may be, where a ``TypedDict`` tells."""
    said = str(getattr(one.code, "__annotations__", {}).get("options", ""))
    kind = getattr(sys.modules[one.code.__module__], said[7:-1]) if said.startswith("Unpack[") and one.code else None
    return set(getattr(kind, "__annotations__", {}))


NAMES = list(public_names())
METHODS = list(public_methods())


def shows(text: str) -> str:
    """The examples of a docstring, without their output."""
    return "".join(one.source for one in doctest.DocTestParser().get_examples(text))


def skips(text: str) -> bool:
    """Whether some of the examples of a docstring are not run."""
    return any(one.options.get(doctest.SKIP) for one in doctest.DocTestParser().get_examples(text))


def none(offenders: Iterable[str]) -> None:
    """Fail with the names of all offenders."""
    found = list(offenders)
    assert not found, f"{len(found)} offenders:\n" + "\n".join(found)


def test_public_modules_name_what_they_have() -> None:
    for path, module in public_modules().items():
        assert len(set(module.__all__)) == len(module.__all__), path
        assert not [name for name in module.__all__ if not hasattr(module, name)], path
        assert module.__doc__, path
    assert len(NAMES) > 200


def test_every_public_name_is_documented() -> None:
    none(one.path for one in (*NAMES, *METHODS) if not one.doc)


def test_every_public_name_has_an_example() -> None:
    none(one.path for one in NAMES if not shows(one.doc))


def test_every_example_runs() -> None:
    skipped = {one.path for one in (*NAMES, *METHODS) if skips(one.doc)}
    skipped |= {path for path, module in public_modules().items() if skips(module.__doc__ or "")}
    none(skipped ^ SKIPPED.keys())


def test_every_example_is_found() -> None:
    """By doctest, which looks for functions and classes of a module, and not behind every decorator."""
    wanted = [one for one in (*NAMES, *METHODS) if shows(one.doc)]
    modules = {getattr(one.value, "__module__", None) or one.code.__module__ for one in wanted}  # type: ignore[union-attr]
    finder, found = doctest.DocTestFinder(), set()
    for module in modules:
        found |= {inspect.cleandoc(one.docstring) for one in finder.find(sys.modules[module])}
    none(one.path for one in wanted if one.doc not in found)


def test_every_method_of_the_main_classes_is_shown() -> None:
    # What one engine shows holds for all: they have the same manners.
    for group in (*((one,) for one in DATA_AND_RESULTS), ENGINES):
        methods = [one for one in METHODS if one.owner in group]
        shown = "".join(shows(text) for text in (*(one.doc for one in methods), *map(inspect.getdoc, group)) if text)
        none(one.path for one in methods if not re.search(rf"\.{one.name}\b", shown))


def test_every_documented_parameter_exists() -> None:
    offenders = []
    for one in (*NAMES, *METHODS):
        known = {p.name for p in one.parameters} | set(getattr(one.value, "__annotations__", {})) | options(one)
        for base in getattr(one.owner, "__mro__", ())[1:]:  # a docstring may be that of the method it overrides
            above = vars(base).get(one.name)
            known |= set(inspect.signature(above).parameters) if callable(above) else set()
        offenders += [f"{one.path}: {name}" for name in re.findall(r":param (\w+):", one.doc) if name not in known]
    none(offenders)


def test_more_than_two_parameters_are_documented_one_by_one() -> None:
    offenders = []
    for one in (*NAMES, *METHODS):
        wanted = [p.name for p in one.parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        text = "\n".join(one.texts())
        known = [name for name in wanted if re.search(rf":param {name}:|``[^`]*\b{name}\b[^`]*``", text)]
        if len(wanted) > 2:
            offenders += [f"{one.path}: {name}" for name in wanted if name not in {*known, *one.comments()}]
    none(offenders)


def test_arrays_have_shapes() -> None:
    offenders = []
    for one in (*NAMES, *METHODS):
        arrays = [p.name for p in one.parameters if ARRAYS.fullmatch(str(p.annotation))]
        for name in arrays:
            if not one.shape_of(name):
                offenders.append(f"{one.path}: {name}")
        code = one.code
        back = "" if code is None or inspect.isclass(one.value) else str(code.__annotations__.get("return", ""))
        if ARRAYS.fullmatch(back) and not SHAPE.search(one.doc + one.comments().get("return", "")):
            offenders.append(f"{one.path} -> {back}")
    none(offenders)


def test_signatures_are_fully_typed() -> None:
    offenders = []
    for one in (*NAMES, *METHODS):
        code = one.code
        if code is None or code.__name__.startswith("__create"):
            continue
        signature = inspect.signature(code)
        bare = [
            p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name not in ("self", "cls")
        ]
        offenders += [f"{one.path}: {name}" for name in bare]
        if signature.return_annotation is signature.empty:
            offenders.append(f"{one.path} ->")
    none(offenders)
