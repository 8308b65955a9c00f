"""A package that adds a structure, a model, a task, a handler and an estimator by entry points, used by its users."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import pyro_unsup as pu

EXAMPLE = Path(__file__).parent / "example_package"

#: What a user of both packages writes. The package is not imported before its names are asked for.
SCRIPT = """
import json, sys, torch
import pyro_unsup as pu

torch.set_default_dtype(torch.float64)
folder = sys.argv[1]
before = "coin_models" in sys.modules
CoinModel, CoinChoice = pu.registry.find("models", "CoinModel"), pu.registry.find("structures", "CoinChoice")
from coin_models import Cautious, Flips, favour

counts = torch.tensor([[9, 1], [8, 2], [10, 0], [1, 9], [0, 10], [2, 8]])
data = Flips(counts, torch.tensor([0, 0, 0, 1, 1, 1]))
sides = torch.tensor([[0.6, 0.4], [0.4, 0.6]]).log()
start = pu.init.from_weights({"coin": torch.tensor([0.5, 0.5]).log(), "side": sides})
fit = pu.EM(CoinModel(2), Cautious(0.7), start).run(data, iterations=30, progress=False)
fit.save(folder + "/fit")
back = pu.load(folder + "/fit")

bonus = torch.tensor([0.5, 0.0])
orders = [
    pu.temper(favour(CoinModel(2), bonus), 0.5),
    favour(pu.temper(CoinModel(2), 0.5), bonus),
    favour(pu.harden(favour(CoinModel(2), bonus)), 2 * bonus),
]
nested = []
for i, model in enumerate(orders):
    one = pu.EM(model, {"side": Cautious(0.5)}, start).run(data, iterations=3, progress=False)
    one.save(f"{folder}/nested{i}")
    again = pu.load(f"{folder}/nested{i}")
    nested.append([repr(again.model) == repr(model), again.log_likelihood(data) == one.log_likelihood(data)])
# With a model of the library: a handler, or an estimator, of the package.
text, tagger = [[0, 1, 2], [2, 1], [0, 1, 1, 2]], pu.models.Tagger(2, 3)
pu.EM(favour(tagger, bonus)).run(text, iterations=1, progress=False).save(folder + "/handler")
pu.EM(tagger, Cautious()).run(text, iterations=1, progress=False).save(folder + "/estimator")
annealed = pu.Anneal(CoinModel(2), init=start, schedule=pu.schedules.geometric(0.5, 2.0)).run(data, progress=False)
print(json.dumps({
    "imported": before,
    "rising": bool((fit.history.objective.diff()[1:] > -1e-12).all()),
    "same": back.log_likelihood(data) == fit.log_likelihood(data),
    "model": [repr(back.model), type(back.model) is CoinModel],
    "estimators": {name: repr(how) for name, how in back.estimators.items()},
    "predicted": [back.predict(data).tolist(), back.predict(data, how="mbr").tolist()],
    "probable": float(back.predict(data, probabilities=True)[1].max(-1).values.min()),
    "posterior": list(back.posterior(data).marginals.shape),
    "decoded": list(back.decode(data).log_likelihood.shape),
    "scores": back.evaluate(data),
    "nested": nested,
    "annealed": [annealed.predict(data).tolist(), annealed.rows[-1]["beta"]],
    "structure": isinstance(CoinChoice(torch.zeros(2), torch.zeros(2, 2), 1), pu.distributions.Structure),
}))
"""


def installed(where: Path) -> Path:
    """A folder with the package as an installer leaves it: the module, and what is known of the distribution."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    shutil.copytree(EXAMPLE / "coin_models", where / "coin_models", ignore=shutil.ignore_patterns("__pycache__"))
    info = where / f"coin_models-{project['version']}.dist-info"
    info.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{name} = {at}\n" for name, at in each.items()) for group, each in groups]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return where


def environment(where: Path) -> dict[str, str]:
    path = os.pathsep.join([str(where), str(Path(pu.__file__).parents[1])])
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, object]]:
    """The folder that the script wrote fits to, and what it printed."""
    where, folder = installed(tmp_path_factory.mktemp("site")), tmp_path_factory.mktemp("fits")
    command = [sys.executable, "-c", SCRIPT, str(folder)]
    env = environment(where)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return folder, json.loads(ended.stdout.splitlines()[-1])


def test_it_is_found_by_name_and_not_imported_before(used: tuple[Path, dict[str, object]]) -> None:
    assert used[1]["imported"] is False
    assert used[1]["structure"] is True


def test_it_learns_and_anneals(used: tuple[Path, dict[str, object]]) -> None:
    said = used[1]
    assert said["rising"] is True
    assert said["annealed"] == [[0, 0, 0, 1, 1, 1], 1.0]


def test_it_comes_back_from_a_folder(used: tuple[Path, dict[str, object]]) -> None:
    said = used[1]
    assert said["same"] is True
    assert said["model"] == ["CoinModel(coins=2)", True]
    assert said["estimators"] == {"coin": "Cautious(part=0.7)", "side": "Cautious(part=0.7)"}
    assert said["nested"] == [[True, True]] * 3


def test_it_is_decoded_and_scored(used: tuple[Path, dict[str, object]]) -> None:
    said = used[1]
    assert said["predicted"] == [[0, 0, 0, 1, 1, 1]] * 2
    assert said["posterior"] == [6, 2]
    assert said["decoded"] == [6]
    scores = said["scores"]
    assert isinstance(scores, dict)
    assert scores == {"accuracy": 1.0}  # those of its own task


@pytest.mark.parametrize(
    ("fit", "what", "group"),
    [
        ("fit", "model 'CoinModel': known are Adaptor, Aligner, CCM", "models"),
        ("nested0", "model 'CoinModel': known are Adaptor, Aligner, CCM", "models"),
        ("handler", "handler 'favour': known are constrain, harden", "handlers"),
        ("estimator", "estimator 'Cautious': known are AddLambda, DirichletMAP", "estimators"),
    ],
)
def test_where_it_is_not_installed_its_fits_are_refused(
    used: tuple[Path, dict[str, object]], fit: str, what: str, group: str
) -> None:
    before = "coin_models" in sys.modules
    with pytest.raises(pu.InputError) as caught:
        pu.load(used[0] / fit)
    message = str(caught.value)
    assert f"unknown {what}" in message
    assert f"install the package that registers it (by an entry point in the group 'pyro_unsup.{group}')" in message
    assert "\n" not in message
    assert ("coin_models" in sys.modules) == before  # a file makes nobody import anything


#: Runs commands one after the other in one process, since most of the time of a command goes into its start.
COMMANDS = """
import json, sys
from typer.testing import CliRunner
from pyro_unsup.cli import app

ended = [CliRunner().invoke(app, words, prog_name="pyro-unsup") for words in json.loads(sys.argv[1])]
print(json.dumps([(one.exit_code, one.stdout, one.stderr) for one in ended]))
"""


def test_it_has_commands(tmp_path: Path) -> None:
    """Its task is one short file."""
    env, folder = environment(installed(tmp_path)), tmp_path / "work"
    folder.mkdir()
    (folder / "flips.txt").write_text("9 1 0\n8 2 0\n10 0 0\n1 9 1\n0 10 1\n2 8 1\n")
    (folder / "new.txt").write_text("7 0\n0 7\n")
    given = [
        "fit --help", "fit coin --help", "predict --help", "fit coin flips.txt --out m --restarts 3 --jobs 1",
        "predict m new.txt", "evaluate m flips.txt --json", "evaluate m flips.txt", "show m --json", "show m",
        "report m --gold flips.txt --out m.html", "fit coin new.txt --out m",
    ]  # fmt: skip
    command = [sys.executable, "-c", COMMANDS, json.dumps([one.split() for one in given])]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, cwd=folder)
    assert ended.returncode == 0, ended.stderr[-3000:]
    *found, (code, _, refused) = json.loads(ended.stdout.splitlines()[-1])
    assert [code for code, _, _ in found] == [0] * len(found), found
    said = {one: " ".join(out.split()) for one, (_, out, _) in zip(given, found, strict=False)}
    assert "Learn which coin each example was flipped with." in said["fit --help"]
    assert "--coins" in said["fit coin --help"]
    assert "Find the coin of each example" in said["predict --help"]
    assert found[3][2].startswith("flips.txt: 6 examples; CoinModel(coins=2)\n")
    assert sorted(said["predict m new.txt"].split()) == ["0", "1"]
    scores = json.loads(said["evaluate m flips.txt --json"])
    assert (scores["accuracy"], scores["one_coin"]) == (1.0, {"accuracy": 0.5})
    assert "each coin taken as its commonest gold coin" in said["evaluate m flips.txt"]
    assert len(json.loads(said["show m --json"])["coins"]) == 2
    assert "heads" in said["show m"]
    assert "CoinModel" in (folder / "m.html").read_text()
    assert (code, refused.count("\n")) == (2, 1)
