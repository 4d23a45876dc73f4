"""The command line's inputs: interactions, parts, scores, models and ids, from paths and words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from topperk._frames import to_polars, write_frame_files
from topperk.calibration import Calibrator, Correction, GlobalPlatt, Uncalibrated, UserPlatt
from topperk.errors import FileFormatError, IdError, SettingError, StorageError
from topperk.ids import IdIndex
from topperk.interactions import Interactions, read_interactions
from topperk.split import Split, split_given, split_last, split_random, split_time

PARTS = ("train", "validation", "test")
SplitName: TypeAlias = Literal["random", "last", "time"]
CalibratorName: TypeAlias = Literal["user", "user-population", "global", "none", "probability"]
Share: TypeAlias = Annotated[
    float, Parameter(help="Share held out (with --split last: how many of each user).")
]
Column: TypeAlias = Annotated[
    str | None, Parameter(help="The column's name, where it is not recognised.")
]
Json: TypeAlias = Annotated[bool, Parameter(name="--json", negative="", help="JSON on stdout.")]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How interactions are read and split; a folder of parts is taken as it stands."""

    how: Annotated[SplitName, Parameter(name="--split", help="How one file is split.")] = "random"
    validation: Share = 0.2
    test: Share = 0.2
    seed: Annotated[int, Parameter(help="Of the random split and of random lengths.")] = 0
    user_id: Column = None
    item_id: Column = None
    rating: Column = None
    timestamp: Column = None
    min_rating: Annotated[float | None, Parameter(help="Leave out lower ratings.")] = None
    min_per_user: Annotated[int, Parameter(help="Leave out users with fewer items.")] = 1
    min_per_item: Annotated[int, Parameter(help="Leave out items with fewer users.")] = 1

    def split(self, path: Path) -> Split:
        """A folder of parts, or one file of interactions, split here."""
        if path.is_dir():
            names = PARTS if any(path.glob("test.*")) else PARTS[:2]
            return split_given(*(self._read(_part(path, name)) for name in names))
        data = self._read(path)
        if self.how == "random":
            return split_random(data, self.validation, self.test, self.seed)
        if self.how == "time":
            return split_time(data, self.validation, self.test)
        if not (self.validation.is_integer() and self.test.is_integer()):
            raise SettingError(
                "--split last takes how many interactions of each user are held out, not shares "
                f"such as {self.validation:g} and {self.test:g}. Pass --validation 1 --test 1."
            )
        return split_last(data, int(self.validation), int(self.test))

    def _read(self, path: Path) -> Interactions:
        return read_interactions(
            path,
            user_id=self.user_id,
            item_id=self.item_id,
            rating=self.rating,
            timestamp=self.timestamp,
            min_rating=self.min_rating,
            min_per_user=self.min_per_user,
            min_per_item=self.min_per_item,
        )


AS_USUAL = Reading()


def write_parts(split: Split, folder: Path) -> None:
    """The parts as files of a folder that is there, all of them or none."""
    frames = {name: to_polars(part.to_frame(), name)[0] for name, part in split.parts().items()}
    write_frame_files({folder / f"{name}.parquet": frame for name, frame in frames.items()})


def made_folder(folder: Path) -> None:
    """Make a folder where there is none; StorageError where that can not be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"can not make the folder {folder}: {error.strerror or error}. Name another place."
        ) from error


def calibrator_named(name: CalibratorName, correction: Correction | None) -> Calibrator:
    """The calibrator of a word, with its own correction unless one is named."""
    settings: dict[str, Any] = {} if correction is None else {"correction": correction}
    if name == "user":
        return UserPlatt(**settings)
    if name == "user-population":
        return UserPlatt(prior="population", **settings)
    if name == "global":
        return GlobalPlatt(**settings)
    return Uncalibrated("probability" if name == "probability" else "logit", **settings)


def chosen_users(words: Iterable[str], index: IdIndex) -> list[Any]:
    """Ids given as text, in the type of the scores' ids; IdError for one that is not there."""
    found: list[Any] = []
    for word in words:
        given: Any = word
        if not index.holds_strings:
            try:
                given = int(word)
            except ValueError:
                raise IdError(
                    f"user {word!r} is no number, but the scores' user ids are integers such as "
                    f"{index.name(0)}. Check the id."
                ) from None
        if index.codes([given], "--user")[0] < 0:
            raise IdError(
                f"there are no scores for user {word!r}. The scores hold {len(index):,} users, "
                f"such as {index.name(0)}; check the id."
            )
        found.append(given)
    return found


def _part(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"{name}.*"))
    if len(found) != 1:
        there = ", ".join(path.name for path in found) or "none of that name"
        raise FileFormatError(
            f"the folder {folder} needs one file {name}.parquet (or .csv, ...) and holds {there}. "
            "Make the parts with `topperk split`, or name a file of interactions."
        )
    return found[0]
