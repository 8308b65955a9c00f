"""The table of ratios, and the figure of how everything grows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .problem import Contender, Curve, Problem, all_problems, described

Line = dict[str, Any]

#: Ratios closer to one than this are no difference.
EVEN = 0.95
#: So many sizes at which a peer wins are named one by one.
FEW = 3


def report(path: Path, figure: Path) -> None:
    """Print the table of these JSON lines as Markdown, and draw their curves."""
    lines: list[Line] = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    table(lines)
    draw([line for line in lines if "seconds" in line], figure)


def table(lines: Sequence[Line]) -> None:
    columns = ("problem", "size", "threads", "peer", "ours", "peer's", "time", "memory", "wins", "what differs")
    print("|", " | ".join(columns), "|\n|", " | ".join(["---"] * len(columns)), "|")
    for problem in all_problems():
        ours, *others = problem.contenders
        for contender in others:
            for threads in (1, 2):
                pair = _compared(lines, problem, ours, contender, threads)
                if pair is None:
                    continue
                ratio = {key: pair[1][key] / pair[0][key] for key in ("seconds", "peak_mib")}
                print("|", " | ".join(_row(problem, contender, threads, *pair, ratio)), "|")
    print("\nTime and memory are the peer's over ours; memory is the peak above what the loaded program has.")
    for key, what in (("seconds", "is faster"), ("peak_mib", "takes less memory")):
        for problem in all_problems():
            for contender in problem.contenders:
                if contender.peer and (where := _won(lines, problem, contender, key)):
                    why = f": {contender.why}" if contender.why and key == "seconds" else ""
                    print(f"* {problem.name}: **{contender.name}** {what} {', and '.join(where)}{why}.")
    for line in lines:
        if "missing" in line:
            print(f"* {line['missing']} is left out, because it could not be installed: {line['why']}.")
        elif "stopped" in line:
            print(f"* {line['problem']}, {line['contender']}, {described(line['size'])}, {line['threads']} thread(s): "
                  f"{line['stopped']}.")  # fmt: skip


def _won(lines: Sequence[Line], problem: Problem, peer: Contender, key: str) -> list[str]:
    """Wherever on the curves a peer was better than something of ours, with the ratio."""
    found = []
    for ours in (one for one in problem.contenders if not one.peer):
        mine = {_point(line): line[key] for line in lines if _is_of(line, problem, ours)}
        theirs = [line for line in lines if _is_of(line, problem, peer) and _point(line) in mine]
        ratios = [line[key] / max(mine[_point(line)], 1e-9) for line in theirs]
        won = {
            f"{described(line['size'])}{', two threads' if line['threads'] == 2 else ''} {_rounded(ratio)}": ratio
            for line, ratio in zip(theirs, ratios, strict=True)
            if ratio <= EVEN
        }
        if won:
            between = f"ratios {_rounded(min(won.values()))} to {_rounded(max(won.values()))}"
            at = f"({'; '.join(won)})" if len(won) <= FEW else between
            found.append(f"than {ours.name} at {len(won)} of {len(theirs)} sizes, {at}")
    return found


def _is_of(line: Line, problem: Problem, contender: Contender) -> bool:
    whose = (line.get("problem"), line.get("contender"))
    return "seconds" in line and whose == (problem.name, contender.name)


def _point(line: Line) -> tuple[Any, ...]:
    return line["curve"], line["threads"], *line["size"].values()


def _compared(
    lines: Sequence[Line], problem: Problem, ours: Contender, other: Contender, threads: int
) -> tuple[Line, Line] | None:
    """What both sides did at the main size, or at the largest that both reached."""
    name = (other.curves or tuple(problem.curves))[0]
    curve = problem.curves[name]

    def of(contender: Contender) -> dict[int, Line]:
        return {
            line["size"][curve.axis]: line
            for line in lines
            if line.get("problem") == problem.name
            and line["contender"] == contender.name
            and (line["curve"], line["threads"]) == (name, threads)
            and "seconds" in line
        }

    mine, theirs = of(ours), of(other)
    both = mine.keys() & theirs.keys()
    if not both:
        return None
    main = curve.sizes[problem.main][curve.axis]
    x = main if main in both and name == next(iter(problem.curves)) else max(both)
    return mine[x], theirs[x]


def _row(problem: Problem, contender: Contender, threads: int, mine: Line, theirs: Line, ratio: Line) -> list[str]:
    if not contender.peer:
        wins = ""
    elif EVEN < ratio["seconds"] < 1 / EVEN:
        wins = "neither"
    else:
        wins = "ours" if ratio["seconds"] > 1 else f"**{contender.name}**"
    scores = [
        f"{name} {theirs['answer'][name]:.3f}, ours {mine['answer'][name]:.3f}"
        for name in ("aer", "f1")
        if name in theirs["answer"] and name in mine["answer"]
    ]
    return [
        f"{problem.name}: {problem.unit}",
        described(mine["size"]),
        str(threads),
        f"{contender.name} {theirs['version']}".strip(),
        f"{mine['seconds']:.3g} s, {mine['peak_mib']:.0f} MiB",
        f"{theirs['seconds']:.3g} s, {theirs['peak_mib']:.0f} MiB",
        _rounded(ratio["seconds"]),
        _rounded(ratio["peak_mib"]),
        wins,
        "; ".join(filter(None, [contender.differs, *scores])),
    ]


def _rounded(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.2g}"


def draw(lines: Sequence[Line], path: Path) -> None:
    """A panel for the time along every curve, and one for memory below it; dashed with two threads."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [
        (problem, curve, here)
        for problem in all_problems()
        for name, curve in problem.curves.items()
        if (here := [line for line in lines if (line["problem"], line["curve"]) == (problem.name, name)])
    ]
    across = min(4, len(shown))
    down = -(-len(shown) // across)
    figure, axes = plt.subplots(2 * down, across, figsize=(4.4 * across, 6.2 * down), squeeze=False)
    for ax in axes.flat:
        ax.set_visible(False)
    for k, (problem, curve, here) in enumerate(shown):
        above, below = axes[2 * (k // across) : 2 * (k // across) + 2, k % across]
        for ax, key in ((above, "seconds"), (below, "peak_mib")):
            ax.set_visible(True)
            _panel(ax, here, problem, curve, key)
        above.set(title=problem.name, ylabel=f"seconds ({problem.unit})")
        _legend(above)
        below.set(ylabel="peak memory, MiB", xlabel=_axis(curve, here))
    figure.suptitle("solid: one thread; dashed: two", fontsize=9, y=0.999)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _panel(ax: Any, lines: Sequence[Line], problem: Problem, curve: Curve, key: str) -> None:
    ticks: set[int] = set()
    for k, contender in enumerate(problem.contenders):
        for threads, style in ((1, "o-"), (2, "^--")):
            points = sorted(
                (line["size"][curve.axis] * curve.times, line[key])
                for line in lines
                if (line["contender"], line["threads"]) == (contender.name, threads)
            )
            if not points:
                continue
            ticks |= {x for x, _ in points}
            label = contender.name if threads == 1 else None
            wide = 1.2 if contender.peer else 2.4
            ax.loglog(*zip(*points, strict=True), style, color=f"C{k}", label=label, linewidth=wide, markersize=4)
    ax.set_xticks(sorted(ticks), [_short(x) for x in sorted(ticks)])
    ax.set_xticks([], minor=True)
    ax.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    ax.yaxis.set_minor_formatter(lambda y, _: "")
    low, high = ax.get_ylim()
    if high / low < 100:  # show a power of ten or two in any case
        ax.set_ylim(low / (100 * low / high) ** 0.5, high * (100 * low / high) ** 0.5)
    ax.grid(alpha=0.3)


def _legend(ax: Any) -> None:
    """In two columns, above the lines."""
    rows = -(-len(ax.get_legend_handles_labels()[1]) // 2)
    low, high = ax.get_ylim()
    ax.set_ylim(low, high * (high / low) ** (0.12 * rows))
    ax.legend(loc="upper left", ncols=2, fontsize=7, frameon=False)


def _axis(curve: Curve, lines: Sequence[Line]) -> str:
    """What grows, and in brackets what stays the same."""
    sizes = [line["size"] for line in lines]
    fixed = {key: value for key, value in sizes[0].items() if all(size[key] == value for size in sizes)}
    fixed.pop(curve.axis, None)
    return curve.label + (f" ({described(fixed)})" if fixed else "")


def _short(x: int) -> str:
    return f"{x / 1000:.3g}k" if x >= 1000 else str(x)
