"""What ``samples.json`` says: samples in plain values and arrays, and the way back. Nothing that it says is run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from ..data.arrays import check_offsets, check_range
from ..errors import UnsupError
from ..models.gibbs_trees import LABELLED_SPANS
from .building import build_model, describe_model
from .sample_tables import tables_of_words
from .sample_trees import trees_of
from .samples import Samples

Array = np.ndarray[Any, Any]
_OWN = ("kept", "best", "best_log_joint", "last")
_GROUPS = ("draws", "path", "data", "own", "model")
_PATH = {"log_joint", "temperature", "rate_labels", "rate_alpha", "rate_beta"}
#: What stands for the table that words come from, where lexicons have no fixed size.
LEXICON = "lexicon"
#: The arrays of what was sampled, by the table that its words come from.
_DATA = {
    LEXICON: {"words", "offsets"},
    "emission": {"words", "offsets"},
    "attach": {"words", "offsets"},
    "context": {"words", "offsets"},
    "words": {"words", "times", "offsets"},
    "segments": {"cells", "offsets"},
    "translation": {"cells", "source_lengths", "target_lengths"},
}


def describe(samples: Samples) -> tuple[dict[str, Any], dict[str, Array]]:
    """Samples as plain values, and arrays by ``group/name``."""
    model, extra = describe_model(samples.model)
    said = {"model": model, "config": samples.config, "tables": [list(samples.tables[0]), samples.tables[1]]}
    own = {name: getattr(samples, name) for name in _OWN}
    groups = {"draws": samples.draws, "path": samples.path, "data": samples.data, "own": own}
    arrays = {f"{group}/{name}": x for group, members in groups.items() for name, x in members.items()}
    return said, arrays | {f"model/{name}": x.numpy() for name, x in extra.items()}


def restore(record: Mapping[str, Any], arrays: Mapping[str, Array]) -> Samples:
    """Samples from what :func:`describe` made. Raises one of ``WRONG`` where the parts do not agree."""
    groups: dict[str, dict[str, Array]] = {name: {} for name in _GROUPS}
    for key, x in arrays.items():
        group, _, name = key.partition("/")
        groups[group][name] = x
    tensors = {name: torch.from_numpy(x) for name, x in groups.pop("model").items()}
    model = build_model(record["model"], tensors, sum(x.size for x in arrays.values()))
    rows, emitted = record["tables"]
    samples = Samples(model, tables=(tuple(rows), emitted), config=record["config"], **groups.pop("own"), **groups)  # type: ignore[arg-type]
    check(samples)
    return samples


def check(samples: Samples) -> None:
    """Raise unless the arrays are chains of this model, of one length, with valid labels."""
    labels, config = samples.labels, samples.config
    if labels.ndim != 3 or 0 in labels.shape[:2]:
        raise UnsupError(f"expected labels of shape (chains, draws, units), actual {labels.shape}")
    chains, draws, units = labels.shape
    sweeps = samples.path["log_joint"].shape[-1]
    rows, emitted = samples.tables
    declared = {*samples.model.declarations(), *(({*samples.levels, LEXICON}) if samples.levels else ())}
    if emitted not in _DATA or not {*rows, *tables_of_words(emitted, declared)} <= declared:
        raise UnsupError(f"concentrations of the tables {[*rows, emitted]!r:.80}, but the model has {sorted(declared)}")
    if samples.path.keys() != _PATH or samples.data.keys() != _DATA[emitted]:
        raise UnsupError("the arrays are not those that a sampler leaves behind")
    drawn = {name: x for name, x in samples.draws.items() if name not in ("labels", "alpha", "beta")}
    # Of models whose sampler draws them beside the labels; older folders have none.
    known = rows if hasattr(samples.model.gibbs_state(), "drawn") else ()
    if drawn and drawn.keys() != {*known}:
        raise UnsupError(f"expected the tables {sorted(known)} among the draws, actual {sorted(drawn)!s:.200}")
    layouts = {name: samples.model.declarations()[name].layout for name in drawn}
    wanted = {
        **{name: (x, "f", (chains, draws, *layouts[name].shape)) for name, x in drawn.items()},
        "alpha": (samples.draws["alpha"], "f", (chains, draws, max(1, len(rows)))),
        "beta": (samples.draws["beta"][..., :1], "f", (chains, draws, 1)),
        "kept": (samples.kept, "i", (draws,)),
        "labels": (labels, "i", labels.shape),
        "best": (samples.best, "i", (chains, units)),
        "last": (samples.last, "i", (chains, units)),
        "best_log_joint": (samples.best_log_joint, "f", (chains,)),
        **{name: (x, "f", (chains, sweeps)) for name, x in samples.path.items()},
    }
    for name, (x, kind, shape) in wanted.items():
        if x.dtype.kind != kind or x.shape != shape:
            raise UnsupError(f"{name}: expected shape {shape}, actual {x.dtype} of shape {x.shape}")
        if kind == "f" and np.isnan(x).any():
            raise UnsupError(f"{name} holds NaN")
    for name, x in drawn.items():
        if x.min() < 0 or x.max() > 1 + 1e-9:
            raise UnsupError(f"{name}: expected probabilities, actual {x.min():g} to {x.max():g}")
    lowest = -1 if samples.structure == LABELLED_SPANS else 0
    for name in ("labels", "best", "last"):
        check_range(wanted[name][0].ravel(), lowest, samples.K - 1, name)
    check_range(samples.kept, 0, sweeps - 1, "kept")
    if samples.learned not in ("fixed", "shared", "separate") or not 0 <= int(config.get("burn_in", 0)) < sweeps:
        raise UnsupError("the settings are not those of a sampler")
    _check_data(samples, units)


def _check_data(samples: Samples, units: int) -> None:
    data = samples.data
    if not all(x.dtype.kind == "i" for x in data.values()):
        raise UnsupError("expected data of whole numbers")
    if "source_lengths" in data:
        _check_pairs(samples, units)
        return
    offsets, model = data["offsets"], samples.model
    if "cells" in data:
        cells = data["cells"]
        if cells.ndim != 2 or not 0 < cells.shape[1] <= model.max_length:
            raise UnsupError(f"cells: expected shape (symbols, up to {model.max_length}), actual {cells.shape}")
        check_range(cells.ravel(), -1, len(model.types), "cells")
    else:
        vocab = model.vocab
        check_range(data["words"], 0, (vocab if isinstance(vocab, int) else len(vocab)) - 1, "words")
    flat = data["cells" if "cells" in data else "words"]
    check_offsets(offsets, len(flat), "offsets", "items")
    found = len(offsets) - 1 if "times" in data else len(flat)
    if samples.structure is not None:
        found = trees_of(samples).units
    if found != units or len(data.get("times", flat)) != len(flat):
        raise UnsupError(f"labels of {units} units, but the data have {found}")


def _check_pairs(samples: Samples, units: int) -> None:
    """The same of pairs of sentences."""
    cells, source, target = (samples.data[name] for name in ("cells", "source_lengths", "target_lengths"))
    if source.ndim != 1 or source.shape != target.shape or min(source.min(initial=1), target.min(initial=1)) < 0:
        raise UnsupError("expected a source length and a target length for each pair")
    if cells.shape != (int(((source + 1) * (target + 1)).sum()),) or int(source.sum() + target.sum()) != units:
        raise UnsupError(f"labels of {units} words, but the data have {int(source.sum() + target.sum())}")
    lexicon = samples.model.lexicon
    check_range(cells, -1, len(lexicon) + max(lexicon.source, lexicon.target) - 1, "cells")
