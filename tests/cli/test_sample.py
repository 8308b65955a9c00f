"""Sampling tags on the command line: the library's samples, going on after an interrupt, scores and pages of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyro_unsup as pu
from pyro_unsup.cli.chains import Chains, live
from pyro_unsup.data import TagDictionary, read_tagged
from pyro_unsup.tasks.clusterer import ClustererTask

from .conftest import Run, contents, tensors

SAMPLE: tuple[Any, ...] = ("--tags", 4, "--sweeps", 12, "--burn-in", 4, "--thin", 2, "--chains", 2, "--seed", 5)


@pytest.fixture(scope="module")
def sampled(world: Path, run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Annealed samples with a dictionary, of two chains."""
    out = tmp_path_factory.mktemp("sampled") / "s"
    result = run("sample", "tagger", world / "text.tagged", "--dictionary", world / "dictionary.txt", "--hyper",
                 "separate", "--anneal", "--sweeps", 30, "--chains", 2, "--out", out)  # fmt: skip
    assert result.exit_code == 0, result.stderr
    return out


@pytest.fixture
def stop_chain(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None, int], None]:
    """Make runs stop as if the user had asked to, when this chain reaches this sweep; None lets them run."""
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # one chain after the other, so that where they stop is certain
    note = Chains.note

    def set_stop(chain: int | None, sweep: int = 0) -> None:
        def stopping(chains: Chains, found: pu.infer.Sweep) -> bool:
            return note(chains, found) or (found.chain, found.sweep) == (chain, sweep)

        monkeypatch.setattr(Chains, "note", stopping)

    return set_stop


@pytest.mark.parametrize("command", [["sample"], ["sample", "tagger"]])
def test_help(run: Run, command: list[str]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (["--alpha", 0.1, "--beta", 0.5], {"alpha": 0.1, "beta": 0.5}),
        (["--hyper", "shared", "--hyperprior", "log-uniform"], {"hyper": "shared", "hyperprior": "log_uniform"}),
        (["--blocked", "--anneal"], {"how": "blocked", "temperature": pu.schedules.Cooling()}),
        (["--uncollapsed", "--order", 1, "--no-stop"], {"how": "uncollapsed"}),
    ],
)
def test_samples_are_what_the_library_gives(
    tmp_path: Path, world: Path, run: Run, options: list[Any], settings: dict[str, Any]
) -> None:
    result = run("sample", "tagger", world / "text.tagged", *SAMPLE, *options, "--out", tmp_path / "s")
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    assert "2 chains of 12 sweeps, 4 kept; best log joint -" in result.stderr
    assert f"saved in {tmp_path / 's'}; see it with: pyro-unsup show {tmp_path / 's'}" in result.stderr
    corpus = read_tagged(world / "text.tagged")
    order, stop = (1, False) if "--order" in options else (2, True)
    model = pu.models.Tagger(4, corpus.vocab, order, stop=stop)
    kernel = pu.CollapsedGibbs(model, **{"alpha": 1.0, "beta": 1.0, **settings})
    expected = kernel.run(corpus, sweeps=12, burn_in=4, thin=2, chains=2, seed=5, progress=False)
    found = pu.Samples.load(tmp_path / "s")
    np.testing.assert_array_equal(found.labels, expected.labels)
    np.testing.assert_array_equal(found.path["log_joint"], expected.path["log_joint"])
    assert {**expected.config, "lowercase": False, "min_count": 1} == found.config
    assert sorted(one.name for one in tmp_path.iterdir()) == ["s"]  # the checkpoint is gone


def test_a_tag_may_be_the_words_of_the_text_and_no_others(tmp_path: Path, world: Path, run: Run) -> None:
    text = tmp_path / "few.txt"
    text.write_text("the dog will run .\n")
    arguments = ("--dictionary", world / "dictionary.txt", "--sweeps", 2, "--out", tmp_path / "s")
    result = run("sample", "tagger", text, *arguments)
    assert result.exit_code == 0, result.stderr
    listed = TagDictionary.read(world / "dictionary.txt")
    found = pu.Samples.load(tmp_path / "s").model
    assert list(found.vocab) == ["the", "dog", "will", "run", "."]
    assert list(found.tags) == [tag for tag in listed.tagset if any(tag in listed[word] for word in found.vocab)]
    assert "left out, since no word may have them" in result.stderr


def test_a_dictionary_is_diluted_by_the_words_of_the_text(tmp_path: Path, world: Path, run: Run) -> None:
    """As in Goldwater & Griffiths (2007), where the dictionary is of a whole treebank."""
    whole = read_tagged(world / "text.tagged")
    few = whole.select([0, 1, 2]).compact()
    text = tmp_path / "few.txt"
    text.write_text("".join(f"{' '.join(few.vocab.decode(part))}\n" for part in np.split(few.words, few.offsets[1:-1])))
    sample = ("sample", "tagger", text, "--sweeps", 2, "--dictionary-from", world / "text.tagged")
    for least in (1, 2, "inf"):
        result = run(*sample, "--dictionary-min-count", least, "--out", tmp_path / str(least))
        assert result.exit_code == 0, result.stderr
        model = pu.Samples.load(tmp_path / str(least)).model
        wanted = TagDictionary.from_corpus(whole, float(least), counted_in=few).mask(model.vocab)
        found = model.declarations()["emission"].layout.allowed().numpy()
        np.testing.assert_array_equal(found, wanted[wanted.any(1)])
    assert found.all()
    assert run(*sample, "--dictionary-min-count", "nan", "--out", tmp_path / "nan").exit_code == 2


@pytest.mark.parametrize("stops", [[(0, 1)], [(0, 11), (1, 6), (1, 12)]])
@pytest.mark.parametrize("options", [["--hyper", "shared", "--anneal"], ["--blocked"]])
def test_resume_equals_an_uninterrupted_run(
    tmp_path: Path, world: Path, run: Run, stop_chain: Callable[..., None], stops: list[Any], options: list[str]
) -> None:
    sample = ("sample", "tagger", world / "text.tagged", *SAMPLE, *options)
    assert run(*sample, "--out", tmp_path / "whole").exit_code == 0
    resume: tuple[str, ...] = ()
    for stop in stops:
        stop_chain(*stop)
        result = run(*sample, "--out", tmp_path / "broken", *resume)
        assert result.exit_code == 130
        assert result.stdout == ""
        assert result.stderr.splitlines()[-1] == (
            f"interrupted; the chains are kept in {tmp_path / 'broken.checkpoint'}. To go on, repeat the command with "
            "--resume"
        )
        assert not (tmp_path / "broken").exists()
        resume = ("--resume",)
    stop_chain(None)
    result = run(*sample, "--out", tmp_path / "broken", "--resume")
    assert result.exit_code == 0, result.stderr
    assert f"going on from {tmp_path / 'broken.checkpoint'}" in result.stderr
    assert tensors(tmp_path / "broken") == tensors(tmp_path / "whole")
    assert (tmp_path / "broken" / "samples.json").read_bytes() == (tmp_path / "whole" / "samples.json").read_bytes()
    assert not (tmp_path / "broken.checkpoint").exists()


def test_a_checkpoint_belongs_to_one_run(
    tmp_path: Path, world: Path, run: Run, stop_chain: Callable[..., None]
) -> None:
    sample = ("sample", "tagger", world / "text.tagged", *SAMPLE, "--out", tmp_path / "s")
    stop_chain(0, 3)
    assert run(*sample).exit_code == 130
    stop_chain(None)
    before = contents(tmp_path)
    for arguments, what in (
        ([], "holds an interrupted run; go on with --resume, or start anew with --overwrite"),
        (["--resume", "--seed", 6], "is of a run with --seed 5, not 6; give the same again"),
        (["--resume", "--alpha", 0.5], "is of a run with --alpha 1.0, not 0.5; give the same again"),
        (["--resume", "--anneal"], "is of a run with --anneal False, not True; give the same again"),
        (["--resume", "--lowercase"], "is of a run with another text; give the same again"),
    ):
        result = run(*sample, *arguments)
        assert result.exit_code == 2
        assert result.stderr.splitlines()[-1].startswith(f"error: {tmp_path / 's.checkpoint'}: {what}")
        assert contents(tmp_path) == before
    result = run(*sample, "--resume", "--chains", 3)  # each chain is on its own
    assert result.exit_code == 0, result.stderr
    assert pu.Samples.load(tmp_path / "s").labels.shape[0] == 3


def test_resume_of_nothing_starts_from_the_beginning(tmp_path: Path, world: Path, run: Run) -> None:
    result = run("sample", "tagger", world / "text.tagged", *SAMPLE, "--out", tmp_path / "s", "--resume")
    assert result.exit_code == 0
    assert f"{tmp_path / 's.checkpoint'} is not there: starting from the beginning" in result.stderr


def test_interrupted_before_the_first_sweep(
    tmp_path: Path, world: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyro_unsup.infer.gibbs_chain.GibbsChain.step", interrupted)
    result = run("sample", "tagger", world / "text.tagged", *SAMPLE, "--out", tmp_path / "s")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == "interrupted before the first sweep; nothing was kept"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--alpha", 0], "--alpha must be positive and finite, actual 0"),
        (["--beta", -1], "--beta must be positive and finite, actual -1"),
        (["--beta", "inf"], "--beta must be positive and finite, actual inf"),
        (["--blocked", "--uncollapsed"], "--blocked and --uncollapsed are two ways to draw; give one of them"),
        (
            ["--hyperprior", "flat"],
            "--hyperprior is of concentrations that are sampled: give --hyper shared or separate",
        ),
        (["--sweeps", 5, "--burn-in", 5], "expected sweeps of 1 or more, burn_in below that, and thin from 1 to the"),
    ],
)
def test_options_that_cannot_end_well(tmp_path: Path, world: Path, run: Run, options: list[Any], what: str) -> None:
    result = run("sample", "tagger", world / "text.tagged", *options, "--out", tmp_path / "s")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {what}")
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_folders_that_are_in_the_way(tmp_path: Path, world: Path, run: Run, sampled: Path) -> None:
    sample = ("sample", "tagger", world / "text.tagged", "--tags", 3, "--sweeps", 2)
    before = contents(world / "model")
    result = run(*sample, "--out", world / "model", "--overwrite")
    assert result.stderr == (
        f"error: {world / 'model'}: exists and does not hold samples, so it is not replaced; choose another folder\n"
    )
    assert contents(world / "model") == before
    out = tmp_path / "s"
    assert run(*sample, "--out", out).exit_code == 0
    assert "exists already" in run(*sample, "--out", out).stderr
    assert run(*sample, "--out", out, "--overwrite", "--seed", 1).exit_code == 0


def test_a_flat_prior_is_warned_of(tmp_path: Path, world: Path, run: Run) -> None:
    result = run("sample", "tagger", world / "text.tagged", *SAMPLE, "--hyper", "shared", "--hyperprior", "flat",
                 "--out", tmp_path / "s")  # fmt: skip
    assert result.exit_code == 0
    assert "warning: a flat prior on concentrations is improper" in result.stderr


# -- what becomes of samples


def test_evaluate(world: Path, run: Run, sampled: Path) -> None:
    result = run("evaluate", sampled, world / "text.tagged", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    gold = read_tagged(world / "text.tagged")
    assert found.pop("tokens") == gold.tokens
    assert found == pu.Samples.load(sampled).evaluate(gold)
    assert len(found["accuracy"]["chains"]) == 2
    best = json.loads(run("evaluate", sampled, world / "text.conllu", "--how", "best", "--json").stdout)
    assert best["vi_bits"] == pu.Samples.load(sampled).evaluate(gold, "best")["vi_bits"]
    shown = run("evaluate", sampled, world / "text.tagged").stdout
    assert f"{100 * found['accuracy']['mean']:.1f} %" in shown
    assert "deviation" in shown
    assert "one tag" in shown


def test_one_chain_has_no_deviation(
    tmp_path: Path, world: Path, run: Run, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    sample = ("sample", "tagger", world / "text.tagged", "--tags", 3, "--sweeps", 20, "--out", tmp_path / "s")
    assert run(*sample).exit_code == 0
    assert "deviation" not in run("evaluate", tmp_path / "s", world / "text.tagged").stdout
    shown = run("show", tmp_path / "s")
    page = " ".join(shown.stdout.split())
    assert "1 chain of 10 draws" in page
    assert "one chain cannot tell whether it has converged: sample with --chains 4" in page
    assert "nan" not in page
    assert shown.stderr == caplog.text == ""  # ArviZ has nothing to say of its own
    assert not recwarn.list


def test_another_text_is_not_scored(tmp_path: Path, world: Path, run: Run, sampled: Path) -> None:
    gold = (world / "text.tagged").read_text()
    sentences = [one for one in gold.split("\n\n") if one.strip()]
    other = tmp_path / "other.tagged"
    for text in (
        "\n\n".join(sentences[1:]),  # fewer sentences
        "\n\n".join([sentences[1], sentences[0], *sentences[2:]]),  # in another order
        gold.replace(sentences[0].split()[0], "zebra", 1),  # a word that was not there
    ):
        other.write_text(text + "\n")
        result = run("evaluate", sampled, other)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: {other}: is not the text that was sampled, of 150 examples and ")


def test_show(run: Run, sampled: Path) -> None:
    samples = pu.Samples.load(sampled)
    result = run("show", sampled, "--json", "--words", 3)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["chains"], found["draws"]) == samples.labels.shape[:2]
    assert found["best_log_joint"] == samples.best_log_joint.tolist()
    assert np.shape(found["vi_between_chains"]) == (2, 2)
    assert [one["label"] for one in found["states"]] == samples.names
    best, words = samples.predict("best"), samples.data["words"]
    for state in found["states"]:
        mine = words[best == state["state"]]
        assert len(state["top_words"]) == min(3, len(np.unique(mine)))
        for one in state["top_words"]:
            assert one["share"] == np.mean(mine == samples.model.vocab.index[one["word"]])
    page = " ".join(run("show", sampled).stdout.split())
    assert "commonest words" in page
    assert "r_hat" in page
    assert "between chains" in page
    assert "not of the posterior" in page  # they were annealed


def test_one_tag_for_most_words_is_said(tmp_path: Path, world: Path, run: Run) -> None:
    for tags in (1, 12):
        sample = (
            "sample",
            "tagger",
            world / "text.tagged",
            "--tags",
            tags,
            "--sweeps",
            10,
            "--out",
            tmp_path / str(tags),
        )
        assert run(*sample).exit_code == 0
    assert "100 % of the words have one tag" in " ".join(run("show", tmp_path / "1").stdout.split())
    assert "of the words have one tag" not in " ".join(run("show", tmp_path / "12").stdout.split())


def test_samples_do_not_predict(world: Path, run: Run, sampled: Path) -> None:
    result = run("predict", sampled, world / "new.txt")
    assert result.exit_code == 2
    expected = "holds samples of a tagger; evaluate and show take them, predict needs a model"
    assert result.stderr == f"error: {sampled}: {expected}\n"


def test_samples_that_the_command_line_does_not_know(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ClustererTask.commands, "show_samples")  # type: ignore[arg-type]
    documents, _, _ = pu.data.toy.documents(10, seed=0, topics=2)
    kernel = pu.CollapsedGibbs(pu.models.Clusterer(2, documents.vocab))
    kernel.run(documents, sweeps=2, progress=False).save(tmp_path / "s")
    result = run("show", tmp_path / "s")
    assert result.stderr == (
        f"error: {tmp_path / 's'}: samples of a Clusterer, for which the command line has no show: use "
        "pu.Samples.load\n"
    )


def test_chains_on_the_terminal() -> None:
    from rich.console import Console

    chains = Chains(20)
    chains.note(pu.infer.Sweep(1, 5, 0.25, -1234.5))
    chains.note(pu.infer.Sweep(0, 7, 2.0, -99.0))
    screen = Console(width=100, record=True, file=StringIO())
    screen.print(chains.render())
    first, second = screen.export_text().splitlines()
    assert [part in first for part in ("chain 1", "7/20", "temperature 2", "log joint -99.0")] == [True] * 4
    assert [part in second for part in ("chain 2", "5/20", "temperature 0.25", "log joint -1,234.5")] == [True] * 4
    with live(3) as quiet:  # nothing on what is no terminal
        assert not quiet.note(pu.infer.Sweep(0, 1, 1.0, -1.0))
