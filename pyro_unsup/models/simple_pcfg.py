"""The factored grammar: labelled binary trees, the labels of two parts drawn independently."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .. import distributions
from .grammar import TreeGrammar

if TYPE_CHECKING:
    from .gibbs_labels import FactoredState


class SimplePCFG(TreeGrammar):
    """A context-free grammar whose rules are products, for hundreds of labels, as an ordinary Pyro model.

        root ~ Dirichlet,  left[nonterminal] ~ Dirichlet,  right[nonterminal] ~ Dirichlet,
        emission[preterminal] ~ Dirichlet
        for each sentence:  a nonterminal by root; every nonterminal draws the label of its left part by left, and that
                            of its right part by right; every preterminal draws a word by emission; labelled trees
                            summed out

    It is a :class:`PCFG` with p(A -> B C) = left(A, B) right(A, C). What the two parts of a node have to do with each
    other, its label has to say: so it takes more labels, and each of them costs much less.

    Tables: ``root`` (N,) with the axis ``nonterminal``, ``left`` and ``right`` (N, N + P) with the axes ``nonterminal``
    and ``part``, and ``emission`` (P, V) with the axes ``preterminal`` and ``word``. Labels are called N0, N1, ... and
    P0, P1, ...; by number, preterminals follow the nonterminals. Sentences of one word have no tree and are skipped.

    A start with all labels alike would stay so for ever. :meth:`split_start` and ``pu.init.noise`` tell them apart.

    :param nonterminals: how many labels spans of two words or more have, N.
    :param preterminals: how many labels single words have, P.
    :param vocab: how many words or tags, or these themselves.
    :param prior: Dirichlet concentration, one for all tables or by name.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(200, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.models.SimplePCFG(nonterminals=10, preterminals=20, vocab=corpus.vocab)
        >>> em = pu.EM(model, pu.AddLambda(0.1), init=model.split_start(corpus))
        >>> fit = em.run(corpus, iterations=20, seed=1, progress=False)
        >>> tree = fit.predict(corpus.select([0]))  # a label for each span in the tree, -1 for all other spans
        >>> corpus.sentence(0), tree.shape, int((tree >= 0).sum())
        (['PROPN', 'AUX', 'VERB', 'DET', 'NOUN'], torch.Size([15]), 9)

    **References:** [1] W. Liu, S. Yang, Y. Kim and K. Tu (2023) "Simple hardware-efficient PCFGs with independent left
    and right productions".
    """

    who = "a SimplePCFG"

    def _rule_axes(self) -> dict[str, dict[str, Sequence[Any]]]:
        return {"left": {"part": self.labels}, "right": {"part": self.labels}}

    def _grammar(self, tables: Mapping[str, Tensor], lengths: Tensor) -> distributions.SimplePCFG:
        left, right = tables["left"], tables["right"]
        return distributions.SimplePCFG(tables["root"], left, right, tables["emission"], lengths)

    def strongest(self, weights: Mapping[str, Tensor], top: int) -> tuple[Tensor, Tensor, Tensor]:
        some = min(top, len(self.labels))  # the best pairs are among pairs of the best
        left, right = weights["left"].topk(some), weights["right"].topk(some)
        pairs = (left.values.unsqueeze(-1) + right.values.unsqueeze(-2)).flatten(-2)  # (N, some some)
        best = pairs.topk(min(top, pairs.shape[-1]))
        return (
            best.values,
            left.indices.gather(-1, best.indices // some),
            right.indices.gather(-1, best.indices % some),
        )

    def gibbs_state(self) -> type[FactoredState]:
        """What :class:`.CollapsedGibbs` moves: trees of sentences under this model, its tables integrated out."""
        from .gibbs_labels import FactoredState

        return FactoredState
