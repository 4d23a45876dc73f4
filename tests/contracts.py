"""What a component of anyone's must promise: subclass a contract, name the component, run pytest.

::

    class TestMyCalibrator(CalibratorContract):
        calibrator = MyCalibrator()
"""

from __future__ import annotations

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
    _blocks,
    load,
)
from topperk.calibration import CORRECTIONS, Calibration, Calibrator
from topperk.datasets.simulated import World, simulate_world
from topperk.scores import ScoreSource

# --- calibrators ------------------------------------------------------------------------------


def in_blocks_of(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on a source is read so many pairs at a time, one user at least."""
    usual = _blocks.candidate_blocks.__defaults__ or ()
    assert _blocks.BLOCK_PAIRS in usual
    small = tuple(pairs if value == _blocks.BLOCK_PAIRS else value for value in usual)
    monkeypatch.setattr(_blocks.candidate_blocks, "__defaults__", small)


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


AWKWARD_USERS = {
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
        lists: list[Any] = [user[place] for user in AWKWARD_USERS.values()]
        offsets = np.concatenate([[0], np.cumsum([len(items) for items in lists])])
        items = np.array([item for items in lists for item in items], dtype=np.int32)
        return Interactions(ids, offsets.astype(np.int64), items)

    nothing = Interactions(ids, np.zeros(len(ids.users) + 1, np.int64), np.empty(0, np.int32))
    matrix = np.array([user[0] for user in AWKWARD_USERS.values()])
    return Split(part(1), part(2), nothing, "given"), Dense(matrix, ids)
