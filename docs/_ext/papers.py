"""The pages of papers: our tables and figures beside the published ones, from the results in ``papers/results/``.

``python docs/_ext/papers.py FOLDER`` takes over the results that ``pyro-unsup reproduce PAPER --out FOLDER`` wrote.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

    from pyro_unsup.reproduce import Finished, Paper, Table

HERE = Path(__file__).parents[1] / "papers"
RESULTS, KEPT = "results.json", HERE / "results"
DIGITS = 6  # significant ones that are kept of a number
LARGEST = 300_000  # bytes of the results of a paper


# -- taking results over


def keep(folder: Path) -> Path:
    """Put the results of a folder beside those that are there. Tables that were run again replace earlier ones."""
    from pyro_unsup.reproduce import paper

    source = folder / RESULTS
    new = json.loads(source.read_text()) if source.is_file() else unfinished(folder)
    if new["small"]:
        raise SystemExit(f"{folder}: results of --small are not for showing; run the paper without it")
    of = paper(new["paper"])
    path = KEPT / of.name / RESULTS
    kept = json.loads(path.read_text()) if path.is_file() else {"paper": of.name, "tables": {}}
    newest = max(one.stat().st_mtime for one in folder.glob("results.json*"))
    for table in new["tables"]:
        if any(row["runs"] for row in table["rows"]):
            kept["tables"][table["name"]] = {
                "date": datetime.fromtimestamp(newest, UTC).date().isoformat(),
                "versions": new["versions"],
                "seeds": new["seeds"],
                "rows": [reduced(of.table(table["name"]), row, new["data"]) for row in table["rows"]],
            }
    text = (
        json.dumps(kept, indent=None, ensure_ascii=False, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n"
    )
    if len(text.encode()) > LARGEST:
        raise SystemExit(f"{path}: {len(text.encode()):,} bytes, expected at most {LARGEST:,}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def unfinished(folder: Path) -> dict[str, Any]:
    """The record of runs that are still going on."""
    from pyro_unsup.reproduce import Corpora, Finished, Plan, paper
    from pyro_unsup.reproduce.report import record

    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    of = paper(lines[0]["paper"])
    plan = Plan(of, (), Corpora(Path("DIR")), of.seeds, lines[0]["small"], {})
    found = {(one["table"], one["row"], one["seed"]): one["found"] for one in lines}
    return json.loads(json.dumps(record(Finished(plan, found)), allow_nan=False))  # type: ignore[no-any-return]


def reduced(table: Table, row: dict[str, Any], data: str) -> dict[str, Any]:
    """What tables and figures need of a row."""
    wanted = {"seed", "seconds", *(one.name for one in (*table.columns, *table.curves))}
    left_out = row["left_out"]
    return {
        "name": row["name"],
        "runs": [{key: rounded(value) for key, value in run.items() if key in wanted} for run in row["runs"]],
        **({"left_out": left_out.replace(data, "DIR")} if left_out else {}),
        **({"failed": row["failed"]} if row["failed"] else {}),
    }


def rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return float(f"{value:.{DIGITS + 3}g}") if isinstance(value, float) else value


# -- showing them


def state_of(paper: Paper, record: dict[str, Any]) -> Finished:
    """The results of a paper, as those who write reports have them."""
    from pyro_unsup.reproduce import Corpora, Finished, Plan

    tables = tuple(replace(one, compare=None) for one in paper.tables)  # what it adds is in the record
    found, failed, left_out = {}, {}, {}
    for name, table in record["tables"].items():
        for row in table["rows"]:
            for run in row["runs"]:
                found[name, row["name"], run["seed"]] = {key: value for key, value in run.items() if key != "seed"}
            failed |= {(name, row["name"], int(seed)): what for seed, what in row.get("failed", {}).items()}
            if "left_out" in row:
                left_out[name, row["name"]] = row["left_out"]
    seeds = max((one["seeds"] for one in record["tables"].values()), default=paper.seeds)
    plan = Plan(replace(paper, tables=tables), tables, Corpora(Path("DIR")), seeds, False, left_out)
    return Finished(plan, found, failed)


def fragment(paper: Paper, record: dict[str, Any], figures: dict[str, list[str]]) -> str:
    """Every table of a paper: what was found, or that it has not been run.

    :param figures: by the name of a table, the files of its figures.
    """
    from pyro_unsup.reproduce.report import _lines

    state = state_of(paper, record)
    run = [one.name for one in paper.tables if one.name in record["tables"]]
    missing = [one for one in paper.tables if one.name not in run]
    lines = [
        f"{len(run)} of {len(paper.tables)} tables have been run. All at once:",
        f"`pyro-unsup reproduce {paper.name} --data DIR`.",
    ]
    if missing:
        lines += ["", "Not run yet: " + ", ".join(f"{one.title} (`{one.name}`)" for one in missing) + "."]
    for table in state.plan.paper.tables:
        command = f"pyro-unsup reproduce {paper.name} --data DIR --only {table.name}"
        lines += ["", f"### {table.title}", "", table.about, "", "```bash", command, "```", ""]
        if table.name not in run:
            lines += [":::{admonition} Not run yet", ":class: note", ""]
            lines += [
                f"This table takes about {table.minutes:,.0f} minutes on one core. The command above runs it.",
                ":::",
            ]
            continue
        facts = record["tables"][table.name]
        lines += [told(facts, table), ""]
        for file in figures.get(table.name, ()):
            lines += [
                f"```{{image}} generated/{file}",
                f":alt: {table.title}, ours and published",
                ":class: figure",
                "```",
                "",
            ]
        lines += ["::::{dropdown} The numbers", ":open:", "", *fenced(_lines(state, table)), "::::"]
    return "\n".join(lines) + "\n"


def told(facts: dict[str, Any], table: Table) -> str:
    """When, by what, and how often a table was run."""
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    runs = sorted({len(row["runs"]) for row in facts["rows"] if row["runs"]})
    seeds = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    one = "run" if runs == [1] else "runs"
    return f"{{.facts}}\nRun on {facts['date']} by {versions}; {seeds} {one} a row, from seed 0 on."


def fenced(lines: list[str]) -> list[str]:
    """Tables whose texts cannot become markup."""
    return [line.replace("<", "&lt;").replace("$", r"\$").replace("{", "&#123;") for line in lines]


def make(app: Sphinx) -> None:
    """Write tables and figures before Sphinx looks for them."""
    from pages import write

    from pyro_unsup.reproduce import PAPERS, paper
    from pyro_unsup.reproduce.figures import draw
    from pyro_unsup.reproduce.report import found_in

    found: dict[str, str | bytes] = {}
    for name in PAPERS:
        one = paper(name)
        path = KEPT / one.name / RESULTS
        record = json.loads(path.read_text()) if path.is_file() else {"tables": {}}
        state, figures = state_of(one, record), {}
        with tempfile.TemporaryDirectory() as folder:
            for table in state.plan.paper.tables:
                if table.name in record["tables"]:
                    drawn = draw(table, found_in(state, table), Path(folder))
                    figures[table.name] = [f"{one.name}/{file.name}" for file in drawn]
                    found |= {f"{one.name}/{file.name}": file.read_bytes() for file in drawn}
        found[f"{one.name}.md"] = fragment(one, record, figures)
    write(HERE / "generated", found)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print(keep(Path(given)))
