"""Whether an installed package works, from a script that needs nothing of the source tree: ``python smoke.py``.

Every model is fitted, saved, loaded and asked; every command of the command line answers. ``.ci/release`` runs it on
the built wheel, in an environment and a folder of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata, resources
from pathlib import Path
from typing import Any


def models(pu: Any) -> dict[str, tuple[Any, Any]]:
    """One of each, with data for it."""
    toy = pu.data.toy
    text, pairs, speech = toy.sentences(60, seed=1), toy.bitext(40, seed=1), toy.utterances(40, seed=1)
    bags, tags = toy.documents(30, seed=1, topics=3).bags, text.tags_as_words().filter(2, 8)
    return {
        "Tagger": (pu.models.Tagger(tags=5, vocab=text.vocab), text),
        "DMV": (pu.models.DMV(tags=tags.vocab), tags),
        "CCM": (pu.models.CCM.of(tags), tags),
        "DMVCCM": (pu.models.DMVCCM.of(tags), tags),
        "PCFG": (pu.models.PCFG.of(tags, 3, 5), tags),
        "SimplePCFG": (pu.models.SimplePCFG.of(tags, 3, 5), tags),
        "Segmenter": (pu.models.Segmenter.of(speech, max_length=6), speech),
        "Aligner": (pu.models.Aligner.of(pairs), pairs),
        "HMMAligner": (pu.models.HMMAligner.of(pairs), pairs),
        "Clusterer": (pu.models.Clusterer(3, bags.vocab), bags),
        "HMM": (pu.models.HMM(2), pu.models.Series.of([0.1, 0.3, 5.2, 4.9, 0.2, 5.1])),
    }


def try_models(folder: Path) -> None:
    """Fit, save, load and predict; the loaded fit says what the first one said."""
    import torch

    import pyro_unsup as pu

    made = models(pu)
    assert set(made) == set(pu.models.__all__) - {"Series"}, "a model is not tried here"
    for name, (model, data) in made.items():
        engine = pu.EM(model, pu.AddLambda(0.1))
        fit = engine.run(data, iterations=3, progress=False)
        assert fit.report.iterations == 3, name
        fit.save(folder / name)
        again = pu.load(folder / name)
        one, other = (x.predict(data) for x in (fit, again))
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other)), name
        assert again.objective == fit.objective, name
        print(f"{name}: {len(data)} examples, objective {fit.objective:.2f}", flush=True)


def write_texts(folder: Path) -> None:
    """A file for each command that wants one."""
    from pyro_unsup.data import toy, write_brackets, write_conllu, write_tagged

    text, pairs, documents = toy.sentences(60, seed=1), toy.bitext(40, seed=1), toy.documents(30, seed=1, topics=3)
    write_tagged(text, None, folder / "text.tagged")
    write_brackets(text, None, folder / "trees.mrg")
    write_conllu(text, None, folder / "heads.conllu")
    both = zip(*([" ".join(side.sentence(i)) for i in range(40)] for side in (pairs.source, pairs.target)), strict=True)
    lines = {
        "lines.txt": toy.utterances(40, seed=1).segmented,
        "pairs.txt": [" ||| ".join(pair) for pair in both],
        "documents.txt": [
            f"{documents.topics[label]}\t{' '.join(documents.corpus.sentence(i))}"
            for i, label in enumerate(documents.labels)
        ],
    }
    for name, rows in lines.items():
        (folder / name).write_text("".join(f"{row}\n" for row in rows))


#: By kind, its text, and what ``fit`` must be told.
KINDS = {
    "tagger": ("text.tagged", "--tags", "5"),
    "ccm": ("trees.mrg",),
    "dmv": ("heads.conllu",),
    "dmv-ccm": ("heads.conllu",),
    "pcfg": ("trees.mrg", "--nonterminals", "3", "--preterminals", "5"),
    "segmenter": ("lines.txt",),
    "aligner": ("pairs.txt",),
    "clusterer": ("documents.txt", "--clusters", "3"),
}


def try_commands(folder: Path) -> None:
    """Run the command line as a user does."""
    from pyro_unsup import tasks

    def run(*words: str) -> str:
        done = subprocess.run([command, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"pyro-unsup {' '.join(words)}: {done.stderr}"
        return done.stdout

    command = str(Path(sys.executable).parent / "pyro-unsup")
    write_texts(folder)
    assert run("--version").split() == ["pyro-unsup", metadata.version("pyro-unsup")]
    assert set(KINDS) == set(tasks.names()), "a kind of model is not tried here"
    for kind, (text, *options) in KINDS.items():
        run("fit", kind, text, *options, "--smooth", "0.1", "--max-iterations", "3", "--out", kind)
        assert run("predict", kind, text), kind
        if kind != "aligner":  # whose text has no gold links
            assert run("evaluate", kind, text), kind
        assert run("show", kind), kind
        print(f"fit, predict, evaluate, show {kind}", flush=True)
    run("sample", "tagger", "text.tagged", "--tags", "5", "--sweeps", "4", "--out", "draws")
    assert run("show", "draws")
    assert "smith-eisner-2004" in run("reproduce")
    print("sample, reproduce", flush=True)


def try_package(folder: Path) -> None:
    """What is installed is what was built, and tells its types."""
    import pyro_unsup

    where = Path(pyro_unsup.__file__)
    assert "site-packages" in where.parts, f"not an installed package: {where}"
    assert pyro_unsup.__version__ == metadata.version("pyro-unsup")
    assert resources.files("pyro_unsup").joinpath("py.typed").is_file()
    print(f"pyro_unsup {pyro_unsup.__version__} at {where.parent}", flush=True)


def main() -> None:
    steps: tuple[Callable[[Path], None], ...] = (try_package, try_models, try_commands)
    with tempfile.TemporaryDirectory() as folder:
        for step in steps:
            step(Path(folder))
    print("all is well")


if __name__ == "__main__":
    main()
