"""The probabilistic context-free grammar: labelled binary trees over words or tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .. import distributions
from ..tables.derived import derived
from .grammar import TreeGrammar

if TYPE_CHECKING:
    from .gibbs_labels import RuleState


class PCFG(TreeGrammar):
    """A probabilistic context-free grammar in Chomsky normal form, as an ordinary Pyro model.

        root ~ Dirichlet,  rules[nonterminal] ~ Dirichlet,  emission[preterminal] ~ Dirichlet
        for each sentence:  a nonterminal by root; every nonterminal draws a pair of labels by rules, for its left
                            part and its right part; every preterminal draws a word by emission; labelled trees
                            summed out

    Tables: ``root`` (N,) with the axis ``nonterminal``, ``rules`` (N, (N + P)^2) with the axes ``nonterminal`` and
    ``parts``, and ``emission`` (P, V) with the axes ``preterminal`` and ``word``. Labels are called N0, N1, ... and P0,
    P1, ...; the pair of N0 and P1 is ``("N0", "P1")``. By number, preterminals follow the nonterminals.

    The root has two parts, so that a sentence of one word has no tree. Such sentences are skipped, as empty ones are:
    they have probability 1 and no counts, and no part in structures.

    A start with all labels alike would stay so for ever. :meth:`split_start` and ``pu.init.noise`` tell them apart.

    :param nonterminals: how many labels spans of two words or more have, N.
    :param preterminals: how many labels single words have, P.
    :param vocab: how many words or tags, or these themselves.
    :param prior: Dirichlet concentration, one for all tables or by name.

        >>> import pyro_unsup as pu
        >>> corpus = pu.data.short_tag_sequences(pu.data.toy.sentences(200, seed=1), max_length=8, drop=["PUNCT"])
        >>> model = pu.models.PCFG(nonterminals=3, preterminals=5, vocab=corpus.vocab)
        >>> em = pu.EM(model, pu.AddLambda(0.1), init=model.split_start(corpus))
        >>> fit = em.run(corpus, iterations=20, seed=1, progress=False)
        >>> tree = fit.predict(corpus.select([0]))  # a label for each span in the tree, -1 for all other spans
        >>> corpus.sentence(0), tree.shape, int((tree >= 0).sum())
        (['PROPN', 'AUX', 'VERB', 'DET', 'NOUN'], torch.Size([15]), 9)

    **References:** [1] K. Lari and S. J. Young (1990) "The estimation of stochastic context-free grammars using the
    inside-outside algorithm".
    """

    who = "a PCFG"

    def _rule_axes(self) -> dict[str, dict[str, Sequence[Any]]]:
        return {"rules": {"parts": [(left, right) for left in self.labels for right in self.labels]}}

    def _grammar(self, tables: Mapping[str, Tensor], lengths: Tensor) -> distributions.PCFG:
        rules = derived(_by_part, tables["rules"], len(self.labels))
        return distributions.PCFG(tables["root"], rules, tables["emission"], lengths)

    def strongest(self, weights: Mapping[str, Tensor], top: int) -> tuple[Tensor, Tensor, Tensor]:
        rules, labels = weights["rules"], len(self.labels)
        best = rules.topk(min(top, rules.shape[-1]))
        return best.values, best.indices // labels, best.indices % labels

    def gibbs_state(self) -> type[RuleState]:
        """What :class:`.CollapsedGibbs` moves: trees of sentences under this model, its tables integrated out."""
        from .gibbs_labels import RuleState

        return RuleState


def _by_part(rules: Tensor, labels: int) -> Tensor:  # (*batch, N, M M) -> (*batch, N, M, M)
    found: Tensor = rules.unflatten(-1, (labels, labels))
    return found
