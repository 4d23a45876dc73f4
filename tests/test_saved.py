"""Saved models: a loaded one answers bit for bit like the one saved, or says why it can not."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts import as_codes, random_split
from topperk import (
    DCG,
    F1,
    NDCG,
    PDCG,
    TP,
    Candidates,
    ChoiceOfK,
    Custom,
    Dense,
    FBeta,
    FittedK,
    FixedK,
    GlobalPlatt,
    IdIndex,
    Ids,
    NetGain,
    OracleK,
    PersonalizedK,
    PlattCalibration,
    Precision,
    RandomK,
    Reason,
    Recall,
    Uncalibrated,
    UserPlatt,
    Utility,
    ValidationK,
    load,
)
from topperk.calibration import CORRECTIONS, Calibrator
from topperk.errors import SettingError, StorageError, TopperkError
from topperk.scores import ScoreBlock, ScoreSource
from topperk.storage import read_folder, write_folder

N_USERS, N_ITEMS = 12, 20
IDS = Ids.of(users=[f"u{n}" for n in range(N_USERS)], items=range(N_ITEMS))
SPLIT = random_split(IDS, seed=1)
MATRIX = np.random.default_rng(2).normal(-1.0, 1.5, size=(N_USERS, N_ITEMS))
SOURCE = Dense(MATRIX, IDS)
STRANGERS = Dense(MATRIX[:3, :10], Ids.of(users=["u7", "new", "u0"], items=range(4, 14)))

UTILITIES: list[Utility] = [
    NDCG(),
    PDCG(),
    F1(),
    FBeta(0.1),
    TP(),
    Precision(),
    Recall(),
    DCG(),
    NetGain(2, 1 / 3),
    NetGain(np.float32(0.1), np.int64(0)),
    Custom("gains", np.linspace(1.0, 0.1, 10)),
    Custom("ärger", np.ones(30), np.full(30, 0.2), np.linspace(1.0, 0.5, 30)),
    Custom("table", np.ones(10), None, np.random.default_rng(3).random((4, 10))),
]
CALIBRATORS: dict[str, Callable[[Any], Calibrator]] = {
    "own": lambda correction: UserPlatt(correction),
    "population": lambda correction: UserPlatt(correction, prior="population"),
    "global": lambda correction: GlobalPlatt(correction, c=0.3),
    "none": lambda correction: Uncalibrated("logit", correction),
}
METHODS: dict[str, ChoiceOfK] = {
    "personal": PersonalizedK(F1(), max_k=10),
    "maybe none": PersonalizedK(PDCG(), min_k=0, max_k=9),
    "paper": PersonalizedK(NDCG(), 2, 5, method="paper", paper_terms=3),
    "numpy": PersonalizedK(TP(), np.int64(1), np.uint8(4)),
    "fixed": FixedK(7),
    "random": RandomK(-3, 0, 9),
    "large seed": RandomK(2**70, 1, 9),
    "validation": ValidationK(NDCG(), max_k=10),
    "oracle": OracleK(F1(), 0, 10),
}


def answers(model: FittedK, source: ScoreSource) -> list[Any]:
    """All that a model says about a source, to the bit."""
    said: list[Any] = []
    for part in model.blocks(source, on_missing="skip"):
        for array in (part.k, part.expected_utility, part.expected_relevant, part.reasons):
            said.append(array.tobytes())
        for table in (part.items, part.scores, part.probabilities, part.curves):
            said.append((table.dtype.str, table.shape, table.tobytes()))
    return said


def assert_same(loaded: FittedK, model: FittedK, *sources: ScoreSource) -> None:
    """Equal in every attribute and in every answer."""
    for name in ("name", "min_k", "max_k", "fixed_k"):
        assert getattr(loaded, name) == getattr(model, name)
    for one, other in ((loaded.ids.users, model.ids.users), (loaded.ids.items, model.ids.items)):
        assert one == other
        assert one.values.dtype == other.values.dtype
        assert one.outside_type == other.outside_type
    assert loaded.ids.frame_kind == model.ids.frame_kind
    assert loaded.seen.offsets.tobytes() == model.seen.offsets.tobytes()
    assert loaded.seen.items.tobytes() == model.seen.items.tobytes()
    if isinstance(model.calibration, PlattCalibration):
        assert isinstance(loaded.calibration, PlattCalibration)
        assert loaded.calibration.parameters().equals(model.calibration.parameters())
        assert loaded.calibration.convergence == model.calibration.convergence
    for source in sources:
        assert answers(loaded, source) == answers(model, source)
        for verb in ("sizes", "recommend"):
            one = getattr(loaded, verb)(source, on_missing="skip")
            assert one.equals(getattr(model, verb)(source, on_missing="skip"))


# --- round trips ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())
def test_a_loaded_model_of_any_method_answers_bit_for_bit(
    tmp_path: Path, method: ChoiceOfK
) -> None:
    model = method.fit(SOURCE, SPLIT)
    before = answers(model, SOURCE)
    model.save(tmp_path / "m")
    assert answers(model, SOURCE) == before
    assert_same(load(tmp_path / "m"), model, SOURCE, STRANGERS)
    assert_same(load(str(tmp_path / "m")), model, SOURCE)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("kind", CALIBRATORS)
def test_a_loaded_model_of_any_calibration_answers_bit_for_bit(
    tmp_path: Path, kind: str, correction: str
) -> None:
    calibration = CALIBRATORS[kind](correction).fit(SOURCE, SPLIT)
    for utility in (F1(), PDCG(), UTILITIES[-1]):
        model = PersonalizedK(utility, 0, 10, calibrator=calibration).fit(SOURCE, SPLIT)
        model.save(tmp_path / "m")  # over the one before
        assert_same(load(tmp_path / "m"), model, SOURCE, STRANGERS)


@pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: str(utility.name))
def test_a_loaded_model_of_any_utility_answers_bit_for_bit(
    tmp_path: Path, utility: Utility
) -> None:
    model = PersonalizedK(utility, 0, 10).fit(SOURCE, SPLIT)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert_same(loaded, model, SOURCE, STRANGERS)
    assert loaded.curves(SOURCE).equals(model.curves(SOURCE))
    assert loaded.utility is not None
    assert loaded.utility.name == utility.name
    assert type(loaded.utility) is type(utility)
    assert type(utility) is Custom or loaded.utility == utility


def test_probabilities_that_were_taken_as_they_are_stay_so(tmp_path: Path) -> None:
    source = Dense(1.0 / (1.0 + np.exp(-MATRIX)), IDS)
    calibrator = Uncalibrated(scale="probability", correction="ratio")
    model = PersonalizedK(F1(), max_k=5, calibrator=calibrator).fit(source, SPLIT)
    model.save(tmp_path / "m")
    assert_same(load(tmp_path / "m"), model, source)


def test_what_was_loaded_can_be_saved_and_used_like_any_other(tmp_path: Path) -> None:
    for name, method in METHODS.items():
        method.fit(SOURCE, SPLIT).save(tmp_path / name)
        load(tmp_path / name).save(tmp_path / "again")
        (config, arrays), (again, other) = (
            read_folder(tmp_path / folder) for folder in (name, "again")
        )
        assert again == config
        assert {n: a.tobytes() for n, a in other.items()} == {
            n: a.tobytes() for n, a in arrays.items()
        }
    one, model = load(tmp_path / "personal"), METHODS["personal"].fit(SOURCE, SPLIT)
    assert answers(one.for_utility(TP()), SOURCE) == answers(model.for_utility(TP()), SOURCE)


INTEGERS: dict[str, Any] = {
    str(kind): kind
    for kind in (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)
}
unique_strings = st.lists(
    st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=6, unique=True
)


@st.composite
def indexes(draw: st.DrawFn) -> IdIndex:
    """Ids of any kind that can come in, in any order."""
    kind = draw(st.sampled_from(["strings", "categorical", "enum", *INTEGERS]))
    if kind in INTEGERS:
        range_of = np.iinfo(kind.lower())
        integers = st.integers(int(range_of.min), int(range_of.max))
        numbers = st.lists(integers, min_size=1, max_size=6, unique=True)
        return IdIndex.from_values(pl.Series(draw(numbers), dtype=INTEGERS[kind]), "ids")
    strings = pl.Series(draw(unique_strings), dtype=pl.String)
    if kind == "categorical":
        strings = strings.cast(pl.Categorical())
    if kind == "enum":
        more = draw(st.permutations([*strings, *(text + "!" for text in strings)]))
        strings = strings.cast(pl.Enum(list(dict.fromkeys(more))))
    return IdIndex.from_values(strings, "ids")


@settings(max_examples=60)
@given(users=indexes(), items=indexes(), kind=st.sampled_from(["polars", "pandas", "pyarrow"]))
def test_ids_of_any_type_come_back(
    tmp_path_factory: pytest.TempPathFactory, users: IdIndex, items: IdIndex, kind: Any
) -> None:
    path = tmp_path_factory.mktemp("model")
    ids = Ids(users, items, kind)
    rows = np.arange(ids.n_users * ids.n_items, dtype=np.float64).reshape(ids.n_users, -1)
    model = RandomK(1, 0, 1).fit(Dense(rows, ids), random_split(ids, seed=4), on_missing="skip")
    model.save(path / "m")
    assert_same(load(path / "m"), model, Dense(rows, Ids(users, items)))


def test_a_categorical_of_a_frame_leaves_a_loaded_model_as_it_came(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "user_id": pl.Series(np.repeat([3, 1, 2], 4), dtype=pl.UInt8),
            "item_id": pl.Series(["x", "y", "z", "w"] * 3, dtype=pl.Enum(["w", "z", "x", "y"])),
            "score": np.arange(12.0),
        }
    )
    source = Candidates(frame)
    FixedK(2).fit(source, random_split(source.ids, seed=5)).save(tmp_path / "m")
    lists = load(tmp_path / "m").recommend(source, on_missing="skip")
    assert lists.schema["user_id"] == pl.UInt8
    assert lists.schema["item_id"] == pl.Enum(["w", "z", "x", "y"])


def test_a_loaded_model_answers_the_same_in_another_process(tmp_path: Path) -> None:
    wanted = {}
    for name, method in METHODS.items():
        model = method.fit(SOURCE, SPLIT)
        model.save(tmp_path / name)
        wanted[name] = hashlib.sha256(repr(answers(model, SOURCE)).encode()).hexdigest()
    np.save(tmp_path / "matrix.npy", MATRIX)
    script = """
import hashlib, json, pathlib, sys
import numpy as np
from test_saved import IDS, answers
from topperk import Dense, load
root = pathlib.Path(sys.argv[1])
source = Dense(np.load(root / "matrix.npy"), IDS)
models = {path.name: load(path) for path in root.iterdir() if path.is_dir()}
found = {name: repr(answers(model, source)).encode() for name, model in models.items()}
print(json.dumps({name: hashlib.sha256(said).hexdigest() for name, said in found.items()}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parent,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == wanted


# --- what is not topperk's own ----------------------------------------------------------------


def falling(ranks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.exp(-ranks / 4.0)


@dataclass(frozen=True)
class OwnUtility(Utility):
    """Somebody's own: hits count by a power of the rank."""

    power: float = 0.5

    @property
    def name(self) -> str:
        return f"power {self.power}"

    @property
    def counts_all_relevant(self) -> bool:
        return False

    def discount(self, ranks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return ranks**-self.power

    def penalty(self, ranks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.full_like(ranks, 0.1)

    def normaliser(
        self, m: npt.NDArray[np.float64], k: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        return np.ones(np.broadcast_shapes(m.shape, k.shape))


@dataclass(frozen=True)
class OwnF(FBeta):
    """A subclass of a utility of topperk's, which is not that utility."""

    def discount(self, ranks: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return 0.5 * super().discount(ranks)


@pytest.mark.parametrize(
    "utility",
    [
        Custom("clicks", falling),
        Custom("clicks", [1.0] * 9, falling),
        Custom("clicks", [1.0] * 9, None, lambda m, k: 1.0 / (m + k)),
        OwnUtility(0.3),
        OwnF(1.0),
    ],
    ids=["discount", "penalty", "normaliser", "own", "subclass"],
)
def test_a_utility_of_functions_has_to_be_passed_again(tmp_path: Path, utility: Utility) -> None:
    model = PersonalizedK(utility, max_k=9).fit(SOURCE, SPLIT)
    model.save(tmp_path / "m")
    words = rf"m was fitted for a utility of your own, '{utility.name}'\. Pass it again: load"
    with pytest.raises(SettingError, match=words):
        load(tmp_path / "m")
    with pytest.raises(SettingError, match=rf"'{utility.name}'\. Pass that one; 'NDCG' was given"):
        load(tmp_path / "m", utility=NDCG())
    assert_same(load(tmp_path / "m", utility=utility), model, SOURCE, STRANGERS)


def test_what_a_model_stores_itself_is_not_taken_from_the_caller(tmp_path: Path) -> None:
    another: Any = UserPlatt
    for name, method in METHODS.items():
        model = method.fit(SOURCE, SPLIT)
        model.save(tmp_path / name)
        personal = model.utility is not None
        cure = r"load\(path\)\.for_utility" if personal else "has no utility. Leave utility out"
        with pytest.raises(SettingError, match=f"{name} .*{cure}"):
            load(tmp_path / name, utility=NDCG())
        cure = "stores its own calibration" if personal else "has no calibration"
        with pytest.raises(SettingError, match=f"{name} .*{cure}"):
            load(tmp_path / name, calibration=another)
        if personal:
            assert_same(load(tmp_path / name, calibration=PlattCalibration), model, SOURCE)
            other = load(tmp_path / name).for_utility(NDCG())
            assert_same(other, model.for_utility(NDCG()), SOURCE, STRANGERS)


def test_a_calibration_of_ones_own_has_to_be_named_again(tmp_path: Path) -> None:
    @dataclass(frozen=True)
    class Halves:
        """Everything above a threshold is likely."""

        users: IdIndex
        threshold: npt.NDArray[np.float64]

        def probabilities(
            self, block: ScoreBlock, rows: npt.NDArray[np.int32]
        ) -> npt.NDArray[np.float64]:
            p = np.where(block.scores > self.threshold[0], 0.5, 0.1)
            return np.where(block.scores > -np.inf, p, 0.0)

        def reasons(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
            return np.full(rows.size, Reason.POOLED_FIT.code, dtype=np.uint8)

        def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
            return {"likely": 0.5}, {"threshold": self.threshold}

        @classmethod
        def from_state(
            cls, users: IdIndex, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
        ) -> Halves:
            assert config == {"likely": 0.5}
            return cls(users, arrays["threshold"])

    own = Halves(IDS.users, np.array([0.25]))
    model = PersonalizedK(F1(), max_k=9, calibrator=own).fit(SOURCE, SPLIT)
    model.save(tmp_path / "m")
    with pytest.raises(SettingError, match=r"type Halves, which is not topperk's own\. Pass the"):
        load(tmp_path / "m")
    assert_same(load(tmp_path / "m", calibration=Halves), model, SOURCE)


# --- what is no model -------------------------------------------------------------------------


def _a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def _manifest_says(model: Path, **changed: Any) -> None:
    path = model / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lambda m: m.rename(m.parent / "elsewhere"), "there is no model at"),
        (lambda m: (m / "manifest.json").unlink(), "not a topperk model.*Pass the folder"),
        (lambda m: _manifest_says(m, format="other"), "not a topperk model.*does not say so"),
        (lambda m: _manifest_says(m, format_version=99), "format version 99.*Upgrade topperk"),
        (lambda m: _manifest_says(m, config={}), "damaged.*its own checksum.*fit and save again"),
        (lambda m: next(m.glob("data-*/seen.items.npy")).unlink(), r"damaged.*seen\.items\.npy"),
        (lambda m: _a_byte(next(m.glob("data-*/calibration.slope.npy"))), "damaged.*slope.npy"),
        (lambda m: _a_byte(next(m.glob("data-*/users.bytes.npy"))), "damaged.*users.bytes.npy"),
    ],
)
def test_a_damaged_folder_is_refused_by_name(tmp_path: Path, harm: Any, words: str) -> None:
    METHODS["personal"].fit(SOURCE, SPLIT).save(tmp_path / "m")
    harm(tmp_path / "m")
    with pytest.raises(StorageError, match=words) as caught:
        load(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the folders of all methods hold, and of one with arrays for a utility."""
    root, found = tmp_path_factory.mktemp("stored"), {}
    own = PersonalizedK(Custom("own", np.ones(9), np.ones(9), np.ones((2, 9))), max_k=9)
    for name, method in {**METHODS, "custom": own}.items():
        method.fit(SOURCE, SPLIT).save(root / name)
        found[name] = read_folder(root / name)
    return found


def changed_copy(
    stored: tuple[dict[str, Any], dict[str, Any]], change: Callable[[Any, Any], object], path: Path
) -> Path:
    """A folder in which every checksum is right, but that no save wrote."""
    config, arrays = json.loads(json.dumps(stored[0])), dict(stored[1])
    change(config, arrays)
    write_folder(path, config, arrays)
    return path


NAN = np.full(N_USERS + 1, np.nan)
SEEN_TOO_MUCH = np.full(3, N_ITEMS, dtype=np.int32)


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("personal", lambda c, a: a.pop("seen.items"), "there is no 'seen.items'"),
        ("personal", lambda c, a: a.update({"seen.items": SEEN_TOO_MUCH}), "seen.offsets"),
        ("personal", lambda c, a: a["seen.items"].fill(N_ITEMS), "other items than the 20 known"),
        ("personal", lambda c, a: a["seen.offsets"].fill(0), "does not ascend from 0"),
        (
            "personal",
            lambda c, a: a.update({"seen.items": a["seen.items"].astype(np.int64)}),
            r"'seen.items' is int64 .* int32 of shape \(any,\) is needed",
        ),
        (
            "personal",
            lambda c, a: a.update({"calibration.slope": a["calibration.slope"][:-1]}),
            r"'slope' is float64 of shape \(12,\); float64 of shape \(13,\) is needed",
        ),
        (
            "personal",
            lambda c, a: a.update({"calibration.slope": NAN}),
            "'slope' holds NaN or infinity",
        ),
        (
            "personal",
            lambda c, a: a.update({"calibration.converged": NAN}),
            "'converged' is float64",
        ),
        ("personal", lambda c, a: a["calibration.reason"].fill(200), "a reason has the code 200"),
        ("personal", lambda c, a: c.update(min_k=11), "min_k is 11 and max_k 10"),
        ("personal", lambda c, a: c.update(max_k=0), "max_k is 0"),
        ("personal", lambda c, a: c.update(max_k=True), "max_k is True"),
        ("personal", lambda c, a: c.update(max_k=9), "max_k is 9 and 10"),
        ("personal", lambda c, a: c.update(frame_kind="spark"), "frame_kind is 'spark'"),
        ("personal", lambda c, a: c.update(name=7), "name is 7"),
        ("personal", lambda c, a: c.pop("policy"), "there is no 'policy'"),
        ("personal", lambda c, a: c["users"].update(type="set"), "the type of users is 'set'"),
        ("personal", lambda c, a: c["items"].update(type="enum"), "items.enum.bytes"),
        ("personal", lambda c, a: c["items"].update(type="categorical"), "a type for strings"),
        ("personal", lambda c, a: a["users.bytes"].fill(255), "they are not UTF-8"),
        ("personal", lambda c, a: a["items.integers"].fill(4), "4 more than once"),
        ("personal", lambda c, a: c["policy"].update(kind="mood"), "the kind is 'mood'"),
        ("personal", lambda c, a: c["policy"].update(method="fast"), "the method 'fast'"),
        ("personal", lambda c, a: c["policy"].update(paper_terms=0), "paper_terms is 0"),
        (
            "personal",
            lambda c, a: c["policy"]["utility"].update(kind="Happiness"),
            "there is no 'Happiness'",
        ),
        (
            "personal",
            lambda c, a: c["policy"]["utility"].update(settings={"beta": "1"}),
            r"the settings of FBeta are \{'beta': '1'\}",
        ),
        (
            "personal",
            lambda c, a: c["policy"]["utility"].update(settings={"alpha": 1.0}),
            "alpha",
        ),
        (
            "personal",
            lambda c, a: c["policy"]["utility"].update(settings={"beta": -1.0}),
            "beta",
        ),
        (
            "personal",
            lambda c, a: c["policy"]["calibration"]["settings"].update(correction="half"),
            "'half' are no settings",
        ),
        (
            "personal",
            lambda c, a: c["policy"]["calibration"]["settings"].update(reasons=["MOOD"]),
            "there is no 'MOOD'",
        ),
        ("custom", lambda c, a: a.pop("utility.discounts"), "no 'utility.discounts'"),
        ("custom", lambda c, a: a.update({"utility.discounts": np.ones(8)}), "given for 8 ranks"),
        (
            "custom",
            lambda c, a: a.update({"utility.normalisers": np.ones((2, 9), np.float32)}),
            "'utility.normalisers' is float32",
        ),
        ("fixed", lambda c, a: a["lengths"].fill(8), "'lengths' leaves 0..7"),
        ("fixed", lambda c, a: a["lengths"].fill(-1), "'lengths' leaves 0..7"),
        ("fixed", lambda c, a: a.update(lengths=a["lengths"][1:]), r"shape \(12,\)"),
        ("validation", lambda c, a: a.pop("reasons"), "there is no 'reasons'"),
        ("random", lambda c, a: c["policy"].update(seed=0.5), "the seed is 0.5"),
        ("random", lambda c, a: c["policy"].pop("max_k"), "there is no 'max_k'"),
    ],
)
def test_what_no_save_writes_is_refused_though_every_checksum_is_right(
    tmp_path: Path, stored: dict[str, Any], name: str, change: Any, words: str
) -> None:
    config, arrays = stored[name]
    original = {n: array.copy() for n, array in arrays.items()}
    path = changed_copy((config, original), change, tmp_path / "m")
    with pytest.raises(StorageError, match=words) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path} is a topperk folder but not a whole model (")
    assert message.endswith("). Save the model again.")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to every value in a configuration."""
    inner = value.items() if isinstance(value, dict) else ()
    inner = enumerate(value) if isinstance(value, list) else inner
    for key, one in inner:
        yield (*path, key)
        yield from places(one, (*path, key))


anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([2**31, 2**70, -0.5, 1e300, "", "x", [], {}, [1], {"kind": "own"}]),
    st.sampled_from(["own", "arrays", "table", "random", "odds", "probability", "enum", "paper"]),
)


@settings(max_examples=60)
@given(data=st.data())
def test_any_other_configuration_is_refused_or_is_a_model(
    tmp_path_factory: pytest.TempPathFactory, stored: dict[str, Any], data: st.DataObject
) -> None:
    config, arrays = stored[data.draw(st.sampled_from(sorted(stored)))]
    *way, last = data.draw(st.sampled_from(list(places(config))))
    value = data.draw(anything)

    def change(config: Any, arrays: Any) -> None:
        for key in way:
            config = config[key]
        config[last] = value

    path = changed_copy((config, arrays), change, tmp_path_factory.mktemp("m") / "m")
    try:
        model = load(path)
    except TopperkError:
        return
    assert_answers(model)


def other_array(draw: st.DrawFn, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array that differs in one respect, or in none."""
    return draw(
        st.sampled_from(
            [
                array[1:],
                np.concatenate([array, array[-1:]]),
                array[None],
                array[::-1],
                np.zeros_like(array),
                np.full_like(array, np.iinfo(array.dtype).max if array.dtype.kind in "iu" else 1),
                array.astype(np.float32),
                array.astype(np.int16),
                array.astype(array.dtype.newbyteorder(">")),
                array[:0],
            ]
        )
    )


@settings(max_examples=60)
@given(data=st.data())
def test_any_other_arrays_are_refused_or_are_a_model(
    tmp_path_factory: pytest.TempPathFactory, stored: dict[str, Any], data: st.DataObject
) -> None:
    config, arrays = stored[data.draw(st.sampled_from(sorted(stored)))]
    name = data.draw(st.sampled_from(sorted(arrays)))
    other = other_array(data.draw, arrays[name])

    def change(config: Any, arrays: Any) -> None:
        arrays[name] = other

    path = changed_copy((config, arrays), change, tmp_path_factory.mktemp("m") / "m")
    try:
        model = load(path)
    except TopperkError:
        return
    assert_answers(model)


def assert_answers(model: FittedK) -> None:
    """Whatever was loaded is whole: it answers, or refuses the scores by an error of its own."""
    try:
        sizes = model.sizes(SOURCE, on_missing="skip")
    except TopperkError:
        return
    assert sizes["k"].is_between(0, model.max_k).all()
    assert model.recommend(SOURCE, on_missing="skip").height == sizes["k"].sum()
    codes = as_codes([0, -1])
    if model.calibration is not None:
        assert {Reason.of(int(code)) for code in model.calibration.reasons(codes)} <= set(Reason)
