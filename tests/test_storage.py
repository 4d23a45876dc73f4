"""A model folder: what goes in comes out, and no accident leaves less than a whole model."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from topperk import _durable, _manifest, storage
from topperk._strings import pack_strings, unpack_strings
from topperk.errors import StorageError
from topperk.storage import check_savable, read_folder, write_folder

OLD = ({"name": "old", "c": 1.0}, {"slope": np.arange(5.0), "codes": np.arange(3, dtype=np.int32)})
NEW = ({"name": "new", "c": 0.1}, {"slope": np.ones(7), "reason": np.zeros(4, dtype=np.uint8)})
Model = tuple[dict[str, Any], dict[str, Any]]


def same(found: Model, wanted: Model) -> bool:
    """Equal to the bit, dtypes and shapes included."""
    return found[0] == wanted[0] and {n: _bits(a) for n, a in found[1].items()} == {
        n: _bits(a) for n, a in wanted[1].items()
    }


def _bits(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    return array.dtype.str, array.shape, array.tobytes()


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below, with the bytes of the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def is_tidy(model: Path) -> bool:
    """Nothing but a manifest and one data folder, and no leftover beside the model."""
    inside = sorted(p.name[:5] for p in model.iterdir())
    return inside == ["data-", "manif"] and sorted(os.listdir(model.parent)) == [model.name]


# --- round trip -------------------------------------------------------------------------------


def test_what_is_saved_is_read_again(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", *OLD)
    assert same(read_folder(tmp_path / "m"), OLD)
    assert is_tidy(tmp_path / "m")
    write_folder(str(tmp_path / "m"), *NEW)
    assert same(read_folder(str(tmp_path / "m")), NEW)
    assert is_tidy(tmp_path / "m")


def test_an_empty_folder_becomes_a_model(tmp_path: Path) -> None:
    model = tmp_path / "m"
    model.mkdir()
    write_folder(model, *OLD)
    assert same(read_folder(model), OLD)
    assert is_tidy(model)


def test_a_link_to_a_model_stays_a_link(tmp_path: Path) -> None:
    write_folder(tmp_path / "real", *OLD)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_folder(tmp_path / "link", *NEW)
    assert (tmp_path / "link").is_symlink()
    assert same(read_folder(tmp_path / "real"), NEW)


def test_files_of_others_in_a_model_folder_are_left_alone(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", *OLD)
    (tmp_path / "m" / "NOTES.md").write_text("ours")
    write_folder(tmp_path / "m", *NEW)
    assert (tmp_path / "m" / "NOTES.md").read_text() == "ours"


def test_the_manifest_says_what_it_holds(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", *OLD)
    manifest = json.loads((tmp_path / "m" / "manifest.json").read_text())
    assert manifest["format"] == "topperk"
    assert manifest["format_version"] == 1
    assert set(manifest) == {
        "format",
        "format_version",
        "library_version",
        "config",
        "data",
        "arrays",
        "sha256",
    }
    entry = manifest["arrays"]["codes"]
    file = tmp_path / "m" / manifest["data"] / "codes.npy"
    assert entry == {
        "file": "codes.npy",
        "dtype": "<i4",
        "shape": [3],
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
    }
    np.testing.assert_array_equal(np.load(file, allow_pickle=False), OLD[1]["codes"])


DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.byte_string_dtypes(min_len=1),
    hnp.unicode_string_dtypes(min_len=1),
)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
NAMES = st.text("abcxyz019_.-", min_size=1, max_size=12).filter(lambda n: n[0] not in ".-")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(
    config=st.dictionaries(st.text(), JSON, max_size=4),
    arrays=st.dictionaries(NAMES, ARRAYS, max_size=3),
    transposed=st.booleans(),
)
@settings(max_examples=60)
def test_any_arrays_and_any_configuration_come_back(
    tmp_path_factory: pytest.TempPathFactory,
    config: dict[str, Any],
    arrays: dict[str, Any],
    transposed: bool,
) -> None:
    if transposed:
        arrays = {name: array.T for name, array in arrays.items()}
    model = tmp_path_factory.mktemp("any") / "m"
    write_folder(model, config, arrays)
    found = read_folder(model)
    assert same(found, (config, arrays))
    assert all(array.flags.writeable for array in found[1].values())


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_packed_strings_come_back(strings: list[str]) -> None:
    data, offsets = pack_strings(strings)
    assert (data.dtype, offsets.dtype) == (np.uint8, np.int64)
    assert len(offsets) == len(strings) + 1
    assert unpack_strings(data, offsets) == strings


@pytest.mark.parametrize(
    ("data", "offsets"),
    [
        (np.zeros(3, np.uint8), np.array([0, 2])),
        (np.zeros(3, np.uint8), np.array([1, 3])),
        (np.zeros(3, np.uint8), np.array([0, 5, 3])),
        (np.zeros(3, np.uint8), np.array([], dtype=np.int64)),
        (np.zeros(3, np.uint8), np.array([0.0, 3.0])),
        (np.zeros(3, np.int8), np.array([0, 3])),
        (np.zeros((3, 1), np.uint8), np.array([0, 3])),
        (np.full(3, 255, np.uint8), np.array([0, 3])),
    ],
)
def test_damaged_strings_are_refused(data: Any, offsets: Any) -> None:
    with pytest.raises(StorageError, match="stored strings are damaged"):
        unpack_strings(data, offsets)


def test_a_lone_surrogate_can_not_be_packed() -> None:
    with pytest.raises(StorageError, match="surrogates"):
        pack_strings(["fine", "\ud800"])


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "arrays", "words"),
    [
        ({"f": float("nan")}, {}, "finite"),
        ({"f": object()}, {}, "config.f is a object"),
        ({"f": [1, {"g": {1, 2}}]}, {}, r"config.f\[1\].g is a set"),
        ({"f": {1: 2}}, {}, "not a string"),
        ({"f": "x" * 9_000_000}, {}, "more than a manifest may hold"),
        ({}, {"a": np.array([object()])}, "dtype object"),
        ({}, {"a": np.zeros(2, dtype=[("x", int)])}, "can not be stored plainly"),
        ({}, {"../a": np.zeros(2)}, "can not be called"),
        ({}, {"A": np.zeros(2)}, "can not be called"),
        ({}, {"": np.zeros(2)}, "can not be called"),
    ],
)
def test_what_can_not_be_stored_is_refused_before_anything_is_written(
    tmp_path: Path, config: dict[str, Any], arrays: dict[str, Any], words: str
) -> None:
    with pytest.raises(StorageError, match=words):
        write_folder(tmp_path / "m", config, arrays)
    assert not os.listdir(tmp_path)


def test_a_bottomless_configuration_is_refused(tmp_path: Path) -> None:
    config: dict[str, Any] = {}
    for _ in range(2000):
        config = {"in": config}
    with pytest.raises(StorageError, match="deep"):
        write_folder(tmp_path / "m", config, {})


def _a_file(model: Path) -> None:
    model.write_text("my thesis")


def _a_foreign_folder(model: Path) -> None:
    (model / "src").mkdir(parents=True)
    (model / "src" / "main.py").write_text("print()")


def _a_foreign_manifest(model: Path) -> None:
    model.mkdir()
    (model / "manifest.json").write_text('{"name": "a browser extension"}')


def _a_manifest_that_is_not_json(model: Path) -> None:
    model.mkdir()
    (model / "manifest.json").write_text("hello")


def _a_newer_model(model: Path) -> None:
    write_folder(model, *OLD)
    _forge(model, lambda m: m.update(format_version=2))


def _a_data_folder_and_more(model: Path) -> None:
    (model / "data-0123456789abcdef").mkdir(parents=True)
    (model / "other").touch()


@pytest.mark.parametrize(
    "make",
    [
        _a_file,
        _a_foreign_folder,
        _a_foreign_manifest,
        _a_manifest_that_is_not_json,
        _a_newer_model,
        _a_data_folder_and_more,
    ],
)
def test_what_is_not_a_model_is_refused_and_untouched(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "m")
    before = contents(tmp_path)
    with pytest.raises(StorageError) as late:
        write_folder(tmp_path / "m", *NEW)
    assert contents(tmp_path) == before
    with pytest.raises(StorageError) as early:
        check_savable(tmp_path / "m")
    assert str(early.value) == str(late.value)
    assert contents(tmp_path) == before
    with pytest.raises(StorageError):
        read_folder(tmp_path / "m")
    assert contents(tmp_path) == before


def test_a_name_longer_than_the_file_system_allows(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="can not save the model"):
        write_folder(tmp_path / ("x" * 300), *OLD)
    assert os.listdir(tmp_path) == []


def test_a_place_that_can_be_written_is_only_looked_at(tmp_path: Path) -> None:
    write_folder(tmp_path / "old", *OLD)
    (tmp_path / "empty").mkdir()
    before = contents(tmp_path)
    for name in ("old", "empty", "new"):
        check_savable(tmp_path / name)
        assert contents(tmp_path) == before
        write_folder(tmp_path / name, *NEW)
        before = contents(tmp_path)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("missing/m", "there is no folder"),
        ("file/m", "there is no folder"),
        ("\0", "can not name a folder"),
        (f"{'x' * 300}/m", "there is no folder"),
    ],
)
def test_a_place_that_can_not_be_written(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "file").write_text("a file")
    with pytest.raises(StorageError, match=words):
        write_folder(f"{tmp_path}/{path}", *OLD)
    with pytest.raises(StorageError, match=words):
        check_savable(f"{tmp_path}/{path}")
    with pytest.raises(StorageError, match="there is no model"):
        read_folder(f"{tmp_path}/{path}")
    assert os.listdir(tmp_path) == ["file"]


# --- damage -----------------------------------------------------------------------------------


def _forge(model: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the manifest and make its own checksum right again, as an attacker would."""
    path = model / "manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    manifest.pop("sha256", None)
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    manifest["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest))


def _array_entry(manifest: dict[str, Any]) -> dict[str, Any]:
    entry = manifest["arrays"]["slope"]
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(format_version=2), "Upgrade topperk"),
        (lambda m: m.update(format_version=0), "damaged"),
        (lambda m: m.update(format_version=True), "damaged"),
        (lambda m: m.update(format_version=None), "damaged"),
        (lambda m: m.update(format="other"), "not a topperk model"),
        (lambda m: m.pop("config"), "damaged"),
        (lambda m: m.update(config=[]), "damaged"),
        (lambda m: m.update(arrays=[]), "damaged"),
        (lambda m: m.update(data="../data-0123456789abcdef"), "outside of the folder"),
        (lambda m: m.update(data=".."), "outside of the folder"),
        (lambda m: m.update(data="data-0123456789abcdef"), "missing"),
        (lambda m: _array_entry(m).update(file="../../secret.npy"), "outside of the folder"),
        (lambda m: _array_entry(m).update(file="/etc/passwd"), "outside of the folder"),
        (lambda m: _array_entry(m).update(file="codes.npy"), "wrongly"),
        (lambda m: m["arrays"].update({"../x": _array_entry(m)}), "wrongly"),
        (lambda m: m["arrays"].update(slope=3), "wrongly"),
        (lambda m: _array_entry(m).update(dtype="<f4"), "<f8"),
        (lambda m: _array_entry(m).update(dtype="O"), "<f8"),
        (lambda m: _array_entry(m).update(shape=[4]), "holds"),
        (lambda m: _array_entry(m).update(shape=[-1]), "wrongly"),
        (lambda m: _array_entry(m).update(shape=[5.0]), "wrongly"),
        (lambda m: _array_entry(m).update(sha256="0"), "checksum"),
    ],
)
def test_a_forged_manifest_is_found(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    np.save(tmp_path / "secret.npy", np.arange(5.0))
    write_folder(tmp_path / "m", *OLD)
    _forge(tmp_path / "m", change)
    with pytest.raises(StorageError, match=words) as caught:
        read_folder(tmp_path / "m")
    assert str(tmp_path / "m") in str(caught.value)


def _replace_array(model: Path, content: bytes) -> None:
    """Other bytes for an array, with a manifest that vouches for them."""
    manifest = json.loads((model / "manifest.json").read_text())
    (model / manifest["data"] / "slope.npy").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    _forge(model, lambda m: _array_entry(m).update(sha256=digest))


def _npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode()
    return b"\x93NUMPY" + version + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not numpy",
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}"),
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}", bytes(41)),
        _npy("{'descr': '|O', 'fortran_order': False, 'shape': (5,)}", bytes(40)),
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"),
        _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (5,)}", bytes(40), b"\x03\x00"),
        _npy("__import__('os').system('true')"),
        _npy("((((" * 200),
        _npy("{" * 60000),
    ],
)
def test_an_array_file_of_another_kind_is_refused_though_its_checksum_is_right(
    tmp_path: Path, content: bytes
) -> None:
    write_folder(tmp_path / "m", *OLD)
    _replace_array(tmp_path / "m", content)
    with pytest.raises(StorageError, match=r"slope\.npy"):
        read_folder(tmp_path / "m")


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"format": "topperk", "a": NaN}'],
)
def test_a_manifest_that_is_none_is_refused(tmp_path: Path, text: bytes) -> None:
    write_folder(tmp_path / "m", *OLD)
    (tmp_path / "m" / "manifest.json").write_bytes(text)
    with pytest.raises(StorageError):
        read_folder(tmp_path / "m")


def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", *OLD)
    os.truncate(tmp_path / "m" / "manifest.json", 2**40)
    with pytest.raises(StorageError, match="larger"):
        read_folder(tmp_path / "m")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_place_of_a_file_does_not_keep_the_reader_waiting(tmp_path: Path) -> None:
    write_folder(tmp_path / "m", *OLD)
    array = next((tmp_path / "m").glob("data-*/slope.npy"))
    array.unlink()
    os.mkfifo(array)
    with pytest.raises(StorageError, match="not an ordinary file"):
        read_folder(tmp_path / "m")
    (tmp_path / "m" / "manifest.json").unlink()
    (tmp_path / "m" / "manifest.json").mkdir()
    with pytest.raises(StorageError, match="not an ordinary file"):
        read_folder(tmp_path / "m")


@given(data=st.data())
@settings(max_examples=300)
def test_any_damage_is_found_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    model = tmp_path_factory.mktemp("damage") / "m"
    write_folder(model, *OLD)
    victim = data.draw(st.sampled_from(sorted(p for p in model.rglob("*") if p.is_file())))
    content = bytearray(victim.read_bytes())
    deed = data.draw(st.sampled_from(["flip", "byte", "truncate", "append", "cut", "remove"]))
    at = data.draw(st.integers(0, len(content) - 1))
    if deed == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif deed == "byte":
        content[at] = data.draw(st.integers(0, 255))
    elif deed == "truncate":
        del content[at:]
    elif deed == "append":
        content += data.draw(st.binary(min_size=1, max_size=20))
    elif deed == "cut":
        del content[at : at + data.draw(st.integers(1, 20))]
    victim.write_bytes(content)
    if deed == "remove":
        victim.unlink()
    try:
        found = read_folder(model)
    except StorageError:
        return
    assert same(found, OLD)


# --- failure at every step --------------------------------------------------------------------

CALLS = ["mkdir", "open", "close", "fsync", "replace", "rename", "listdir", "unlink", "flock"]


class Failing:
    """Counts the calls that reach the disk, and fails at one of them, or from one of them on."""

    def __init__(self, fails_at: int, error: BaseException, lasting: bool, only: set[str]) -> None:
        self.fails_at, self.error, self.lasting, self.only = fails_at, error, lasting, only
        self.count = 0

    def step(self, name: str) -> None:
        if self.only and name not in self.only:
            return
        self.count += 1
        if self.count == self.fails_at or (self.lasting and self.count > self.fails_at):
            raise self.error

    def watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            if name == "close":  # which lets go of the file even when it reports an error
                function(*args)
            writes = name != "file" or args[1] == "xb"
            self.step(name if writes else "read")
            result = None if name == "close" else function(*args, **kwargs)
            if name == "file" and writes:
                result = _Watched(result, self)
            return result

        return call


class _Watched:
    """A file whose every write and flush is a step."""

    def __init__(self, file: Any, failing: Failing) -> None:
        self._file, self._failing = file, failing

    def write(self, data: bytes) -> int:
        self._failing.step("write")
        half = len(data) // 2
        self._file.write(data[:half])  # a failure may come in the midst of a piece
        self._failing.step("write")
        return half + int(self._file.write(data[half:]))

    def flush(self) -> None:
        self._failing.step("flush")
        self._file.flush()

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *args: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def save_with_failure(model: Path, new: Model, failing: Failing) -> BaseException | None:
    """Save while ``failing`` stands between the module and the disk; the exception, if any."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (storage, _durable, _manifest):
            patch.setattr(module, "open", failing.watched("file", open), raising=False)
        for name in CALLS:
            if name == "flock":
                patch.setattr(_durable.fcntl, name, failing.watched(name, _durable.fcntl.flock))
            else:
                patch.setattr(os, name, failing.watched(name, getattr(os, name)))
        try:
            write_folder(model, *new)
        except BaseException as error:
            return error
    return None


@pytest.mark.skipif(sys.platform == "win32", reason="the steps counted are those of POSIX")
@pytest.mark.parametrize("start", ["nothing", "an old model", "an empty folder", "leftovers"])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.ENOSPC, "No space left on device"),
        PermissionError(errno.EACCES, "Permission denied"),
        KeyboardInterrupt(),
        MemoryError(),
    ],
    ids=["EIO", "ENOSPC", "EACCES", "interrupt", "memory"],
)
def test_a_failure_at_any_step_leaves_a_whole_model(
    tmp_path: Path, start: str, lasting: bool, error: BaseException
) -> None:
    failed = finished = 0
    for n in range(1, 500):
        model = tmp_path / str(n) / "m"
        model.parent.mkdir()
        before: Model | None = None
        if start in ("an old model", "leftovers"):
            write_folder(model, *OLD)
            before = OLD
        elif start == "an empty folder":
            model.mkdir()
        if start == "leftovers":
            (model / "data-0123456789abcdef").mkdir()
            (model / "data-0123456789abcdef" / "x.npy").touch()
            (model / "manifest.json.0123456789abcdef").touch()
            (model.parent / ".m.saving-0123456789abcdef").mkdir()
        failing = Failing(n, error, lasting, set())
        raised = save_with_failure(model, NEW, failing)
        if raised is None:
            assert same(read_folder(model), NEW)
            finished += 1
        else:
            failed += 1
            assert isinstance(raised, StorageError if isinstance(error, OSError) else type(error))
            try:
                found = read_folder(model)
            except StorageError:
                assert before is None
            else:
                assert same(found, NEW) or (before is not None and same(found, before))
                if "unchanged" in str(raised):
                    assert before is not None
                    assert same(found, before)
        write_folder(model, *NEW)  # and the next save puts everything in order
        assert same(read_folder(model), NEW)
        assert is_tidy(model)
        if failing.count < n:
            break
    else:
        pytest.fail("the save never ran to its end")
    assert failed > 15
    assert finished >= 1


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path) -> None:
    """As long as files can still be removed, as on a full disk."""
    for n in range(1, 500):
        for start in ("new", "old"):
            model = tmp_path / f"{n}-{start}" / "m"
            model.parent.mkdir()
            if start == "old":
                write_folder(model, *OLD)
            before = contents(model.parent)
            full = OSError(errno.ENOSPC, "No space left on device")
            failing = Failing(n, full, True, {"write", "flush", "fsync", "mkdir", "file"})
            raised = save_with_failure(model, NEW, failing)
            if raised is not None and "unchanged" in str(raised):
                assert "No space left on device. Free some space" in str(raised)
                assert contents(model.parent) == before
        if failing.count < n:
            return
    pytest.fail("the save never ran to its end")


def test_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_folder(tmp_path / "m", *OLD)
    before = contents(tmp_path)

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)
    for name in ("m", "new"):
        with pytest.raises(StorageError, match=r"Permission denied\. Pass a path in a folder"):
            write_folder(tmp_path / name, *NEW)
    assert contents(tmp_path) == before


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "win32":
        pytest.skip("Windows has no such locks")

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(_durable.fcntl, "flock", refuse)
    write_folder(tmp_path / "m", *OLD)
    write_folder(tmp_path / "m", *NEW)
    assert same(read_folder(tmp_path / "m"), NEW)


# --- real processes ---------------------------------------------------------------------------

# Only what storage needs is imported, and the parent stays single-threaded, so that it may fork.
HARNESS = """
import os, signal, sys
import numpy as np
from topperk import storage

STEPS = {"mkdir", "open", "close", "fsync", "replace", "rename", "listdir", "unlink", "rmdir",
         "write", "flush", "flock", "scandir", "__exit__"}

def save(path, which):
    # Large enough that file buffers spill over in the midst of an array.
    arrays = {f"a{i}": np.full(5000, i + 100.0 * which) for i in range(3)}
    storage.write_folder(path, {"which": which}, arrays)

def killed_at(n, path, which):
    # A child that saves and kills itself just before its n-th call to the disk: n, or its steps.
    child = os.fork()
    if child == 0:
        count = 0
        def watch(frame, event, function):
            nonlocal count
            if event == "c_call" and function.__name__ in STEPS:
                count += 1
                if count == n:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.setprofile(watch)
        try:
            save(path, which)
        except BaseException:
            os._exit(2)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)

def which(path):
    config, arrays = storage.read_folder(path)
    for i in range(3):
        assert (arrays[f"a{i}"] == i + 100.0 * config["which"]).all()
    return config["which"]
"""


def run_harness(code: str, *args: str) -> str:
    script = HARNESS + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script, *args], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can not fork")
def test_killed_at_every_step(tmp_path: Path) -> None:
    """SIGKILL before every single call to the disk: no handler runs, nothing is cleaned."""
    out = run_harness(
        """
        from topperk.errors import StorageError
        root = sys.argv[1]
        over, n, kills, seen = os.path.join(root, "over"), 1, 0, set()
        save(over, 0)
        while killed_at(n, over, 1):
            seen.add(which(over))
            kills += 1
            save(over, 0)
            assert len(os.listdir(over)) == 2, os.listdir(over)
            n += 1
        assert which(over) == 1 and seen == {0, 1}, seen
        n, seen = 1, set()
        while True:
            folder = os.path.join(root, f"new-{n}")
            os.mkdir(folder)
            new = os.path.join(folder, "m")
            killed = killed_at(n, new, 1)
            try:
                seen.add(which(new))
            except StorageError as error:
                assert "there is no model" in str(error), error
                seen.add(None)
            save(new, 2)
            save(new, 3)
            assert which(new) == 3 and os.listdir(folder) == ["m"] and len(os.listdir(new)) == 2
            if not killed:
                break
            kills += 1
            n += 1
        assert seen == {None, 1}, seen
        print(kills)
        """,
        str(tmp_path),
    )
    assert int(out) > 60


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_killed_from_outside_at_several_instants(tmp_path: Path) -> None:
    model = tmp_path / "m"
    code = HARNESS + textwrap.dedent(
        """
        save(sys.argv[1], 0)
        print("ready", flush=True)
        while True:
            save(sys.argv[1], 1)
            save(sys.argv[1], 0)
        """
    )
    for delay in (0.0, 0.003, 0.01, 0.031):
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(model)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        config, arrays = read_folder(model)
        for i in range(3):
            assert (arrays[f"a{i}"] == i + 100.0 * config["which"]).all()
    write_folder(model, *NEW)
    assert is_tidy(model)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no RLIMIT_FSIZE")
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """The operating system itself refuses to let a file grow."""
    out = run_harness(
        """
        import resource
        from topperk.errors import StorageError
        save(sys.argv[1], 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
        for path in sys.argv[1:3]:
            try:
                save(path, 1)
            except StorageError as error:
                print(error)
        print(which(sys.argv[1]), len(os.listdir(sys.argv[1])), os.path.exists(sys.argv[2]))
        """,
        str(tmp_path / "m"),
        str(tmp_path / "new"),
    )
    assert out.count("File too large. Free some space") == 2
    assert out.splitlines()[-1] == "0 2 False"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can not fork")
def test_two_saves_at_a_time(tmp_path: Path) -> None:
    """The second is told to wait, and the living first one's files are not taken for leftovers."""
    out = run_harness(
        """
        from topperk.errors import StorageError
        path = sys.argv[1]
        real = os.fsync
        def nested(handle):
            os.fsync = real
            child = os.fork()
            if child == 0:
                try:
                    save(path, 2)
                    print("saved", flush=True)
                except StorageError as error:
                    print(error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
            return real(handle)
        for _ in range(2):
            os.fsync = nested
            try:
                save(path, 1)
            except StorageError as error:
                print("first:", error, flush=True)
            print(which(path), flush=True)
        """,
        str(tmp_path / "m"),
    )
    lines = out.splitlines()
    # Where nothing was yet, the one who is ready first has the place.
    assert lines[0] == "saved"
    assert lines[1].startswith("first: can not save the model")
    assert lines[2] == "2"
    assert "another process is saving it right now" in lines[3]
    assert lines[4] == "1"
    assert is_tidy(tmp_path / "m")


# --- reading while another saves --------------------------------------------------------------


def test_a_reader_that_meets_a_save_starts_over_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "m"
    write_folder(model, *OLD)
    real, saves = storage.parsed_manifest, 0

    def parse_and_be_overtaken(shown: str, raw: bytes) -> Any:
        nonlocal saves
        parsed = real(shown, raw)
        if saves < limit:
            saves += 1
            with monkeypatch.context() as patch:
                patch.setattr(storage, "parsed_manifest", real)
                write_folder(model, *NEW)
        return parsed

    monkeypatch.setattr(storage, "parsed_manifest", parse_and_be_overtaken)
    limit = 1
    assert same(read_folder(model), NEW)
    assert saves == 1
    limit = 3
    with pytest.raises(StorageError, match="missing"):
        read_folder(model)
    assert saves == 3


def test_readers_beside_a_saver_see_one_model_or_the_other(tmp_path: Path) -> None:
    model = tmp_path / "m"
    write_folder(model, *OLD)
    end = threading.Event()

    def save_again_and_again() -> None:
        while not end.is_set():
            write_folder(model, *NEW)
            write_folder(model, *OLD)

    saver = threading.Thread(target=save_again_and_again)
    saver.start()
    seen, overtaken = 0, 0
    try:
        until = time.monotonic() + 1.5
        while time.monotonic() < until:
            try:
                found = read_folder(model)
            except StorageError as error:
                if "missing" not in str(error):
                    raise
                overtaken += 1  # overtaken by two saves in a row
            else:
                assert same(found, OLD) or same(found, NEW)
                seen += 1
    finally:
        end.set()
        saver.join()
    assert seen > 10 * overtaken
