"""What a sampler leaves behind: labels, draw by draw, and everything that can be said about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import InputError, UnsupError, an
from ..models.gibbs_trees import LABELLED_SPANS
from . import sample_storage
from .evaluation import task_of
from .record import WRONG
from .sample_checks import Statistic
from .sample_statistics import R_HAT_OF_LABELS
from .sample_trees import structure_of, trees_of

Array = np.ndarray[Any, Any]
Which = Literal["best", "last", "vote"]


@dataclass(eq=False)
class Samples:
    """Draws of the labels of a corpus, from several chains.

    Label numbers mean nothing without a dictionary: chains that found the same clusters may call them otherwise, and a
    chain may rename them as it goes. :meth:`explain` says what that means for R-hat.

    :param model: the labels' model.
    :param draws: ``labels`` (chains, draws, units) integers, ``alpha`` (chains, draws, kinds of rows), ``beta``
        (chains, draws, K). Of an aligner by jumps also the tables that are drawn beside the links, by name.
    :param path: of every sweep, (chains, sweeps): ``log_joint``, ``temperature``, ``rate_labels``, ``rate_alpha``,
        ``rate_beta``.
    :param kept: (draws,) the sweeps that the draws are of, counted from 0.
    :param best: (chains, units) the labels of the highest log joint of each chain, burn-in included.
    :param best_log_joint: (chains,) that of ``best``.
    :param last: (chains, units) the labels after the last sweep.
    :param data: what the labels are of.
    :param tables: the tables that alpha, by kind, and beta are the concentrations of.
    :param config: how they were drawn, in plain values.

    >>> import tempfile, pyro_unsup as pu
    >>> corpus = pu.data.toy.sentences(20, seed=1)
    >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=3, vocab=corpus.vocab), hyper="shared")
    >>> samples = sampler.run(corpus, sweeps=12, burn_in=4, chains=2, seed=0, progress=False)
    >>> samples.labels.shape == (2, 8, corpus.tokens), samples.log_joint.shape, samples.K, samples.names
    (True, (2, 8), 3, ['0', '1', '2'])
    >>> samples.alpha.shape, samples.beta.shape, samples.learned, sorted(samples.rates)
    ((2, 8), (2, 8), 'shared', ['alpha', 'beta', 'labels'])
    >>> samples.token_counts.shape, len(samples.sentences()) == len(corpus)
    ((2, 8, 3), True)
    >>> samples.predict("last").shape == (corpus.tokens,)
    True
    >>> sorted(samples.evaluate(corpus)["many_to_one"])
    ['chains', 'deviation', 'mean']
    >>> samples.variation_between_chains().shape, 0 <= samples.co_clustering(0, 1) <= 1
    ((2, 2), True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     samples.save(folder + "/samples")
    ...     pu.Samples.load(folder + "/samples").best_log_joint == samples.best_log_joint
    array([ True,  True])
    """

    model: Any
    draws: dict[str, Array]
    path: dict[str, Array]
    kept: Array
    best: Array
    best_log_joint: Array
    last: Array
    data: dict[str, Array]
    tables: tuple[tuple[str, ...], str]
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def labels(self) -> Array:  # (chains, draws, units)
        """The labels of every draw."""
        return self.draws["labels"]

    @property
    def learned(self) -> str:
        """How concentrations were treated: ``"fixed"``, ``"shared"`` or ``"separate"``."""
        return str(self.config.get("hyper", "fixed"))

    @property
    def alpha(self) -> Array:  # (chains, draws)
        """Concentration of the rows that labels come from (of the transitions, if the model has several)."""
        return self.draws["alpha"][..., 0]

    @property
    def beta(self) -> Array:  # (chains, draws), or (chains, draws, K) if each label has its own
        """Concentration of the rows that words come from."""
        return self.draws["beta"] if self.learned == "separate" else self.draws["beta"][..., 0]

    @property
    def levels(self) -> tuple[str, ...]:
        """Of an adaptor grammar, the levels, from the lowest to the highest; else nothing.

        >>> import pyro_unsup as pu
        >>> sampler = pu.CollapsedGibbs(pu.models.Adaptor(3, {"group": "word+", "word": "symbol+"}))
        >>> samples = sampler.run([[0, 1, 2], [1, 1]], sweeps=10, burn_in=2, chains=2, progress=False)
        >>> samples.levels
        ('word', 'group')
        """
        return tuple(getattr(self.model, "adapted", ()))

    @property
    def level_numbers(self) -> dict[str, Array]:  # (chains, draws, levels) each
        """Of an adaptor grammar, ``concentration`` and ``discount`` of every level, if they were sampled.

        >>> import pyro_unsup as pu
        >>> sampler = pu.CollapsedGibbs(pu.models.Adaptor(3, {"group": "word+", "word": "symbol+"}))
        >>> samples = sampler.run([[0, 1, 2], [1, 1]], sweeps=10, burn_in=2, chains=2, progress=False)
        >>> samples.level_numbers["discount"].shape
        (2, 8, 2)
        """
        learned = self.levels and self.learned != "fixed"
        return {"concentration": self.draws["alpha"], "discount": self.draws["beta"]} if learned else {}

    @property
    def log_joint(self) -> Array:  # (chains, draws)
        """log p(labels, data | concentrations), plus the log prior of those that are learned."""
        return self.path["log_joint"][:, self.kept]

    @property
    def rates(self) -> dict[str, Array]:  # (chains,) each
        """Mean share of accepted proposals after the burn-in: of labels, and of concentrations if learned."""
        names = ["labels"] if self.learned == "fixed" else ["labels", "alpha", "beta"]
        if self.levels and not self.draws["beta"].any():  # discounts of 0 are not sampled
            names = [name for name in names if name != "beta"]
        first = int(self.config.get("burn_in", 0))
        return {name: self.path[f"rate_{name}"][:, first:].mean(1) for name in names}

    @property
    def K(self) -> int:
        """How many labels there are."""
        return len(self._tags)

    @property
    def names(self) -> list[str]:
        """What the labels are called."""
        return [str(tag) for tag in self._tags]

    @property
    def structure(self) -> str | None:
        """Of models of trees, what labels are: ``"heads"`` of words; ``"spans"``, 1 for every constituent among the
        spans of a sentence; or ``"labelled spans"``, the label of every constituent, -1 for other spans. Else None.

        >>> import pyro_unsup as pu
        >>> samples = pu.CollapsedGibbs(pu.models.DMV(3)).run([[0, 1, 2], [1, 1]], sweeps=10, progress=False)
        >>> samples.structure, samples.predict("vote").shape
        ('heads', (5,))
        """
        return structure_of(self.model)

    @property
    def of_links(self) -> bool:
        """Whether labels are the places that the words of an aligner chose.

        >>> import pyro_unsup as pu
        >>> model = pu.models.Aligner.of(([[0, 1]], [[0]]), agreement=None, source=2, target=1)
        >>> samples = pu.CollapsedGibbs(model).run(([[0, 1]], [[0]]), sweeps=10, chains=2, progress=False)
        >>> samples.of_links, samples.agreement().shape
        (True, (2, 2))
        """
        return "source_lengths" in self.data

    @property
    def _tags(self) -> Any:
        if self.structure == LABELLED_SPANS:
            return self.model.labels
        # A segment ends at a symbol, or not; a word chose one of so many places.
        most = max(2, 1 + int(self.labels.max(initial=0)), 1 + int(self.best.max(initial=0)))
        if self.structure is not None:
            return range(most)
        tags = getattr(self.model, "tags", getattr(self.model, "states", most))
        return range(tags) if isinstance(tags, int) else tags

    @cached_property
    def token_counts(self) -> Array:  # (chains, draws, K)
        """How many tokens (or documents) have each label."""
        from .sample_statistics import sizes

        return sizes(self.labels, self.K)

    def predict(self, how: Which = "best", chain: int | None = None) -> Array:  # (units,)
        """One labelling: the draw of the highest log joint, the last one (the paper's result), or the label that most
        draws give each unit. Of trees, the vote is the tree with the most expected right heads or constituents, in the
        mean over draws; labels of constituents are first called alike in all draws.

        :param chain: of this chain; by default of the one whose labelling has the highest log joint. By default all
            chains vote.
        """
        if how not in ("best", "last", "vote"):
            raise UnsupError(f"how must be 'best', 'last' or 'vote', actual {how!r}")
        if how == "vote" and self.structure is not None:
            of = range(len(self.last)) if chain is None else [chain]
            best = self.best[max(of, key=lambda one: float(self.best_log_joint[one]))]
            return trees_of(self).vote(np.concatenate([self.labels[one] for one in of]), best, self.sentences())
        if how == "vote":
            voted: Array = self.probabilities(chain).argmax(-1)
            return voted
        scores = self.best_log_joint if how == "best" else self.path["log_joint"][:, -1]
        at = int(scores.argmax()) if chain is None else chain
        found: Array = (self.best if how == "best" else self.last)[at]
        return found

    def probabilities(self, chain: int | None = None) -> Array:  # (units, K)
        """The posterior probability of every label of every unit: the share of the draws that have it.

        Those of several models with the same labels may be added: what the models agree on is often right.

        :param chain: of this chain; by default of all.
        :raises UnsupError: if labels are but numbers, which need not mean the same in two draws.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> listed = pu.data.TagDictionary.from_corpus(corpus)
        >>> model = pu.models.Tagger(corpus.tagset, corpus.vocab, dictionary=listed)
        >>> samples = pu.CollapsedGibbs(model, hyper="shared").run(corpus, sweeps=20, chains=2, progress=False)
        >>> samples.probabilities().shape == (corpus.tokens, len(corpus.tagset))
        True
        >>> bool((samples.probabilities().argmax(1) == samples.predict("vote")).all())
        True
        """
        self._without_trees("have a probability for each label of each unit")
        if getattr(self.model, "interchangeable", False) and "relabelled" not in self.config:
            raise UnsupError(
                "labels that are but numbers need not mean the same in all draws, so they have no probabilities: use a "
                "model with a dictionary, or samples.relabel().samples"
            )
        draws = self.labels if chain is None else self.labels[[chain]]
        flat = draws.reshape(-1, draws.shape[-1])
        found, units = np.zeros((flat.shape[1], self.K)), np.arange(flat.shape[1])
        for one in flat:
            found[units, one] += 1
        shares: Array = found / len(flat)
        return shares

    def co_clustering(self, i: Any, j: Any) -> Any:
        """Posterior probability that two tokens have the same label, which no renaming changes.

        :param i: a token, or an array of them that broadcasts with ``j``.
        """
        self._without_trees("say how probable it is that two tokens have one label")
        first, second = np.broadcast_arrays(np.asarray(i), np.asarray(j))
        same = (self.labels[..., first.ravel()] == self.labels[..., second.ravel()]).mean((0, 1)).reshape(first.shape)
        return float(same) if same.ndim == 0 else same

    def evaluate(self, gold: Any, how: Which = "last") -> dict[str, dict[str, Any]]:
        """Scores of each chain's labelling against gold labels: ``mean``, ``deviation`` and ``chains`` of each score.

        The task of the model says which: those of :func:`.tagging_report` (with ``accuracy``, and
        ``accuracy_ambiguous`` if there is a dictionary, where the model's tags have the gold names),
        :func:`.clustering_report` or :func:`.segmentation_report`; of trees, those of :func:`.head_scores` or
        :func:`.bracket_scores`.

        :param how: which labelling, as :meth:`predict` has it. If the draws of each chain vote, ``together`` is the
            score of the vote of all chains.
        """
        from .sample_text import same_text

        if not same_text(self, gold):
            raise UnsupError("the gold text is not the one that was sampled: labels were drawn for its words alone")
        task = task_of(self.model)
        rows = [task.score_labels(self, gold, self.predict(how, chain)) for chain in range(len(self.last))]
        found = {}
        for name in rows[0]:
            values = [row[name] for row in rows]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
            found[name] = {"mean": float(np.mean(values)), "deviation": spread, "chains": values}
        if how == "vote" and len(rows) > 1:
            for name, value in task.score_labels(self, gold, self.predict(how)).items():
                found[name]["together"] = value
        return found

    def show(self, **options: Any) -> Any:
        """What ``pyro-unsup show`` prints: how the chains agree, and what the best labelling says.

        :param options: how much of it, such as ``words`` of a tagger.
        :return: a page to print; its ``record`` has the same in plain values.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.toy.sentences(20, seed=1)
        >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=3, vocab=corpus.vocab))
        >>> samples = sampler.run(corpus, sweeps=12, burn_in=4, chains=2, progress=False)
        >>> samples.show(words=2).record["chains"]
        2
        """
        return task_of(self.model).page_of_samples(self, **options)

    def variation_between_chains(self, how: Which = "last") -> Array:  # (chains, chains)
        """Variation of information between the labellings of every two chains, in bits. 0 if they agree."""
        from .sample_statistics import between_chains

        self._without_trees("are clusterings that variation of information compares")
        return between_chains(self.best if how == "best" else self.last)

    def agreement(self, how: Which = "last") -> Array:  # (chains, chains)
        """Of trees, the share that every two chains have in common: of heads; or of the constituents of the first,
        words and sentences left out, those that the second has. Of links, the share of words that chose the same.
        1 if they agree.

        :param how: of which trees, as :meth:`predict` has it.

        >>> import pyro_unsup as pu
        >>> samples = pu.CollapsedGibbs(pu.models.DMV(3)).run([[0, 1, 2], [1, 1]], sweeps=10, chains=2, progress=False)
        >>> samples.agreement("vote").shape
        (2, 2)
        """
        if self.structure is None and not self.of_links:
            raise UnsupError(f"chains are compared by their trees, and {an(type(self.model).__name__)} has none: use "
                             "samples.variation_between_chains()")  # fmt: skip
        each = [self.predict(how, chain) for chain in range(len(self.last))]
        if self.of_links:
            return np.array([[float((one == other).mean()) for other in each] for one in each])
        trees = trees_of(self)
        return np.array([[trees.in_common(one, other) for other in each] for one in each])

    def _without_trees(self, what: str) -> None:
        if self.structure is not None:
            raise UnsupError(
                f"labels {what}, and {an(type(self.model).__name__)} has trees: use samples.predict('vote') or "
                "samples.agreement()"
            )

    def invariants(self) -> dict[str, Array]:  # (chains, draws) each
        """Numbers that survive a renaming of the labels, draw by draw.

        >>> import pyro_unsup as pu
        >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=3))
        >>> samples = sampler.run([[0, 1, 2], [1, 1]], sweeps=10, burn_in=2, chains=2, progress=False)
        >>> sorted(samples.invariants())
        ['entropy', 'labels_used', 'largest', 'log_joint']
        """
        from .sample_statistics import invariants

        return invariants(self)

    def diagnostics(self) -> dict[str, dict[str, float]]:
        """``mean``, ``sd``, ``r_hat`` and ``ess`` of each of the :meth:`invariants`, through ArviZ.

        >>> import pyro_unsup as pu
        >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=3))
        >>> samples = sampler.run([[0, 1, 2], [1, 1]], sweeps=10, burn_in=2, chains=2, progress=False)
        >>> sorted(samples.diagnostics()["log_joint"])
        ['ess', 'mean', 'r_hat', 'sd']
        """
        from .sample_statistics import diagnostics

        return diagnostics(self)

    @staticmethod
    def explain() -> str:
        """What R-hat of labels would mean, and what is given instead.

        >>> import pyro_unsup as pu
        >>> print(pu.Samples.explain()[:60])
        R-hat compares the spread of a number within chains with its
        """
        return R_HAT_OF_LABELS

    def relabel(self, method: str = "ecr", **options: Any) -> Any:
        """One naming of the labels for all draws of all chains; see :func:`pyro_unsup.relabel`.

        :param method: ``"pivot"``, ``"ecr"`` or ``"stephens"``.
        :param options: further ones of :func:`pyro_unsup.relabel`.
        :return: ``samples`` with new labels, ``draws`` of the tables, and R-hat and ESS before and after.

        >>> import pyro_unsup as pu
        >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=3))
        >>> samples = sampler.run([[0, 1, 2], [1, 1]], sweeps=10, burn_in=2, chains=2, progress=False)
        >>> samples.relabel("ecr").samples.labels.shape
        (2, 8, 5)
        """
        import pyro_unsup

        return pyro_unsup.relabel(self, method, **options)  # type: ignore[arg-type]

    def posterior_predictive(
        self, statistics: Mapping[str, Statistic] | None = None, draws: int = 100, seed: int = 0
    ) -> dict[str, dict[str, Any]]:
        """Draw texts of the same sentence lengths from sampled tables, and compare them with the one observed.

        :param statistics: functions of words (tokens,) by name; by default the number of types, of words that occur
            once, and the share of words that follow themselves.
        :param draws: how many texts.
        :param seed: the same texts come from the same seed.
        :return: for each, ``observed``, ``draws`` (draws,), and ``p``: the share of texts that have more of it (of ties
            half). Near 0 or 1 means that the model does not capture it.

        >>> import pyro_unsup as pu
        >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=3))
        >>> samples = sampler.run([[0, 1, 2], [1, 1]], sweeps=10, burn_in=2, chains=2, progress=False)
        >>> found = samples.posterior_predictive({"zeros": lambda words: (words == 0).sum()}, draws=5)
        >>> int(found["zeros"]["observed"]), found["zeros"]["draws"].shape
        (1, (5,))
        """
        from .sample_checks import posterior_predictive

        return posterior_predictive(self, statistics, draws, seed)

    def sentences(self) -> list[list[int]]:
        """The words, as the model takes them."""
        return [part.tolist() for part in np.split(self.data["words"], self.data["offsets"][1:-1])]

    def to_arviz(self) -> Any:
        """Concentrations, log joint, cluster sizes, temperatures and acceptance rates for ArviZ 0.x and 1.x.

        Plots of traces, ranks, autocorrelation and energy come from there. What never moves (``labels_used``, perhaps)
        has no ranks: leave it out by ``var_names``. The labels stay here, as integers; the dimension ``tag`` has their
        names. Of an adaptor grammar, ``token_counts`` says after how many symbols a word ``ends``: no or yes.
        :func:`pyro_unsup.to_arviz` has more: tables, the likelihood of every example, predictions, data.

        >>> import pyro_unsup as pu
        >>> sampler = pu.CollapsedGibbs(pu.models.Tagger(tags=2, vocab=3))
        >>> samples = sampler.run([[0, 1, 2], [1, 1]], sweeps=10, burn_in=2, chains=2, progress=False)
        >>> samples.to_arviz().posterior["token_counts"].shape
        (2, 8, 2)
        """
        from .sample_statistics import to_arviz

        return to_arviz(self)

    def save(self, folder: str | PathLike[str], overwrite: bool = False) -> None:
        """Write to a folder of safetensors and JSON, all or nothing."""
        from .sample_record import describe

        sample_storage.SAMPLES.may_write(folder, overwrite)
        sample_storage.write(folder, sample_storage.SAMPLES, *describe(self), overwrite)

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Samples:
        """Read what :meth:`save` wrote."""
        from .sample_record import restore

        record, arrays = sample_storage.read(folder, sample_storage.SAMPLES)
        try:
            return restore(record, arrays)
        except UnsupError as error:
            raise InputError(f"{error!s:.600}", Path(folder)) from error
        except WRONG as error:
            raise InputError(f"the record does not describe samples: {error!r:.200}", Path(folder)) from error

    def __repr__(self) -> str:
        chains, draws, units = self.labels.shape
        best = f"{self.best_log_joint.max():.1f}"
        return f"Samples of {self.model!r}: {chains} chains of {draws} draws, {units} labels; best log joint {best}"
