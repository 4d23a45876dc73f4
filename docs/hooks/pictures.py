"""Drawings stand in the page itself, so that they take its colours, light or dark.

An image whose address ends in ``.svg`` is replaced by the file's own elements when the pages are
built; wherever the Markdown is read otherwise, it is an ordinary image.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

IMAGE = re.compile(r'<img alt="[^"]*" src="(?:\.\./)*(?P<path>pictures/[a-z-]+\.svg)" ?/?>')


def on_page_content(html: str, config: Any, **_: Any) -> str:
    """Called by mkdocs with each page's HTML; returns it with the drawings in place."""

    def drawn(match: re.Match[str]) -> str:
        drawing = (Path(config["docs_dir"]) / match["path"]).read_text(encoding="utf-8")
        return f'<span class="tk-drawing">{drawing}</span>'

    return IMAGE.sub(drawn, html)
