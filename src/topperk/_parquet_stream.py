"""A Parquet file whose rows are written while later ones are still being made.

polars writes in a thread of its own, row group by row group, and is handed one frame after another
through a queue of ``AHEAD``. So memory does not grow with the number of rows, and errors, Ctrl-C
and what belongs to the caller's thread (``threads.resources``) stay with the caller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Event, Thread

import polars as pl
from polars.io.plugins import register_io_source

from topperk._files import replacing_when_whole
from topperk._table_files import form_and_target
from topperk.errors import FileFormatError, ScoreError, StorageError

# The groups do not depend on how the rows came: any blocks and threads give the same bytes.
ROWS_PER_GROUP = 131_072
AHEAD = 2
# Seconds between two looks at whether the other side is still there.
PATIENCE = 0.1


def parquet_target(path: str | os.PathLike[str]) -> Path:
    """The file to write; FileFormatError where the suffix is not that of a Parquet file."""
    form, target = form_and_target(Path(path))
    if form != "Parquet":
        raise FileFormatError(
            f"only Parquet files are written piece by piece, and {path} is named as {form}. "
            "Give it the suffix .parquet."
        )
    return target


def write_parquet_parts(parts: Iterator[pl.DataFrame], path: str | os.PathLike[str]) -> int:
    """Write frames (one at least) one below the other, whole or not at all; return how many rows.

    After an error or Ctrl-C an older file stands as it was. StorageError where it can not be
    written.
    """
    target = parquet_target(path)
    first = next(parts)
    n_rows = 0
    with replacing_when_whole(target) as beside, _Writer(beside, first.schema) as writer:
        for part in chain([first], parts):
            if part.schema != first.schema:
                raise ScoreError(
                    f"scores changed their type between blocks of users, from "
                    f"{_types(first)} to {_types(part)}. Return one type for all users."
                )
            writer.put(part)
            n_rows += part.height
    return n_rows


class _Writer:
    """The thread that writes; a context, at whose end the file is whole, or given up."""

    def __init__(self, path: Path, schema: pl.Schema) -> None:
        self._waiting: Queue[pl.DataFrame | None] = Queue(AHEAD)
        self._given_up = Event()
        self._error: BaseException | None = None
        self._path, self._schema = path, schema
        self._thread = Thread(target=self._write, name="topperk-parquet", daemon=True)

    def __enter__(self) -> _Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.put(None)
                while self._thread.is_alive():
                    self._thread.join(PATIENCE)
                self._refuse()
        finally:
            self._given_up.set()
            self._thread.join()

    def put(self, part: pl.DataFrame | None) -> None:
        """Hand over the next rows; None says that there are no more."""
        while True:
            self._refuse()
            try:
                self._waiting.put(part, timeout=PATIENCE)
            except Full:
                continue
            return

    def _refuse(self) -> None:
        """Raise what the thread ended with."""
        error = self._error
        if isinstance(error, (OSError, KeyboardInterrupt, MemoryError)):
            raise error
        if error is not None:
            reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]
            raise StorageError(
                f"can not write {self._path} as Parquet: {reason}. "
                "Free space or choose another folder."
            ) from error

    def _write(self) -> None:
        try:
            register_io_source(self._rows, schema=self._schema).sink_parquet(
                self._path, row_group_size=ROWS_PER_GROUP, maintain_order=True
            )
        except BaseException as error:  # also a panic of polars' own code, and Ctrl-C
            self._error = error

    def _rows(
        self,
        columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        while not self._given_up.is_set():
            try:
                part = self._waiting.get(timeout=PATIENCE)
            except Empty:
                continue
            if part is None:
                return
            yield part
        raise RuntimeError("given up")


def _types(frame: pl.DataFrame) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in frame.schema.items())
