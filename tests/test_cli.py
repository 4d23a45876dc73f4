"""The command line as a process: data on stdout, talk on stderr, and a plain exit status."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import topperk as tp
from topperk.datasets.simulated import simulate_world
from topperk.edges.cli import INTERRUPTED, run
from topperk.edges.measuring import measure

TOPPERK = Path(sysconfig.get_path("scripts"), "topperk")
VERBS = ("demo", "split", "fit", "recommend", "evaluate", "curve", "warmup", "datasets")
PATIENCE = 60.0


def topperk(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program with its three streams being pipes."""
    return subprocess.run(
        [TOPPERK, *arguments],
        cwd=cwd,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def state(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below, with the bytes of the files."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ratings, factors and candidates of the same integer ids, and a fitted model.

    ratings.csv and ratings.parquet, factors.npz, candidates.parquet and candidates.csv, parts/,
    f1.topperk.
    """
    folder = tmp_path_factory.mktemp("home")
    world = simulate_world(n_users=150, n_items=120, seed=3)
    parts = [part.to_frame() for part in world.split.parts().values()]
    ratings = pl.concat(parts).select(
        pl.col("user_id", "item_id").str.slice(5).cast(pl.Int64),
    )
    ratings = ratings.sample(fraction=1.0, shuffle=True, seed=0).with_row_index("timestamp")
    ratings = ratings.select("user_id", "item_id", pl.col("timestamp").cast(pl.Int64))
    data = tp.read_interactions(ratings)
    users, items = (index.values.to_numpy() for index in (data.ids.users, data.ids.items))
    factors = tp.Factors(
        world.user_vectors[users],
        world.item_vectors[items],
        data.ids,
        world.user_biases[users],
        world.item_biases[items],
    )
    factors.save(folder / "factors.npz")
    rows = factors.block(np.arange(users.size, dtype=np.int32)).scores
    candidates = pl.DataFrame(
        {
            "user_id": np.repeat(users, items.size),
            "item_id": np.tile(items, users.size),
            "score": rows.astype(np.float64),
        }
    )
    for name, frame in (("ratings", ratings), ("candidates", candidates)):
        frame.write_parquet(folder / f"{name}.parquet")
        frame.write_csv(folder / f"{name}.csv")
    split = tp.split_random(data)
    (folder / "parts").mkdir()
    for name, part in split.parts().items():
        part.to_frame().write_parquet(folder / "parts" / f"{name}.parquet")
    tp.PersonalizedK(tp.F1(), max_k=50).fit(factors, split).save(folder / "f1.topperk")
    return folder


# --- the whole journey ------------------------------------------------------------------------


def in_process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same without a process of its own."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(arguments)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def test_a_simulated_world_is_written_split_and_can_be_fitted(tmp_path: Path) -> None:
    made = topperk("datasets", "simulate", "world", "--users=40", "--items=200", cwd=tmp_path)
    assert (made.returncode, made.stdout) == (0, "")
    assert re.fullmatch(r"Split\(given: .* 40 users, 200 items\), written to world\n", made.stderr)
    assert sorted(os.listdir(tmp_path / "world")) == [
        "factors.npz",
        "test.parquet",
        "train.parquet",
        "validation.parquet",
    ]
    # although some of its items have never been taken by anybody
    parts = [pl.read_parquet(path) for path in (tmp_path / "world").glob("*.parquet")]
    assert pl.concat(parts)["item_id"].n_unique() < 200
    fitted = topperk("fit", "world", "world/factors.npz", "m", "--max-k=20", cwd=tmp_path)
    assert (fitted.returncode, fitted.stdout) == (0, "")
    assert tp.load(tmp_path / "m").max_k == 20


# A kernel that one process compiles and another takes from the cache may have been compiled in
# other company, and round differently in the last digit.
CLOSE = 1e-11


def alike(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of numbers that are no integers."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float):
        return bool(one == pytest.approx(other, rel=CLOSE, abs=CLOSE, nan_ok=True))
    return bool(one == other)


@pytest.mark.parametrize(("suffix", "ask"), [("parquet", topperk), ("csv", in_process)])
def test_from_ratings_to_lists_and_report(
    home: Path,
    tmp_path: Path,
    suffix: str,
    ask: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    ratings, scores = (str(home / f"{name}.{suffix}") for name in ("ratings", "candidates"))
    steps = {
        "split": ["split", ratings, "parts"],
        "fit": ["fit", "parts", scores, "m", "--max-k", "30"],
        "recommend": ["recommend", "m", scores, "-o", f"lists.{suffix}"],
        "evaluate": [
            *("evaluate", "m", scores, "parts", "--json", "--report", "report.html"),
            *("--per-user", f"users.{suffix}"),
        ],
        "curve": ["curve", "m", scores, "17", "--json"],
        "sizes": ["recommend", "m", scores, "--sizes"],
    }
    done = {name: ask(*arguments, cwd=tmp_path) for name, arguments in steps.items()}
    assert {name: step.returncode for name, step in done.items()} == dict.fromkeys(steps, 0)
    assert [name for name in done if not done[name].stdout] == ["split", "fit", "recommend"]
    assert [name for name in done if not done[name].stderr] == ["curve", "sizes"]
    assert sorted(os.listdir(tmp_path)) == sorted(
        [f"lists.{suffix}", "m", "parts", "report.html", f"users.{suffix}"]
    )
    # and Python says the same
    split = tp.split_random(tp.read_interactions(home / "ratings.parquet"))
    source = tp.Candidates(home / "candidates.parquet")
    model = tp.PersonalizedK(tp.F1(), max_k=30).fit(source, split)
    read = pl.read_csv if suffix == "csv" else pl.read_parquet
    lists = read(tmp_path / f"lists.{suffix}")
    assert_frame_equal(lists, model.recommend(source).cast(lists.schema), rel_tol=CLOSE)
    sizes = pl.read_csv(done["sizes"].stdout.encode())
    assert_frame_equal(sizes, model.sizes(source).cast(sizes.schema), rel_tol=CLOSE)
    utilities = [tp.F1(), tp.NDCG(), tp.PDCG(), tp.TP()]
    measured = measure(model, source, split, utilities)
    assert alike(json.loads(done["evaluate"].stdout), measured.as_json())
    users = read(tmp_path / f"users.{suffix}")
    assert users.height == sum(found.n_users * len(found.methods) for found in measured.evaluations)
    assert users["realised_utility"].filter(
        (users["utility"] == "F1") & (users["method"] == "Oracle")
    ).to_list() == pytest.approx(measured.of(tp.F1()).method("Oracle").realised.tolist())
    curve = json.loads(done["curve"].stdout)
    wanted = model.curves(source, [17])["expected_utility"].to_list()
    assert alike([row["expected_utility"] for row in curve["curve"]], wanted)
    assert curve["k"] == model.sizes(source, [17])["k"][0]


def test_lists_of_a_model_and_factors_are_those_of_python(home: Path) -> None:
    model, source = tp.load(home / "f1.topperk"), tp.load_scores(home / "factors.npz")
    text = topperk("recommend", "f1.topperk", "factors.npz", cwd=home)
    wanted = model.recommend(source)
    assert (text.returncode, text.stderr) == (0, "")
    found = list(csv.DictReader(io.StringIO(text.stdout)))
    assert (
        list(found[0]) == wanted.columns == ["user_id", "item_id", "rank", "score", "probability"]
    )
    for name in ("user_id", "item_id", "rank"):
        assert [int(row[name]) for row in found] == wanted[name].to_list()
    assert alike([float(row["probability"]) for row in found], wanted["probability"].to_list())
    lines = topperk(
        "recommend", "f1.topperk", "factors.npz", "--json", "--user=17", "--user=3", cwd=home
    )
    assert (lines.returncode, lines.stderr) == (0, "")
    chosen = model.recommend(source, [17, 3]).drop("score").rows(named=True)
    told = [json.loads(line) for line in lines.stdout.splitlines()]
    assert [{name: row[name] for name in row if name != "score"} for row in told] == chosen


JSON_ANSWERS = (
    ["datasets", "list", "--json"],
    ["evaluate", "f1.topperk", "factors.npz", "parts", "--utility=pdcg", "--utility=f2", "--json"],
    ["curve", "f1.topperk", "factors.npz", "17", "--json"],
    ["demo", "--users=30", "--items=60", "--output=demo-json", "--json"],
)


@pytest.mark.parametrize("arguments", JSON_ANSWERS, ids=lambda arguments: arguments[0])
def test_json_is_one_document_and_nothing_else(home: Path, arguments: list[str]) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    done = in_process(*arguments, cwd=home)
    assert done.returncode == 0
    assert json.loads(done.stdout, parse_constant=refuse)
    assert done.stdout.endswith("\n")


# --- help, version, completion, and words that are not understood -----------------------------


def test_without_arguments_it_tells_its_verbs(tmp_path: Path) -> None:
    done = topperk(cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(re.search(rf"^│ {verb} ", done.stdout, re.MULTILINE) for verb in VERBS)
    assert done.stdout == in_process("--help", cwd=tmp_path).stdout


def test_it_tells_its_version(tmp_path: Path) -> None:
    done = topperk("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tp.__version__}\n", "")


def examples_of(*verb: str) -> list[str]:
    """The examples of a verb's help, as they stand on a terminal of 80 columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        told = in_process(*verb, "--help", cwd=Path())
    assert told.returncode == 0
    _, _, rest = told.stdout.partition("\nExamples")
    rest = re.split("\n(?:╭|Start with)", rest)[0]
    lines = [line.strip() for line in rest.splitlines() if line.strip()]
    assert all(line.startswith("topperk ") for line in lines), f"an example is broken: {lines}"
    return lines


def test_every_example_of_every_help_runs(home: Path, tmp_path: Path) -> None:
    for name in ("ratings.csv", "factors.npz", "candidates.parquet"):
        (tmp_path / name).write_bytes((home / name).read_bytes())
    # in the order in which somebody who starts would meet them
    verbs = [("split",), ("fit",), ("recommend",), ("evaluate",), ("curve",)]
    verbs += [("datasets", "list"), ("datasets", "simulate"), ("demo",), ("warmup",)]
    assert {verb[0] for verb in verbs} == set(VERBS)
    for verb in verbs:
        examples = examples_of(*verb)
        assert examples, f"{verb} has no example"
        for example in examples:
            if "|" in example:
                command = (
                    f"set -o pipefail; {shlex.quote(str(TOPPERK))}{example.removeprefix('topperk')}"
                )
                done = subprocess.run(
                    ["bash", "-c", command],
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    check=False,
                )
            else:
                done = in_process(*shlex.split(example)[1:], cwd=tmp_path)
            assert done.returncode == 0, f"{example}: {done.stderr}"
            assert "topperk: " not in done.stderr
    assert {"f1.topperk", "ndcg.topperk", "gain"} <= set(os.listdir(tmp_path))
    assert {"lists.parquet", "report.html", "topperk-demo", "small-world"} <= set(
        os.listdir(tmp_path)
    )


USAGE_ERRORS = {
    "a verb that is none": (["recomend"], "recomend"),
    "an option that is none": (["recommend", "m", "s.npz", "--top=3"], "--top"),
    "too few": (["fit", "parts"], "--scores"),
    "too many": (["curve", "m", "s.npz", "17", "18"], "18"),
    "no number": (["fit", "parts", "s.npz", "m", "--max-k", "ten"], '"ten"'),
    "no choice": (["fit", "parts", "s.npz", "m", "--calibrator", "platt"], "platt"),
    "a verb of datasets that is none": (["datasets", "lst"], "lst"),
    "no value": (["recommend", "m", "s.npz", "--output"], "--output"),
}


@pytest.mark.parametrize("what", USAGE_ERRORS)
def test_what_is_not_understood_ends_with_2(what: str, tmp_path: Path) -> None:
    arguments, word = USAGE_ERRORS[what]
    done = in_process(*arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    said, cure = done.stderr.splitlines()
    assert said.startswith("topperk: ")
    assert word in said
    assert cure == "Try `topperk --help`, or --help after a verb."
    assert not os.listdir(tmp_path)


def test_the_process_ends_with_2_too(tmp_path: Path) -> None:
    done = topperk("fit", "parts", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_verbs_and_options(shell: str, tmp_path: Path) -> None:
    script = tmp_path / f"topperk.{shell}"
    done = topperk(
        *("--install-completion", "--shell", shell, "--output", str(script)),
        cwd=tmp_path,
        HOME=str(tmp_path),
    )
    assert done.returncode == 0
    text = script.read_text()
    assert all(word in text for word in (*VERBS, "simulate", "calibrator", "max-k"))
    if shell == "bash":
        for line, wanted in (("topperk rec", "recommend"), ("topperk fit --max", "--max-k")):
            words = line.split(" ")
            asked = subprocess.run(
                [
                    *("bash", "-c"),
                    f"source {shlex.quote(str(script))}; COMP_WORDS=({line}); "
                    f"COMP_CWORD={len(words) - 1}; _topperk; echo ${{COMPREPLY[@]}}",
                ],
                capture_output=True,
                text=True,
                check=True,
            )
            assert asked.stdout.split() == [wanted]


# --- what only one side knows, columns, and folders of parts -----------------------------------


def trained_on_train_alone(home: Path, folder: Path) -> None:
    """factors.npz without the users and items that are in no pair of the train part."""
    source = tp.load_scores(home / "factors.npz")
    assert isinstance(source, tp.Factors)
    train = pl.read_parquet(home / "parts" / "train.parquet")
    keep = {
        side: np.flatnonzero(ids.values.is_in(train[f"{side}_id"].unique().to_list()).to_numpy())
        for side, ids in (("user", source.ids.users), ("item", source.ids.items))
    }
    keep["item"] = keep["item"][1:]  # a catalogue of 120 has no item without a pair of its own
    assert source.user_biases is not None
    assert source.item_biases is not None
    tp.Factors(
        source.user_vectors[keep["user"]],
        source.item_vectors[keep["item"]],
        tp.Ids(source.ids.users.part(keep["user"]), source.ids.items.part(keep["item"])),
        source.user_biases[keep["user"]],
        source.item_biases[keep["item"]],
    ).save(folder / "factors.npz")


def test_a_model_trained_on_the_train_part_alone_needs_one_word_more(
    home: Path, tmp_path: Path
) -> None:
    trained_on_train_alone(home, tmp_path)
    fit = ("fit", str(home / "parts"), "factors.npz", "m")
    evaluate = ("evaluate", "m", "factors.npz", str(home / "parts"), "--json")
    refused = in_process(*fit, cwd=tmp_path)
    assert refused.returncode == 1
    assert "of the interactions is not among the scores" in refused.stderr
    (flag,) = re.findall(r"or pass (--.*)\.\n", refused.stderr)
    assert in_process(*fit, *flag.split(), cwd=tmp_path).returncode == 0
    assert in_process(*evaluate, cwd=tmp_path).returncode == 1
    assert in_process(*evaluate, *flag.split(), cwd=tmp_path).returncode == 0
    assert in_process("recommend", "m", "factors.npz", cwd=tmp_path).returncode == 0
    for page in ("README.md", "docs/index.md", "docs/command-line.md", "docs/tutorial.md"):
        assert f"`{flag}`" in (Path(__file__).parents[1] / page).read_text(), page


COUNTED = ("--min-rating=1", "--min-per-user=2", "--min-per-item=2", "--core=2")


@pytest.mark.parametrize("option", COUNTED)
def test_parts_are_taken_as_they_stand(home: Path, tmp_path: Path, option: str) -> None:
    parts, scores, model = (str(home / name) for name in ("parts", "factors.npz", "f1.topperk"))
    for verb in (["fit", parts, scores, "m"], ["evaluate", model, scores, parts]):
        done = in_process(*verb, option, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"topperk: {option.partition('=')[0]} counts on the whole")
        assert done.stderr.endswith("Give it to `topperk split`.\n")
    assert not os.listdir(tmp_path)


def test_split_leaves_out_what_python_leaves_out(home: Path, tmp_path: Path) -> None:
    options = {"min_per_user": 12, "min_per_item": 10, "core": 18}
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    done = in_process("split", str(home / "ratings.csv"), "parts", *words, cwd=tmp_path)
    assert done.returncode == 0
    data = tp.read_interactions(home / "ratings.csv", **options)
    assert (
        data.n_interactions
        < tp.read_interactions(home / "ratings.csv").filter(12, 10).n_interactions
    )
    for name, part in tp.split_random(data).parts().items():
        assert pl.read_parquet(tmp_path / "parts" / f"{name}.parquet").equals(part.to_frame())


def renamed(path: Path, to: Path, **columns: str) -> str:
    """A copy of a table with other columns; its path."""
    pl.read_parquet(path).rename(columns).write_parquet(to)
    return str(to)


def test_columns_of_candidates_can_be_named(home: Path, tmp_path: Path) -> None:
    strange = {"user_id": "reader", "item_id": "book", "score": "liking"}
    candidates = renamed(home / "candidates.parquet", tmp_path / "c.parquet", **strange)
    ratings = renamed(home / "ratings.parquet", tmp_path / "r.parquet", item_id="book")
    ids, liking = ("--user-id=reader", "--item-id=book"), "--score=liking"
    plain, folder = str(home / "candidates.parquet"), str(home / "parts")
    # the users' column is strange in the candidates alone, the items' in both or in one
    for interactions in (ratings, folder):
        fitted = in_process("fit", interactions, candidates, "m", *ids, liking, cwd=tmp_path)
        assert fitted.returncode == 0, fitted.stderr
        judged = in_process(
            *("evaluate", "m", candidates, interactions, "--json", *ids, liking), cwd=tmp_path
        )
        assert judged.returncode == 0, judged.stderr
        for verb, more in (("recommend", ["--sizes"]), ("curve", ["17"])):
            found = in_process(verb, "m", candidates, *more, *ids, liking, cwd=tmp_path)
            assert (found.returncode, found.stderr) == (0, "")
            assert found.stdout == in_process(verb, "m", plain, *more, cwd=tmp_path).stdout


def test_a_column_that_neither_file_has_is_refused(home: Path, tmp_path: Path) -> None:
    ratings, candidates = str(home / "ratings.csv"), str(home / "candidates.parquet")
    done = in_process("fit", ratings, candidates, "m", "--item-id=itemid", cwd=tmp_path)
    assert done.returncode == 1
    assert "ratings.csv has no column 'itemid' (the nearest is 'item_id')" in done.stderr


def test_the_cure_for_an_unknown_column_works(home: Path, tmp_path: Path) -> None:
    candidates = renamed(home / "candidates.parquet", tmp_path / "c.parquet", score="liking")
    command = ["recommend", str(home / "f1.topperk"), candidates]
    done = in_process(*command, cwd=tmp_path)
    (cure,) = re.findall(r"name one: (--.*) NAME\.\n", done.stderr)
    assert in_process(*command, cure, "liking", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("verb", ["recommend", "fit"])
def test_factors_have_no_columns_to_name(home: Path, tmp_path: Path, verb: str) -> None:
    command = {
        "recommend": ["recommend", "f1.topperk", "factors.npz"],
        "fit": ["fit", "ratings.csv", "factors.npz", str(tmp_path / "m")],
    }[verb]
    done = in_process(*command, "--score=liking", cwd=home)
    assert done.returncode == 1
    assert "--score names a column of a table of candidates, and factors.npz holds" in done.stderr
    if verb == "recommend":
        assert in_process(*command, "--item-id=book", cwd=home).returncode == 1


def test_json_and_a_file_contradict_each_other(home: Path, tmp_path: Path) -> None:
    done = in_process(
        *("recommend", "f1.topperk", "factors.npz", "--json"),
        *("--output", str(tmp_path / "lists.parquet")),
        cwd=home,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("topperk: --json is about stdout, and --output writes the file")
    assert not os.listdir(tmp_path)


def test_a_model_that_can_not_be_saved_is_not_fitted(home: Path) -> None:
    for place, says in (("nowhere/m", "there is no folder"), ("parts", "holds other files")):
        done = in_process("fit", "not-read-yet.csv", "factors.npz", place, cwd=home)
        assert done.returncode == 1
        assert f"can not save the model to '{place}': " in done.stderr
        assert says in done.stderr


# --- terminals, pipes and full disks ----------------------------------------------------------


class Watched:
    """The program with stderr, and stdout if asked for, on a terminal."""

    def __init__(self, *arguments: str, cwd: Path, stdout: bool = False) -> None:
        self._master, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [TOPPERK, *arguments],
            cwd=cwd,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
            stdin=subprocess.DEVNULL,
            stdout=terminal if stdout else subprocess.DEVNULL,
            stderr=terminal,
        )
        os.close(terminal)
        self.seen = b""
        self._end = time.monotonic() + PATIENCE

    def _read(self) -> bool:
        """What the terminal shows next; False at the end."""
        ready, _, _ = select.select([self._master], [], [], self._end - time.monotonic())
        assert ready, f"nothing more after {self.seen!r}"
        try:
            more = os.read(self._master, 65536)
        except OSError:  # how Linux tells that the other end was closed
            more = b""
        self.seen += more
        return bool(more)

    def until(self, words: str) -> None:
        """Watch until something is shown."""
        while words.encode() not in self.seen:
            assert self._read(), f"{words!r} never came: {self.seen!r}"

    def ended(self) -> tuple[int, str]:
        """The exit status, and all that was shown."""
        while self._read():
            pass
        os.close(self._master)
        return self.process.wait(PATIENCE), self.seen.decode()


def test_bars_are_drawn_on_a_terminal_and_taken_away(home: Path, tmp_path: Path) -> None:
    arguments = ("recommend", str(home / "f1.topperk"), str(home / "factors.npz"))
    status, shown = Watched(*arguments, "-o", "lists.csv", cwd=tmp_path).ended()
    assert status == 0
    assert "choosing lengths" in shown
    assert "━" in shown
    # the bars' line is erased, so that only the last word remains
    assert re.fullmatch(r"[\d,]+ rows written to lists\.csv\r\n", shown.rpartition("\x1b[2K")[2])
    piped = in_process(*arguments, cwd=tmp_path)
    assert (tmp_path / "lists.csv").read_text() == piped.stdout
    assert piped.stderr == ""


def without_style(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown)


def test_a_curve_is_a_picture_on_a_terminal_and_a_table_in_a_pipe(home: Path) -> None:
    arguments = ("curve", "f1.topperk", "factors.npz", "17")
    status, shown = Watched(*arguments, cwd=home, stdout=True).ended()
    piped = in_process(*arguments, cwd=home)
    table = pl.read_csv(piped.stdout.encode())
    (k,) = table.filter(pl.col("chosen"))["k"]
    assert status == piped.returncode == 0
    assert f"user 17: {k} item" in shown
    (marked,) = (line for line in shown.splitlines() if "◀ chosen" in line)
    assert re.match(rf" *{k} ", without_style(marked))
    assert "█" in marked
    assert tp.Reason.OWN_FIT.value in shown
    assert table["expected_utility"][k] == table["expected_utility"].max()
    assert piped.stderr == ""


@pytest.mark.parametrize("verb", ["recommend", "evaluate", "help"])
def test_a_reader_who_leaves_early_is_no_error(home: Path, verb: str) -> None:
    arguments = {
        "recommend": "recommend f1.topperk factors.npz | head -1",
        "evaluate": "evaluate f1.topperk factors.npz parts | true",
        "help": "--help | true",
    }
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"{shlex.quote(str(TOPPERK))} {arguments[verb]}; echo ${{PIPESTATUS[0]}} >&2",
        ],
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    status = done.stderr.strip()
    assert status == "0"
    if verb == "recommend":
        assert done.stdout == "user_id,item_id,rank,score,probability\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("verb", ["recommend", "evaluate", "--help", "--version"])
def test_a_full_disk_behind_stdout_is_told(home: Path, verb: str) -> None:
    more = {"recommend": [], "evaluate": ["parts"]}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [TOPPERK, verb, *(["f1.topperk", "factors.npz", *more[verb]] if verb in more else [])],
            cwd=home,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == (
        "topperk: can not write to stdout: No space left on device. "
        "Free space, or send the output elsewhere.\n"
    )


def test_streams_that_are_closed_are_no_riddle(home: Path) -> None:
    quiet = f"{shlex.quote(str(TOPPERK))} recommend f1.topperk factors.npz --user 17"
    done = subprocess.run(
        ["bash", "-c", f"{quiet} 2>&-; {quiet} >&-; echo $?"],
        cwd=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("user_id,")
    assert done.stdout.endswith("\n1\n")
    assert done.stderr.startswith("topperk: there is no stdout to write to. ")
    assert "Traceback" not in done.stderr


def test_data_is_utf_8_whatever_the_locale(home: Path) -> None:
    arguments = ("evaluate", "f1.topperk", "factors.npz", "parts", "--utility=pdcg")
    plain = in_process(*arguments, cwd=home)
    ascii_only = topperk(*arguments, cwd=home, PYTHONIOENCODING="ascii")
    assert "−" in plain.stdout
    assert (ascii_only.returncode, ascii_only.stdout) == (0, plain.stdout)


# --- Ctrl-C -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A world that takes seconds to fit, a model of it, and an older answer."""
    folder = tmp_path_factory.mktemp("large")
    assert in_process("datasets", "simulate", "w", "--users=4000", "--items=3000", cwd=folder)
    fitted = in_process(
        *("fit", "w", "w/factors.npz", "m", "--calibrator=none", "--correction=none"), cwd=folder
    )
    assert fitted.returncode == 0
    (folder / "lists.parquet").write_bytes(b"an older answer")
    return folder


@pytest.mark.parametrize(
    ("arguments", "stage"),
    [
        (["fit", "w", "w/factors.npz", "m"], "calibrating each user"),
        (["recommend", "m", "w/factors.npz", "-o", "lists.parquet"], "choosing lengths"),
        (["recommend", "m", "w/factors.npz"], "choosing lengths"),
        (["evaluate", "m", "w/factors.npz", "w", "--report=lists.parquet"], "looking at outcomes"),
    ],
)
def test_ctrl_c_leaves_everything_as_it_was(large: Path, arguments: list[str], stage: str) -> None:
    before = state(large)
    watched = Watched(*arguments, cwd=large)
    watched.until(stage)
    watched.process.send_signal(signal.SIGINT)
    status, shown = watched.ended()
    assert status == INTERRUPTED == 130
    assert shown.endswith("interrupted\r\n")
    assert "Traceback" not in shown
    assert state(large) == before


# --- the demo ---------------------------------------------------------------------------------


def test_the_demo_prints_the_table_and_writes_one_self_contained_page(tmp_path: Path) -> None:
    done = topperk("demo", "--users=60", "--items=80", "--output=page", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr == "The report is page/report.html: open it in a browser.\n"
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["method", "NDCG", "PDCG", "F1", "TP"]
    methods = [line.split("  ")[0] for line in lines[1:13]]
    assert methods == [
        *("top-1", "top-5", "top-10", "top-20", "top-50", "random", "Val-k"),
        *("personal", "Oracle", "best single k (which)", "personal minus it"),
        "paired t-test, Holm",
    ]
    assert lines[13].startswith("estimated curve from true")
    values = {line.split("  ")[0]: figures(line) for line in lines[1:10]}
    for method in values:
        assert all(np.less_equal(values[method], np.add(values["Oracle"], 1e-4))), method
    assert state(tmp_path).keys() == {"page", "page/report.html"}
    page = (tmp_path / "page" / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"<script|@import|(src|href)=[\"']?(?!#|data:|[\"'])", page)
    again = in_process("demo", "--users=60", "--items=80", "--output=page", cwd=tmp_path)
    assert again.stdout == done.stdout


def figures(line: str) -> list[float]:
    """The four numbers at a line's end; the minus is a printer's."""
    return [float(word.replace("−", "-")) for word in line.split()[-4:]]


def test_the_demos_json_is_what_its_table_shows(tmp_path: Path) -> None:
    arguments = ("demo", "--users=60", "--items=80", "--seed=4", "--output=page")
    told: Any = json.loads(in_process(*arguments, "--json", cwd=tmp_path).stdout)
    table = in_process(*arguments, cwd=tmp_path).stdout.splitlines()
    assert Path(told["report"]) == Path("page", "report.html")
    for column, name in enumerate(("NDCG", "PDCG", "F1", "TP")):
        for row in told["utilities"][name]["methods"]:
            (line,) = (line for line in table if line.startswith(f"{row['method']}  "))
            assert figures(line)[column] == pytest.approx(row["mean"], abs=5e-5)
