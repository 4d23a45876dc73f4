"""Bad input, one table: each row in Python and through the command line.

Every row gets one of topperk's own errors, in a sentence or two with what, where and the cure; the
command line leaves with 1, says it on stderr, and nothing is written or overwritten. What is bad
for one user among many and may be passed over (``on_missing="skip"``) gets a recorded reason.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import topperk as tp
from topperk import errors
from topperk.datasets.simulated import simulate_world
from topperk.edges.cli import run
from topperk.errors import (
    CalibrationError,
    ColumnError,
    FileFormatError,
    IdError,
    InputError,
    ScoreError,
    SettingError,
    StorageError,
    TopperkError,
)

N_USERS, N_ITEMS, MAX_K = 12, 20, 5
METHOD = tp.PersonalizedK(tp.F1(), max_k=MAX_K)
SIDES = {"user_vectors": N_USERS, "item_vectors": N_ITEMS}
Arrays = dict[str, Any]


# --- a small, good body of data ---------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """A folder with good files, in which a bad one is put; the same things as objects.

    ``ratings.csv``, ``parts/``, ``factors.npz``, ``candidates.parquet`` and ``good.topperk``;
    users are strings from u00, items integers from 0.
    """

    folder: Path
    ratings: pl.DataFrame
    candidates: pl.DataFrame
    arrays: Arrays

    @property
    def split(self) -> tp.Split:
        return tp.split_random(tp.read_interactions(self.ratings))

    @property
    def model(self) -> tp.FittedK:
        return METHOD.fit(factors(self.arrays), self.split)

    def frame(self, name: str, content: pl.DataFrame) -> str:
        """A file of a table; its name."""
        content.write_parquet(self.folder / name)
        return name

    def file(self, name: str, content: bytes) -> str:
        """A file of these bytes; its name."""
        (self.folder / name).write_bytes(content)
        return name

    def npz(self, name: str, content: Arrays) -> str:
        """A file of factors; its name."""
        np.savez(self.folder / name, **content)
        return name


def factors(arrays: Arrays) -> tp.Factors:
    ids = tp.Ids.of(arrays["user_ids"], arrays["item_ids"])
    return tp.Factors(
        arrays["user_vectors"], arrays["item_vectors"], ids, item_biases=arrays.get("item_biases")
    )


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Place:
    rng = np.random.default_rng(5)
    folder = tmp_path_factory.mktemp("good")
    users = [f"u{n:02d}" for n in range(N_USERS)]
    # item n is everybody's but user n's, so that every item is known and nobody knows all
    pairs = [
        (user, item)
        for code, user in enumerate(users)
        for item in range(N_ITEMS)
        if (item + code) % 2 and item % N_USERS != code
    ]
    ratings = pl.DataFrame(pairs, schema=["user_id", "item_id"], orient="row")
    ratings = ratings.with_columns(rating=pl.lit(4.0))
    arrays = {
        "user_vectors": rng.normal(size=(N_USERS, 3)),
        "item_vectors": rng.normal(size=(N_ITEMS, 3)),
        "user_ids": np.array(users),
        "item_ids": np.arange(N_ITEMS),
    }
    rows = (arrays["user_vectors"] @ arrays["item_vectors"].T).ravel()
    candidates = pl.DataFrame(
        {
            "user_id": np.repeat(users, N_ITEMS).tolist(),
            "item_id": np.tile(np.arange(N_ITEMS), N_USERS),
            "score": rows,
        }
    )
    place = Place(folder, ratings, candidates, arrays)
    ratings.write_csv(folder / "ratings.csv")
    (folder / "parts").mkdir()
    for name, part in place.split.parts().items():
        part.to_frame().write_parquet(folder / "parts" / f"{name}.parquet")
    place.npz("factors.npz", arrays)
    place.frame("candidates.parquet", candidates)
    place.model.save(folder / "good.topperk")
    return place


@pytest.fixture
def place(good: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A copy of the good files, as the current folder."""
    folder = tmp_path / "here"
    shutil.copytree(good.folder, folder)
    monkeypatch.chdir(folder)
    return replace(good, folder=folder)


# --- the table --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bad:
    """A row: the two ways to make it, and what is said. ``python`` and ``command`` write files."""

    what: str
    python: Callable[[Place], object]
    command: Callable[[Place], list[str]]
    error: type[TopperkError]
    says: str


def fit(interactions: str, scores: str, *more: str, max_k: int = MAX_K) -> list[str]:
    """The arguments of a fit that would replace the good model."""
    return ["fit", interactions, scores, "good.topperk", "--max-k", f"{max_k}", *more]


def bad_candidates(
    what: str,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    error: type[TopperkError],
    says: str,
    *more: str,
    method: tp.PersonalizedK = METHOD,
) -> Bad:
    return Bad(
        what,
        lambda place: method.fit(tp.Candidates(change(place.candidates)), place.split).save(
            "good.topperk"
        ),
        lambda place: fit("parts", place.frame("bad.parquet", change(place.candidates)), *more),
        error,
        says,
    )


def bad_factors(
    what: str, change: Callable[[Arrays], Arrays], error: type[TopperkError], says: str
) -> Bad:
    return Bad(
        what,
        lambda place: METHOD.fit(factors(place.arrays | change(place.arrays)), place.split).save(
            "good.topperk"
        ),
        lambda place: fit("parts", place.npz("bad.npz", place.arrays | change(place.arrays))),
        error,
        says,
    )


def bad_ratings(
    what: str,
    change: Callable[[pl.DataFrame], pl.DataFrame],
    error: type[TopperkError],
    says: str,
    options: dict[str, str] | None = None,
) -> Bad:
    options = options or {}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    named: dict[str, Any] = {name.replace("-", "_"): value for name, value in options.items()}
    return Bad(
        what,
        lambda place: METHOD.fit(
            factors(place.arrays),
            tp.split_random(tp.read_interactions(change(place.ratings), **named)),
        ).save("good.topperk"),
        lambda place: fit(place.frame("bad.parquet", change(place.ratings)), "factors.npz", *words),
        error,
        says,
    )


def bad_file(
    name: str, content: Callable[[Place], bytes], says: str, error: type[TopperkError]
) -> list[Bad]:
    """A file that is no table, as interactions and as scores."""
    as_ratings = Bad(
        f"interactions: {name} {says}",
        lambda place: tp.read_interactions(place.file(name, content(place))),
        lambda place: fit(place.file(name, content(place)), "factors.npz"),
        error,
        says,
    )
    as_scores = Bad(
        f"scores: {name} {says}",
        lambda place: tp.load_scores(place.file(name, content(place))),
        lambda place: fit("parts", place.file(name, content(place))),
        error,
        says,
    )
    return [as_scores] if name.endswith(".npz") else [as_ratings, as_scores]


def at(row: int, column: str, value: Any) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """One value of a frame replaced."""

    def change(frame: pl.DataFrame) -> pl.DataFrame:
        chosen = pl.int_range(pl.len()) == row
        kept = pl.when(chosen).then(pl.lit(value, frame.schema[column])).otherwise(column)
        return frame.with_columns(kept.alias(column))

    return change


def first_user(score: float) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """All scores of the first user replaced."""
    own = pl.when(pl.col("user_id") == "u00").then(score).otherwise("score")
    return lambda frame: frame.with_columns(score=own)


def spoilt(name: str, row: int, value: float) -> Callable[[Arrays], Arrays]:
    """One row of an array replaced."""

    def change(arrays: Arrays) -> Arrays:
        array = arrays[name].copy()
        array[row] = value
        return {name: array}

    return change


def everything_seen(frame: pl.DataFrame) -> pl.DataFrame:
    """Everybody took every item."""
    pairs = frame.select("user_id").unique().join(frame.select("item_id").unique(), how="cross")
    return pairs.sort(pl.all())


def recommend(scores: str, *more: str) -> list[str]:
    """The arguments of lists that would replace an old file."""
    return ["recommend", "good.topperk", scores, "--output", "old.csv", *more]


def few_items(place: Place) -> pl.DataFrame:
    return place.candidates.filter(pl.col("item_id") < MAX_K - 1)


def without_validation(place: Place) -> pl.DataFrame:
    """Everybody's candidates but those of the validation part."""
    held = place.split.validation.to_frame()
    return place.candidates.join(held, on=["user_id", "item_id"], how="anti")


def damaged() -> str:
    """The good model with one bit of an array turned over."""
    shutil.copytree("good.topperk", "bad.topperk")
    array = next(Path("bad.topperk").glob("data-*/calibration.slope.npy"))
    content = bytearray(array.read_bytes())
    content[-1] ^= 1
    array.write_bytes(content)
    return "bad.topperk"


def of_functions(place: Place) -> str:
    """A model for a utility that is made of a function, which no folder can hold."""
    clicks = tp.Custom("clicks", discount=lambda ranks: 1.0 / ranks)
    settings = tp.PersonalizedK(clicks, max_k=MAX_K)
    settings.fit(factors(place.arrays), place.split).save("own.topperk")
    return "own.topperk"


def missing(name: str = "") -> str:
    """A place in a folder that is not there."""
    return str(Path("nowhere", name))


def locked(name: str = "") -> str:
    """A place in a folder that can be read only."""
    Path("locked").mkdir(mode=0o555, exist_ok=True)
    return str(Path("locked", name))


def foreign(name: str = "") -> str:
    """A folder that holds something else."""
    return "parts"


def occupied(name: str = "") -> str:
    """A file where a folder should be."""
    return "ratings.csv"


ROWS: list[Bad] = [
    # NaN and infinite scores
    bad_candidates(
        "a score is NaN",
        at(23, "score", float("nan")),
        ScoreError,
        r"score of item 3 for user 'u01' is NaN\. Give a finite score, or minus infinity",
    ),
    bad_candidates(
        "a score is missing",
        at(23, "score", None),
        ScoreError,
        r"score of item 3 for user 'u01' is missing\. Give a finite score",
    ),
    bad_candidates(
        "a score is plus infinity",
        at(23, "score", float("inf")),
        ScoreError,
        r"score of item 3 for user 'u01' is plus infinity\. Give a finite score",
    ),
    bad_candidates(
        "scores are text",
        lambda frame: frame.with_columns(score=pl.lit("high")),
        ScoreError,
        r"column 'score' of .* holds String, not numbers\. Name the column of scores",
    ),
    bad_factors(
        "a user's vector is NaN",
        spoilt("user_vectors", 1, float("nan")),
        ScoreError,
        r"user_vectors contain NaN or infinity in the row of 'u01'\. Train the model again, or",
    ),
    bad_factors(
        "an item's vector is infinite",
        spoilt("item_vectors", 7, -float("inf")),
        ScoreError,
        r"item_vectors contain NaN or infinity in the row of 7\. Train the model again, or",
    ),
    bad_factors(
        "an item's bias is infinite",
        lambda arrays: {"item_biases": np.full(N_ITEMS, np.inf)},
        ScoreError,
        r"item_biases contain NaN or infinity in the row of 0\. Train the model again, or",
    ),
    bad_factors(
        "finite vectors whose product is not",
        lambda arrays: {name: np.full((n, 3), 1e200) for name, n in SIDES.items()},
        ScoreError,
        r"score of item 0 for user 'u00' is plus infinity\. Give a finite score",
    ),
    # probabilities
    *(
        bad_candidates(
            f"a probability is {value}",
            lambda frame, value=value: at(23, "score", value)(
                frame.with_columns(score=pl.lit(0.25) + pl.col("item_id") / 100)
            ),
            ScoreError,
            rf"a score is {value}, which is no probability\. Use (scale='logit', or|another "
            r"--calibrator\.)",
            "--calibrator",
            "probability",
            method=tp.PersonalizedK(
                tp.F1(), max_k=MAX_K, calibrator=tp.Uncalibrated("probability")
            ),
        )
        for value in (1.5, -0.25)
    ),
    # factors and ids of different sizes
    bad_factors(
        "fewer user vectors than ids",
        lambda arrays: {"user_vectors": arrays["user_vectors"][1:]},
        ScoreError,
        rf"user_vectors count {N_USERS - 1} but the ids hold {N_USERS} users\. Pass the ids",
    ),
    bad_factors(
        "more item vectors than ids",
        lambda arrays: {"item_ids": arrays["item_ids"][:-2]},
        ScoreError,
        rf"item_vectors count {N_ITEMS} but the ids hold {N_ITEMS - 2} items\. Pass the ids",
    ),
    bad_factors(
        "vectors of two models",
        lambda arrays: {"item_vectors": arrays["item_vectors"][:, :2]},
        ScoreError,
        r"user_vectors have 3 factors and item_vectors 2\. Pass the two sides of one model",
    ),
    bad_factors(
        "biases for other items",
        lambda arrays: {"item_biases": np.zeros(3)},
        ScoreError,
        rf"item_biases count 3 but the ids hold {N_ITEMS} items\. Pass the ids",
    ),
    bad_factors(
        "vectors without rows",
        lambda arrays: {"user_vectors": arrays["user_vectors"].ravel()},
        ScoreError,
        r"user_vectors has shape \(36,\) .* numbers are needed, a row for each user or item",
    ),
    Bad(
        "factors without ids",
        lambda place: tp.load_scores(place.npz("bad.npz", {"user_vectors": np.ones((2, 2))})),
        lambda place: fit("parts", place.npz("bad.npz", {"user_vectors": np.ones((2, 2))})),
        FileFormatError,
        r"bad\.npz holds the arrays user_vectors; item_vectors, user_ids, item_ids are missing\. "
        "Write them with",
    ),
    # columns
    bad_ratings(
        "no column of users",
        lambda frame: frame.rename({"user_id": "uzer"}),
        ColumnError,
        r"no column for user_id \(the nearest is 'uzer'\)\. Its columns are 'uzer', 'item_id', "
        r"'rating'; name one",
    ),
    bad_ratings(
        "a column that is not there is named",
        lambda frame: frame,
        ColumnError,
        r"no column 'itemid' \(the nearest is 'item_id'\)\. Its columns are 'user_id'",
        {"item-id": "itemid"},
    ),
    bad_candidates(
        "no column of scores",
        lambda frame: frame.rename({"score": "scores"}),
        ColumnError,
        r"no column for score \(the nearest is 'scores'\)\. Its columns are .*'scores'; name one",
    ),
    bad_candidates(
        "two columns of items",
        lambda frame: frame.rename({"item_id": "item"}).with_columns(movieId="item"),
        ColumnError,
        r"has 'item' and 'movieId', and each could be the item_id\. Name the right one",
    ),
    # ids
    bad_ratings(
        "a user is null",
        at(3, "user_id", None),
        IdError,
        r"column 'user_id' of .*: 1 of \d+ ids are missing, the first in row 4\. Drop",
    ),
    bad_ratings(
        "an item is null",
        at(3, "item_id", None),
        IdError,
        r"column 'item_id' of .*: 1 of \d+ ids are missing, the first in row 4\. Drop",
    ),
    bad_candidates(
        "a candidate's item is null",
        at(3, "item_id", None),
        IdError,
        r"column 'item_id' of .*: 1 of \d+ ids are missing, the first in row 4\. Drop",
    ),
    bad_ratings(
        "ids are decimal numbers",
        lambda frame: frame.with_columns(pl.col("item_id") + 0.5),
        IdError,
        r"column 'item_id' of .*: the ids are decimal numbers .*\. Cast them to integers or",
    ),
    bad_ratings(
        "strings on one side, integers on the other",
        lambda frame: frame.with_columns(pl.col("item_id").cast(pl.String)),
        IdError,
        r"the interactions' items: found strings \(such as '0'\), but the known ids are integers "
        r"\(such as 0\)\. Cast one side",
    ),
    Bad(
        "ids of mixed types",
        lambda place: tp.read_interactions({"user_id": [1, "a"], "item_id": [1, 2]}),
        lambda place: fit(
            place.file(
                "bad.jsonl",
                b'{"user_id": 1, "item_id": 1}\n{"user_id": "a", "item_id": 2}\n',
            ),
            "factors.npz",
        ),
        IdError,
        r"mixe[sd].*\. (Cast all ids to integers or all to strings|Write all ids as numbers or "
        r"all in quotes)",
    ),
    bad_candidates(
        "a candidate occurs twice",
        lambda frame: pl.concat([frame, frame[23:25]]),
        IdError,
        r"item 3 occurs more than once for user 'u01' \(2 repetitions in all\)\. Keep one score",
    ),
    Bad(
        "factors whose ids repeat",
        lambda place: factors(place.arrays | {"item_ids": np.repeat(range(N_ITEMS // 2), 2)}),
        lambda place: fit(
            "parts",
            place.npz("bad.npz", place.arrays | {"item_ids": np.repeat(range(N_ITEMS // 2), 2)}),
        ),
        IdError,
        r"item ids: \d+ is given more than once, and so are 9 others\. Give each id once",
    ),
    # what only one side knows
    bad_factors(
        "the scores have a user too many",
        lambda arrays: {"user_ids": np.array(["u99", *arrays["user_ids"][1:]])},
        IdError,
        r"user 'u99' of the scores is not among the interactions\. Bring the two to the same",
    ),
    bad_candidates(
        "the scores lack users",
        lambda frame: frame.filter(pl.col("user_id") > "u01"),
        IdError,
        r"user 'u00' of the interactions is not among the scores \(nor is 1 other\)\. Bring",
    ),
    bad_factors(
        "the scores have an item too many",
        lambda arrays: {"item_ids": np.array([99, *arrays["item_ids"][1:]])},
        IdError,
        r"item 99 of the scores is not among the interactions\. Bring the two to the same items",
    ),
    bad_ratings(
        "the interactions have an item too many",
        lambda frame: pl.concat([frame, frame[:1].with_columns(item_id=pl.lit(77, pl.Int64))]),
        IdError,
        r"item 77 of the interactions is not among the scores\. Bring the two to the same items",
    ),
    # nothing to learn from
    Bad(
        "no validation at all",
        lambda place: METHOD.fit(
            factors(place.arrays),
            tp.split_random(tp.read_interactions(place.ratings), validation=0.0),
        ),
        lambda place: fit("ratings.csv", "factors.npz", "--validation", "0"),
        CalibrationError,
        r"no validation interaction is among the candidates, .*\. Hold out a larger validation",
    ),
    Bad(
        "no validation item among the candidates",
        lambda place: METHOD.fit(tp.Candidates(without_validation(place)), place.split),
        lambda place: fit("parts", place.frame("bad.parquet", without_validation(place))),
        CalibrationError,
        r"no validation interaction is among the candidates, .*, or check that the scores belong",
    ),
    bad_candidates(
        "all scores are the same",
        lambda frame: frame.with_columns(score=pl.lit(0.5)),
        ScoreError,
        r"all \d+ scores are 0\.5, so no item is better than another\. Check that the model is",
    ),
    bad_factors(
        "vectors of nothing but zeros",
        lambda arrays: {"user_vectors": np.zeros((N_USERS, 3))},
        ScoreError,
        r"all \d+ scores are 0, so no item is better than another\. Check that the model is",
    ),
    Bad(
        "everybody has seen everything",
        lambda place: METHOD.fit(
            factors(place.arrays),
            tp.split_random(tp.read_interactions(everything_seen(place.ratings)), 0.0, 0.0),
        ),
        lambda place: fit(
            place.frame("all.parquet", everything_seen(place.ratings)),
            *("factors.npz", "--validation", "0", "--test", "0"),
        ),
        ScoreError,
        r"user 'u00' has no candidate: every scored item is in training or minus infinity\. Drop",
    ),
    bad_candidates(
        "a user has no candidate when fitting",
        first_user(-np.inf),
        ScoreError,
        r"user 'u00' has no candidate: .*\. Drop the user, or pass "
        r"(on_missing='skip'|--on-missing skip)",
    ),
    Bad(
        "a user has no candidate when lists are made",
        lambda place: tp.load("good.topperk").recommend(
            tp.Candidates(first_user(-np.inf)(place.candidates))
        ),
        lambda place: recommend(place.frame("bad.parquet", first_user(-np.inf)(place.candidates))),
        ScoreError,
        r"user 'u00' has no candidate left: .*\. Leave the user out, or pass "
        r"(on_missing='skip'|--on-missing skip)",
    ),
    # limits of lengths
    Bad(
        "max_k above the number of items",
        lambda place: tp.PersonalizedK(tp.F1(), max_k=50).fit(factors(place.arrays), place.split),
        lambda place: fit("parts", "factors.npz", max_k=50),
        SettingError,
        r"max_k is 50 but the scores hold only 20 items\. Make max_k at most 20",
    ),
    Bad(
        "a model for longer lists than there are items",
        lambda place: tp.load("good.topperk").recommend(tp.Candidates(few_items(place))),
        lambda place: recommend(place.frame("bad.parquet", few_items(place))),
        SettingError,
        r"max_k is 5 but the scores hold only 4 items\. Fit with max_k of at most 4",
    ),
    Bad(
        "min_k above max_k",
        lambda place: tp.PersonalizedK(tp.F1(), min_k=7, max_k=6),
        lambda place: fit("parts", "factors.npz", "--min-k", "7", max_k=6),
        SettingError,
        r"min_k is 7 and max_k 6\. Make min_k at most max_k",
    ),
    Bad(
        "a negative min_k",
        lambda place: tp.PersonalizedK(tp.F1(), min_k=-1),
        lambda place: fit("parts", "factors.npz", "--min-k=-1"),
        SettingError,
        r"min_k is -1\. Give a whole number of at least 0",
    ),
    Bad(
        "max_k of zero",
        lambda place: tp.PersonalizedK(tp.F1(), min_k=0, max_k=0),
        lambda place: fit("parts", "factors.npz", "--min-k", "0", max_k=0),
        SettingError,
        r"max_k is 0, so every list would be empty\. Make it at least 1",
    ),
    # other settings
    Bad(
        "a utility that is none",
        lambda place: tp.utility_named("ncdg"),
        lambda place: fit("parts", "factors.npz", "--utility", "ncdg"),
        SettingError,
        r"'ncdg'.*ndcg",
    ),
    Bad(
        "shares that leave nothing",
        lambda place: tp.split_random(tp.read_interactions("ratings.csv"), 0.6, 0.4),
        lambda place: fit("ratings.csv", "factors.npz", "--validation", "0.6", "--test", "0.4"),
        SettingError,
        r"validation 0\.6 and test 0\.4 leave nothing for training\. Make their sum",
    ),
    Bad(
        "the latest without times",
        lambda place: tp.split_last(tp.read_interactions("ratings.csv")),
        lambda place: fit(
            *("ratings.csv", "factors.npz", "--split", "last", "--validation=1", "--test=1")
        ),
        InputError,
        r"timestamp.*\. ",
    ),
    Bad(
        "a user without scores",
        lambda place: tp.load("good.topperk").sizes(factors(place.arrays), ["u77"]),
        lambda place: recommend("factors.npz", "--user", "u77"),
        IdError,
        r"there are no scores for user 'u77'\. (Choose among|The scores hold).* 12 users",
    ),
    # files
    *bad_file("no.csv", lambda place: b"", r"no\.csv is empty\. Give a file that", FileFormatError),
    *bad_file("no.parquet", lambda place: b"", r"no\.parquet is empty\. Give", FileFormatError),
    *bad_file(
        "no.npz",
        lambda place: b"",
        r"no\.npz is not an .* \(it is empty\)\. Write",
        FileFormatError,
    ),
    *bad_file(
        "head.csv",
        lambda place: b"user_id,item_id,score\n",
        r"head\.csv (has|hold) no rows\. (Give|Pass) at least one",
        InputError,
    ),
    *bad_file(
        "table.csv",
        lambda place: Path("candidates.parquet").read_bytes(),
        r"table\.csv is named as CSV, but it is a Parquet file\. Give it the suffix",
        FileFormatError,
    ),
    *bad_file(
        "table.parquet",
        lambda place: Path("ratings.csv").read_bytes(),
        r"table\.parquet is named as Parquet, but it is text\. Give it the suffix",
        FileFormatError,
    ),
    *bad_file(
        "table.jsonl",
        lambda place: Path("ratings.csv").read_bytes(),
        r"table\.jsonl can not be read as JSON lines \(.*\)\. The file is damaged, or is not",
        FileFormatError,
    ),
    *bad_file(
        "cut.parquet",
        lambda place: Path("candidates.parquet").read_bytes()[:-9],
        r"cut\.parquet can not be read as Parquet \(.*\)\. The file is damaged, or is not",
        FileFormatError,
    ),
    *bad_file(
        "table.npz",
        lambda place: Path("ratings.csv").read_bytes(),
        r"table\.npz is not an \.npz of plain arrays \(it is no archive\)\. Write it with",
        FileFormatError,
    ),
    *bad_file(
        "table.xlsx",
        lambda place: b"PK",
        r"the suffix '\.xlsx' of table\.xlsx is not known\. Use one of \.csv",
        FileFormatError,
    ),
    Bad(
        "no such folder",
        lambda place: tp.read_interactions("nofolder"),
        lambda place: fit("nofolder", "factors.npz"),
        FileFormatError,
        r"there is no file or folder nofolder \(seen from .*\)\. Check the path",
    ),
    Bad(
        "a folder for a table of scores",
        lambda place: tp.load_scores("parts"),
        lambda place: fit("parts", "parts"),
        FileFormatError,
        r"parts is a folder\. Name one file in it",
    ),
    *bad_file(
        "semicolons.csv",
        lambda place: b"user_id;item_id;score\n1;2;0.5\n",
        r"semicolons\.csv has the one column 'user_id;item_id;score': the separator seems to be "
        r"';'\. Separate the columns by commas",
        ColumnError,
    ),
    *bad_file(
        "movielens.dat",
        lambda place: b"1::1193::5::978300760\n1::661::3::978302109\n",
        r"movielens\.dat separates its columns by '::', as MovieLens does\. Make it a CSV: ",
        FileFormatError,
    ),
    Bad(
        "no such file",
        lambda place: tp.read_interactions("nowhere.csv"),
        lambda place: fit("nowhere.csv", "factors.npz"),
        FileFormatError,
        r"there is no file nowhere\.csv \(seen from .*\)\. Check the path",
    ),
    Bad(
        "no such scores",
        lambda place: tp.load_scores("nowhere.npz"),
        lambda place: fit("parts", "nowhere.npz"),
        FileFormatError,
        r"there is no file nowhere\.npz\. Check the path",
    ),
    # models
    Bad(
        "no such model",
        lambda place: tp.load("nowhere"),
        lambda place: ["recommend", "nowhere", "factors.npz"],
        StorageError,
        r"there is no model at 'nowhere'\. Pass the folder that a save made",
    ),
    Bad(
        "a folder that is no model",
        lambda place: tp.load("parts"),
        lambda place: ["recommend", "parts", "factors.npz"],
        StorageError,
        r"'parts' is not a topperk model: it holds no manifest\.json\. Pass the folder",
    ),
    Bad(
        "a damaged model",
        lambda place: tp.load(damaged()),
        lambda place: ["recommend", damaged(), "factors.npz"],
        StorageError,
        r"the model 'bad\.topperk' is damaged: .*\. Restore the folder from a copy, or remove it",
    ),
    Bad(
        "a model for a utility of functions",
        lambda place: tp.load(of_functions(place)),
        lambda place: ["recommend", of_functions(place), "factors.npz"],
        SettingError,
        r"'clicks'\. (Pass it again: load\(path, utility=\.\.\.\)|The command line can not be "
        r"given that: use the model from Python)\.",
    ),
    # places to write to
    *(
        Bad(
            f"a model in {to.__name__}",
            lambda place, to=to: place.model.save(to("own.topperk")),
            lambda place, to=to: ["fit", "not-read-yet.csv", "factors.npz", to("own.topperk")],
            StorageError,
            says,
        )
        for to, says in (
            (missing, r"'nowhere/own\.topperk': there is no folder '.*/nowhere'\. Create it, or"),
            (locked, r"'locked/own\.topperk': Permission denied\. Pass a path in a folder that"),
            (foreign, r"'parts': the folder holds other files .*\. Pass another path"),
            (occupied, r"'ratings\.csv': that is a file, and .*\. Pass another path"),
        )
    ),
    *(
        Bad(
            f"{verb[0]} {verb[-1]} in {to.__name__}",
            lambda place, to=to: factors(place.arrays).save(to("own.npz")),
            lambda place, to=to, verb=verb, name=name: [*verb, to(name)],
            StorageError,
            says,
        )
        for verb, name in (
            (("recommend", "good.topperk", "factors.npz", "--output"), "own.csv"),
            (("evaluate", "good.topperk", "factors.npz", "parts", "--report"), "own.html"),
            (
                (
                    *("evaluate", "good.topperk", "factors.npz", "parts"),
                    *("--report=old.html", "--per-user"),
                ),
                "own.parquet",
            ),
        )
        for to, says in (
            (missing, r"can not write nowhere/own\.\w+: the folder nowhere does not exist\. Make"),
            (locked, r"can not write locked/own\.\w+: Permission denied\. Free space or choose"),
        )
    ),
    *(
        Bad(
            f"{verb[0]} into {to.__name__}",
            lambda place, to=to: factors(place.arrays).save(Path(to(), "own.npz")),
            lambda place, to=to, verb=verb: [*verb, to()],
            StorageError,
            says,
        )
        for verb in (
            ("split", "ratings.csv"),
            ("datasets", "simulate", "--users=20", "--items=30"),
            ("demo", "--users=20", "--items=30", "--output"),
        )
        for to, says in (
            (locked, r"can not write locked/\w+\.\w+: Permission denied\. Free space or choose"),
            (occupied, r"ratings\.csv.*\. (Name another place|Make it, or write elsewhere)"),
        )
    ),
    Bad(
        "a world of nobody",
        lambda place: simulate_world(n_users=0),
        lambda place: ["demo", "--users", "0", "--output", "world"],
        SettingError,
        r"n_users is 0\. A world has at least one",
    ),
]
NAMES = [f"{row.what}" for row in ROWS]


# --- the rows, in Python and through the command line -----------------------------------------


@contextmanager
def permissions_bind() -> Iterator[None]:
    """Root writes to read-only folders too: that capability is laid down meanwhile."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # version 3, this thread
    held, laid_down = (ctypes.c_uint32 * 6)(), (ctypes.c_uint32 * 6)()
    for sets in (held, laid_down):
        assert libc.capget(header, sets) == 0
    laid_down[0] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, of those in effect
    assert libc.capset(header, laid_down) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0


def state(folder: Path) -> dict[str, Any]:
    """Every file and folder below: bytes, which file it is, and when it was last written to."""
    found = {}
    for path in sorted(folder.rglob("*")):
        told = path.stat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = content, told.st_ino, told.st_mtime_ns
    return found


def is_short_and_plain(message: str) -> bool:
    """One or two sentences, on one line."""
    sentences = re.findall(r"[.?!](?= [A-Z]|$)", message)
    return 1 <= len(sentences) <= 2 and message.endswith(".") and "\n" not in message


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_python_refuses_with_what_where_and_the_cure(row: Bad, place: Place) -> None:
    before = state(place.folder)
    with permissions_bind(), pytest.raises(row.error, match=row.says) as caught:
        row.python(place)
    assert type(caught.value).__name__ in errors.__all__
    assert is_short_and_plain(str(caught.value))
    after = state(place.folder)
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_the_command_line_refuses_and_leaves_everything_as_it_was(
    row: Bad, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    for old in ("old.csv", "old.html"):
        place.file(old, b"an older answer")
    command = row.command(place)
    before = state(place.folder)
    with permissions_bind():
        status = run(command)
    said, talk = capsys.readouterr()
    assert (status, said) == (1, "")
    assert re.fullmatch(rf"topperk: .*({row.says}).*\n", talk)
    assert is_short_and_plain(talk.removesuffix("\n"))
    assert not re.search(r"[a-z_]=", talk), "a cure in Python's words"
    assert state(place.folder) == before


TOPPERK = Path(sysconfig.get_path("scripts"), "topperk")
AS_PROCESSES = (
    "a score is NaN",
    "ids of mixed types",
    "everybody has seen everything",
    "min_k above max_k",
    "a model in missing",
)


@pytest.mark.parametrize("what", AS_PROCESSES)
def test_a_process_ends_with_1_and_one_line_on_stderr(what: str, place: Place) -> None:
    (row,) = (row for row in ROWS if row.what == what)
    command = row.command(place)
    before = state(place.folder)
    done = subprocess.run([TOPPERK, *command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf"topperk: .*({row.says}).*\n", done.stderr)
    assert state(place.folder) == before


# --- what only Python can be given ------------------------------------------------------------


def dense(place: Place, bad: float) -> tp.Dense:
    rows = place.candidates["score"].to_numpy().reshape(N_USERS, N_ITEMS).copy()
    rows[1, 3] = bad
    return tp.Dense(rows, factors(place.arrays).ids)


def called(place: Place, answer: Any) -> tp.Callable:
    return tp.Callable(lambda users: answer, factors(place.arrays).ids)


ONLY_PYTHON: dict[str, tuple[Callable[[Place], object], str]] = {
    "a matrix with NaN": (
        lambda place: METHOD.fit(dense(place, np.nan), place.split),
        r"score of item 3 for user 'u01' is NaN\. Give a finite score",
    ),
    "a matrix with infinity": (
        lambda place: place.model.recommend(dense(place, np.inf)),
        r"score of item 3 for user 'u01' is plus infinity\. Give a finite score",
    ),
    "a matrix of another shape": (
        lambda place: tp.Dense(np.zeros((2, N_ITEMS)), factors(place.arrays).ids),
        r"rows count 2 but the ids hold 12 users\. Pass the ids",
    ),
    "a function that returns NaN": (
        lambda place: place.model.sizes(called(place, np.full((N_USERS, N_ITEMS), np.nan))),
        r"score of item [0-9] for user 'u00' is NaN\. Give a finite score",
    ),
    "a function that returns too little": (
        lambda place: place.model.sizes(called(place, np.zeros(3))),
        r"returned float64 of shape \(3,\) for 12 users; numbers of shape \(12, 20\) are needed",
    ),
    "probabilities above 1": (
        lambda place: tp.F1().expected([0.5, 1.5]),
        r"1\.5.*\. ",
    ),
    "probabilities that are NaN": (
        lambda place: tp.NDCG().expected([0.5, float("nan")]),
        r"nan.*\. ",
    ),
    "probabilities below 0, judged": (
        lambda place: tp.reliability([0.5, -0.1], [1, 0]),
        r"-0\.1.*\. ",
    ),
}


@pytest.mark.parametrize("what", ONLY_PYTHON)
def test_what_only_python_can_be_given_is_refused_as_well(what: str, place: Place) -> None:
    python, says = ONLY_PYTHON[what]
    with pytest.raises(ScoreError, match=says) as caught:
        python(place)
    assert is_short_and_plain(str(caught.value))


# --- what is no error -------------------------------------------------------------------------


def listed(frame: pl.DataFrame) -> dict[str, list[int]]:
    """Each user's list."""
    return {user: own["item_id"].to_list() for (user,), own in frame.group_by("user_id")}


def without_user(place: Place, model: tp.FittedK) -> dict[str, list[int]]:
    """The lists of all but the first user."""
    lists = listed(model.recommend(tp.Candidates(place.candidates)))
    return {user: items for user, items in lists.items() if user != "u00"}


def test_minus_infinity_is_an_item_that_is_not_there(place: Place) -> None:
    seen = {name: part.to_frame() for name, part in place.split.parts().items()}
    mine = pl.concat([seen["train"], seen["validation"]]).filter(user_id="u00")["item_id"]
    out = [item for item in range(N_ITEMS) if item not in mine.to_list()][:3]
    gone = (pl.col("user_id") == "u00") & pl.col("item_id").is_in(out)
    marked = place.candidates.with_columns(score=pl.when(gone).then(-np.inf).otherwise("score"))
    dropped = place.candidates.filter(~gone)
    answers = [
        METHOD.fit(tp.Candidates(frame), place.split).recommend(tp.Candidates(frame))
        for frame in (marked, dropped)
    ]
    assert answers[0].equals(answers[1])
    assert not set(out) & set(listed(answers[0])["u00"])


def test_a_user_without_candidates_may_be_skipped_and_gets_the_reason(place: Place) -> None:
    scores = tp.Candidates(first_user(-np.inf)(place.candidates))
    model = tp.load("good.topperk")
    sizes = model.sizes(scores, on_missing="skip")
    assert sizes.row(0)[:2] == ("u00", 0)
    assert sizes["calibration"].to_list()[0] == "no_candidates"
    assert "no_candidates" not in sizes["calibration"].to_list()[1:]
    assert listed(model.recommend(scores, on_missing="skip")) == without_user(place, model)


def test_skipping_when_fitting_changes_nothing_for_the_others(place: Place) -> None:
    scores = tp.Candidates(first_user(-np.inf)(place.candidates))
    calibrator = tp.UserPlatt()
    whole = calibrator.fit(tp.Candidates(place.candidates), place.split)
    without = calibrator.fit(scores, place.split, on_missing="skip")
    own = whole.parameters().filter(calibration="own_fit", converged=True)[1:]
    assert own.height > N_USERS // 2
    found = without.parameters().filter(pl.col("user_id").is_in(own["user_id"].to_list()))
    assert own.equals(found)
    assert without.parameters().row(0, named=True)["calibration"] == "not_scored"


def test_the_command_line_skips_as_python_does(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = first_user(-np.inf)(place.candidates)
    name = place.frame("bad.parquet", frame)
    assert run(["recommend", "good.topperk", name, "--sizes", "--on-missing", "skip"]) == 0
    found = pl.read_csv(capsys.readouterr().out.encode())
    wanted = tp.load("good.topperk").sizes(tp.Candidates(frame), on_missing="skip")
    assert found["k"].to_list() == wanted["k"].to_list()
    assert found["calibration"].to_list() == wanted["calibration"].to_list()
    assert found["calibration"][0] == "no_candidates"


def test_users_that_the_scores_lack_may_be_skipped(place: Place) -> None:
    some = tp.Candidates(place.candidates.filter(pl.col("user_id") > "u03"))
    model = METHOD.fit(some, place.split, on_missing="skip")
    reasons = dict(
        model.sizes(tp.Candidates(place.candidates)).select("user_id", "calibration").rows()
    )
    assert {reasons[f"u{n:02d}"] for n in range(4)} == {"not_scored"}
    assert "not_scored" not in {reasons[f"u{n:02d}"] for n in range(4, N_USERS)}


def test_users_that_the_interactions_lack_may_be_skipped(place: Place) -> None:
    new = place.candidates.filter(user_id="u00").with_columns(user_id=pl.lit("u99"))
    scores = tp.Candidates(pl.concat([place.candidates, new]))
    model = METHOD.fit(scores, place.split, on_missing="skip")
    sizes = model.sizes(scores)
    assert sizes.row(-1, named=True)["calibration"] == "new_user"
    assert sizes.row(-1, named=True)["k"] >= 1


def test_one_user_without_a_validation_positive_gets_the_populations_parameters(
    place: Place,
) -> None:
    parts = {name: part.to_frame() for name, part in place.split.parts().items()}
    split = tp.split_given(
        *(
            tp.read_interactions(
                part if name != "validation" else part.filter(pl.col("user_id") > "u00")
            )
            for name, part in parts.items()
        )
    )
    fitted = tp.UserPlatt().fit(factors(place.arrays), split)
    rows = fitted.parameters().rows(named=True)
    assert rows[0]["calibration"] == "no_validation_positive"
    assert (rows[0]["slope"], rows[0]["intercept"]) == fitted.population
    assert {row["calibration"] for row in rows[1:]} == {"own_fit"}


def test_one_user_whose_scores_are_all_the_same_is_fitted_like_anybody(place: Place) -> None:
    frame = first_user(0.25)(place.candidates)
    model = METHOD.fit(tp.Candidates(frame), place.split)
    first = model.sizes(tp.Candidates(frame)).row(0, named=True)
    assert first["calibration"] == "own_fit"
    assert 1 <= first["k"] <= MAX_K
    lists = model.recommend(tp.Candidates(frame)).filter(user_id="u00")
    assert lists["probability"].n_unique() == 1
    assert lists["item_id"].is_sorted()  # equal scores go by item
