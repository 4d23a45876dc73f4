"""Tables in files: read by suffix, distrusted until their first bytes agree, written atomically."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import polars as pl

from topperk._columns import Table, is_id_name
from topperk._files import check_writable, replacing
from topperk._parquet_pages import refuse_negative_counts
from topperk.errors import ColumnError, FileFormatError, IdError, StorageError, TopperkError

TableSource: TypeAlias = Path | bytes
Form: TypeAlias = Literal["CSV", "TSV", "Parquet", "JSON lines", "Arrow"]

_FORMS: Mapping[str, Form] = {
    ".csv": "CSV",
    ".tsv": "TSV",
    ".inter": "TSV",  # RecBole's atomic files
    ".parquet": "Parquet",
    ".jsonl": "JSON lines",
    ".ndjson": "JSON lines",
    ".arrow": "Arrow",
    ".feather": "Arrow",
    ".ipc": "Arrow",
}
_TEXT_FORMS = ("CSV", "TSV", "JSON lines")
_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"ARROW1", "an Arrow file"),
    (b"\xff\xff\xff\xff", "an Arrow stream"),
    (b"FEA1", "an old Feather file"),
    (b"\x1f\x8b", "gzip data"),
    (b"PK\x03\x04", "a zip archive"),
    (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"BZh", "bzip2 data"),
    (b"SQLite format 3", "an SQLite database"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a numpy array"),
    (b"\xff\xfe", "UTF-16 text"),
    (b"\xfe\xff", "UTF-16 text"),
)
_SNIFFED_BYTES = 4096


def open_file(path: str | os.PathLike[str], what: str) -> Table:
    """Look at a file and list its columns; values are read when they are asked for.

    FileFormatError where the file is missing, a folder, empty, or not what its suffix says.
    """
    place = Path(path)
    head = _head(place, what)
    _refuse_double_colons(head, place, what)
    form, packed = _form_of(place, what)
    source: TableSource = place
    if packed:
        source = _unpacked(place, head, what)
        head = source[:_SNIFFED_BYTES]
    _refuse_foreign(head, form, packed, place, what)
    with _own_errors(place, form, what):
        if form == "Parquet":
            return _parquet(place)
        if form == "Arrow":
            return _arrow(place, stream=not head.startswith(b"ARROW1"))
        if form == "JSON lines":
            return _json_lines(source, place, what)
        return _delimited(source, place, "," if form == "CSV" else "\t", form, what)


def read_frame_file(path: str | os.PathLike[str], what: str) -> pl.DataFrame:
    """All columns of a table file: CSV, TSV, Parquet, JSON lines or Arrow, by its suffix.

    ``.csv.gz`` and its like are unpacked. In text files a column is of integers where every value
    is written as one (``7``, not ``007``), of floats where every value is a number otherwise, and
    of strings elsewhere.
    """
    table = open_file(path, what)
    return table.load(table.columns, [name for name in table.columns if is_id_name(name)])


def write_frame_file(frame: pl.DataFrame, path: str | os.PathLike[str]) -> None:
    """Write a table file in the format of its suffix, whole or not at all.

    The table is written beside the target and then put in its place, so that an older file
    survives every failure. StorageError where it can not be written; FileFormatError for a suffix
    that is not known.
    """
    write_frame_files({Path(path): frame})


def write_frame_files(frames: Mapping[Path, pl.DataFrame]) -> None:
    """Write several table files; none takes its place before all of them are written."""
    with ExitStack() as all_written:
        for path, frame in frames.items():
            form, target = form_and_target(path)
            beside = all_written.enter_context(replacing(target))
            try:
                with beside.open("wb") as file:
                    _WRITERS[form](frame, file)
            except pl.exceptions.PolarsError as error:
                raise StorageError(
                    f"can not write {path} as {form}: {_first_line(error)}. "
                    "Give plain columns, or choose another format."
                ) from error


def check_writable_table(path: Path) -> None:
    """The error that ``write_frame_file`` would raise for the path, before anything takes long."""
    check_writable(form_and_target(path)[1])


def form_and_target(path: Path) -> tuple[Form, Path]:
    """The format to write, and the file to replace; a link stays, and what it points to goes."""
    form, packed = _form_of(path, "a table")
    if packed:
        raise FileFormatError(f"tables are not written as {path.name}. Leave out '.gz'.")
    return form, Path(os.path.realpath(path)) if path.is_symlink() else path


def _write_parquet(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_parquet(file)


def _write_csv(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_csv(file)


def _write_tsv(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_csv(file, separator="\t")


def _write_json_lines(frame: pl.DataFrame, file: BinaryIO) -> None:
    frame.write_ndjson(file)


def _write_arrow(frame: pl.DataFrame, file: BinaryIO) -> None:
    # The oldest compatibility level writes plain strings, which every Arrow library can read.
    frame.write_ipc(file, compat_level=pl.CompatLevel.oldest())


_WRITERS: Mapping[Form, Callable[[pl.DataFrame, BinaryIO], None]] = {
    "Parquet": _write_parquet,
    "CSV": _write_csv,
    "TSV": _write_tsv,
    "JSON lines": _write_json_lines,
    "Arrow": _write_arrow,
}


def _form_of(path: Path, what: str) -> tuple[Form, bool]:
    """The format that a suffix promises, and whether it is packed with gzip."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = suffixes[-1:] == [".gz"]
    suffix = "".join(suffixes[-2:-1] if packed else suffixes[-1:])
    form = _FORMS.get(suffix)
    if form is None or (packed and form not in _TEXT_FORMS):
        found = "".join(suffixes[-2:]) if packed else suffix
        raise FileFormatError(
            f"{what}: the suffix {found!r} of {path} is not known. Use one of "
            f"{', '.join(_FORMS)}; text may end in .gz."
        )
    return form, packed


def _head(path: Path, what: str) -> bytes:
    """The first bytes of a file that is there and not empty."""
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except IsADirectoryError as error:
        raise FileFormatError(f"{what}: {path} is a folder. Name one file in it.") from error
    except FileNotFoundError as error:
        raise FileFormatError(
            f"{what}: there is no file {'' if path.suffix else 'or folder '}{path} "
            f"(seen from {Path.cwd()}). Check the path."
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileFormatError(
            f"{what}: {path} can not be opened ({reason}). Check the path and its permissions."
        ) from error
    if not head:
        raise FileFormatError(f"{what}: {path} is empty. Give a file that holds a table.")
    return head


def _unpacked(path: Path, head: bytes, what: str) -> bytes:
    if not head.startswith(b"\x1f\x8b"):
        raise FileFormatError(
            f"{what}: {path} is not gzip data. Leave out '.gz' if it is plain text."
        )
    try:
        with gzip.open(path, "rb") as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise FileFormatError(
            f"{what}: {path} can not be unpacked ({error}). Make the file anew."
        ) from error
    if not content:
        raise FileFormatError(f"{what}: {path} is empty. Give a file that holds a table.")
    return content


def _refuse_foreign(head: bytes, form: Form, packed: bool, path: Path, what: str) -> None:
    """FileFormatError where the first bytes are not those of the format."""
    looks = next((name for magic, name in _MAGIC if head.startswith(magic)), None)
    if looks is None:
        looks = "binary data" if not _is_text(head) else "text"
    expected = {
        "Parquet": ("a Parquet file",),
        "Arrow": ("an Arrow file", "an Arrow stream"),
    }.get(form, ("text",))
    if looks not in expected:
        inside = " inside" if packed else ""
        hint = "Save it as UTF-8." if "UTF-16" in looks else "Give it the suffix of what it is."
        if looks == "binary data" and form in _TEXT_FORMS:
            hint = "Text must be UTF-8."
        raise FileFormatError(
            f"{what}: {path} is named as {form}, but{inside} it is {looks}. {hint}"
        )


def _refuse_double_colons(head: bytes, path: Path, what: str) -> None:
    """FileFormatError for MovieLens' own .dat files, which have no line of names either."""
    if path.suffix.lower() == ".dat" and b"::" in head.partition(b"\n")[0]:
        raise FileFormatError(
            f"{what}: {path} separates its columns by '::', as MovieLens does. Make it a CSV: "
            f"(echo user_id,item_id,rating,timestamp; sed 's/::/,/g' {path}) > {path.stem}.csv."
        )


def _is_text(head: bytes) -> bool:
    """Whether bytes may begin a UTF-8 text; a character cut off at the end does not count."""
    if b"\x00" in head:
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return len(head) == _SNIFFED_BYTES and error.start >= len(head) - 3
    return True


@contextmanager
def _own_errors(path: Path, form: Form, what: str) -> Iterator[None]:
    """Whatever a parser makes of a damaged file becomes a FileFormatError.

    Also a panic of polars' own code, which is no Exception and would end the program.
    """
    try:
        yield
    except (TopperkError, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        raise FileFormatError(
            f"{what}: {path} can not be read as {form} ({_first_line(error)}). "
            "The file is damaged, or is not what its suffix says: make it anew."
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def _file_table(lazy: pl.LazyFrame, path: Path, form: Form, what: str = "a table") -> Table:
    def load(names: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        with _own_errors(path, form, what):
            if form == "Parquet":
                refuse_negative_counts(path, names)
            return lazy.select(names).collect()

    return Table(tuple(lazy.collect_schema().names()), str(path), "polars", load)


def _parquet(path: Path) -> Table:
    lazy = pl.scan_parquet(path, glob=False, hive_partitioning=False)
    return _file_table(lazy, path, "Parquet")


def _arrow(path: Path, stream: bool) -> Table:
    if stream:
        with path.open("rb") as file:
            lazy = pl.read_ipc_stream(file).lazy()
    else:
        lazy = pl.scan_ipc(path, glob=False, hive_partitioning=False)
    return _file_table(lazy, path, "Arrow")


def _delimited(source: TableSource, path: Path, separator: str, form: Form, what: str) -> Table:
    scanned = pl.scan_csv(
        io.BytesIO(source) if isinstance(source, bytes) else source,
        separator=separator,
        infer_schema=False,
        glob=False,
    )

    def load(names: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        with _own_errors(path, form, what):
            texts = scanned.select(names).collect()
            return texts.with_columns(_typed(texts[name]) for name in names)

    names = scanned.collect_schema().names()
    for name in names:
        # polars renames the second of two columns called 'x' to 'x_duplicated_0'.
        if f"{name}_duplicated_0" in names:
            raise ColumnError(
                f"{what}: {path} has two columns called {name!r}. Rename or drop one of them."
            )
    return Table(tuple(names), str(path), "polars", load)


def _typed(texts: pl.Series) -> pl.Series:
    """Text as integers or floats where nothing is lost by it, and else as it stands."""
    for integers in (pl.Int64, pl.UInt64):
        numbers = texts.cast(integers, strict=False)
        if numbers.null_count() == texts.null_count():
            # '007' and '+7' are not what they would come back as.
            same = (numbers.cast(pl.String) == texts).all()
            return numbers if same else texts
    floats = texts.cast(pl.Float64, strict=False)
    if floats.null_count() > texts.null_count() or texts.str.contains(r"^[+-]?0[0-9]").any():
        return texts
    return floats if texts.str.contains("[.eEnN]").any() else texts


def _json_lines(source: TableSource, path: Path, what: str) -> Table:
    def given() -> Path | io.BytesIO:
        if isinstance(source, bytes):
            return io.BytesIO(source)
        # This reader takes stars and brackets in a name for a pattern, and can not be told not to.
        return io.BytesIO(source.read_bytes()) if set("*?[") & set(str(source)) else source

    schema = pl.scan_ndjson(given(), infer_schema_length=None).collect_schema()

    def load(names: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        # Inference reads a mixture of numbers and strings as strings; a categorical accepts
        # strings only, and so tells that an id column is mixed.
        strict = [name for name in ids if schema[name] == pl.String]
        wanted = {name: pl.Categorical() if name in strict else schema[name] for name in names}
        mixed = IdError(
            f"{what}: {path} mixes strings with other values in "
            f"{' or '.join(map(repr, strict))}. Write all ids as numbers or all in quotes."
        )
        with _own_errors(path, "JSON lines", what):
            try:
                frame = pl.scan_ndjson(given(), schema=wanted).collect()
            except pl.exceptions.PolarsError as error:
                if strict:
                    raise mixed from error
                raise
            for name in strict:
                # An integer of more than 64 bits passes, as the text of polars' own object.
                if frame[name].unique().cast(pl.String).str.starts_with("Static(\n").any():
                    raise mixed
            return frame.with_columns(
                *(pl.col(name).cast(pl.String) for name in strict),
                *(
                    pl.col(name).pipe(_narrowed, frame[name])
                    for name in names
                    if schema[name] == pl.Int128
                ),
            ).select(names)

    return Table(tuple(schema.names()), str(path), "polars", load)


def _narrowed(column: pl.Expr, values: pl.Series) -> pl.Expr:
    """128-bit integers as unsigned 64-bit ones where they fit."""
    fits = values.cast(pl.UInt64, strict=False).null_count() == values.null_count()
    return column.cast(pl.UInt64) if fits else column
