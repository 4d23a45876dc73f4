"""The arguments and options that several verbs of the command line share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from cyclopts import Parameter

from topperk._blocks import OnMissing

CalibratorName: TypeAlias = Literal["user", "user-population", "global", "none", "probability"]
SplitName: TypeAlias = Literal["random", "last", "time"]

Interactions: TypeAlias = Annotated[
    Path,
    Parameter(
        help="A file of interactions (CSV, TSV, Parquet, JSON lines, Arrow), or a folder with the "
        "parts train, validation and perhaps test, as `topperk split` writes them."
    ),
]
Scores: TypeAlias = Annotated[
    Path,
    Parameter(
        help="An .npz with user_vectors, item_vectors, user_ids and item_ids, or a table of "
        "candidates with the columns user_id, item_id and score."
    ),
]
Model: TypeAlias = Annotated[Path, Parameter(help="The folder of a fitted model.")]
Json: TypeAlias = Annotated[bool, Parameter(name="--json", negative="", help="JSON on stdout.")]

Share: TypeAlias = Annotated[
    float, Parameter(help="Share held out (with --split last: how many of each user).")
]
Column: TypeAlias = Annotated[
    str | None, Parameter(help="The column's name, where it is not recognised.")
]
IdColumn: TypeAlias = Annotated[
    str | None,
    Parameter(
        help="The column's name, where it is not recognised: in the interactions, in a table of "
        "candidates, or in both."
    ),
]
ScoreColumn: TypeAlias = Annotated[
    str | None,
    Parameter(help="The scores' column in a table of candidates, where it is not recognised."),
]
CandidateColumn: TypeAlias = Annotated[
    str | None,
    Parameter(help="The column's name in a table of candidates, where it is not recognised."),
]

Jobs: TypeAlias = Annotated[
    int | None,
    Parameter(name="--jobs", help="How many threads work; one for each processor if left out."),
]
MemoryLimit: TypeAlias = Annotated[
    str | None,
    Parameter(
        help='What blocks of users may take, besides the scores themselves: "2 GB". '
        "As it is fastest if left out."
    ),
]

Missing: TypeAlias = Annotated[
    OnMissing,
    Parameter(
        help="Users and items that only one side knows are an error; with skip such users are "
        "passed over, and items without scores are in no list. Use skip if your model knows only "
        "what is in the train part."
    ),
]
MissingCandidates: TypeAlias = Annotated[
    OnMissing,
    Parameter(
        help="A user without any candidate is an error; with skip that user gets an empty list. "
        "Users and items that the model does not know are no error either way."
    ),
]
