"""The documents keep their word: their Python runs, and the site needs nobody's network.

Every block marked ``python`` (or ``py``, ``pycon``) in a document is executed, in order, in one
namespace and one temporary folder, and nothing is skipped: code that is not to be run has to be
marked as something else (``text``, ``sh``). A block with prompts is a doctest, whose output is
compared. What a reader need not see, such as making the file that the text then reads, stands in
a comment before it::

    <!-- python
    frame.write_parquet("ratings.parquet")
    -->

The lines of ``sh`` blocks that begin with ``topperk`` are run as well.
"""

from __future__ import annotations

import doctest
import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
import pytest
from cyclopts import App

import topperk as tp
from conftest import ROOT
from test_report import browser as browser
from topperk.datasets.simulated import simulate_world
from topperk.edges.cli import app, run

DOCS = ROOT / "docs"
DOCUMENTS = (
    "README.md",
    "docs/index.md",
    "docs/tutorial.md",
    "docs/which-utility.md",
    "docs/which-calibrator.md",
    "docs/production.md",
    "docs/maths.md",
)
WITH_COMMANDS = ("README.md", "docs/index.md", "docs/command-line.md")
PICTURES = sorted(path.name for path in (DOCS / "pictures").glob("*.svg"))

BLOCK = re.compile(
    r"^(?P<indent>[ ]*)(?P<fence>`{3,}|~{3,})[ ]*\{?[ ]*\.?(?P<language>[A-Za-z0-9_+-]*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)(?P=fence)`*[ ]*$"
    r"|^<!--[ ]*python[ ]*\n(?P<hidden>.*?)^-->",
    re.MULTILINE | re.DOTALL,
)
PYTHON = {"python", "py", "pycon", "python3"}


# The contrast, as WCAG defines it, of the least legible words of a drawing with the page.
CONTRAST = """() => {
  const channels = colour => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = colour => channels(colour).map(c => c / 255)
    .map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const words = [...document.querySelectorAll('svg.tk-picture text')];
  if (!words.length) return null;
  const ground = light(getComputedStyle(document.body).backgroundColor);
  return Math.min(...words.map(word => {
    const ink = light(getComputedStyle(word).fill);
    return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
  }));
}"""


@dataclass(frozen=True)
class Block:
    code: str
    line: int  # of its first line of code, counted from 1


def blocks_of(text: str) -> Iterator[Block]:
    """The Python of a Markdown text, in order, hidden blocks included."""
    for match in BLOCK.finditer(text):
        group = "hidden" if match["hidden"] is not None else "code"
        if group == "code" and match["language"].lower() not in PYTHON:
            continue
        line = text.count("\n", 0, match.start(group)) + 1
        yield Block(textwrap.dedent(match[group]), line)


def run_block(block: Block, path: Path, namespace: dict[str, object]) -> None:
    """Execute one block; what it raises points to its line in the document."""
    if not re.search(r"^>>> ", block.code, re.MULTILINE):
        exec(compile("\n" * (block.line - 1) + block.code, str(path), "exec"), namespace)
        return
    examples = doctest.DocTestParser().get_doctest(
        block.code, namespace, path.name, str(path), block.line - 1
    )
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    runner.run(examples, out=said.append, clear_globs=False)
    namespace.update(examples.globs)
    if runner.failures:
        pytest.fail("".join(said), pytrace=False)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_python_of_the_document_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = ROOT / name
    assert path.is_file(), f"{name} is not written yet"
    blocks = list(blocks_of(path.read_text(encoding="utf-8")))
    assert blocks, f"{name} shows no Python"
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        run_block(block, path, namespace)


def test_every_page_with_python_is_run() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")]
    with_python = {
        page.relative_to(ROOT).as_posix()
        for page in pages
        if any(blocks_of(page.read_text(encoding="utf-8")))
    }
    assert with_python == set(DOCUMENTS)


@pytest.fixture(scope="module")
def own_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What somebody has who begins: ratings.csv and factors.npz."""
    folder = tmp_path_factory.mktemp("own")
    world = simulate_world(n_users=300, n_items=400, seed=7)
    ratings = pl.concat([part.to_frame() for part in world.split.parts().values()])
    ratings.write_csv(folder / "ratings.csv")
    users, items = ratings["user_id"].unique().sort(), ratings["item_id"].unique().sort()
    of_users, of_items = (
        world.ids.users.codes(users, "users"),
        world.ids.items.codes(items, "items"),
    )
    tp.Factors(
        world.user_vectors[of_users],
        world.item_vectors[of_items],
        tp.Ids.of(users=users, items=items),
        world.user_biases[of_users],
        world.item_biases[of_items],
    ).save(folder / "factors.npz")
    return folder


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_commands_of_the_document_run(
    name: str, own_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(own_files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = [match["code"] for match in BLOCK.finditer(text) if match["language"] == "sh"]
    lines = [shlex.split(line, comments=True) for line in "".join(blocks).splitlines()]
    commands = [words[1:] for words in lines if words[:1] == ["topperk"]]
    assert [words[0] for words in commands] == ["split", "fit", "recommend", "evaluate"]
    for words in commands:
        assert run(words) == 0, words
    assert pl.read_parquet("lists.parquet").height > 0
    assert "</html>" in Path("report.html").read_text(encoding="utf-8")


def test_reasons_of_the_page_are_those_of_the_program() -> None:
    page = (DOCS / "which-calibrator.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", page.partition("\n## Reasons\n")[2], flags=re.MULTILINE)[0]
    listed = re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE)
    assert sorted(listed) == sorted(reason.name.lower() for reason in tp.Reason)


def test_sizes_stated_are_those_measured() -> None:
    measured = json.loads((ROOT / "benchmarks" / "installed_size.json").read_text())
    total = f"{measured['core_total'] / 1e6:.1f}"
    assert f"{total} MB" in (DOCS / "index.md").read_text(encoding="utf-8")
    assert f"{float(total):.0f} MB" in (ROOT / "README.md").read_text(encoding="utf-8")
    sizes = {name: found["size"] for name, found in measured["core"].items()}
    sizes |= {name: found["size"] for name, found in measured["left_out"].items()}
    page = (DOCS / "decisions" / "0006-core-dependencies.md").read_text(encoding="utf-8")
    assert f"| **together** | **{total}** |" in page
    rows = re.findall(r"^\| ([\w, -]+) \| ([\d.]+) \|", page, re.MULTILINE)
    stated = {name for names, _ in rows for name in names.split(", ")}
    assert stated == set(sizes)
    for names, size in rows:
        assert size == f"{sum(sizes[name] for name in names.split(', ')) / 1e6:.1f}", names


def loaded(path: Path) -> ModuleType:
    """A script that is no part of any package."""
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_what_their_script_draws(name: str) -> None:
    drawn = loaded(DOCS / "pictures" / "draw.py").PICTURES[name]()
    assert drawn == (DOCS / "pictures" / name).read_text(encoding="utf-8")


def test_docstrings_become_markdown() -> None:
    markdown = loaded(DOCS / "hooks" / "docstrings.py").markdown
    assert markdown("See :meth:`f`.\n\n>>> 1 + 1\n2\n\nA way::\n\n    x\n\n::\n\n    y") == (
        "See `f`.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nA way:\n\n    x\n\n    y"
    )
    assert markdown("=== ===\na   b\n=== ===\n1   one\n    more\n2   two\n=== ===") == (
        "| a | b |\n| --- | --- |\n| 1 | one more |\n| 2 | two |"
    )
    assert markdown("=== ===\n1   one\n=== ===") == "|  |  |\n| --- | --- |\n| 1 | one |"
    assert (
        markdown("``a``   one\n``b``, ``c``\n        both") == "- ``a``: one\n- ``b``, ``c``: both"
    )
    assert markdown("- ``a``  one\n  more\n- ``b``") == "- ``a``: one more\n- ``b``: "
    plain = "``a`` is a name, and\nthis a paragraph.\n\n- item one\n- item two"
    assert markdown(plain) == plain


def test_runner_finds_every_kind_of_block() -> None:
    text = (
        "text\n```python\na = 1\n```\n<!-- python\nb = 2\n-->\n```sh\nmake\n```\n"
        "- item\n\n    ```py title='x'\n    if a:\n        c = 3\n    ```\n"
        "~~~ pycon\n>>> a\n1\n~~~\n````text\n```python\nraise SystemExit\n```\n````\n"
    )
    found = list(blocks_of(text))
    assert [block.code for block in found] == [
        "a = 1\n",
        "b = 2\n",
        "if a:\n    c = 3\n",
        ">>> a\n1\n",
    ]
    assert [block.line for block in found] == [3, 6, 14, 18]


def test_runner_points_to_the_line_and_compares_output(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    with pytest.raises(ZeroDivisionError) as caught:
        run_block(Block("a = 1\na / 0\n", 7), path, {})
    assert caught.traceback[-1].lineno == 7  # counted from 0: line 8 of the page
    with pytest.raises(pytest.fail.Exception, match="Expected"):
        run_block(Block(">>> 1 + 1\n3\n", 1), path, {})


class Loaded(HTMLParser):
    """Collects the addresses that a browser fetches when it opens the page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag == "link" and named.get("rel") not in {"canonical", "prev", "next", "alternate"}:
            self.addresses.append(named.get("href") or "")
        elif tag in {"script", "img", "iframe", "source", "video", "audio", "embed", "image"}:
            self.addresses += [named.get(name) or "" for name in ("src", "srcset", "href")]


def built(folder: Path, site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The documentation of a folder, built strictly."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site), *options],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    done = built(ROOT, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.parametrize(
    ("wrong", "told"),
    [("[gone](lost.md) [gone](#away)", ("lost.md", "#away")), ("$\\unheard$", ("\\unheard",))],
)
def test_what_is_wrong_with_a_page_stops_the_build(
    tmp_path: Path, wrong: str, told: tuple[str, ...]
) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    with (tmp_path / "docs" / "maths.md").open("a", encoding="utf-8") as page:
        page.write(f"\n{wrong}\n")
    done = built(tmp_path, tmp_path / "site", "--quiet")
    assert done.returncode != 0
    for words in ("maths.md", *told):
        assert words in done.stdout + done.stderr


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert pages
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert loaded.addresses, page
        for address in loaded.addresses:
            assert not re.match(r"(?:https?:)?//", address), f"{page.name} loads {address}"
    for style in site.rglob("*.css"):
        assert not re.search(
            r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", style.read_text(encoding="utf-8")
        ), f"{style.name} loads something from elsewhere"


def test_formulas_are_mathml_and_code_is_left_alone(site: Path) -> None:
    page = (site / "decisions" / "0001-exact-expectation.html").read_text(encoding="utf-8")
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in page
    assert "\\sum" not in page
    assert "$" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)


def test_links_between_pages_lead_somewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'href="([^"#:?]+)[^":]*"', page.read_text(encoding="utf-8")):
            assert (page.parent / target).resolve().exists(), f"{page.name} links to {target}"


def commands(program: App, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    """Every verb, and the verbs inside it, with the words that call it."""
    for name in program:
        if not name.startswith("-"):
            yield (*words, name), program[name]
            yield from commands(program[name], (*words, name))


def test_every_verb_and_option_is_on_the_page_of_the_command_line(site: Path) -> None:
    page = (site / "command-line.html").read_text(encoding="utf-8")
    sections = dict(re.findall(r'<h[23] id="([a-z-]+)">(.*?)(?=<h[23] id=|</article>)', page, re.S))
    verbs = dict(commands(app))
    assert len(verbs) > 6
    assert "<!-- " not in "".join(sections.values())
    for words, program in verbs.items():
        section = sections["-".join(("topperk", *words))]
        if "options-of-reading" in section:
            section += sections["options-of-reading"]
        told = re.sub(r"<[^>]+>", "", section)
        assert program.help.partition("\n")[0] in told.replace("&amp;", "&"), words
        for argument in program.assemble_argument_collection() if program.default_command else ():
            if argument.children:
                continue
            assert argument.parameter.help, (words, argument.name)
            if argument.required:
                assert argument.name.lstrip("-").upper() in told, (words, argument.name)
            else:
                for name in argument.names:
                    assert re.search(rf"(?<!\S){name}\b", told), (words, name)
            for choice in argument.get_choices() or ():
                assert choice in told, (words, argument.name, choice)
    for flag in (*app.help_flags, *app.version_flags, "--install-completion"):
        assert flag in page


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    page = (site / "reference.html").read_text(encoding="utf-8")
    named = set(re.findall(r'<h3 id="topperk\.[a-z_.]+\.(\w+)"', page))
    assert set(tp.__all__) - {"__version__"} <= named
    assert not re.search(r":(?:meth|func|class|mod):|={5}|<blockquote>", page)


def test_drawings_stand_in_their_pages(site: Path) -> None:
    for name in ("index.html", "which-utility.html"):
        page = (site / name).read_text(encoding="utf-8")
        assert page.count('class="tk-picture"') == 2, name
        assert not re.search(r"<img[^>]+\.svg", page), name


@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), ("light", 1280)])
def test_pages_in_a_browser(browser: Any, site: Path, scheme: str, width: int) -> None:
    """No complaint, no request beyond the site's own files, and no page wider than the window."""
    context = browser.new_context(
        color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce"
    )
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    page.on(
        "request",
        lambda request: (
            said.append(request.url)
            if not request.url.startswith((site.as_uri(), "data:", "blob:"))
            else None
        ),
    )
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":
            continue
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path.name
        for picture in page.locator("svg.tk-picture").all():
            box = picture.bounding_box()
            assert box["width"] > 0.75 * min(width, 700), path.name
        contrast = page.evaluate(CONTRAST)
        assert contrast is None or contrast > 4.5, path.name
    assert said == []
    context.close()
