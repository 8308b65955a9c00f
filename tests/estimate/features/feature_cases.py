"""Tables with axes and templates of every kind, and an oracle that spells features out cell by cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import torch
from torch import Tensor

from pyro_unsup.estimate import Template, same
from pyro_unsup.tables import Axis, Declaration, Layout

WORDS = ["dog", "dogs", "Cat", "a-1", ""]
SUPPORT = torch.tensor([[True, True, False, True, True], [False, True, True, False, False]])
SOURCES, TARGETS = ["the", "house", ""], ["la", "maison", "house"]
CELLS = torch.tensor([0, 2, 1, 0, 1, 2])


def one(name: str, layout: Layout, *axes: Axis) -> Declaration:
    return Declaration(name, layout, torch.tensor(1.0, dtype=torch.float64), axes=axes)


def letters(word: str) -> list[str]:
    return list(word)


def last(word: str) -> str | None:
    return word[-1] if word else None


TABLES = {
    "emission": one("emission", Layout.dense(2, 5), Axis("tag", 2), Axis("word", WORDS)),
    "dictionary": one("dictionary", Layout.dense(2, 5, support=SUPPORT), Axis("tag", 2), Axis("word", WORDS)),
    "cube": one("cube", Layout.dense(2, 3, 5), Axis("side", ("left", "right")), Axis("n", 3), Axis("word", WORDS)),
    "vector": one("vector", Layout.dense(5), Axis("word", WORDS)),
    "ragged": one("ragged", Layout.ragged([2, 1, 3]), Axis("source", SOURCES), Axis("target", TARGETS, CELLS)),
}
TEMPLATES = {
    "basic": [Template("emission", "basic", tag=same, word=same)],
    "coarse": [Template("emission", "last", tag=same, word=last), Template("emission", "len", word=len)],
    "several": [Template("emission", "letters", tag=same, word=letters)],
    "several contexts": [Template("emission", "x", tag=lambda tag: [tag, "any"], word=set)],
    "support": [Template("dictionary", "letters", tag=same, word=letters), Template("dictionary", "len", word=len)],
    "cube": [
        Template("cube", "side", side=same, word=last),
        Template("cube", "both", n=lambda n: n > 0, side=same, word=letters),
        Template("cube", "n", n=lambda n: n if n else None, word=same),
    ],
    "vector": [Template("vector", "letters", word=letters), Template("vector", "basic", word=same)],
    "ragged": [
        Template("ragged", "basic", source=same, target=same),
        Template("ragged", "letters", source=last, target=letters),
        Template("ragged", "target", target=last),
    ],
    "joint": [Template("ragged", "longer", cells=lambda e, f: len(e) < len(f) or None, axes=("source", "target"))],
    "joint dense": [
        Template("dictionary", "joint", cells=lambda word, tag: {(tag, c) for c in word}, axes=("word", "tag"))
    ],
    "vectorised": [
        Template("ragged", "lengths", cells=lambda e, f: [len(x) - len(y) for x, y in zip(e, f, strict=True)],
                 axes=("source", "target"), vectorised=True),
        Template("ragged", "numbers", cells=lambda e: torch.arange(len(e)).numpy() % 2,
                 axes=("target",), vectorised=True),
    ],
    "shared": [
        Template("emission", "end", word=last),
        Template("vector", "end", word=lambda word: word[-1:] or None),
        Template("cube", "end", word=lambda word: [word[-1:], "?"]),
        Template("vector", "basic", word=same),
    ],
    "none": [],
}  # fmt: skip


def tables_of(templates: Sequence[Template]) -> dict[str, Declaration]:
    return {name: TABLES[name] for name in TABLES if any(t.table == name for t in templates)} or {
        name: TABLES[name] for name in ("dictionary", "ragged")
    }


def values(found: Any) -> list[Any]:
    if found is None:
        return []
    return list(dict.fromkeys(found)) if isinstance(found, list | set) else [found]


def fires(template: Template, labels: Mapping[str, Any], decision: str) -> list[tuple[Any, ...]]:
    """The names of the features that fire in a cell."""
    if template.cells is not None and template.vectorised:
        columns = [[labels[axis]] for axis in template.axes]
        return [(template.name, v) for v in values(list(template.cells(*columns)))]
    if template.cells is not None:
        return [(template.name, v) for v in values(template.cells(*(labels[axis] for axis in template.axes)))]
    order = [axis for axis in template.axes if axis != decision] + [decision]
    each = [values(template.functions[axis](labels[axis])) for axis in order]
    return [(template.name, *combination) for combination in product(*each)]


def cells_of(declaration: Declaration) -> list[dict[str, Any]]:
    """The labels of every cell."""
    assert declaration.axes is not None
    layout, (*rows, decision) = declaration.layout, declaration.axes
    if layout.row_lengths is None:
        labels = product(*(axis.labels for axis in declaration.axes))
        return [dict(zip([axis.name for axis in declaration.axes], cell, strict=True)) for cell in labels]
    owners = torch.repeat_interleave(layout.row_lengths).tolist()
    assert decision.cells is not None
    return [
        {**{axis.name: axis.labels[r] for axis in rows}, decision.name: decision.labels[c]}
        for r, c in zip(owners, decision.cells.tolist(), strict=True)
    ]


def spelled_out(declaration: Declaration, templates: Sequence[Template], w: Mapping[Any, Tensor]) -> Tensor:
    """Log-weights from feature weights by name."""
    assert declaration.axes is not None
    decision = declaration.axes[-1].name
    own = [t for t in templates if t.table == declaration.name]
    own = own or [Template(declaration.name, f"basic {declaration.name}", **{a.name: same for a in declaration.axes})]
    logits = []
    for labels in cells_of(declaration):
        fired = [w[name] for template in own for name in fires(template, labels, decision) if name in w]
        logits.append(sum(fired, torch.zeros(())))
    return declaration.layout.normalise(torch.stack(logits).reshape(declaration.layout.shape))
