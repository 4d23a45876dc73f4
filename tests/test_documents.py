"""The documents keep their word: their Python runs, and the site needs nobody's network.

Every block marked ``python`` (or ``py``, ``pycon``) in a document is executed, in order, in one
namespace and one temporary folder, and nothing is skipped: code that is not to be run has to be
marked as something else (``text``, ``sh``). A block with prompts is a doctest, whose output is
compared. What a reader need not see, such as making the file that the text then reads, stands in
a comment before it::

    <!-- python
    frame.write_parquet("ratings.parquet")
    -->
"""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "docs/tutorial.md")

BLOCK = re.compile(
    r"^(?P<indent>[ ]*)(?P<fence>`{3,}|~{3,})[ ]*\{?[ ]*\.?(?P<language>[A-Za-z0-9_+-]*)[^\n]*\n"
    r"(?P<code>.*?)^(?P=indent)(?P=fence)`*[ ]*$"
    r"|^<!--[ ]*python[ ]*\n(?P<hidden>.*?)^-->",
    re.MULTILINE | re.DOTALL,
)
PYTHON = {"python", "py", "pycon", "python3"}


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir"]
    built = subprocess.run(
        [*command, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


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
