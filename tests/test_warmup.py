"""Compiling ahead, threads and memory on the command line, and lists streamed to a file."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numba import njit
from numba.core import event

import topperk as tp
from conftest import ROOT
from test_cli import home as home
from test_cli import in_process, state
from topperk.edges.compiling import cache_folder, compile_all, watching

COUNT = "import topperk; print(topperk.count_distribution([0.5, 0.25]).tolist())"


def test_what_warmup_compiles_is_all_that_the_verbs_need(home: Path, tmp_path: Path) -> None:
    compile_all()
    lists = tmp_path / "lists.parquet"
    with watching(lambda: None) as compiled:
        for scores in ("factors.npz", "candidates.parquet", "candidates.csv"):
            for words in (
                ["fit", "parts", scores, str(tmp_path / "model")],
                ["fit", "parts", scores, str(tmp_path / "model"), "--calibrator=user-population"],
                ["recommend", "f1.topperk", scores, "--output", str(lists)],
                ["recommend", "f1.topperk", scores, "--sizes"],
                ["evaluate", "f1.topperk", scores, "parts", "--json"],
                ["curve", "f1.topperk", scores, "3"],
            ):
                done = in_process(*words, cwd=home)
                assert done.returncode == 0, done.stderr
    assert compiled == []


def test_warmup_compiles_what_choose_needs_for_ids_and_scores_of_every_kind() -> None:
    compile_all()
    codes = np.arange(12)
    split = tp.split_given(
        train=pl.DataFrame({"user_id": [1, 2] * 6, "item_id": codes}),
        validation=pl.DataFrame({"user_id": [1, 2], "item_id": [1, 2]}),
    )
    scores = np.linspace(0.0, 1.0, 24).reshape(2, 12)
    for kind in (np.float32, np.float64):
        source = tp.Dense(scores.astype(kind), split.ids)
        model = tp.PersonalizedK(tp.F1(), max_k=4).fit(source, split)
        own, other = scores[0].astype(kind), np.repeat(scores[0].astype(kind), 2)[::2]
        read_only = own.copy()
        read_only.flags.writeable = False
        ids = codes.copy()
        ids.flags.writeable = False
        with watching(lambda: None) as compiled:
            wanted = model.choose(2, codes, own)
            for values in (own.tolist(), other, read_only, own.astype(own.dtype.newbyteorder())):
                for item_ids in (
                    ids,
                    codes.tolist(),
                    codes.astype(np.uint16),
                    codes.repeat(2)[::2],
                ):
                    found = model.choose(2, item_ids, values)
                    assert list(found.item_ids) == wanted.item_ids.tolist()
        assert compiled == []


def test_what_is_compiled_is_noticed_once_and_by_name() -> None:
    told: list[str] = []

    def twice(x: float) -> float:
        return 2.0 * x

    twice.__module__ = "topperk.twice"
    with watching(lambda: told.append("compiling")) as compiled:
        compile_it = njit(twice)
        assert (compile_it(1.5), compile_it(2.5), compile_it(2)) == (3.0, 5.0, 4.0)
    assert compiled == ["twice", "twice"]
    assert told == ["compiling"]
    with watching(lambda: told.append("again")) as compiled:
        compile_it(3.5)
    assert (compiled, told) == ([], ["compiling"])


@pytest.mark.parametrize("collecting", [True, False])
def test_garbage_is_left_while_a_kernel_is_compiled(collecting: bool) -> None:
    class Look(event.Listener):
        def on_start(self, event: event.Event) -> None:
            seen.append(gc.isenabled())

        def on_end(self, event: event.Event) -> None:
            pass

    def half(x: float) -> float:
        return x / 2.0

    seen: list[bool] = []
    if not collecting:
        gc.disable()
    try:
        with watching(lambda: None), event.install_listener("numba:run_pass", Look()):
            assert njit(half)(3.0) == 1.5
        assert gc.isenabled() == collecting
    finally:
        gc.enable()
    assert seen
    assert not any(seen)


def test_warmup_says_what_it_did_and_where(tmp_path: Path) -> None:
    compile_all()
    done = in_process("warmup", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("Everything was compiled already (looked at in ")
    assert str(cache_folder()) in done.stderr


# --- where nothing can be kept ----------------------------------------------------------------


def without_a_cache(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run with a package, a home and a NUMBA_CACHE_DIR that can not hold a folder, as any user."""
    package = tmp_path / "installed" / "topperk"
    if not package.exists():
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "src" / "topperk", package, ignore=ignored)
        (package / "_kernels" / "__pycache__").write_text("a file where a folder would be")
    nowhere = str(package / "__init__.py" / "below a file")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    environment |= {
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": nowhere,
        "NUMBA_CACHE_DIR": nowhere,
    }
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_without_a_cache_every_process_compiles_for_itself(tmp_path: Path) -> None:
    done = without_a_cache(COUNT, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tp.count_distribution([0.5, 0.25]).tolist()}\n"
    assert done.stderr == ""


def test_a_filled_folder_that_can_not_be_written_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "filled"
    count = f"import os; os.environ['NUMBA_CACHE_DIR'] = {str(folder)!r}; {COUNT}"
    assert without_a_cache(count, tmp_path).returncode == 0
    filled = state(folder)
    assert filled
    # numba asks for a temporary file to see whether a folder can be written
    read_only = (
        "import tempfile\n"
        "def refuse(*given, **named): raise OSError('read-only')\n"
        "tempfile.TemporaryFile = refuse\n"
        f"import os; os.environ['NUMBA_CACHE_DIR'] = {str(folder)!r}\n"
        "from topperk.edges.compiling import cache_folder, watching\n"
        "with watching(lambda: None) as compiled:\n"
        f"    {COUNT}\n"
        "    print(compiled, cache_folder())\n"
        "    from topperk._kernels.curves import lanes_of\n"
        "    print(len(lanes_of(2)), compiled)\n"
    )
    done = without_a_cache(read_only, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines == [lines[0], "[] None", "7 ['lanes_of']"]
    assert state(folder) == filled


def test_warmup_without_a_cache_is_an_error_with_the_cure(tmp_path: Path) -> None:
    code = "from topperk.edges.cli import main; main(['warmup'])"
    done = without_a_cache(code, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "Set NUMBA_CACHE_DIR to a folder that can be written." in done.stderr


# --- threads, memory, files -------------------------------------------------------------------


def test_threads_and_memory_change_no_answer(home: Path, tmp_path: Path) -> None:
    wanted, found = tmp_path / "wanted", tmp_path / "found"
    limits = ["--jobs", "2", "--memory-limit", "1 MB"]
    for folder, more in ((wanted, ["--jobs", "1"]), (found, ["--jobs", "3"])):
        folder.mkdir()
        model = str(tmp_path / f"{folder.name}.topperk")
        for words in (
            ["fit", "parts", "candidates.parquet", model],
            ["recommend", model, "candidates.parquet", "-o", str(folder / "all.parquet")],
            ["recommend", model, "candidates.parquet", "-o", str(folder / "all.csv")],
        ):
            assert in_process(*words, *more, cwd=home).returncode == 0
    assert state(found) == state(wanted)
    judged = ("evaluate", "f1.topperk", "candidates.parquet", "parts", "--json")
    assert in_process(*judged, *limits, cwd=home).stdout == in_process(*judged, cwd=home).stdout


@pytest.mark.parametrize("words", [["--jobs", "0"], ["--memory-limit", "much"]])
def test_threads_and_memory_that_mean_nothing_are_refused(home: Path, words: list[str]) -> None:
    done = in_process("recommend", "f1.topperk", "factors.npz", *words, cwd=home)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("topperk: ")


def test_lists_go_to_parquet_piece_by_piece(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def whole(*arguments: object, **named: object) -> None:
        raise AssertionError("all lists were held at once")

    monkeypatch.setattr(tp.FittedK, "recommend", whole)
    path = tmp_path / "lists.PARQUET"
    done = in_process("recommend", "f1.topperk", "factors.npz", "-o", str(path), cwd=home)
    assert done.returncode == 0, done.stderr
    monkeypatch.undo()
    wanted = tp.load(home / "f1.topperk").recommend(tp.load_scores(home / "factors.npz"))
    assert pl.read_parquet(path).equals(wanted)
    assert done.stderr == f"{wanted.height:,} rows written to {path}\n"
