"""What a component of anyone's must promise: subclass a contract, name the component, run pytest.

::

    class TestMyCalibrator(CalibratorContract):
        calibrator = MyCalibrator()
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest

from topperk import (
    F1,
    Dense,
    Factors,
    Ids,
    Interactions,
    PersonalizedK,
    Reason,
    Split,
    Utility,
    load,
    load_scores,
    threads,
)
from topperk._score_checks import check_shape, check_usable
from topperk.calibration import CORRECTIONS, Calibration, Calibrator
from topperk.datasets.simulated import World, simulate_world
from topperk.scores import ScoreBlock, ScoreSource

# --- calibrators ------------------------------------------------------------------------------


def in_blocks_of(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a source is read so many pairs at a time, one user at least."""
    monkeypatch.setattr(threads, "BLOCK_PAIRS", pairs)
    monkeypatch.setattr(threads, "LEAST_USERS", 1)


def probabilities_of_all(calibration: Calibration, source: ScoreSource) -> npt.NDArray[np.float64]:
    """(n_users, n_items), for users that the calibration knows by the same codes."""
    codes = np.arange(source.ids.n_users, dtype=np.int32)
    flat = calibration.probabilities(source.block(codes), codes)
    return flat.reshape(codes.size, -1)


def content_of(split: Split) -> list[bytes]:
    """Every number of a split."""
    parts = split.parts().values()
    return [array.tobytes() for part in parts for array in (part.offsets, part.items)]


class CalibratorContract:
    """What ``calibrator``, and the calibrations that it fits, must hold."""

    calibrator: ClassVar[Calibrator]

    @pytest.fixture
    def world(self) -> World:
        return simulate_world(n_users=60, n_items=120, seed=3, mean_relevant=25.0)

    @pytest.fixture
    def source(self, world: World) -> Dense:
        rows = world.scores.block(np.arange(world.ids.n_users, dtype=np.int32)).scores
        return Dense(rows.reshape(world.ids.n_users, -1), world.ids)

    @pytest.fixture
    def calibration(self, world: World, source: Dense) -> Calibration:
        return self.calibrator.fit(source, world.split)

    def test_it_is_settings_that_fitting_does_not_change(self, world: World, source: Dense) -> None:
        before, scores, split = repr(self.calibrator), source.matrix.copy(), content_of(world.split)
        one = self.calibrator.fit(source, world.split)
        other = self.calibrator.fit(source, world.split)
        assert repr(self.calibrator) == before
        assert one is not other
        np.testing.assert_array_equal(
            probabilities_of_all(one, source), probabilities_of_all(other, source)
        )
        np.testing.assert_array_equal(source.matrix, scores)
        assert content_of(world.split) == split
        with pytest.raises(AttributeError):
            self.calibrator.correction = "none"  # type: ignore[attr-defined]

    def test_it_says_which_held_out_correction_it_makes(self) -> None:
        assert self.calibrator.correction in CORRECTIONS  # type: ignore[attr-defined]

    def test_every_score_has_a_probability(self, calibration: Calibration, source: Dense) -> None:
        p = probabilities_of_all(calibration, source)
        assert p.dtype == np.float64
        assert ((p >= 0.0) & (p <= 1.0)).all()

    def test_probabilities_are_in_the_order_of_the_scores(
        self, calibration: Calibration, source: Dense
    ) -> None:
        p = probabilities_of_all(calibration, source)
        order = np.argsort(source.matrix, axis=1)
        steps = np.diff(np.take_along_axis(p, order, axis=1), axis=1)
        assert steps.min() >= -1e-12
        assert steps.max() > 1e-6

    def test_no_candidate_has_probability_zero(
        self, calibration: Calibration, source: Dense
    ) -> None:
        codes = np.arange(source.ids.n_users, dtype=np.int32)
        block = source.block(codes)
        block.scores[::3] = -np.inf
        p = calibration.probabilities(block, codes)
        assert (p[::3] == 0.0).all()
        assert (p[1::3] > 0.0).any()

    def test_a_users_probabilities_do_not_depend_on_the_block(
        self,
        world: World,
        source: Dense,
        calibration: Calibration,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        whole = probabilities_of_all(calibration, source)
        for code in range(source.ids.n_users):
            one = np.array([code], dtype=np.int32)
            np.testing.assert_array_equal(
                calibration.probabilities(source.block(one), one), whole[code]
            )
        for pairs in (1, 7 * source.ids.n_items):
            in_blocks_of(pairs, monkeypatch)
            again = self.calibrator.fit(source, world.split)
            np.testing.assert_array_equal(probabilities_of_all(again, source), whole)
            monkeypatch.undo()

    def test_factors_are_calibrated_like_their_products(
        self, world: World, source: Dense, calibration: Calibration
    ) -> None:
        assert isinstance(world.scores, Factors)
        from_factors = self.calibrator.fit(world.scores, world.split)
        np.testing.assert_allclose(
            probabilities_of_all(from_factors, source),
            probabilities_of_all(calibration, source),
            atol=1e-6,
        )

    def test_everybody_has_a_reason(self, calibration: Calibration) -> None:
        rows = np.arange(-1, len(calibration.users), dtype=np.int32)
        codes = calibration.reasons(rows)
        assert codes.shape == rows.shape
        assert {Reason.of(int(code)) for code in codes} <= set(Reason)

    def test_somebody_new_has_probabilities_too(
        self, calibration: Calibration, source: Dense
    ) -> None:
        block = source.block(np.array([0], dtype=np.int32))
        p = calibration.probabilities(block, np.array([-1], dtype=np.int32))
        assert ((p >= 0.0) & (p <= 1.0)).all()
        assert p.max() > p.min()

    def test_awkward_users_have_probabilities_too(self) -> None:
        split, scores = awkward_users()
        calibration = self.calibrator.fit(scores, split, on_missing="skip")
        codes = np.arange(scores.ids.n_users, dtype=np.int32)
        p = calibration.probabilities(scores.block(codes), codes)
        assert ((p >= 0.0) & (p <= 1.0)).all()

    def test_it_is_the_same_after_being_saved_and_loaded(
        self, world: World, source: Dense, calibration: Calibration, tmp_path: Path
    ) -> None:
        model = PersonalizedK(F1(), max_k=10, calibrator=calibration).fit(source, world.split)
        model.save(tmp_path / "model")
        loaded = load(tmp_path / "model", calibration=type(calibration))  # type: ignore[arg-type]
        for verb in ("sizes", "recommend", "curves"):
            one, other = getattr(model, verb)(source), getattr(loaded, verb)(source)
            assert one.equals(other)


def interactions_of(ids: Ids, lists: Sequence[Any]) -> Interactions:
    """Each user's item codes as one part of a split."""
    offsets = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    items = [item for own in lists for item in sorted(own)]
    return Interactions(ids, offsets, np.array(items, dtype=np.int32))


AWKWARD_USERS: dict[str, tuple[list[float], list[int], list[int]]] = {
    # user: (scores of items 0..5, training items, validation items)
    "constant scores": ([2.0] * 6, [0], [3]),
    "no positive": ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0, 1], []),
    "one positive": ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0], [3]),
    "only positives": ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0, 1, 2], [3, 4, 5]),
    "positives not scored": ([-np.inf, 1.0, 2.0, 3.0, 4.0, 5.0], [1], [0]),
    "reversed": ([5.0, 4.0, 3.0, 2.0, 1.0, 0.0], [0], [4, 5]),
    "separable": ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0], [4, 5]),
    "well separated": ([0.0, 0.1, 0.2, 1e4, 0.4, 0.5], [0], [3]),
}


def awkward_users() -> tuple[Split, Dense]:
    """A user for each thing that can be wrong with one, named for it."""
    ids = Ids.of(users=list(AWKWARD_USERS), items=list(range(6)))

    def part(place: int) -> Interactions:
        return interactions_of(ids, [user[place] for user in AWKWARD_USERS.values()])

    nothing = interactions_of(ids, [[]] * ids.n_users)
    matrix = np.array([user[0] for user in AWKWARD_USERS.values()])
    return Split(part(1), part(2), nothing, "given"), Dense(matrix, ids)


# --- utilities --------------------------------------------------------------------------------


class UtilityContract:
    """What a utility promises. Subclass it in a test module, and name the utility:

    class TestYourUtility(UtilityContract):
        utility = YourUtility()

    The value of a realised outcome is taken from the utility's own three functions, one outcome at
    a time; whether these are the right functions is for a test of your own.
    """

    utility: Utility

    # 0, 1, nearly 0, ties, and both sides of one half: everything that arithmetic could trip over
    CASES: ClassVar[dict[str, list[float]]] = {
        "one": [0.3],
        "ties": [0.5, 0.5, 0.2, 0.2, 0.2],
        "certain and impossible": [1.0, 0.0, 0.4, 1.0, 0.0],
        "nearly": [1e-12, 1.0 - 1e-12, 0.7, 1e-12],
        "impossible": [0.0, 0.0, 0.0],
        "many": [0.9, 0.6, 0.55, 0.3, 0.1, 0.05, 0.049, 0.01],
    }

    def realised_by_definition(
        self, hits: Sequence[int], n_relevant: int
    ) -> npt.NDArray[np.float64]:
        """U_k = h(m, k) sum w(r) Y_r - sum v(r) (1 - Y_r) for k = 0..n, one number at a time."""
        curve = [0.0]
        for k in range(1, len(hits) + 1):
            ranks = np.arange(1.0, k + 1.0)
            y = np.array(hits[:k], dtype=np.float64)
            gain = float((self.utility.discount(ranks) * y).sum())
            if n_relevant > 0:
                m_and_k = np.array([[float(n_relevant)]]), np.array([[float(k)]])
                gain *= float(np.broadcast_to(self.utility.normaliser(*m_and_k), (1, 1))[0, 0])
            cost = float((self.utility.penalty(ranks) * (1.0 - y)).sum())
            curve.append(gain - cost)
        return np.array(curve)

    @pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
    def test_expected_is_the_mean_over_all_outcomes(self, case: list[float]) -> None:
        for p in (case, case[::-1]):
            wanted = np.zeros(len(p) + 1)
            for outcome in itertools.product((0, 1), repeat=len(p)):
                each = [q if y else 1.0 - q for q, y in zip(p, outcome, strict=True)]
                wanted += math.prod(each) * self.realised_by_definition(outcome, sum(outcome))
            scale = max(1.0, float(np.abs(wanted).max()))
            assert np.abs(self.utility.expected(p) - wanted).max() < 1e-10 * scale

    def test_realised_is_the_definition(self) -> None:
        for outcome in itertools.product((0, 1), repeat=5):
            for beyond in (0, 1, 7):
                n_relevant = sum(outcome) + beyond
                found = self.utility.realised(outcome, n_relevant)
                wanted = self.realised_by_definition(outcome, n_relevant)
                assert np.allclose(found, wanted, rtol=1e-12, atol=1e-12)

    def test_probabilities_of_0_and_1_give_the_realised_utility(self) -> None:
        for outcome in itertools.product((0.0, 1.0), repeat=5):
            realised = self.utility.realised(outcome, sum(outcome))
            assert np.allclose(self.utility.expected(outcome), realised, rtol=1e-11, atol=1e-11)
            # a certain item beyond the list is one more relevant item
            realised = self.utility.realised(outcome[:3], sum(outcome))
            found = self.utility.expected(outcome, max_k=3)
            assert np.allclose(found, realised, rtol=1e-11, atol=1e-11)

    def test_an_empty_list_is_worth_0(self) -> None:
        for p in self.CASES.values():
            assert self.utility.expected(p)[0] == 0.0
            assert self.utility.expected(p, method="paper", paper_terms=20)[0] == 0.0
            assert self.utility.realised([1] * len(p), len(p))[0] == 0.0

    def test_one_user_and_a_batch_agree(self) -> None:
        batch = np.random.default_rng(0).random((7, 6))
        curves = self.utility.expected(batch, max_k=4)
        assert curves.shape == (7, 5)
        assert np.array_equal(curves, [self.utility.expected(p, max_k=4) for p in batch])
        assert np.array_equal(self.utility.expected(batch[::-1], max_k=4), curves[::-1])

    def test_inputs_are_left_unchanged(self) -> None:
        p = np.random.default_rng(1).random((3, 5))
        hits = (p > 0.5).astype(np.float64)
        n_relevant = hits.sum(axis=1)
        ranks, m = np.arange(1.0, 6.0), np.arange(1.0, 9.0)[None, :]
        given = (p, hits, n_relevant, ranks, m)
        before = [array.copy() for array in given]
        for array in given:
            array.flags.writeable = False
        self.utility.expected(p)
        self.utility.expected(p, method="paper", paper_terms=20)
        self.utility.realised(hits, n_relevant)
        self.utility.discount(ranks)
        self.utility.penalty(ranks)
        self.utility.normaliser(m, ranks[:, None])
        assert all(np.array_equal(a, b) for a, b in zip(given, before, strict=True))

    def test_a_rank_has_the_same_value_in_a_list_of_any_length(self) -> None:
        longest = np.arange(1.0, 31.0)
        m = np.arange(1.0, 41.0)[None, :]
        for n in (1, 2, 17):
            for of_ranks in (self.utility.discount, self.utility.penalty):
                assert np.allclose(of_ranks(longest[:n]), of_ranks(longest)[:n], rtol=1e-13)
            part = np.broadcast_to(self.utility.normaliser(m, longest[:n, None]), (n, 40))
            whole = np.broadcast_to(self.utility.normaliser(m, longest[:, None]), (30, 40))
            assert np.allclose(part, whole[:n], rtol=1e-13)

    def test_it_says_whether_it_counts_all_relevant_items(self) -> None:
        m, k = np.arange(1.0, 41.0)[None, :], np.arange(1.0, 31.0)[:, None]
        h = np.broadcast_to(self.utility.normaliser(m, k), (30, 40))
        assert self.utility.counts_all_relevant or (h == h[:, :1]).all()

    def test_it_has_a_name_for_tables(self) -> None:
        assert self.utility.name.strip() == self.utility.name != ""


# --- sources of scores ------------------------------------------------------------------------


def as_codes(users: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """User codes as blocks are asked for."""
    return np.asarray(users, dtype=np.int32)


def by_user(block: ScoreBlock, n_items: int) -> list[tuple[list[int], npt.NDArray[Any]]]:
    """Each user's item codes and scores, in the order of the block."""
    found = []
    for begin, end in itertools.pairwise(block.offsets.tolist()):
        items = block.items[begin:end].tolist() if block.items.size else list(range(n_items))
        found.append((items if end > begin else [], block.scores[begin:end]))
    return found


def as_matrix(source: ScoreSource) -> Dense:
    """The same scores as a matrix; what a user has no score for is minus infinity."""
    whole = source.block(as_codes(range(source.ids.n_users)))
    matrix = np.full((source.ids.n_users, source.ids.n_items), -np.inf, whole.scores.dtype)
    for user, (items, scores) in enumerate(by_user(whole, source.ids.n_items)):
        matrix[user, items] = scores
    return Dense(matrix, source.ids)


def random_split(ids: Ids, seed: int) -> Split:
    """Each pair falls into one of the three parts with probability .1, .15 and .15."""
    drawn = np.random.default_rng(seed).random((ids.n_users, ids.n_items))

    def part(low: float, high: float) -> Interactions:
        return interactions_of(ids, [np.flatnonzero((u >= low) & (u < high)) for u in drawn])

    return Split(part(0.0, 0.1), part(0.1, 0.25), part(0.25, 0.4), "given")


class ScoreSourceContract:
    """What a source of scores promises. Subclass it in a test module, and name the source:

    class TestYourSource(ScoreSourceContract):
        source = YourSource()

    A source with ten to a few hundred users and items will do. ``tolerance`` is how far a score
    may move with the block in which it is asked for, in units of the largest score: 0, or 1e-6
    where it comes from a matrix product, which may round differently by shape.
    """

    source: ScoreSource
    tolerance: ClassVar[float] = 0.0

    def assert_same(self, block: ScoreBlock, users: npt.NDArray[np.int32]) -> None:
        """A block for these users is what a block for everybody says of each of them."""
        n_items = self.source.ids.n_items
        whole = by_user(self.source.block(self.everybody), n_items)
        assert block.users.tolist() == users.tolist()
        found = by_user(block, n_items)
        assert len(found) == users.size
        for user, (items, scores) in zip(users.tolist(), found, strict=True):
            wanted_items, wanted = whole[user]
            assert items == wanted_items
            assert scores.dtype == wanted.dtype
            self.assert_close(scores, wanted)

    def assert_close(self, found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> None:
        """Equal, or nearly so where the source says that it computes products."""
        finite = np.abs(wanted[np.isfinite(wanted)])
        allowed = self.tolerance * float(finite.max(initial=0.0))
        np.testing.assert_allclose(found, wanted, rtol=0.0, atol=allowed)

    @property
    def everybody(self) -> npt.NDArray[np.int32]:
        return as_codes(range(self.source.ids.n_users))

    def test_it_is_a_source_that_knows_its_ids(self) -> None:
        assert isinstance(self.source, ScoreSource)
        assert isinstance(self.source.ids, Ids)
        assert self.source.ids == self.source.ids
        assert isinstance(self.source.scores_every_item, bool)
        assert self.source.ids.n_users > 1
        assert self.source.ids.n_items > 1

    def test_a_block_has_the_users_that_were_asked_for_and_their_candidates(self) -> None:
        last = self.source.ids.n_users - 1
        for users in ([0], [last], [last, 0], [0, last, 0], range(last + 1)):
            block = self.source.block(as_codes(users))
            check_shape(block, as_codes(users), self.source.ids)
            check_usable(block, self.source.ids)
            assert block.users.tolist() == list(users)
            assert block.offsets[-1] == block.scores.size
            counts = np.diff(block.offsets)
            if self.source.scores_every_item:
                assert (counts == self.source.ids.n_items).all()
            for items, scores in by_user(block, self.source.ids.n_items):
                assert len(items) == scores.size
                assert items == sorted(set(items))
                assert set(items) <= set(range(self.source.ids.n_items))

    def test_scores_are_finite_or_minus_infinity_and_differ(self) -> None:
        scores = self.source.block(self.everybody).scores
        assert (scores < np.inf).all()
        assert np.unique(scores[scores > -np.inf]).size > 1

    def test_scores_do_not_depend_on_how_users_are_parted_into_blocks(self) -> None:
        for size in (1, 2, 3, 7, self.everybody.size):
            for begin in range(0, self.everybody.size, size):
                users = self.everybody[begin : begin + size]
                self.assert_same(self.source.block(users), users)

    def test_scores_do_not_depend_on_the_order_of_users(self) -> None:
        rng = np.random.default_rng(0)
        for users in (self.everybody[::-1], rng.permutation(self.everybody)):
            self.assert_same(self.source.block(as_codes(users)), as_codes(users))
        twice = as_codes(rng.choice(self.everybody, 2 * self.everybody.size))
        self.assert_same(self.source.block(twice), twice)

    def test_a_block_of_nobody_is_empty(self) -> None:
        block = self.source.block(as_codes([]))
        check_shape(block, as_codes([]), self.source.ids)
        check_usable(block, self.source.ids)
        assert block.offsets.tolist() == [0]
        assert block.scores.dtype == self.source.block(self.everybody).scores.dtype

    def test_asked_again_it_says_the_same(self) -> None:
        one, other = (self.source.block(self.everybody) for _ in range(2))
        assert one.scores.tobytes() == other.scores.tobytes()
        assert one.items.tolist() == other.items.tolist()
        assert one.offsets.tolist() == other.offsets.tolist()

    def test_a_block_is_the_callers_to_write_to(self) -> None:
        before = self.source.block(self.everybody)
        untouched = before.scores.copy()
        block = self.source.block(self.everybody)
        assert not np.shares_memory(before.scores, block.scores)
        block.scores[:] = -np.inf
        assert before.scores.tobytes() == untouched.tobytes()
        assert self.source.block(self.everybody).scores.tobytes() == untouched.tobytes()

    def test_the_users_asked_for_are_left_unchanged(self) -> None:
        users = as_codes([1, 0])
        users.flags.writeable = False
        self.source.block(users)
        assert users.tolist() == [1, 0]

    def test_several_threads_may_ask_at_once(self) -> None:
        rng = np.random.default_rng(1)
        asked = [as_codes(rng.choice(self.everybody, 5)) for _ in range(200)]
        with ThreadPoolExecutor(4) as threads:
            for users, block in zip(asked, threads.map(self.source.block, asked), strict=True):
                self.assert_same(block, users)

    def test_its_lists_are_those_of_the_same_scores_in_a_matrix(self) -> None:
        split = random_split(self.source.ids, seed=2)
        settings = PersonalizedK(F1(), max_k=5)
        answers = []
        for source in (self.source, as_matrix(self.source)):
            model = settings.fit(source, split, on_missing="skip")
            answers.append(model.blocks(source, on_missing="skip"))
        for one, other in zip(*answers, strict=True):
            assert one.users.tolist() == other.users.tolist()
            assert one.k.tolist() == other.k.tolist()
            assert one.items.tolist() == other.items.tolist()
            np.testing.assert_allclose(one.curves, other.curves, rtol=1e-6, atol=1e-9)


class SavedScoreSourceContract(ScoreSourceContract):
    """What a source that has ``save`` promises besides: saved and read again it is the same.

    ``saved_as`` is the name that it is given, and ``read`` the way back.
    """

    saved_as: ClassVar[str] = "scores.npz"

    def read(self, path: Path) -> ScoreSource:
        return load_scores(path)

    def test_it_is_the_same_after_being_saved_and_read(self, tmp_path: Path) -> None:
        self.source.save(tmp_path / self.saved_as)  # type: ignore[attr-defined]
        read = self.read(tmp_path / self.saved_as)
        assert read.ids.users == self.source.ids.users
        assert read.ids.items == self.source.ids.items
        assert read.scores_every_item == self.source.scores_every_item
        one, other = (source.block(self.everybody) for source in (self.source, read))
        assert one.scores.dtype == other.scores.dtype
        assert one.scores.tobytes() == other.scores.tobytes()
        assert one.items.tolist() == other.items.tolist()
