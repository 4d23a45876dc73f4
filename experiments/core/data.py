"""The data sets: read from a folder that is not part of the project."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import numpy as np
import polars as pl

import topperk as tp

CHECKOUT = Path(__file__).resolve().parents[2]
CITEULIKE = "citeulike-a/users.dat"
MOVIELENS = "ml-1m.zip"
# What the paper calls 20-core keeps users with 19 articles: see the README of the data folder.
CITEULIKE_LEAST_ARTICLES = 19


def data_folder() -> Path:
    """The folder named by TOPPERK_DATA, or ``shared/data`` beside the checkout."""
    return Path(os.environ.get("TOPPERK_DATA", CHECKOUT.parent / "shared" / "data"))


def found(name: str) -> Path:
    """A file of the data folder; the script ends with a message where it is missing."""
    path = data_folder() / name
    if not path.is_file():
        sys.exit(
            f"there is no {name} in {data_folder()}. Set TOPPERK_DATA to a folder that holds "
            f"{CITEULIKE} and {MOVIELENS}, the files of the publishers."
        )
    return path


def citeulike() -> tp.Interactions:
    """CiteULike-a: a line for each user, first how many articles, then their numbers."""
    lines = found(CITEULIKE).read_text(encoding="ascii").splitlines()
    articles = [np.array(line.split()[1:], dtype=np.int64) for line in lines]
    users = np.repeat(np.arange(len(articles)), [len(own) for own in articles])
    frame = {"user_id": users, "item_id": np.concatenate(articles)}
    return tp.read_interactions(frame, min_per_user=CITEULIKE_LEAST_ARTICLES)


def movielens() -> tp.Interactions:
    """MovieLens 1M: every rating is an interaction."""
    with zipfile.ZipFile(found(MOVIELENS)) as archive:
        text = archive.read("ml-1m/ratings.dat")
    columns = ["user_id", "item_id", "rating", "timestamp"]
    table = pl.read_csv(text.replace(b"::", b","), has_header=False, new_columns=columns)
    return tp.read_interactions(table.select("user_id", "item_id"))


READERS = {"citeulike": citeulike, "movielens": movielens}
