"""Ids: outside ids become codes and come back, in the type in which they came."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topperk.errors import IdError, InputError
from topperk.ids import IdIndex, Ids

INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ID_LISTS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20),
    st.lists(TEXT, min_size=1, max_size=20),
)


def codes(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


@given(ID_LISTS)
def test_codes_are_positions_among_the_sorted_ids_and_lead_back(values: list[Any]) -> None:
    index = IdIndex.sorted_from(values, "ids")
    distinct = sorted(set(values))  # polars sorts strings by UTF-8, which is by code point
    assert index.values.to_list() == distinct
    found = index.codes(values, "ids")
    assert found.dtype == np.int32
    assert found.tolist() == [distinct.index(value) for value in values]
    assert index.take(found).to_list() == values


@given(ID_LISTS, ID_LISTS)
def test_an_index_keeps_the_order_given_and_says_what_it_does_not_know(
    known: list[Any], asked: list[Any]
) -> None:
    known = list(dict.fromkeys(known))
    index = IdIndex.from_values(known, "ids")
    assert index.values.to_list() == known
    if isinstance(known[0], str) != isinstance(asked[0], str):
        with pytest.raises(IdError, match=r"asked: found (strings|integers) .* Cast one side"):
            index.codes(asked, "asked")
        return
    wanted = [known.index(value) if value in known else -1 for value in asked]
    assert index.codes(asked, "asked").tolist() == wanted


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integers_of_every_width_keep_it(kind: Any) -> None:
    low, high = pl.select(kind.min(), high=kind.max()).row(0)
    index = IdIndex.sorted_from(pl.Series([high, low, 7, 7], dtype=kind), "ids")
    assert index.take(codes(2, 0)).to_list() == [high, low]
    assert index.take(codes(0)).dtype == kind
    # Asked for in any other width: the same codes, and what does not fit is not known.
    assert index.codes([7, low, high], "ids").tolist() == [1, 0, 2]
    assert index.codes(np.array([7], dtype=np.int8), "ids").tolist() == [1]
    assert index.codes(np.array([2**64 - 1], dtype=np.uint64), "ids").tolist() == [
        2 if high == 2**64 - 1 else -1
    ]


@pytest.mark.parametrize(
    "kind",
    [pl.Categorical(), pl.Enum(["b", "a", "unused"])],
    ids=["categorical", "enum"],
)
def test_categoricals_count_as_their_strings_and_come_back(kind: pl.DataType) -> None:
    index = IdIndex.sorted_from(pl.Series(["b", "a", "b"], dtype=kind), "ids")
    assert index.values.to_list() == ["a", "b"]
    assert index.codes(["b", "c"], "ids").tolist() == [1, -1]
    taken = index.take(codes(1, 0, 1))
    assert (taken.dtype, taken.to_list()) == (kind, ["b", "a", "b"])
    part = index.part(codes(1))
    assert part.take(codes(0)).dtype == kind


def test_nothing_asked_is_nothing_found() -> None:
    assert IdIndex.from_values([1], "ids").codes([], "ids").tolist() == []


def test_equal_indexes_hold_the_same_ids_in_the_same_order() -> None:
    def index(*values: Any, kind: Any = None) -> IdIndex:
        return IdIndex.from_values(pl.Series(values, dtype=kind), "ids")

    assert index(1, 2) == index(1, 2, kind=pl.UInt8)
    assert index(1, 2, kind=pl.Int8) == index(1, 2)
    assert index(1, 2) != index(2, 1)
    assert index(1, 2) != index(1, 2, 3)
    assert index(1, 2) != index("1", "2")
    assert index(1, 300) != index(1, 44, kind=pl.UInt8)
    assert index(1, 44, kind=pl.UInt8) != index(1, 300)
    assert index("a") == index("a", kind=pl.Categorical)
    assert index(1) != [1]


@given(ID_LISTS, ID_LISTS)
def test_a_union_holds_the_ids_of_both(one: list[Any], other: list[Any]) -> None:
    indexes = [IdIndex.sorted_from(values, "ids") for values in (one, other)]
    if isinstance(one[0], str) != isinstance(other[0], str):
        with pytest.raises(IdError, match="strings in one part and integers in another"):
            indexes[0].union(indexes[1], "ids")
        return
    wanted = sorted({*one, *other})
    if isinstance(wanted[0], int) and wanted[0] < 0 and wanted[-1] >= 2**63:
        with pytest.raises(IdError, match="Cast them to strings"):
            indexes[0].union(indexes[1], "ids")
        return
    assert indexes[0].union(indexes[1], "ids").values.to_list() == wanted


def test_names_quote_strings_and_leave_integers_bare() -> None:
    assert IdIndex.from_values(["7"], "ids").name(0) == "'7'"
    assert IdIndex.from_values([7], "ids").name(0) == "7"


@given(ID_LISTS)
def test_the_text_of_an_id_is_the_id_itself(values: list[Any]) -> None:
    ids = IdIndex.sorted_from(values, "ids")
    assert [ids.text(code) for code in range(len(ids))] == [str(value) for value in ids.values]


BAD: list[tuple[Any, str]] = [
    ([], "there are none. Give"),
    ([1, None], "1 of 2 ids are missing, the first in row 2. Drop"),
    (["a", "b", "a"], "'a' is given more than once. Give"),
    (["a", "b", "a", "b"], "'a' is given more than once, and so is 1 other. Give"),
    ([1, 2, 3, 1, 2, 3], "1 is given more than once, and so are 2 others. Give"),
    ([1, "a"], "ids of the types int, str are mixed. Cast"),
    ([1.5], "decimal numbers .* Cast them"),
    ([1.0, float("nan")], "1 of 2 ids are NaN, the first in row 2"),
    ([True], "Boolean.* Cast them"),
    ([2**64], "of type int of more than 64 bits. Cast"),
    ([-1, 2**63], "of type int of more than 64 bits. Cast"),
    ([b"a"], "Binary.* Cast them"),
    ([[1]], "List.* Cast them"),
    ([(1, 2)], "Cast"),
    ([{"a": 1}], "Struct.* Cast them"),
    ([decimal.Decimal(1)], "Decimal.* Cast them"),
    ([datetime.date(2024, 1, 1)], "Date.* Cast them"),
    ([datetime.timedelta(1)], "Duration.* Cast them"),
    ([object()], "of type object. Cast"),
    (["\ud800"], "not valid Unicode"),
    (pl.Series([1], dtype=pl.Int128), "Int128, of more than 64 bits. Cast"),
    (np.array([1 + 1j]), "complex. Cast"),
    (np.array([1], dtype="timedelta64[ns]"), "Duration.* Cast them"),
    (np.zeros((2, 2)), r"shape \(2, 2\) is no column. Give"),
    ("abc", "str is no column. Give a list"),
    ({"a", "b"}, "set is no column. Give a list"),
    ({"a": 1}, "dict is no column. Give a list"),
    (5, "int is no column. Give a list"),
    (None, "NoneType is no column. Give a list"),
]


@pytest.mark.parametrize(("values", "words"), BAD, ids=[words for _, words in BAD])
def test_what_is_no_id_is_refused_with_a_cure(values: Any, words: str) -> None:
    with pytest.raises(InputError, match=f"^the users.*{words}"):
        IdIndex.from_values(values, "the users")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (pl.Series([1.0]), "Float64.*from_values"),
        (pl.Series([1, None]), "missing"),
        (pl.Series(["a", "a"]), "'a' more than once"),
    ],
)
def test_an_index_made_by_hand_checks_itself(values: pl.Series, words: str) -> None:
    with pytest.raises(IdError, match=words):
        IdIndex(values)


def test_ids_count_users_and_items() -> None:
    ids = Ids.of(users=range(3), items=np.array(["a", "b"]))
    assert (ids.n_users, ids.n_items, ids.frame_kind) == (3, 2, "polars")
    assert ids == Ids.of([0, 1, 2], ["a", "b"])
    assert ids != Ids.of([0, 1, 2], ["b", "a"])
