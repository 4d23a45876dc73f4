"""Lists written to Parquet while they are made: whole or not at all, in little memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import topperk as tp
from contracts import in_blocks_of
from topperk import _files, _parquet_stream
from topperk._parquet_stream import write_parquet_parts
from topperk.datasets.simulated import simulate_world
from topperk.errors import FileFormatError, IdError, ScoreError, StorageError

WORLD = simulate_world(n_users=70, n_items=60, seed=8, mean_relevant=10.0)
MODEL = tp.PersonalizedK(tp.F1(), max_k=20).fit(WORLD.scores, WORLD.split)

# Seconds within which an interruption ends a run: one, and a margin for a busy machine.
AT_ONCE = 3.0

# Many users whose lists, all together, would take far more memory than a few blocks.
MANY = """
import numpy as np
import polars as pl
import topperk as tp
from topperk.datasets.simulated import simulate_world

def high_water():
    text = open("/proc/self/status").read()
    return int(text.split("VmHWM:")[1].split()[0]) / 1024

world = simulate_world(n_users=60, n_items=80, seed=1)
model = tp.FixedK(20).fit(world.scores, world.split)

def source(n_users):
    def rows(users):
        angles = users[:, None] * np.float32(0.37) + np.arange(80, dtype=np.float32)
        return np.sin(angles)
    users = pl.Series(np.arange(n_users)).cast(pl.String)
    return tp.Callable(rows, tp.Ids.of(users, world.ids.items.values))
"""
GROWTH = """
small, large = source(40_000), source(400_000)
with tp.resources(n_jobs=2, memory_limit="20 MB"):
    model.recommend_to("small.parquet", small)
    before = high_water()
    rows = model.recommend_to("large.parquet", large)
print(rows, high_water() - before)
"""
UNTIL_STOPPED = """
source = source(4_000_000)
print("begun", flush=True)
with tp.resources(n_jobs=2, memory_limit="20 MB"):
    model.recommend_to("lists.parquet", source)
"""


def python(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MANY + code],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_rows_are_those_of_recommend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks_of(9 * 60, monkeypatch)
    wanted = MODEL.recommend(WORLD.scores)
    stages: list[tuple[int, int]] = []
    n_rows = MODEL.recommend_to(
        tmp_path / "lists.parquet",
        WORLD.scores,
        progress=lambda stage, done, total: stages.append((done, total)),
    )
    assert pl.read_parquet(tmp_path / "lists.parquet").equals(wanted)
    assert n_rows == wanted.height
    assert (stages[0], stages[-1]) == ((0, 70), (70, 70))
    assert os.listdir(tmp_path) == ["lists.parquet"]


def test_some_users_or_none_can_be_written(tmp_path: Path) -> None:
    path, asked = tmp_path / "lists.parquet", WORLD.ids.users.values[[5, 3]].to_list()
    MODEL.recommend_to(str(path), WORLD.scores, asked)
    assert pl.read_parquet(path).equals(MODEL.recommend(WORLD.scores, asked))
    assert MODEL.recommend_to(path, WORLD.scores, []) == 0
    assert pl.read_parquet(path).equals(MODEL.recommend(WORLD.scores, []))


def test_any_threads_give_the_same_bytes_and_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks_of(4 * 60, monkeypatch)
    monkeypatch.setattr(_parquet_stream, "ROWS_PER_GROUP", 100)
    found = set()
    for n_jobs in (1, 2, 5, 1, 2, 5):
        with tp.resources(n_jobs=n_jobs):
            MODEL.recommend_to(tmp_path / "lists.parquet", WORLD.scores)
        found.add((tmp_path / "lists.parquet").read_bytes())
    assert len(found) == 1


def test_the_types_of_the_ids_are_kept(tmp_path: Path) -> None:
    kinds = pl.Enum(WORLD.ids.items.values)
    ids = tp.Ids.of(WORLD.ids.users.values, WORLD.ids.items.values.cast(kinds))
    scores = tp.Dense(np.random.default_rng(0).normal(size=(70, 60)), ids)
    MODEL.recommend_to(tmp_path / "lists.parquet", scores)
    found = pl.read_parquet(tmp_path / "lists.parquet")
    assert found.schema["item_id"] == kinds
    assert found.equals(MODEL.recommend(scores))


def failing_at(user: int, error: BaseException) -> tp.Callable:
    def rows(users: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if (users >= user).any():
            raise error
        return np.zeros((users.size, 60))

    return tp.Callable(rows, WORLD.ids)


@pytest.mark.parametrize("error", [ValueError("no more"), KeyboardInterrupt()])
@pytest.mark.parametrize("user", [0, 40])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, error: BaseException
) -> None:
    in_blocks_of(60, monkeypatch)
    path = tmp_path / "lists.parquet"
    path.write_bytes(b"old")
    with tp.resources(n_jobs=2), pytest.raises(type(error)) as raised:
        MODEL.recommend_to(path, failing_at(user, error))
    assert raised.value is error
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["lists.parquet"]
    assert not [one for one in threading.enumerate() if one.name.startswith("topperk")]


def test_what_can_not_be_written_is_refused_before_anything_is_scored(tmp_path: Path) -> None:
    scores = failing_at(0, AssertionError("scored"))
    for name, error in (
        ("missing/lists.parquet", StorageError),
        ("lists.csv", FileFormatError),
        ("lists.odd", FileFormatError),
        ("", FileFormatError),
    ):
        with pytest.raises(error):
            MODEL.recommend_to(tmp_path / name, scores)
    with pytest.raises(IdError):
        MODEL.recommend_to(tmp_path / "lists.parquet", scores, ["nobody"])
    assert os.listdir(tmp_path) == []


def test_scores_of_two_types_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_blocks_of(60, monkeypatch)

    def rows(users: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.zeros((users.size, 60), np.float32 if users[0] < 9 else np.float64)

    with pytest.raises(ScoreError, match="changed their type between blocks"):
        MODEL.recommend_to(tmp_path / "lists.parquet", tp.Callable(rows, WORLD.ids))
    assert os.listdir(tmp_path) == []


def test_a_writer_that_ends_early_is_an_error_and_no_wait(tmp_path: Path) -> None:
    def parts() -> Any:
        for _ in range(1000):
            # The column says integer, and what it holds is not one: polars refuses while writing.
            yield pl.DataFrame({"n": pl.Series([object()], dtype=pl.Object)})

    with pytest.raises(StorageError, match="as Parquet"):
        write_parquet_parts(parts(), tmp_path / "lists.parquet")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_memory_does_not_grow_with_the_users(tmp_path: Path) -> None:
    with python(GROWTH, tmp_path) as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    rows, growth = out.split()
    assert int(rows) == 400_000 * 20
    # All rows at once would be 8 million times 8 + 16 + 4 + 4 + 8 bytes: 320 MB.
    assert float(growth) < 40.0


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_however_it_ends_the_old_file_stands_alone(tmp_path: Path, way: signal.Signals) -> None:
    (tmp_path / "lists.parquet").write_bytes(b"old")
    with python(UNTIL_STOPPED, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.7)  # well within the writing
        process.send_signal(way)
        start = time.monotonic()
        _, err = process.communicate(timeout=60)
    assert time.monotonic() - start < AT_ONCE
    assert way != signal.SIGINT or err.rstrip().endswith("KeyboardInterrupt")
    assert (tmp_path / "lists.parquet").read_bytes() == b"old"
    nameless = _files._nameless(tmp_path)
    if nameless is not None:
        os.close(nameless)
    if way == signal.SIGINT or nameless is not None:
        assert os.listdir(tmp_path) == ["lists.parquet"]


def test_a_file_has_the_permissions_of_any_other_and_links_stay(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    (tmp_path / "linked.parquet").write_bytes(b"old")
    (tmp_path / "lists.parquet").symlink_to("linked.parquet")
    n_rows = MODEL.recommend_to(tmp_path / "lists.parquet", WORLD.scores)
    assert (tmp_path / "lists.parquet").is_symlink()
    assert pl.read_parquet(tmp_path / "linked.parquet").height == n_rows
    modes = {(tmp_path / name).stat().st_mode for name in ("plain", "linked.parquet")}
    assert len(modes) == 1


def test_where_no_file_can_be_nameless_one_with_a_name_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    assert _files._nameless(tmp_path) is None
    path = tmp_path / "lists.parquet"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="no more"):
        MODEL.recommend_to(path, failing_at(0, ValueError("no more")))
    assert path.read_bytes() == b"old"
    MODEL.recommend_to(path, WORLD.scores)
    assert pl.read_parquet(path).equals(MODEL.recommend(WORLD.scores))
    assert os.listdir(tmp_path) == ["lists.parquet"]
