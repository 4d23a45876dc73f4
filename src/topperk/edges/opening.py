"""The command line's inputs: interactions, parts, scores, models and ids, from paths and words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from topperk._frames import open_table, to_polars, write_frame_files
from topperk.calibration import Calibrator, Correction, GlobalPlatt, Uncalibrated, UserPlatt
from topperk.edges.options import CalibratorName, Column, IdColumn, Share, SplitName
from topperk.errors import FileFormatError, IdError, SettingError, StorageError
from topperk.ids import IdIndex
from topperk.interactions import Interactions, read_interactions
from topperk.scores import Candidates, ScoreSource, load_scores
from topperk.split import Split, split_given, split_last, split_random, split_time
from topperk.utility import Utility, utility_named

PARTS = ("train", "validation", "test")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Reading:
    """How interactions are read and split; a folder of parts is taken as it stands."""

    how: Annotated[SplitName, Parameter(name="--split", help="How one file is split.")] = "random"
    validation: Share = 0.2
    test: Share = 0.2
    seed: Annotated[int, Parameter(help="Of the random split and of random lengths.")] = 0
    user_id: IdColumn = None
    item_id: IdColumn = None
    rating: Column = None
    timestamp: Column = None
    min_rating: Annotated[float | None, Parameter(help="Leave out lower ratings.")] = None
    min_per_user: Annotated[int, Parameter(help="Leave out users with fewer items.")] = 1
    min_per_item: Annotated[int, Parameter(help="Leave out items with fewer users.")] = 1
    core: Annotated[
        int | None,
        Parameter(help="Leave out rare users and items in turns until all have that many left."),
    ] = None

    def split(self, path: Path, *, beside: Path | None = None) -> Split:
        """A folder of parts, or one file of interactions, split here.

        A column that is named outright may also be one of the scores ``beside`` alone.
        """
        if path.is_dir():
            self._refuse_leaving_out(path)
            return split_given(*(self._read(part, beside) for part in _parts(path)))
        data = self._read(path, beside)
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

    def _refuse_leaving_out(self, folder: Path) -> None:
        """SettingError for what would leave out rows of each part by itself."""
        for name in ("min_rating", "min_per_user", "min_per_item", "core"):
            if getattr(self, name) != getattr(AS_USUAL, name):
                raise SettingError(
                    f"--{name.replace('_', '-')} counts on the whole data, and {folder} is a "
                    "folder of parts, which is taken as it stands. Give it to `topperk split`."
                )

    def _read(self, path: Path, beside: Path | None) -> Interactions:
        return read_interactions(
            path,
            user_id=_named_in(path, self.user_id, beside),
            item_id=_named_in(path, self.item_id, beside),
            rating=self.rating,
            timestamp=self.timestamp,
            min_rating=self.min_rating,
            min_per_user=self.min_per_user,
            min_per_item=self.min_per_item,
            core=self.core,
        )


AS_USUAL = Reading()


def open_scores(
    path: Path,
    user_id: str | None,
    item_id: str | None,
    score: str | None,
    *,
    beside: Path | None = None,
) -> ScoreSource:
    """Factors, or a table of candidates, whose columns may be named.

    The columns of ids may also be those of the interactions ``beside`` alone.
    """
    if path.suffix.lower() != ".npz":
        return Candidates(
            path,
            user_id=_named_in(path, user_id, beside),
            item_id=_named_in(path, item_id, beside),
            score=score,
        )
    named = {"--score": score}
    if beside is None:
        named |= {"--user-id": user_id, "--item-id": item_id}
    for option, name in named.items():
        if name is not None:
            raise SettingError(
                f"{option} names a column of a table of candidates, and {path} holds factors. "
                f"Leave {option} out."
            )
    return load_scores(path)


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


def chosen_utilities(own: Utility | None, names: Iterable[str] | None) -> list[Utility]:
    """The utilities that are named, each once; or the model's own and the usual four."""
    if names:
        return list({found.name: found for found in map(utility_named, names)}.values())
    usual = [utility_named(name) for name in ("ndcg", "pdcg", "f1", "tp")]
    if own is None:
        return usual
    return [own, *(found for found in usual if found.name != own.name)]


def _named_in(path: Path, name: str | None, beside: Path | None) -> str | None:
    """The name of a column, or None where only the file beside this one has such a column.

    A name that neither of them has is given back, for the reader of the file to refuse.
    """
    if name is None or beside is None or name in _columns(path) or name not in _columns(beside):
        return name
    return None


def _columns(path: Path) -> set[str]:
    """The columns of a table, or of all parts in a folder; factors have none."""
    if path.suffix.lower() == ".npz":
        return set()
    tables = _parts(path) if path.is_dir() else [path]
    return {name for table in tables for name in open_table(table, "a table").columns}


def _parts(folder: Path) -> list[Path]:
    names = PARTS if any(folder.glob("test.*")) else PARTS[:2]
    return [_part(folder, name) for name in names]


def _part(folder: Path, name: str) -> Path:
    found = sorted(folder.glob(f"{name}.*"))
    if len(found) != 1:
        there = ", ".join(path.name for path in found) or "none of that name"
        raise FileFormatError(
            f"the folder {folder} needs one file {name}.parquet (or .csv, ...) and holds {there}. "
            "Make the parts with `topperk split`, or name a file of interactions."
        )
    return found[0]
