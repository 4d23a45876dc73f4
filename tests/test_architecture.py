"""The laws of the tree: who may import whom, what an import may do, how a module may look.

They are read off the source where that is enough, and observed in a fresh interpreter where it is
not. CONTRIBUTING.md says what each is for.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import topperk
from topperk.datasets.simulated import simulate_world

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "topperk"
MODULES = sorted(PACKAGE.rglob("*.py"))
OUTER = {"edges", "recommenders", "truncation", "datasets"}
MOST_LINES = 400
LONGEST_IMPORT = 0.4  # seconds

# What `import topperk` offers, in the order in which data flows. A change here is a change for
# every user: it belongs into CHANGELOG.md too.
PUBLIC_NAMES = [
    "Interactions", "read_interactions", "Ids", "IdIndex",
    "Split", "split_random", "split_last", "split_time", "split_given",
    "ScoreSource", "ScoreBlock", "Factors", "Dense", "Candidates", "Callable", "load_scores",
    "Calibrator", "Calibration", "Uncalibrated", "GlobalPlatt", "UserPlatt", "PlattCalibration",
    "Reason",
    "Utility", "NDCG", "PDCG", "FBeta", "F1", "TP", "Precision", "Recall", "DCG", "NetGain",
    "Custom", "utility_named", "count_distribution",
    "ChoiceOfK", "PersonalizedK", "FixedK", "RandomK", "ValidationK", "OracleK",
    "FittedK", "ListSizes", "load", "resources",
    "evaluate", "usual_methods", "Evaluation", "MethodOutcome", "Reliability", "reliability",
    "reliability_of",
    "TopperkError", "__version__",
]  # fmt: skip


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def part_of(path: Path) -> str:
    """``_kernels``, one of OUTER, or ``core``."""
    top = path.relative_to(PACKAGE).parts[0]
    return top if top == "_kernels" or top in OUTER else "core"


def shown(path: Path, node: ast.AST | None = None) -> str:
    line = getattr(node, "lineno", None)
    return f"{path.relative_to(ROOT)}" + (f":{line}" if line else "")


def nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in MODULES:
        for node in ast.walk(tree_of(path)):
            yield path, node


def package_of(path: Path) -> tuple[str, ...]:
    """The dotted package in which the module's relative imports start."""
    return ("topperk", *path.relative_to(PACKAGE).parts[:-1])


def imported_by(path: Path, statement: ast.stmt) -> list[str]:
    """Dotted names of the modules that a statement imports, relative ones made absolute."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if not isinstance(statement, ast.ImportFrom):
        return []
    parts: tuple[str, ...] = ()
    if statement.level:
        package = package_of(path)
        parts = package[: len(package) - statement.level + 1]
    module = ".".join((*parts, *([statement.module] if statement.module else [])))
    # `from topperk import edges` imports a module as well as a name.
    return [module, *(f"{module}.{alias.name}" for alias in statement.names)]


def imports(*, when_loaded: bool = False) -> Iterator[tuple[Path, ast.stmt, str]]:
    """Every import in src; with ``when_loaded`` only those outside functions and type checking."""

    def statements(body: list[ast.AST]) -> Iterator[ast.AST]:
        for node in body:
            if when_loaded and (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
            ):
                continue
            yield node
            yield from statements(list(ast.iter_child_nodes(node)))

    for path in MODULES:
        for node in statements([tree_of(path)]):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name in imported_by(path, node):
                    yield path, node, name


# --- who imports whom -------------------------------------------------------------------------


def test_kernels_import_nothing_of_topperk_but_kernels() -> None:
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path, node, name in imports()
        if part_of(path) == "_kernels"
        and name.split(".")[0] == "topperk"
        and name.split(".")[:2] != ["topperk", "_kernels"]
    ]
    assert not wrong


def test_kernels_are_numpy_and_numba_alone() -> None:
    allowed = {"numpy", "numba", "llvmlite", "topperk", *sys.stdlib_module_names}
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path, node, name in imports()
        if part_of(path) == "_kernels" and name.split(".")[0] not in allowed
    ]
    assert not wrong


def test_core_imports_nothing_from_outside_the_core() -> None:
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path, node, name in imports()
        if part_of(path) == "core"
        and name.split(".")[0] == "topperk"
        and OUTER & set(name.split(".")[1:2])
    ]
    assert not wrong


def test_nothing_but_edges_imports_edges() -> None:
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path, node, name in imports()
        if part_of(path) != "edges" and name.split(".")[:2] == ["topperk", "edges"]
    ]
    assert not wrong


def test_core_loads_only_numpy_numba_and_polars() -> None:
    allowed = {"numpy", "numba", "polars", "topperk", *sys.stdlib_module_names}
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path, node, name in imports(when_loaded=True)
        if part_of(path) == "core" and name.split(".")[0] not in allowed
    ]
    assert not wrong


def test_one_module_knows_the_other_frame_libraries() -> None:
    frames = {"pandas", "pyarrow", "duckdb"}
    wrong = [
        f"{shown(path, node)} imports {name}"
        for path, node, name in imports()
        if part_of(path) in {"core", "_kernels"}
        and path.name != "_frames.py"
        and name.split(".")[0] in frames
    ]
    assert not wrong


# --- what a module looks like -----------------------------------------------------------------


def test_modules_are_short() -> None:
    lengths = {shown(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def test_modules_are_named_for_what_they_hold() -> None:
    drawers = {"util", "utils", "helper", "helpers", "common", "misc", "base"}
    parts = {part.strip("_") for path in MODULES for part in path.with_suffix("").parts[-2:]}
    assert not parts & drawers


def test_every_module_says_what_it_is() -> None:
    assert [shown(path) for path in MODULES if not ast.get_docstring(tree_of(path))] == []


def test_no_assert_checks_what_users_pass() -> None:
    # `python -O` removes them, and an AssertionError names no cure.
    assert [shown(path, node) for path, node in nodes() if isinstance(node, ast.Assert)] == []


def test_nothing_is_pickled() -> None:
    picklers = {
        "pickle",
        "cPickle",
        "_pickle",
        "dill",
        "cloudpickle",
        "joblib",
        "shelve",
        "marshal",
    }
    wrong = [shown(path, node) for path, node, name in imports() if name.split(".")[0] in picklers]
    wrong += [
        shown(path, node)
        for path, node in nodes()
        if isinstance(node, ast.keyword)
        and node.arg == "allow_pickle"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]
    assert not wrong


def test_library_neither_prints_nor_sets_what_belongs_to_the_process() -> None:
    process_wide = {
        "print",
        "np.seterr",
        "np.random.seed",
        "np.set_printoptions",
        "random.seed",
        "warnings.filterwarnings",
        "warnings.simplefilter",
        "logging.basicConfig",
        "numba.set_num_threads",
        "pl.Config",
        "locale.setlocale",
        "os.chdir",
        "os.putenv",
        "signal.signal",
        "sys.setrecursionlimit",
    }
    wrong = [
        f"{shown(path, node)} calls {ast.unparse(node.func)}"
        for path, node in nodes()
        if part_of(path) != "edges"
        and isinstance(node, ast.Call)
        and ast.unparse(node.func) in process_wide
    ]
    assert not wrong


def test_threads_are_not_left_to_numba() -> None:
    wrong = [
        shown(path, node)
        for path, node in nodes()
        if (isinstance(node, ast.Attribute) and node.attr == "prange")
        or (isinstance(node, ast.alias) and node.name == "prange")
        or (
            isinstance(node, ast.keyword)
            and node.arg == "parallel"
            and isinstance(node.value, ast.Constant)
            and node.value.value is True
        )
    ]
    assert not wrong


def test_public_names_are_pinned() -> None:
    assert sorted(topperk.__all__) == sorted(PUBLIC_NAMES)


def test_public_names_exist() -> None:
    assert [name for name in topperk.__all__ if not hasattr(topperk, name)] == []


def test_public_names_and_their_methods_are_described() -> None:
    """``inspect.getdoc`` looks at what a method overrides too."""
    public = {name: getattr(topperk, name) for name in topperk.__all__ if not name.startswith("__")}
    for name, found in list(public.items()):
        if inspect.isclass(found):
            members = inspect.getmembers(found, callable)
            public |= {f"{name}.{key}": value for key, value in members if not key.startswith("_")}
    described = (int, float, str, tuple)  # a constant is described where it stands
    assert [
        name
        for name, found in public.items()
        if not isinstance(found, described) and not (inspect.getdoc(found) or "").strip()
    ] == []


# --- what an import does ----------------------------------------------------------------------

OBSERVE = """
import json, logging, os, random, signal, sys, threading, time, warnings
import numpy, numba, polars

def state():
    here = {
        "numpy.geterr": numpy.geterr(),
        "numpy print options": repr(numpy.get_printoptions()),
        "numpy random": repr(numpy.random.get_state()),
        "random": hash(random.getstate()),
        "warnings": repr(warnings.filters),
        "logging": repr([logging.root.handlers, logging.root.level, logging.root.disabled]),
        "loggers": sorted(
            name for name, found in logging.root.manager.loggerDict.items()
            if getattr(found, "handlers", None)
        ),
        "numba layer": str(numba.config.THREADING_LAYER),
        "numba threads": numba.config.NUMBA_NUM_THREADS,
        "polars": polars.Config.state(),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "signals": repr([signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]),
        "hooks": repr([sys.excepthook, sys.displayhook, threading.excepthook]),
        "recursion": sys.getrecursionlimit(),
        "threads": threading.active_count(),
        "path": sys.path,
    }
    try:
        here["numba layer in use"] = numba.threading_layer()
    except ValueError:
        here["numba layer in use"] = "none"
    return here

before, modules = state(), set(sys.modules)
import topperk
after = state()
print(json.dumps({
    "changed": {key: [before[key], after[key]] for key in before if before[key] != after[key]},
    "loaded": sorted(set(sys.modules) - modules),
}, default=str))
"""

TIME = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"


def fresh_python(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    return subprocess.run(
        [sys.executable, *options, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


@pytest.fixture(scope="module")
def observed() -> dict[str, object]:
    """What importing topperk does beyond importing numpy, numba and polars."""
    result: dict[str, object] = json.loads(fresh_python(OBSERVE).stdout)
    return result


def test_import_changes_no_global_state(observed: dict[str, object]) -> None:
    assert observed["changed"] == {}


def test_import_loads_nothing_optional(observed: dict[str, object]) -> None:
    optional = {
        "altair", "cornac", "cyclopts", "duckdb", "fastapi", "implicit", "jinja2", "lenskit",
        "matplotlib", "pandas", "prometheus_client", "pyarrow", "pyspark", "rich", "scipy",
        "sklearn", "torch", "uvicorn", "vl_convert",
    }  # fmt: skip
    loaded = observed["loaded"]
    assert isinstance(loaded, list)
    assert "topperk" in loaded
    assert sorted({name.split(".")[0] for name in loaded} & optional) == []
    assert [name for name in loaded if name.split(".")[:2] == ["topperk", "edges"]] == []


def test_import_says_nothing() -> None:
    done = fresh_python("import topperk", "-W", "error::DeprecationWarning:topperk")
    assert (done.stdout, done.stderr) == ("", "")


def test_import_is_quick() -> None:
    # The best of several, since the question is how much work it is and not what else the machine
    # is doing. A machine too busy to import the three libraries in 0.7 of the allowance can only
    # say what topperk adds to them, which must fit into the rest.
    ours: list[float] = []
    libraries: list[float] = []
    while len(ours) < 12:
        ours.append(float(fresh_python(TIME.format("topperk")).stdout))
        libraries.append(float(fresh_python(TIME.format("numpy, numba, polars")).stdout))
        if min(ours) < LONGEST_IMPORT * max(1.0, min(libraries) / (0.7 * LONGEST_IMPORT)):
            return
        time.sleep(0.25)
    pytest.fail(f"seconds per import: {ours}; of the libraries alone: {libraries}")


def test_objects_that_hold_arrays_are_shown_in_a_short_line() -> None:
    world = simulate_world(n_users=60, n_items=80, seed=1)
    scores, split = world.scores, world.split
    frame = {"user_id": ["u"], "item_id": ["i"], "score": [0.5]}
    fitted = topperk.PersonalizedK(topperk.F1(), max_k=20).fit(scores, split)
    assert fitted.calibration is not None
    evaluation = topperk.evaluate([fitted, topperk.FixedK(5)], scores, split)
    shown = [
        *(world, world.ids, world.ids.users, split, split.train, scores, fitted, evaluation),
        topperk.Dense(np.zeros((60, 80)), world.ids),
        topperk.Candidates(frame),
        topperk.Callable(lambda users: np.zeros((users.size, 80)), world.ids),
        scores.block(np.arange(3, dtype=np.int32)),
        fitted.calibration,
        evaluation.methods[0],
        topperk.reliability_of(fitted.calibration, scores, split),
    ]
    for one in shown:
        assert re.fullmatch(rf"{type(one).__name__}\([^\n]{{1,100}}\)", repr(one)), repr(one)
