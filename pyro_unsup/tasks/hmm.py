"""Hidden Markov models of time series: states of counts and measurements in tables (CSV)."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

import pyro_unsup as pu

from ..errors import InputError, UnsupError
from . import summaries
from .option import MODEL, TEXT, Given, choice, number, text, under
from .pictures import transitions
from .pictures_series import stretches
from .shown import Shown
from .task import Task, check_options
from .values import Baseline, Command, Plan, Recipe, Score

if TYPE_CHECKING:
    from ..models import HMM, Series
    from ..results import Fit

FILE = "A table with a header, a row a time step: CSV, or with tabs. - is standard input."
COLUMN = text("column", "NAME", "The column of the observations; several with commas between them are a vector. By "
              "default the only one, or the last.", remember=True)  # fmt: skip
SERIES = text("series_column", "NAME", "A column that tells series apart: rows of one value are one series, in the "
              "order of the table. By default all rows are one.", remember=True)  # fmt: skip
EMISSIONS = (
    "normal",
    "student_t",
    "log_normal",
    "gamma",
    "exponential",
    "von_mises",
    "poisson",
    "negative_binomial",
    "geometric",
    "bernoulli",
    "categorical",
)
OPTIONS = (
    *under(
        MODEL,
        number("states", "How many states.", 2),
        choice("emission", EMISSIONS, "What states emit. Several columns with normal are a normal vector.", "normal"),
        choice("covariance", ("full", "tied", "diagonal", "spherical"), "Of a normal vector.", "full"),
        choice("start", ("free", "stationary", "uniform"), "Probabilities of the first state.", "free"),
        choice("support", ("all", "left-to-right"), "Which transitions are possible.", "all"),
    ),
    *under(TEXT, COLUMN, SERIES),
)
#: Digits of numbers in tables.
DIGITS = 6


@dataclass
class Rows:
    """The table of a file, and its series.

    :param series: as the model takes them.
    :param names: of the columns of observations.
    :param order: (N,) the row of the table that each observation is of.
    :param model: what they are compared with a baseline for, if that is known.
    """

    series: Series
    names: list[str]
    order: Any
    model: Any = None

    def __len__(self) -> int:
        return len(self.series)

    @property
    def tokens(self) -> int:
        """How many observations there are."""
        return self.series.tokens


class HMMTask(Task):
    """States of time series."""

    name = "hmm"
    about = (
        "A hidden Markov model of a time series. At each step the series is in one hidden state. A "
        "state says which state "
        "is likely to come next, and which values it is likely to emit."
    )
    colours = "Colours are states. The stronger a stripe, the surer the model is."
    colours_gold = ""
    statistics = summaries.by_name(
        summaries.mean, summaries.deviation, summaries.smallest, summaries.largest, summaries.autocorrelation
    )
    structure_statistics = summaries.by_name(summaries.mean_run, summaries.longest_run, summaries.largest_share)
    unit, examples = "observations", "series"
    likelihood = "log_likelihood"
    smoothing_helps = False
    main = ("bic",)
    parts, has_words, constraints = "States", False, "states-at=0:1-100,1:300- (the steps at which a state is)"
    preferences = (
        "states-at=0:1-100: the series is in state 0 in its first 100 steps; states-at=0:1-100,1:300-: and in state 1 "
        "from step 300 on. Step 1 is the first of a series. ~ before a rule turns it round; & between two asks for "
        "both, | with white space around it for one of them."
    )
    scores_structure = False
    when_worse = "Try other --states, --restarts 10, or another --emission"
    baselines_known = (Baseline("one_state", "all observations come from one state, fitted to these data"),)
    recipe = Recipe(max_iterations="1000", tolerance=1e-9, words="EM")
    scores_known = (
        Score("log_likelihood", "natural logarithm; higher is better", ".4f"),
        Score("per_observation", "the same, of an observation", ".4f"),
        Score("aic", "Akaike's information criterion; lower is better", ".4f", True),
        Score("bic", "the Bayesian information criterion; lower is better", ".4f", True),
        Score("icl", "BIC with the entropy of the states; lower is better", ".4f", True),
    )
    commands = {  # noqa: RUF012
        "fit": Command(
            "Learn a hidden Markov model of time series.\n\nEmpty cells are missing values.",
            FILE,
            OPTIONS,
        ),
        "predict": Command(
            "Find the state of every row, and write it with its probabilities.\n\nOne line a row: the best state, then "
            "the probability of each state given all rows.",
            FILE,
            (
                COLUMN,
                SERIES,
                choice(
                    "given",
                    ("all", "past"),
                    "Probabilities given all rows of a series, or given those up to now (filtered).",
                    "all",
                ),
            ),
        ),
        "evaluate": Command(
            "Tell how well a model explains series, with information criteria.", FILE, (COLUMN, SERIES)
        ),
        "show": Command("Show a model: its states, their emissions, and its transitions."),
        "forecast": Command(
            "Forecast what comes after the end of each series.\n\nOne line a step: mean, and quantiles of the "
            "observation; then the probability of each state.",
            FILE,
            (COLUMN, SERIES, number("steps", "How many steps.", 10)),
        ),
    }

    # -- training

    def read(self, file: Any, given: Given) -> Rows:
        return read_rows(file, given.column, getattr(given, "series_column", None))

    def build(self, data: Rows, given: Given) -> HMM:
        vectors = len(data.names) > 1
        if given.emission == "categorical":
            values = data.series.values[data.series.observed]  # others are missing
            if vectors or not len(values) or bool((values != values.round()).any()) or float(values.min()) < 0:
                raise InputError("categories are whole numbers from 0, in one column", given.file)
            return pu.models.HMM(given.states, "categorical", categories=int(values.max()) + 1, start=given.start,
                                 support=given.support)  # fmt: skip
        emission = "multivariate_normal" if vectors and given.emission == "normal" else given.emission
        return pu.models.HMM(
            given.states,
            emission,
            dim=len(data.names) if vectors else None,
            covariance=given.covariance,
            start=given.start,
            support=given.support,
        )

    def prepare(self, file: str, given: Given, sampled: bool = False) -> tuple[Any, Any, str]:
        data = self.read(file, given)
        model = self.build(data, given)
        missing = int((~data.series.observed).sum())
        of = f" of {', '.join(map(str, data.names))}" if data.names else ""
        size = f"{len(data):,} series, {data.tokens:,} observations{of}" + (f", {missing:,} missing" if missing else "")
        return data.series, model, size

    def plan(self, model: Any, data: Any, given: Given) -> Plan:
        return Plan(max_iterations=1000)

    def same_data(self, data: Any) -> Sequence[Any]:
        series = getattr(data, "series", data)
        return series.values.numpy(), series.lengths.numpy()

    # -- what becomes of a fit

    def read_new(self, fit: Fit, given: Given) -> Rows:
        column = given.column or fit.config.get("column")
        return read_rows(given.file, column, given.series_column or fit.config.get("series_column"))

    def decode(self, fit: Fit, data: Any, **options: Any) -> Any:
        from .decoding import Decoded

        check_options(self.name, options, ["how"])
        series = getattr(data, "series", data)
        found = fit.posterior(series)
        how = options.get("how") or "viterbi"
        if how not in ("viterbi", "mbr"):
            raise UnsupError(f"how must be 'viterbi' or 'mbr', actual {how!r}")
        structure = found.mode() if how == "viterbi" else found.mbr()
        alone = found if not fit.preferences else replace(fit, preferences=()).posterior(series)
        return Decoded(structure, found, alone.log_partition)

    def lines(self, fit: Fit, data: Rows, decoded: Any, given: Given) -> Iterable[str]:
        found = decoded.posterior
        shares = (found.filtered if given.given == "past" else found.smoothed).numpy()
        yield "\t".join(["state", *(f"p{k}" for k in range(shares.shape[1]))])
        rows = [
            "\t".join([str(state), *(f"{p:.{DIGITS}f}" for p in share)])
            for state, share in zip(decoded.structure.tolist(), shares, strict=True)
        ]
        place = np.empty(len(rows), np.int64)
        place[data.order] = np.arange(len(rows))
        yield from (rows[i] for i in place)

    def scores(self, fit: Fit, gold: Any, decoded: Any) -> dict[str, float]:
        """``log_likelihood``, ``per_observation``, ``aic``, ``bic``, ``icl``."""
        found = pu.results.criteria.criteria(fit, getattr(gold, "series", gold))
        each = found["log_likelihood"] / max(found["observations"], 1)
        return {"log_likelihood": found["log_likelihood"], "per_observation": each,
                **{name: found[name] for name in ("aic", "bic", "icl")}}  # fmt: skip

    def read_gold(self, fit: Fit, given: Given) -> Rows:
        found = self.read_new(fit, given)
        found.model = fit.model
        return found

    def baselines(self, gold: Any) -> dict[str, dict[str, float]]:
        series, model = getattr(gold, "series", gold), getattr(gold, "model", None)
        if model is None:  # of series alone, no more is known than how wide they are
            model = pu.models.HMM(1, dim=None if series.values.dim() == 1 else series.values.shape[1])
        fit = pu.EM(model.with_states(1)).run(series, progress=False)
        return {"one_state": self.scores(fit, series, None)}

    def sizes(self, fit: Fit, gold: Any, decoded: Any) -> dict[str, Any]:
        series = getattr(gold, "series", gold)
        return {
            "series": len(series),
            "observations": int(series.observed.sum()),
            "parameters": pu.results.criteria.free_parameters(fit),
        }

    def show(self, fit: Fit) -> Shown:
        model: Any = fit.model
        transition = _transition(fit)
        names = [name for name in fit.params if name != "transition"]
        states, rows = [], []
        for k in range(model.states):
            own = {name: fit.params[name][k if len(fit.params[name]) > 1 else 0].tolist() for name in names}
            if "emission" in fit.weights:
                own["emission"] = fit.weights["emission"][k].exp().tolist()
            row = [str(k), *(_short(x) for x in own.values())]
            state: dict[str, Any] = {"state": k, **own}
            if transition is not None:
                stay = float(transition[k, k])
                state |= {"stay": stay, "duration": 1 / max(1 - stay, 1e-12)}
                row += [f"{state['duration']:.1f}", *(f"{p:.4f}" for p in transition[k].tolist())]
            states.append(state)
            rows.append(row)
        record: dict[str, Any] = {"states": states}
        head = ["state", *(key for key in states[0] if key not in ("state", "stay", "duration"))]
        if transition is not None:
            record["transition"] = transition.tolist()
            head += ["duration", *(f"to {k}" for k in range(model.states))]
        return Shown(record, numbers=[head, *rows])

    def forecast(self, fit: Fit, data: Rows, given: Given) -> Iterable[str]:
        """Lines of a forecast: a header, then a line a step."""
        posterior: Any = fit.posterior(data.series)
        found = posterior.forecast(given.steps)
        numbers = found.emission is not None and not found.emission.event_shape
        levels = (0.05, 0.5, 0.95) if numbers else ()
        heads = ["mean", *(f"q{100 * q:g}" for q in levels)] if numbers else [f"mean_{name}" for name in data.names]
        heads = heads if found.emission is not None else []
        states = [f"p{k}" for k in range(found.states.shape[-1])]
        yield "\t".join(["series", "step", *heads, *states])
        columns: list[Any] = [found.quantile(q) for q in levels]
        for s in range(found.states.shape[0]):
            for t in range(given.steps):
                shares = found.states[s, t].tolist()
                means = found.mean[s, t].reshape(-1).tolist() if heads else []
                cells = [*means, *(float(x[s, t]) for x in columns), *shares]
                yield "\t".join([str(s), str(t + 1), *(f"{x:.{DIGITS}g}" for x in cells)])

    def taken(self, fit: Fit, data: Any) -> Rows:
        model: Any = fit.model
        series = model.index(getattr(data, "series", data))
        return Rows(series, getattr(data, "names", []), np.arange(series.tokens), model)

    def has_gold(self, data: Rows) -> bool:
        """Scores of a series need no gold."""
        return True

    def size(self, data: Rows) -> str:
        return f"{len(data):,} series, {self.tokens(data):,} observations"

    def learned(self, fit: Fit) -> Sequence[Any]:
        shares = _transition(fit)
        return () if shares is None else transitions(shares.log(), [str(k) for k in range(len(shares))])

    won_by = "makes it likelier"

    def check_comparable(self, fits: Mapping[str, Fit]) -> None:
        """Likelihoods are of one column, and all probabilities or all densities."""
        kinds = {name: _values(fit.model) for name, fit in fits.items()}
        # A fit that was made in Python, or of the last column, does not know the name of its column.
        columns = {name: fit.config["column"] for name, fit in fits.items() if fit.config.get("column")}
        for what, of in (("the column", columns), ("the kind of values", kinds)):
            for first, other in pairwise(of):
                if of[first] != of[other]:
                    raise UnsupError(
                        f"the likelihoods of {first} and {other} cannot be compared: they differ in {what} "
                        f"({of[first]} and {of[other]})"
                    )

    def by_example(self, fit: Fit, gold: Rows, decoded: Any) -> Any:
        """The log-likelihood of each series."""
        return decoded.log_likelihood.double().reshape(-1).numpy()

    def illustrated(self, fit: Fit, data: Rows, numbers: Sequence[int], **options: Any) -> Sequence[Any]:
        """Series are decoded as a whole, and long ones drawn in stretches."""
        return stretches(data, self.decode(fit, data, **options), len(numbers) if len(data) > 1 else None)

    def frame(self, fit: Fit, data: Any, decoded: Any) -> dict[str, Any]:
        """A row an observation: ``series``, ``step``, ``observation`` (of numbers), ``state``, ``probability``."""
        series = fit.model.index(getattr(data, "series", data))  # type: ignore[attr-defined]
        rows = decoded.posterior.prior.rows
        found = {"series": rows.owner.numpy(), "step": rows.position.numpy()}
        if series.values.dim() == 1:
            found["observation"] = series.values.numpy()
        states = decoded.structure
        shares = decoded.posterior.smoothed.gather(1, states.clamp(min=0)[:, None])[:, 0]
        return {**found, "state": states.numpy(), "probability": shares.numpy()}

    def plot(self, fit: Fit, data: Any, **options: Any) -> Any:
        """The series, each observation in the colour of its state."""
        posterior: Any = fit.posterior(getattr(data, "series", data))
        return pu.plot.series_by_state(posterior, **options)


def read_rows(file: Any, column: str | None, series_column: str | None) -> Rows:
    """The table of a file."""
    import pandas

    lines = [line for _, line in pu.data.opening.open_text(file)]
    # The mark that the header has most of. (Guesses of csv.Sniffer find letters between columns, where there is one.)
    mark = max(",;\t", key=lines[0].count) if lines else ","
    try:
        table = pandas.read_csv(StringIO("\n".join(lines)), sep=mark, engine="python")
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, csv.Error) as error:
        raise InputError(f"is not a table with a header: {error}", str(file)) from None
    names = [one.strip() for one in column.split(",")] if column else list(table.columns[-1:])
    for name in [*names, *([series_column] if series_column else [])]:
        if name not in table.columns:
            raise InputError(f"has no column '{name}', but {', '.join(map(str, table.columns))}", str(file))
    order = np.arange(len(table))
    lengths = np.array([len(table)])
    if series_column:
        codes, _ = pandas.factorize(table[series_column])
        order = np.argsort(codes, kind="stable")
        lengths = np.bincount(codes)
    values = table[names].apply(pandas.to_numeric, errors="coerce")
    wrong = values.isna() & table[names].notna()
    if bool(wrong.to_numpy().any()):
        row, col = (int(x) for x in np.argwhere(wrong.to_numpy())[0])
        raise InputError(
            f"column '{names[col]}' holds {table[names[col]].iloc[row]!r:.40}, expected a number or an empty cell",
            str(file),
            row + 2,
        )
    numbers = values.to_numpy(np.float64)[order]
    if not len(numbers):
        raise InputError("has no rows, expected a row a time step", str(file))
    return Rows(pu.models.Series.of(numbers[:, 0] if len(names) == 1 else numbers, lengths), names, order)


def _values(model: Any) -> str:
    """What the emission of a model is of: it has probabilities of whole numbers, and densities of measurements."""
    from torch.distributions import constraints  # torch loads when it is first needed

    from ..models.emissions import FAMILIES

    if not isinstance(model.emission, str):
        return "values of a function of your own"
    build = FAMILIES[model.emission].build if model.emission in FAMILIES else None
    support = getattr(build, "support", constraints.real)
    return "whole numbers" if model.emission == "categorical" or support.is_discrete else "measurements"


def _transition(fit: Fit) -> Any:
    if "transition" in fit.weights:
        return fit.weights["transition"].softmax(-1)
    return fit.params.get("transition")


def _short(x: Any) -> str:
    if isinstance(x, list):
        return "[" + ", ".join(_short(one) for one in x) + "]"
    return f"{x:.4g}"
