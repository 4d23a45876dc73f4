"""A look at a Parquet file's pages before polars reads them.

polars believes the counts in the headers of pages. Where damage made one negative, it asks for
2**61 bytes and ends the whole process, which no ``except`` can catch. So the headers of the columns
to be read are looked at first; whatever else may be wrong is left to polars, which tells it.

Headers are in Thrift's compact protocol: fields of a byte (step of the id, type) and a value.
"""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, TypeAlias

Fields: TypeAlias = dict[int, Any]

_MAGIC = b"PAR1"
# What Thrift calls them.
_STOP, _TRUE, _FALSE, _BYTE = 0, 1, 2, 3
_DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = 7, 8, 9, 10, 11, 12
# Fields of PageHeader: its sizes, and the headers of data pages, dictionaries and data pages V2,
# in which every number up to this field is a count or a length.
_SIZES = (2, 3)
_COUNTS = {5: 1, 7: 1, 8: 3}


def refuse_negative_counts(path: Path, names: Collection[str]) -> None:
    """ValueError where a page of one of the columns claims a negative count or size."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        try:
            for name, header in _page_headers(data, names):
                numbers = [header.get(field, 0) for field in _SIZES]
                for part, last in _COUNTS.items():
                    inner = header.get(part, {})
                    numbers += [inner.get(field, 0) for field in range(1, last + 1)]
                if min(numbers) < 0:
                    raise ValueError(f"a page of column {name!r} claims a count of {min(numbers)}")
        except (IndexError, KeyError, TypeError, AttributeError, RecursionError):
            return  # no such file as the format describes: polars says what is wrong


def _page_headers(data: mmap.mmap, names: Collection[str]) -> Iterator[tuple[str, Fields]]:
    """The header of every page of these columns, as far as it can be followed."""
    size = int.from_bytes(data[-8:-4], "little")
    if data[-4:] != _MAGIC or size > len(data) - 8:
        return
    footer, _ = _struct(data, len(data) - 8 - size)
    for group in footer[4]:
        for column in group[1]:
            about = column[3]
            name = about[3][0].decode(errors="replace")
            if name not in names:
                continue
            at = about[9]
            if 0 < about.get(11, 0) < at:
                at = about[11]
            end, values = at + about[7], 0
            while 0 <= at < end and values < about[5]:
                header, at = _struct(data, at)
                yield name, header
                values += sum(header.get(part, {}).get(1, 0) for part in (5, 8))
                at += header[3]


def _struct(data: mmap.mmap, at: int) -> tuple[Fields, int]:
    """The fields of a struct by their ids, and where it ends."""
    fields: Fields = {}
    field = 0
    while True:
        head = data[at]
        at += 1
        kind, step = head & 15, head >> 4
        if kind == _STOP:
            return fields, at
        if step:
            field += step
        else:
            field, at = _integer(data, at)
        if kind in (_TRUE, _FALSE):
            fields[field] = kind == _TRUE
        else:
            fields[field], at = _value(data, at, kind)


def _value(data: mmap.mmap, at: int, kind: int) -> tuple[Any, int]:
    """A value of one type, and where it ends."""
    if kind == _STRUCT:
        return _struct(data, at)
    if kind in (_TRUE, _FALSE, _BYTE):  # in a list a boolean is a byte
        return data[at], at + 1
    if kind == _DOUBLE:
        return None, at + 8
    if kind == _BINARY:
        size, at = _varint(data, at)
        return data[at : at + size], at + size
    if kind in (_LIST, _SET):
        head = data[at]
        at += 1
        count, inner = head >> 4, head & 15
        if count == 15:
            count, at = _varint(data, at)
        values = []
        for _ in range(count):
            value, at = _value(data, at, inner)
            values.append(value)
        return values, at
    if kind == _MAP:
        raise KeyError("Parquet has no maps in its headers")
    return _integer(data, at)


def _varint(data: mmap.mmap, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:  # ten bytes hold 64 bits
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at
    raise KeyError("an integer of more than 64 bits")


def _integer(data: mmap.mmap, at: int) -> tuple[int, int]:
    """A signed integer: zigzag, so that -1 is 1 and 1 is 2."""
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at
