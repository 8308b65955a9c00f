"""Faults to plant: the mutations that cosmic-ray knows, but for those that nothing could notice."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Without the compiler, a kernel is the same without its decorator.
LEFT_OUT = ("core/RemoveDecorator",)


@dataclass(frozen=True)
class Mutant:
    """One fault: the so-and-so-manieth place in a module where an operator of cosmic-ray applies."""

    path: Path
    operator: str
    occurrence: int
    line: int

    @property
    def digest(self) -> str:
        """Of the module without the fault."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]

    @property
    def name(self) -> tuple[str, str, int, str]:
        return self.path.stem, self.operator, self.occurrence, self.digest

    def source(self) -> str:
        """The module with the fault in it."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        found: str = mutate_code(self.path.read_text(encoding="utf-8"), get_operator(self.operator)(), self.occurrence)
        return found

    def line_of_source(self) -> str:
        """The line with the fault in it."""
        return self.source().splitlines()[self.line - 1].strip()


def mutants(path: Path) -> Iterator[Mutant]:
    """All faults of a module; types are no code, and settings of the compiler no results: they are not among them."""
    from cosmic_ray.ast import ast_nodes, get_ast_from_path
    from cosmic_ray.plugins import get_operator, operator_names

    source = ast.parse(path.read_text(encoding="utf-8"))
    passed_over = [*_annotations(source), *_compiler_settings(source)]
    tree = get_ast_from_path(path)
    for name in operator_names():
        operator = get_operator(name)
        if name in LEFT_OUT or operator.arguments():
            continue
        places = (place for node in ast_nodes(tree) for place in operator().mutation_positions(node))
        for occurrence, (start, _) in enumerate(places):
            if not any(first <= start < last for first, last in passed_over):
                yield Mutant(path, name, occurrence, start[0])


def _compiler_settings(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where decorators of numba begin and end: whether code is cached, or releases a lock, changes no number."""
    for node in ast.walk(tree):
        for one in getattr(node, "decorator_list", []):
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "njit":
                yield (one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)


def _annotations(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where types begin and end, line and column: annotations, and the values of names such as ``Order``."""
    for node in ast.walk(tree):
        types = [getattr(node, field, None) for field in ("annotation", "returns")]
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            types.append(node.value if name[0].isupper() and not name.isupper() else None)
        for one in types:
            if one is not None:
                yield (one.lineno, one.col_offset), (one.end_lineno, one.end_col_offset)
