"""What a list of k items is worth: one definition, expected and realised.

With discount w(r), penalty v(r) and normaliser h(m, k), for a list of length k of which Y_r says
whether the item at rank r is relevant, and m relevant items in all,

    U_k = h(m, k) * sum_{r<=k} w(r) Y_r  -  sum_{r<=k} v(r) (1 - Y_r).

==================== =============== ========== ==============================
utility              w(r)            v(r)       h(m, k)
==================== =============== ========== ==============================
NDCG                 1 / log2(1+r)   0          1 / IDCG(min(m, k))
PDCG                 1 / log2(1+r)   the same   1
FBeta (F1)           1               0          (1 + b^2) / (b^2 m + k)
TP                   1               0          1 / min(m, k)
Precision            1               0          1 / k
Recall               1               0          1 / m
DCG                  1 / log2(1+r)   0          1
NetGain(gain, cost)  gain            cost       1
==================== =============== ========== ==============================

A user without relevant items has h(0, k) = 0. An empty list is worth 0. Curves are arrays whose
index is the list length, so ``curve[0] == 0``.

``expected`` is exact by default: the errors are rounding, below 1e-10 for the bounded utilities
(see ``topperk._kernels.counting`` for the bound). ``method="paper"`` is Eq. 7d, 11 and 13 of
"Top-Personalized-K Recommendation" with the refined normal and M = ``paper_terms``; Eq. 9 (PDCG)
is exact in the paper too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast, get_args

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray
from topperk._settings import check_choice, check_count, check_finite
from topperk._utility_tables import Method, UtilityTables, shared_tables
from topperk.counts import float_numbers, probability_rows
from topperk.errors import ScoreError, SettingError

__all__ = [
    "DCG",
    "F1",
    "NDCG",
    "PDCG",
    "TP",
    "FBeta",
    "Method",
    "NetGain",
    "Precision",
    "Recall",
    "Utility",
    "check_utility",
    "utility_named",
]

_METHODS = get_args(Method)


class Utility(ABC):
    """Discount, penalty and normaliser; the rest follows from them."""

    @property
    @abstractmethod
    def name(self) -> str:
        """What tables and files call it."""

    @property
    def counts_all_relevant(self) -> bool:
        """Whether h(m, k) depends on m, the number of all relevant items."""
        return True

    @abstractmethod
    def discount(self, ranks: FloatArray) -> FloatArray:
        """w(r) for ranks from 1."""

    def penalty(self, ranks: FloatArray) -> FloatArray:
        """v(r) for ranks from 1; none unless a utility says so."""
        return np.zeros_like(ranks)

    @abstractmethod
    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        """h(m, k) for m >= 1 and k >= 1, broadcast against each other."""

    def expected(
        self,
        probabilities: npt.ArrayLike,
        max_k: int | None = None,
        *,
        method: Method = "exact",
        paper_terms: int = 2000,
    ) -> FloatArray:
        """E[U_k] for k = 0..max_k, from the probabilities of all candidates, in the list's order.

        One user (one dimension) or a batch (users, candidates). Candidates beyond ``max_k`` count
        through the number of relevant items. Cost: O(n + max_k * width) per user, width some twenty
        standard deviations of the number of relevant items.

        >>> NDCG().expected([0.5, 0.5], max_k=2).round(4)
        array([0.    , 0.5   , 0.6577])
        """
        rows = probability_rows(probabilities)
        n_users, n = rows.shape
        max_k = _longest(max_k, n, f"with {n} candidates")
        check_choice("method", method, _METHODS)
        check_count("paper_terms", paper_terms)
        offsets = np.arange(n_users + 1, dtype=np.int64) * n
        lengths = np.full(n_users, max_k, dtype=np.int32)
        curves = _tables_of(self, max_k).expected(
            rows.reshape(-1), offsets, rows[:, :max_k], lengths, method, paper_terms
        )
        return cast(FloatArray, curves[0]) if np.ndim(probabilities) == 1 else curves

    def realised(
        self, relevance: npt.ArrayLike, n_relevant: npt.ArrayLike, max_k: int | None = None
    ) -> FloatArray:
        """U_k for k = 0..max_k, from what was relevant in the order of the list.

        ``relevance``: 0/1 in the order of the list, one user or a batch; ``n_relevant``: all
        relevant items of each user, those outside the list too.

        >>> F1().realised([1, 0, 1], n_relevant=4).round(4)
        array([0.    , 0.4   , 0.3333, 0.5714])
        """
        given = float_numbers(relevance, "relevance")
        if given.ndim not in (1, 2):
            raise ScoreError(
                f"relevance has shape {given.shape}; give one user's (n,) or a batch (users, n)."
            )
        hits = np.atleast_2d(given)
        total = np.atleast_1d(float_numbers(n_relevant, "n_relevant"))
        n_users, n = hits.shape
        if total.shape != (n_users,):
            raise ScoreError(
                f"n_relevant has shape {total.shape}; one number for each of {n_users} is needed."
            )
        if not np.isin(hits, (0.0, 1.0)).all():
            raise ScoreError("relevance holds values other than 0 and 1. Binarise it first.")
        if not (np.isfinite(total) & (total == np.floor(total))).all():
            raise ScoreError("n_relevant holds NaN, infinity or a fraction. Give whole numbers.")
        if (total < hits.sum(axis=1)).any():
            raise ScoreError(
                "n_relevant is smaller than the number of relevant items in the list. "
                "Count all relevant items of the user, inside the list and outside."
            )
        max_k = _longest(max_k, n, f"for a list of {n}")
        curves = _tables_of(self, max_k).realised(hits[:, :max_k], total)
        return cast(FloatArray, curves[0]) if given.ndim == 1 else curves


def _longest(max_k: int | None, n: int, of: str) -> int:
    """The length that curves go to: all n unless fewer are asked for."""
    if max_k is None:
        return n
    check_count("max_k", max_k)
    if max_k > n:
        raise SettingError(f"max_k is {max_k}; {of} it can be 0 to {n}.")
    return int(max_k)


def _log_discount(ranks: FloatArray) -> FloatArray:
    return 1.0 / np.log2(1.0 + ranks)


@dataclass(frozen=True)
class NDCG(Utility):
    """Normalised discounted cumulative gain (Eq. 6): DCG by the best DCG of min(m, k) items."""

    @property
    def name(self) -> str:
        return "NDCG"

    def discount(self, ranks: FloatArray) -> FloatArray:
        return _log_discount(ranks)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        shorter = np.minimum(m, k).astype(np.int64)
        ideal = np.cumsum(_log_discount(np.arange(1.0, shorter.max(initial=0) + 1.0)))
        return 1.0 / ideal[shorter - 1]


@dataclass(frozen=True)
class PDCG(Utility):
    """Penalised DCG (Eq. 8): a relevant item adds its discount, another one subtracts it."""

    @property
    def name(self) -> str:
        return "PDCG"

    @property
    def counts_all_relevant(self) -> bool:
        return False

    def discount(self, ranks: FloatArray) -> FloatArray:
        return _log_discount(ranks)

    def penalty(self, ranks: FloatArray) -> FloatArray:
        return _log_discount(ranks)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        return np.ones(np.broadcast_shapes(m.shape, k.shape))


@dataclass(frozen=True)
class FBeta(Utility):
    """The F measure (Eq. 10): precision and recall in one, recall ``beta`` times as important."""

    beta: float = 1.0

    def __post_init__(self) -> None:
        check_finite("beta", self.beta)
        if not self.beta > 0:
            raise SettingError(f"beta is {self.beta}; it must be a positive number.")

    @property
    def name(self) -> str:
        return f"F{self.beta:g}"

    def discount(self, ranks: FloatArray) -> FloatArray:
        return np.ones_like(ranks)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        square = self.beta**2
        return (1.0 + square) / (square * m + k)


def F1() -> FBeta:  # noqa: N802 - the name of the measure
    """``FBeta(1)``: the harmonic mean of precision and recall."""
    return FBeta(1.0)


@dataclass(frozen=True)
class TP(Utility):
    """Truncated precision (Eq. 12): hits by min(m, k), so a perfect list is worth 1 at any k."""

    @property
    def name(self) -> str:
        return "TP"

    def discount(self, ranks: FloatArray) -> FloatArray:
        return np.ones_like(ranks)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        return 1.0 / np.minimum(m, k)


@dataclass(frozen=True)
class Precision(Utility):
    """Hits by the length of the list."""

    @property
    def name(self) -> str:
        return "Precision"

    @property
    def counts_all_relevant(self) -> bool:
        return False

    def discount(self, ranks: FloatArray) -> FloatArray:
        return np.ones_like(ranks)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        return 1.0 / np.broadcast_arrays(k, m)[0]


@dataclass(frozen=True)
class Recall(Utility):
    """Hits by all relevant items. Never falls with k: give it a cost, or use F1 or NetGain."""

    @property
    def name(self) -> str:
        return "Recall"

    def discount(self, ranks: FloatArray) -> FloatArray:
        return np.ones_like(ranks)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        return 1.0 / np.broadcast_arrays(m, k)[0]


@dataclass(frozen=True)
class DCG(Utility):
    """Discounted cumulative gain, not normalised."""

    @property
    def name(self) -> str:
        return "DCG"

    @property
    def counts_all_relevant(self) -> bool:
        return False

    def discount(self, ranks: FloatArray) -> FloatArray:
        return _log_discount(ranks)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        return np.ones(np.broadcast_shapes(m.shape, k.shape))


@dataclass(frozen=True)
class NetGain(Utility):
    """What hits earn less what the other shown items cost, in the user's own currency."""

    gain: float = 1.0
    cost: float = 0.1

    def __post_init__(self) -> None:
        check_finite("gain", self.gain)
        check_finite("cost", self.cost)

    @property
    def name(self) -> str:
        return f"NetGain({self.gain:g}, {self.cost:g})"

    @property
    def counts_all_relevant(self) -> bool:
        return False

    def discount(self, ranks: FloatArray) -> FloatArray:
        return np.full_like(ranks, self.gain)

    def penalty(self, ranks: FloatArray) -> FloatArray:
        return np.full_like(ranks, self.cost)

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        return np.ones(np.broadcast_shapes(m.shape, k.shape))


# Their functions depend on their fields alone, and fields of these types are what they seem.
_SHARING = frozenset({NDCG, PDCG, FBeta, TP, Precision, Recall, DCG, NetGain})
_PLAIN = frozenset({int, float})


def _tables_of(utility: Utility, max_k: int) -> UtilityTables:
    """Tables for a single call: shared where nobody could tell, and made for the call elsewhere.

    A subclass may override a function, and a utility of somebody's own may look at anything.
    """
    if type(utility) in _SHARING:
        settings = tuple(vars(utility).values())
        if _PLAIN.issuperset(map(type, settings)):
            return shared_tables(type(utility), max_k, *settings)
    return UtilityTables(utility, max_k)


def check_utility(utility: object) -> None:
    """SettingError unless it is a utility; says how to make one of a name."""
    if isinstance(utility, str):
        raise SettingError(
            f"utility is the text {utility!r}. Give one such as F1(), or "
            f"utility_named({utility!r})."
        )
    if not isinstance(utility, Utility):
        raise SettingError(f"utility is {utility!r}; give one such as NDCG() or F1().")


def utility_named(text: str) -> Utility:
    """The utility of a name as in the tables: ndcg, pdcg, f1, f0.5, tp, precision, recall, dcg.

    ``netgain:1,0.2`` is NetGain with gain 1 and cost 0.2.
    """
    if not isinstance(text, str):
        raise SettingError(f"the name of a utility is {text!r}. Give text, such as 'f1'.")
    word = text.strip().lower()
    plain: dict[str, Callable[[], Utility]] = {
        "ndcg": NDCG,
        "pdcg": PDCG,
        "tp": TP,
        "precision": Precision,
        "recall": Recall,
        "dcg": DCG,
        "netgain": NetGain,
    }
    if word in plain:
        return plain[word]()
    try:
        if word.startswith("netgain:"):
            gain, cost = (float(part) for part in word.removeprefix("netgain:").split(","))
            return NetGain(gain, cost)
        if word.startswith("f"):
            return FBeta(float(word[1:]))
    except ValueError as error:
        if isinstance(error, SettingError):
            raise
    raise SettingError(
        f"there is no utility {text!r}. Choose among {', '.join(plain)}, f1 (or f0.5, f2, ...) "
        "and netgain:GAIN,COST."
    )
