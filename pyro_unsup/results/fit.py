"""What training leaves behind: the learned weights, and the model that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import pyro
import torch
from pyro import poutine
from pyro.infer import TraceEnum_ELBO, config_enumerate, infer_discrete
from pyro.poutine.messenger import Messenger
from pyro.poutine.util import site_is_subsample
from torch import Tensor

from .. import registry
from ..distributions import Posterior, Structure
from ..errors import UnsupError, without_shapes
from ..estimate import Estimator, FeatureNames, Parametric, TablePosterior
from ..handlers import Handled, Handler, bare, given
from ..handlers.prefer import learned_preferences, preferences_of, preferring, ties_of, without_preferences
from .criteria import criteria
from .evaluation import own_task, relabelled, task_of
from .report import Report

#: In ``config``, what rules weighed whose share was bounded in training (:func:`.at_least`).
SHARES = "rule_weights"

if TYPE_CHECKING:
    import pandas

    from ..handlers.parts import Component
    from .consensus import Consensus
    from .guide import Guide


@dataclass(eq=False)
class Fit:
    """A trained model.

    :param weights: log-weights by table.
    :param rows: one dict an iteration: ``iteration``, ``objective``, ``log_likelihood``, ``change``, ``seconds``.
    :param report: how training ended, in words and numbers.
    :param seed: of the start.
    :param config: how it was trained, in plain values.
    :param points: point estimates of continuous latent variables, by site.
    :param params: values of the model's ``pyro.param`` sites.
    :param unconstrained: those of ``points`` and ``params`` that training moves in another space, as they are there: so
        that it can go on exactly.
    :param state: what else the engine needs for that, such as running counts.
    :param memory: what estimators remember besides the tables, such as the weights of features.
    :param features: by their names in ``memory``, what those weights are the weights of.
    :param estimators: by table, how counts became weights. A fit from a folder has those that could be described.
    :param posteriors: by table, what its weights stand for; a table that is not named here is a point estimate.
    :param preferences: what the model preferred in training, and ties that it kept to, of a fit that is
        :meth:`unhandled`. Decoding heeds it.
    :param runs: of restarts, all of them, in the order of their seeds.

    >>> import tempfile, pyro_unsup as pu
    >>> corpus = pu.data.toy.sentences(50, seed=1)
    >>> fit = pu.EM(pu.models.Tagger(tags=5, vocab=corpus.vocab)).run(corpus, iterations=5)
    >>> fit.objective == fit.rows[-1]["objective"], fit.history.shape, fit.labels
    (True, (6, 5), None)
    >>> fit.predict(corpus).shape == (corpus.tokens,)
    True
    >>> list(fit.evaluate(corpus))[:3]
    ['many_to_one', 'one_to_one', 'v_measure']
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fit.save(folder + "/tagger")
    ...     pu.load(folder + "/tagger").log_likelihood(corpus) == fit.log_likelihood(corpus)
    True
    """

    model: Callable[..., Any]
    weights: dict[str, Tensor]
    report: Report
    rows: list[dict[str, float]]
    seed: int
    config: dict[str, Any] = field(default_factory=dict)
    points: dict[str, Tensor] = field(default_factory=dict)
    params: dict[str, Tensor] = field(default_factory=dict)
    unconstrained: dict[str, Tensor] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    memory: dict[str, Tensor] = field(default_factory=dict)
    features: dict[str, FeatureNames] = field(default_factory=dict)
    estimators: dict[str, Estimator | Parametric] = field(default_factory=dict)
    posteriors: dict[str, TablePosterior] = field(default_factory=dict)
    preferences: tuple[Handler, ...] = ()
    runs: tuple[Fit, ...] = ()

    @property
    def objective(self) -> float:
        """What was maximised, at the end."""
        return self.report.objective

    @property
    def history(self) -> pandas.DataFrame:
        """One row an iteration; row 0 is the start."""
        import pandas

        return pandas.DataFrame(self.rows)

    def unhandled(self) -> Fit:
        """The same fit, of the model without the handlers (such as ``temper``) that it was trained under.

        >>> import pyro_unsup as pu
        >>> fit = pu.EM(pu.temper(pu.models.Tagger(tags=2, vocab=2), 0.5)).run([[0, 1]], iterations=1)
        >>> fit.unhandled().model
        Tagger(tags=2, vocab=2, order=1)
        """
        learned = learned_preferences(self.model, self.config.get(SHARES, []))
        found = (*self.preferences, *ties_of(self.model), *preferences_of(self.model), *learned)
        return replace(self, model=bare(self.model), preferences=found)

    def without_preferences(self) -> Fit:
        """The same fit, of the model without what it preferred (:func:`.prefer`): decoding does not heed it either.

        >>> import pyro_unsup as pu
        >>> model = pu.prefer(pu.models.DMV(tags=3), pu.components.left_chain(), weight=9)
        >>> fit = pu.EM(model, init=pu.init.uniform()).run([[0, 1, 2]], iterations=0)
        >>> fit.predict([[0, 1, 2]]), fit.without_preferences().model
        (tensor([2, 3, 0]), DMV(tags=3))
        """
        config = {key: value for key, value in self.config.items() if key != SHARES}
        return replace(self, model=without_preferences(self.model), preferences=(), config=config)

    def trained(self, *args: Any, **kwargs: Any) -> Any:
        """The model with everything that was learned put in: itself a Pyro program.

        >>> from pyro import poutine
        >>> import pyro_unsup as pu
        >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=1)
        >>> list(poutine.trace(fit.trained).get_trace([[0, 1, 1]]).nodes)
        ['_INPUT', 'sentences', 'words', '_RETURN']
        """
        known = poutine.condition(_Known(self.params)(self.model), self.points)
        return given(known, self.weights)(*args, **kwargs)

    def to_param_store(self, *args: Any, **kwargs: Any) -> None:
        """Write the learned ``pyro.param`` values to Pyro's global parameter store, for other inference to go on from.

        :param args: the model's arguments. It runs once on them, so that every parameter has its own constraint.

        >>> import pyro, torch, pyro_unsup as pu
        >>> from torch.distributions import constraints
        >>> def model(x):
        ...     scale = pyro.param("scale", torch.tensor(1.0), constraint=constraints.positive)
        ...     with pyro.plate("data", len(x)):
        ...         pyro.sample("x", pyro.distributions.Normal(0.0, scale), obs=x)
        >>> fit = pu.EM(model).run(torch.tensor([-2.0, 2.0]), progress=False)
        >>> "scale" in pyro.get_param_store()
        False
        >>> fit.to_param_store(torch.tensor([-2.0, 2.0]))
        >>> round(pyro.param("scale").item(), 3)
        2.0
        >>> pyro.clear_param_store()
        """
        if not self.params:
            return
        store = pyro.get_param_store()
        given(poutine.condition(self.model, self.points), self.weights)(*args, **kwargs)
        with torch.no_grad():
            for name in self.params:
                store[name].unconstrained().copy_(self.unconstrained[name])

    def log_likelihood(self, *args: Any, **kwargs: Any) -> float:
        """log p(data), everything hidden summed out; the log prior of point-estimated latent variables is included."""
        elbo = TraceEnum_ELBO(
            max_plate_nesting=_nesting(self._sites(*args, **kwargs)), strict_enumeration_warning=False
        )
        with torch.no_grad():
            return -float(elbo.loss(config_enumerate(self.trained), lambda *args, **kwargs: None, *args, **kwargs))

    def aic(self, *args: Any, **kwargs: Any) -> float:
        """Akaike's information criterion on these data: twice the parameters less the log-likelihood. Lower is better.

        >>> import pyro_unsup as pu
        >>> counts = [3.0, 4.0, 2.0, 11.0, 12.0, 9.0, 3.0, 4.0]
        >>> fit = pu.EM(pu.models.HMM(2, "poisson")).run(counts)
        >>> round(fit.aic(counts), 2), round(fit.bic(counts), 2), round(fit.icl(counts), 2)
        (47.24, 47.63, 48.7)
        """
        return criteria(self, *args, **kwargs)["aic"]

    def bic(self, *args: Any, **kwargs: Any) -> float:
        """The Bayesian information criterion on these data. Lower is better."""
        return criteria(self, *args, **kwargs)["bic"]

    def icl(self, *args: Any, **kwargs: Any) -> float:
        """The integrated completed likelihood: BIC, and twice the entropy of the hidden structure. Lower is better."""
        return criteria(self, *args, **kwargs)["icl"]

    def posterior(self, *args: Any, **kwargs: Any) -> Posterior:
        """The hidden structure of these data, for a model with one structured distribution.

        >>> import pyro_unsup as pu
        >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2)).run([[0, 1]], iterations=1)
        >>> posterior = fit.posterior([[0, 1, 1]])
        >>> posterior.marginals.shape, posterior.mode().shape
        (torch.Size([3, 2]), torch.Size([3]))
        """
        found = self._structured(*args, **kwargs)
        if found is None:
            raise UnsupError(
                "posterior() wants a model with one structured site; enumerated latent variables have probabilities()"
            )
        return found

    def probabilities(self, *args: Any, **kwargs: Any) -> dict[str, Tensor]:
        """The posterior probability of every value of the enumerated latent variables: by site, (*plates, values).

        >>> import pyro, pyro.distributions as dist, torch, pyro_unsup as pu
        >>> def mixture(x):
        ...     share = pu.table("share", 2)
        ...     with pyro.plate("data", len(x)):
        ...         k = pyro.sample("k", pu.Categorical(share))
        ...         pyro.sample("x", dist.Normal(torch.tensor([-1.0, 1.0])[k], 1.0), obs=x)
        >>> fit = pu.EM(mixture).run(torch.tensor([-2.0, 2.0]))
        >>> found = fit.probabilities(torch.tensor([-2.0, 0.0]))["k"]
        >>> [[round(p, 3) for p in row] for row in found.tolist()]
        [[0.982, 0.018], [0.5, 0.5]]
        """
        elbo = TraceEnum_ELBO(
            max_plate_nesting=_nesting(self._sites(*args, **kwargs)), strict_enumeration_warning=False
        )
        with torch.no_grad():
            found = elbo.compute_marginals(
                config_enumerate(self.trained), lambda *args, **kwargs: None, *args, **kwargs
            )
        each = {name: fn.enumerate_support(expand=True) for name, fn in found.items()}
        return {name: found[name].log_prob(values).movedim(0, -1).softmax(-1) for name, values in each.items()}

    def predict(self, *args: Any, how: str | None = None, probabilities: bool = False, **kwargs: Any) -> Any:
        """The hidden structure of new data: of the structured site, or a dict of all enumerated latent variables.

        A model with a task, as those of the library have, takes data by any vocabulary, with words that it has never
        met (:mod:`pyro_unsup.tasks`). A handler such as ``temper`` around the model is a way of training,
        and is left out here; :meth:`posterior` has it. What the model prefers (:func:`.prefer`) is heeded.

        :param how: ``"viterbi"`` (what most models do), the single most probable structure; or ``"mbr"``, the one with
            the highest expected number of right parts (for a tagger: the best tag of each word on its own). A tagger
            also has ``"word"``, for a corpus: all tokens of a word get the tag that most of them are expected to have.
        :param probabilities: also return the posterior probability of every part, (structure, marginals).
        """
        if isinstance(self.model, Handled):
            return self.unhandled().predict(*args, how=how, probabilities=probabilities, **kwargs)
        task = own_task(self.model)
        if task is not None and len(args) == 1 and not kwargs and hasattr(args[0], "select"):
            chosen = {} if how is None else {"how": how}
            decoded = task.decode(self, args[0], **chosen)  # which knows what to do with what training never met
            return (decoded.structure, decoded.posterior.marginals) if probabilities else decoded.structure
        if how not in (None, "viterbi", "mbr"):
            raise UnsupError(f"how must be 'viterbi' or 'mbr', actual {how!r}")
        found = self._structured(*args, **kwargs)
        if found is not None:
            structure = found.mbr() if how == "mbr" else found.mode()
            return (structure, found.marginals) if probabilities else structure
        if how == "mbr" or probabilities:
            raise UnsupError(
                "only a structured distribution offers 'mbr' and probabilities; enumerated latent "
                "variables are decoded by 'viterbi'"
            )
        sites = self._sites(*args, **kwargs)
        model = config_enumerate(self.trained)
        decoder = infer_discrete(model, first_available_dim=-1 - _nesting(sites), temperature=0)
        decoded = poutine.trace(decoder).get_trace(*args, **kwargs)
        hidden = [s["name"] for s in sites if not s["is_observed"] and not site_is_subsample(s)]
        return {name: decoded.nodes[name]["value"] for name in hidden}

    def decode(self, data: Any, how: str | None = None, **options: Any) -> Any:
        """What :meth:`predict` finds and all around it, of a registered model: ``structure``, ``posterior``,
        ``log_likelihood``, and what the model's task adds (:mod:`pyro_unsup.tasks`).

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> fit = pu.EM(pu.models.Tagger(tags=3, vocab=corpus.vocab)).run(corpus, iterations=2)
        >>> decoded = fit.decode(corpus, how="mbr")
        >>> len(decoded.structure) == corpus.tokens, decoded.log_likelihood.shape
        (True, torch.Size([20]))
        """
        fit = self.unhandled()
        return task_of(fit.model, "fit.decode").decode(fit, data, **options, **({} if how is None else {"how": how}))

    def top_features(self, table: str, n: int = 20, **values: Any) -> pandas.DataFrame:
        """The features of a table that have the largest weights, with their values: a row each, largest first.

        :param values: by axis, of the features that are wanted: ``top_features("emission", tag=7)``.

        >>> import pyro_unsup as pu
        >>> model = pu.models.Tagger(tags=2, vocab=pu.data.Vocab(["cats", "dogs"]))
        >>> last = pu.Template("emission", "last letter", tag=pu.same, word=lambda word: word[-1])
        >>> fit = pu.EM(model, pu.LogLinear([last])).run([[0, 1], [1, 1]], iterations=1)
        >>> list(fit.top_features("emission", n=2, tag=1).columns)
        ['template', 'tag', 'word', 'weight']
        """
        known = [(key, names) for key, names in self.features.items() if table in names.tables]
        if not known:
            there = sorted({name for names in self.features.values() for name in names.tables})
            raise UnsupError(f"the fit has no features of table '{table}'" + (f", but of {there}" if there else ""))
        key, names = known[0]
        return names.top(self.memory[key], table, n, **values)

    def save(self, folder: str | PathLike[str], overwrite: bool = False, *, runs: bool = True) -> None:
        """Write the fit to a folder of safetensors and JSON, all or nothing. :func:`pyro_unsup.load` reads it.

        :param overwrite: replace a fit that is there.
        :param runs: save the runs of restarts, too. Then :meth:`consensus` works after loading. A folder with
            eight runs takes about eight times the space of one; ``runs=False`` saves the best alone.

        >>> import tempfile, pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> em = pu.EM(pu.models.Tagger(tags=3, vocab=corpus.vocab))
        >>> fit = em.run(corpus, iterations=2, restarts=2, processes=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     fit.save(folder + "/all")
        ...     fit.save(folder + "/best", runs=False)
        ...     len(pu.load(folder + "/all").runs), len(pu.load(folder + "/best").runs)
        (2, 0)
        """
        from .storage import save

        save(self, folder, overwrite, runs)

    def evaluate(self, gold: Any, how: str | None = None, **options: Any) -> dict[str, float]:
        """Scores of its predictions against gold structure; the task of the model says which.

        :param gold: data with gold structure, by any vocabulary.
        :param how: as for :meth:`predict`.
        :param options: for decoding.
        """
        fit = self.unhandled()
        task = task_of(fit.model, "fit.evaluate")
        gold = task.as_data(fit, gold)
        decoded = task.decode(fit, gold, **options, **({} if how is None else {"how": how}))
        found: dict[str, float] = task.scores(fit, gold, decoded)
        return found

    def show(self, **options: Any) -> Any:
        """What ``pyro-unsup show`` prints: how training ended, and what the model has learned.

        :param options: how much of it, such as ``words`` of a tagger; ``pyro-unsup show tagger --help`` lists them.
        :return: a page to print; its ``record`` has the same in plain values.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> fit = pu.EM(pu.models.Tagger(tags=3, vocab=corpus.vocab)).run(corpus, iterations=2)
        >>> page = fit.show(words=2)
        >>> print(page)  # doctest: +ELLIPSIS
        model     Tagger(tags=3, vocab=..., order=1)
        ...
        >>> len(page.record["states"][0]["top_words"])
        2
        """
        fit = self.unhandled()
        return task_of(fit.model, "fit.show").page(fit, **options)

    def relabel(self, gold: Any, how: str = "many_to_one") -> Fit:
        """The same fit with its states named after the gold labels that they go with best.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> fit = pu.EM(pu.models.Tagger(tags=3, vocab=corpus.vocab)).run(corpus, iterations=2)
        >>> named = fit.relabel(corpus, how="one_to_one").labels
        >>> len(named), len(set(named))
        (3, 3)
        """
        return relabelled(self, gold, how)

    @property
    def labels(self) -> list[str] | None:
        """What its states are called: by :meth:`relabel`, or by the model's own tags; None if they are but numbers."""
        tags = getattr(bare(self.model), "tags", None)
        named = None if tags is None or isinstance(tags, int) else list(tags)
        return self.config.get("labels", named)

    def to_frame(self, data: Any, how: str | None = None, **options: Any) -> pandas.DataFrame:
        """The hidden structure of data as a pandas table, with the posterior probability of what was chosen.

        A tagger gives a row a word, with its ``tag``. A dependency model gives a row a word, with its ``head``. A
        segmenter gives a row a symbol, and says whether it is the ``end`` of a segment. A clusterer gives a row a
        document, with its ``cluster``. An aligner gives a row a link, and a constituent-context model a row a
        constituent. Sentences are numbered from 0, positions from 1.

        :param data: by any vocabulary, such as a :class:`.Corpus`.
        :param how: as for :meth:`predict`.
        :param options: for decoding.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.Corpus.of(["the cat sleeps", "the dog sleeps"])
        >>> fit = pu.EM(pu.models.Tagger(tags=1, vocab=corpus.vocab)).run(corpus, iterations=1)
        >>> print(fit.to_frame(corpus).head(3).to_string(index=False))
         sentence  position   word  tag  probability
                0         1    the    0          1.0
                0         2    cat    0          1.0
                0         3 sleeps    0          1.0
        """
        import pandas

        fit = self.unhandled()
        task = task_of(fit.model, "fit.to_frame")
        data = task.as_data(fit, data)
        decoded = task.decode(fit, data, **options, **({} if how is None else {"how": how}))
        return pandas.DataFrame(task.frame(fit, data, decoded))

    def plot(self, data: Any = None, score: str | None = None, ax: Any = None, **options: Any) -> Any:
        """A picture, as matplotlib axes: the learning curve; or, of some data, what the model finds in them.

        Of data, a dependency model draws the tree of one sentence (``sentence=3``), beside the gold tree if there is
        one. A constituent-context model draws the tree of one sentence, an aligner the links of one pair (``pair=3``).
        A tagger and a clusterer draw which gold labels fall into which state. A hidden Markov model, and a model of
        your own with a chain, draw the series in the colours of its states. A segmenter draws nothing.

        :param data: by any vocabulary; None, or the name of a score, for the learning curve.
        :param score: of the learning curve, a score to draw as well: ``fit.plot("many_to_one")`` is short for it.
        :param ax: matplotlib axes to draw on.
        :param options: of what is drawn, such as ``sentence``.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=corpus.vocab)).run(corpus, iterations=2)
        >>> fit.plot().get_xlabel()
        'iteration'
        >>> type(fit.plot(corpus)).__name__
        'Axes'
        """
        if isinstance(data, str):
            data, score = None, data
        if data is None:
            from ..plot import learning_curve

            return learning_curve(self.rows, score, ax, **options)
        if score is not None:
            raise UnsupError("a score belongs to the learning curve: leave out the score, or the data")
        fit = self.unhandled()
        where = {} if ax is None else {"ax": ax}
        if (series := self._own_series(data)) is not None:
            from ..plot import series_by_state

            return series_by_state(series, **options, **where)
        return task_of(fit.model, "fit.plot of data").plot(fit, data, **options, **where)

    def _own_series(self, data: Any) -> Any:
        """The posterior of a chain in a model of the user's own; None for any other model."""
        if registry.name_of("models", type(bare(self.model))) is not None:
            return None
        try:
            found = self.posterior(data)
        except UnsupError:
            return None
        return found if hasattr(type(found), "smoothed") else None

    def report_html(
        self, data: Any = None, out: str | PathLike[str] | None = None, *, gold: Any = None, **options: Any
    ) -> str:
        """A page for the browser, in one file: what the model is, how training went, what was learned; scores beside
        baselines, errors by kind, and twenty examples drawn with their structure. ``pyro-unsup report``
        writes the same.

        :param data: what examples are drawn from. If they have gold structure, they are scored too.
        :param out: a file to write the page to.
        :param gold: data to score, if they are others than those.
        :param options: a ``title`` of the page; and those of decoding, such as ``how``.
        :return: the page, HTML.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> fit = pu.EM(pu.models.Tagger(tags=3, vocab=corpus.vocab)).run(corpus, iterations=2)
        >>> page = fit.report_html(corpus)  # fit.report_html(corpus, "report.html")
        >>> page[:15], page.count("<article")
        ('<!doctype html>', 20)
        """
        fit = self.unhandled()
        page: str = task_of(fit.model, "fit.report_html").report(fit, data, gold, out, **options)
        return page

    def consensus(self, data: Any, **options: Any) -> Consensus:
        """The structure that the restarts of this fit agree on; :func:`.consensus` takes fits of several runs, too.

        :param data: what is to be decoded, by any vocabulary.
        :param options: for decoding.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> em = pu.EM(pu.models.Tagger(tags=3, vocab=corpus.vocab))
        >>> found = em.run(corpus, iterations=2, restarts=2, processes=1).consensus(corpus)
        >>> len(found.structure) == corpus.tokens
        True
        """
        from .consensus import consensus

        if len(self.runs) < 2:
            raise UnsupError(
                "this fit has no other runs to agree with: train with restarts, or give pu.consensus several fits. "
                "Runs of a probe are not kept, nor those of a fit that was saved without them"
            )
        return consensus(self, data, **options)

    def guide(self, components: Sequence[Component] | None = None) -> Guide:
        """The learned posterior as a Pyro guide, over the model's own sites and the hidden structure; see
        :class:`.Guide`.

        :param components: of a mixture, the functions that it was trained with. Ready ones need not be given; of your
            own a fit knows but the names.

        >>> import pyro_unsup as pu
        >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2), pu.DirichletVB()).run([[0, 1], [1, 1]], iterations=2)
        >>> sorted(fit.guide()([[0, 1]]))
        ['emission', 'start', 'transition', 'words.structure']
        """
        from .guide import Guide

        return Guide(self, components)

    def component(self, i: int) -> Fit:
        """The fit with the tables of one component of a mixture: itself, if they are shared or it is the first. The
        constraint on structures is not part of it.

        >>> import pyro_unsup as pu
        >>> near = pu.components.short_dependencies(limit=1)
        >>> engine = pu.MixtureEM(pu.models.DMV(tags=3), [near], pu.DirichletVB())
        >>> fit = engine.run([[0, 1, 1, 2], [2, 1, 0]], iterations=1)
        >>> fit.component(1).weights.keys() == fit.weights.keys()
        True
        """
        from .guide import component_of

        return component_of(self, i)

    def to_arviz(self, *args: Any, draws: int | None = None, seed: int = 0, **kwargs: Any) -> Any:
        """The learned posterior as an ArviZ object: in the group ``posterior`` draws of the tables (one, if they are a
        point estimate), and of the ``component`` of a mixture; in ``training`` the history of the objective, and of
        ``lambda``. :func:`pyro_unsup.to_arviz` has all groups: the likelihood of every example, predictions, data.

        :param args: the model's arguments, wanted for draws of a model of your own: they tell how its tables lie.
        :param draws: how many; by default 1 of a point and 1000 otherwise, or fewer where they would need more than a
            gigabyte.
        :param seed: the same draws come from the same seed.

        >>> import pyro_unsup as pu
        >>> fit = pu.EM(pu.models.Tagger(tags=2, vocab=2), pu.DirichletVB()).run([[0, 1], [1, 1]], iterations=2)
        >>> fit.to_arviz(draws=10).posterior["emission"].shape
        (1, 10, 2, 2)
        """
        from .arviz import to_arviz

        return to_arviz(self, args, kwargs, draws, seed)

    def _repr_html_(self) -> str:
        from .html import summary

        return summary(self)

    def _sites(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The sample sites of one run."""
        with without_shapes():
            trace = poutine.trace(self.trained).get_trace(*args, **kwargs)
        return [s for s in trace.nodes.values() if s["type"] == "sample"]

    def _structured(self, *args: Any, **kwargs: Any) -> Posterior | None:
        heeding = replace(self, model=preferring(self.model, self.preferences)) if self.preferences else self
        found = [s for s in heeding._sites(*args, **kwargs) if isinstance(s["fn"], Structure)]
        if len(found) > 1:
            names = ", ".join(s["name"] for s in found)
            raise UnsupError(
                f"the model has {len(found)} structured sites ({names}), and only one can be decoded: "
                "trace fit.trained and ask each site's distribution for its posterior"
            )
        return found[0]["fn"].posterior(found[0]["value"]) if found else None

    def __repr__(self) -> str:
        tables = ", ".join(f"{name} {tuple(w.shape)}" for name, w in self.weights.items())
        return f"Fit of {self.model!r}: {tables}\n{self.report}"


def _nesting(sites: list[Any]) -> int:
    """How deep the plates of these sites are nested."""
    return max((-f.dim for s in sites for f in s["cond_indep_stack"] if f.vectorized), default=0)


def with_params(model: Callable[..., Any], params: dict[str, Tensor]) -> Callable[..., Any]:
    """The model with known values of its ``pyro.param`` sites."""
    found: Callable[..., Any] = _Known(params)(model)
    return found


class _Known(Messenger):
    """Answers ``pyro.param`` with known values, by full names.

    A module registered by ``pyro.module`` goes on using its own parameters, whatever the answer is: they are lent the
    values for the run. (``poutine.substitute`` knows the parameters of such a module by other names, and misses them.)
    """

    def __init__(self, params: dict[str, Tensor]) -> None:
        super().__init__()
        self.params = params
        self._lent: list[tuple[Tensor, Tensor]] = []

    def __exit__(self, *args: Any) -> None:
        while self._lent:
            own, before = self._lent.pop()
            own.data = before
        super().__exit__(*args)

    def _pyro_param(self, msg: Any) -> None:
        if msg["name"] not in self.params:
            return
        msg["value"] = self.params[msg["name"]]
        own = next(iter(msg["args"][1:]), None)  # what the parameter starts from
        if isinstance(own, torch.nn.Parameter):
            self._lent.append((own, own.data))
            own.data = msg["value"]
