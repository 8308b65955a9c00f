"""The options that all models have, as data. Where a default depends on the model, help tells the model's own."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from .option import ALGORITHM, BELIEFS, TEXT, TRAINING, Option, choice, flag, number, real, text, under
from .values import Command

if TYPE_CHECKING:
    from .task import Task

BATCH_SIZE = 100
MAX_SEED = 2**63 - 1 - 1000  # the largest that generators take, less room for restarts to count up from it
PRIOR, CHAINS = "Concentrations", "Chains"

FILE = text("file", "FILE", "", required=True, positional=True, identity=False)
FOLDER = text("folder", "DIR", "A model that `pyro-unsup fit` wrote.", required=True, positional=True)
SAMPLES = text("folder", "DIR", "Samples that `pyro-unsup sample` wrote.", required=True, positional=True)
OUT_FILE = text(
    "out", "FILE", "Where to write; replaced if it exists. - is standard output.", flag="--out,-o", default="-"
)
JSON = flag("json", "One JSON object.")
SCORES_JSON = flag("json", "One JSON object; fractions of 1, null for infinity.")
WHICH = choice(
    "how",
    ("last", "best", "vote"),
    "last: the labels after the last sweep; best: those of the highest log joint; vote: what most draws say.",
    "last",
)


FOLDERS = text("folder", "DIR", "Models of one task that `pyro-unsup fit` wrote.", required=True, positional=True,
               many=True)  # fmt: skip
#: Of commands that every model has which can be shown.
PAGES = {
    "report": "Write a report of a model, one page for the browser.\n\nWhat the model is, how training went, what it "
    "learned; with --gold, scores beside those of trivial baselines, and errors by kind; with --gold or --data, twenty "
    "examples drawn with their structure.",
    "compare": "Compare models of one task: training, scores beside those of trivial baselines, sign tests, and "
    "examples on which they differ.\n\nA table is printed; --out writes a page for the browser, too.",
}


def own_command(task: Task, name: str) -> Command | None:
    """The words of a command and its own options. Pages read and decode as ``evaluate`` does."""
    if name not in PAGES or "show" not in task.commands:
        return task.commands.get(name)
    scored, read = task.commands.get("evaluate", Command("")), task.commands.get("predict", Command(""))
    apart = any(one.name == "gold" for one in scored.options)  # gold in a file of its own, beside the data
    gold = "Gold structure of --data." if apart else f"Data to score: {scored.file or 'with gold structure'}"
    files = (
        text("gold", "FILE", gold),
        text("data", "FILE", f"What examples are drawn from: {read.file or 'data'}", shown="those of --gold"),
    )
    others = (
        replace(one, positional=False, required=False, shown=one.shown and one.shown.partition(";")[0])
        for one in scored.options
        if one.name != "gold"
    )
    return Command(PAGES[name], "", (*files, *others))


def options_of(task: Task, command: str) -> list[Option]:
    """Every option of a command: arguments first, then the model's own options, then those that all models have."""
    own = own_command(task, command)
    assert own is not None
    if command == "fit":
        every = [*training(task), *algorithm(task), *beliefs(task)]
    elif command == "sample":
        every = [*sampling(task)]
    else:
        every = {
            "predict": [OUT_FILE, *heeding(task), *together(task)],
            "forecast": [OUT_FILE],
            "report": [replace(OUT_FILE, default="report.html"), *heeding(task)],
            "compare": [replace(OUT_FILE, default=None, help="A page for the browser."), *heeding(task)],
            "evaluate": [SCORES_JSON, *heeding(task), *(together(task) if task.scores_structure else [])],
            "evaluate_samples": [SCORES_JSON, WHICH],
            "predict_samples": [OUT_FILE, replace(WHICH, default="vote")],
        }.get(command, [JSON])
    if command == "compare":
        return [FOLDERS, *own.options, *every]
    first = [] if command in ("fit", "sample") else [SAMPLES if command.endswith("_samples") else FOLDER]
    file = [replace(FILE, help=own.file)] if own.file or not first else []
    return [*first, *file, *sorted(own.options, key=lambda one: not one.positional), *every]


def heeding(task: Task) -> list[Option]:
    """Whether decoding heeds what the model preferred in training."""
    if task.parts is None:
        return []
    return [flag("without_preferences", "Leave out what the model preferred in training (--prefer).")]


def together(task: Task) -> list[Option]:
    """Whether several runs decode together."""
    if "fit" not in task.commands:
        return []
    return [
        flag(
            "consensus",
            "Decode by all restarts of the model together: the structure with the most expected right parts under the "
            "mean of their posteriors. Says how much two of them have in common, a sign of trust without gold.",
        ),
        text(
            "with_models",
            "DIR",
            "Decode together with this model, too; may be repeated. With --consensus, with all its restarts.",
            flag="--with",
            many=True,
        ),
    ]


def seed(what: str) -> Option:
    """The seed of a run; what counts up from it."""
    return number("seed", f"Same seed, same result; {what} count up from it.", 0, 0, high=MAX_SEED)


def folder(what: str, panel: str) -> tuple[Option, ...]:
    """Where a command writes, and whether it may go on or replace what is there."""
    return (
        flag("resume", "Go on from DIR.checkpoint of an interrupted run.", panel=panel, identity=False),
        text("out", "DIR", f"The new folder for the {what}.", flag="--out,-o", required=True, panel=TEXT),
        flag("overwrite", f"Replace the {what} in DIR.", panel=TEXT),
    )


def training(task: Task) -> tuple[Option, ...]:
    """How long to train, from where, and into what."""
    most = f"{task.recipe.max_iterations}; with --anneal 10000, --stepwise 20, --gradient 300"
    own = task.recipe.options.get("tolerance")
    options = under(
        TRAINING,
        real("smooth", "Add this to every expected count; 0 is plain EM.", shown=task.recipe.smooth),
        number(
            "max_iterations",
            "Maximum number of iterations; with --stepwise, of passes over the text.",
            low=0,
            shown=most,
            identity=False,
        ),
        real(
            "tolerance",
            "Stop when the objective's relative change is this small.",
            shown=f"{task.recipe.tolerance:g}" + (f", or {own:g} as recommended" if own is not None else ""),
            identity=False,
        ),
        real("noise", "Size of the random noise that is added to the start.", shown=task.recipe.noise_shown),
        number("restarts", "How many starts to try; the best objective wins.", 1, identity=False),
        number(
            "probe",
            "With --restarts: give each start only so many iterations, and go on with the best.",
            shown="all of them",
        ),
        flag(
            "best_only",
            "With --restarts: save the best run alone. Else all are saved, for predict --consensus.",
            identity=False,
        ),
        number("jobs", "Restarts to run in parallel.", shown="as many as there are cores", identity=False),
        seed("restarts"),
        text(
            "from_model",
            "MODEL",
            "Train further: start from the weights of this model. Text and options must be the same as before.",
            flag="--from",
        ),
    )
    return (*options, *folder("model", TRAINING))


def algorithm(task: Task) -> tuple[Option, ...]:
    """How to learn, if not by plain EM."""
    first, factor = task.recipe.betas
    words = task.recipe.words
    instead = "; --vocab-from can tell them instead." if task.streams else "."
    own = [
        choice(
            "algorithm",
            ("recommended", "em"),
            f"recommended: {words}. em: plain EM. An option that says how to learn, such as --anneal or --vb, replaces "
            "both.",
            "recommended",
        ),
        flag("anneal", "Deterministic annealing: start from blurred posteriors and sharpen them slowly."),
        real(
            "beta_start",
            "With --anneal: the first beta. Posteriors are raised to the power beta.",
            low=None,
            shown=f"{first:g}",
        ),
        real("beta_factor", "With --anneal: beta grows by this factor until it is 1.", low=None, shown=f"{factor:g}"),
        flag(
            "stepwise",
            "Stepwise EM: an update after every mini-batch. The text is read to its end first, from standard input "
            f"too, for its {task.unit} have to be known{instead}",
        ),
        real("power", "With --stepwise: how fast its steps get smaller, above 0.5 and up to 1.", low=None, shown="0.7"),
        number("batch_size", f"With --stepwise: {task.examples} in a mini-batch.", shown=str(BATCH_SIZE)),
        number(
            "order_seed",
            f"With --stepwise: the seed of the order of the {task.examples}.",
            low=0,
            shown="the seed of the start",
        ),
        flag("viterbi", "Viterbi EM: count only the best structure of each example."),
    ]
    if task.streams:
        words = (
            "With --stepwise: train on FILE as on a stream, which is read once, a mini-batch at a time. Its "
            f"{task.unit} come from this text in the same format, or from the folder of a model. --smooth is then for "
            "each mini-batch."
        )
        own.append(text("vocab_from", "TEXT", words, shown="FILE is read to its end first", identity=False))
    return under(ALGORITHM, *own)


def beliefs(task: Task) -> tuple[Option, ...]:
    """What is believed before any text is seen."""
    own = [
        text(
            "vb",
            "ALPHA",
            "Variational Bayes: tables have Dirichlet priors of this concentration; `fitted` learns it, a table at a "
            "time.",
        ),
        flag(
            "logistic_normal", "Variational Bayes: tables have logistic-normal priors, with the start for their mean."
        ),
        real(
            "sparse",
            "Rows of tables have few outcomes: each that is not zero costs about so many nats, such as 1 or 10.",
            metavar="STRENGTH",
        ),
        real(
            "sparse_width",
            "With --sparse: outcomes of about this probability, or less, are cheap.",
            metavar="PROBABILITY",
            shown="0.05",
        ),
        real(
            "features",
            f"Tables are made of features of {task.unit}, each with a weight. KAPPA, such as 1, keeps weights small.",
            metavar="KAPPA",
        ),
        flag("gradient", "With --features: gradient ascent on the likelihood instead of EM."),
    ]
    if task.parts is not None:
        own += [
            text(
                "constraint",
                "NAME[=VALUES]",
                "What is known of the hidden structure; may be repeated. "
                + (f"There are: {task.constraints}. " if task.constraints else "")
                + "A backslash before , : and | takes their meaning away.",
                many=True,
            ),
            text(
                "free",
                "SHARE[:SHARE]",
                "With --constraint: the share of the posterior that may break constraints, in the first iteration and "
                "in the last; it grows by 0.01 in each.",
                shown="0.85:0.95",
            ),
            flag(
                "evenly", "With --constraint: all constraints share the rest evenly; else the likeliest has all of it."
            ),
            text(
                "prefer",
                "RULE",
                f"What hidden structure is likely to be; may be repeated. Nothing is forbidden. {task.preferences}",
                many=True,
            ),
            real(
                "prefer_weight",
                "With --prefer: what obeys a rule is e^WEIGHT times as likely; below 0, less likely.",
                low=None,
                shown="2",
            ),
            real(
                "prefer_share",
                "With --prefer: find the weight with which this share of all parts obeys each rule. What structures "
                "can reach depends on the text; more is an error that names the largest share.",
                high=1,
                metavar="SHARE",
            ),
            flag(
                "prefer_fade",
                "With --prefer: let the rules go in training. Their weight is halved twice, and is 0 at the end.",
            ),
        ]
    return under(BELIEFS, *own)


def sampling(task: Task) -> tuple[Option, ...]:
    """The options of every ``sample``. A task that makes its own sampler has its own options for prior and moves."""
    prior = (
        ()
        if task.own_sampler
        else under(
            PRIOR,
            real("alpha", "Concentration of the tables that labels come from.", 1.0, None),
            real("beta", "Concentration of the tables that words come from.", 1.0, None),
            choice(
                "hyper",
                ("fixed", "shared", "separate"),
                "fixed: as they are given; shared: one alpha and one beta are sampled; separate: one alpha, and "
                "a beta for each label.",
                "fixed",
            ),
            choice(
                "hyperprior",
                ("gamma", "log-uniform", "flat"),
                "The prior of concentrations that are sampled. flat is improper.",
                shown="gamma",
            ),
        )
    )
    chains = under(
        CHAINS,
        number(
            "sweeps",
            "Sweeps over the text, for each chain.",
            None if task.sweeps_shown else task.sweeps,
            shown=task.sweeps_shown,
        ),
        number("burn_in", "Sweeps to leave out first.", low=0, shown="half of them"),
        number("thin", "Of the other sweeps, keep every NUMBER-th.", 1),
        number("chains", "How many chains to run.", 1, identity=False),  # each is on its own
        seed("chains"),
    )
    moves = (
        ()
        if task.own_sampler
        else under(
            CHAINS,
            flag("anneal", "Cool from temperature 2 to 0.08, to find good labels."),
            flag("blocked", f"Draw whole {task.examples}, not place by place."),
            flag("uncollapsed", f"Draw tables, then all {task.examples}, on all cores (for taggers)."),
        )
    )
    return (*prior, *chains, *moves, *folder("samples", CHAINS))
