"""Docstrings mark a literal block by `::`, Markdown by its indentation alone: drop the mark."""

from __future__ import annotations

import re
from typing import Any

ALONE = re.compile(r"<p>::</p>\n?")
AT_END = re.compile(r"::</p>(?=\s*<(?:div class=\"highlight|pre))")


def on_page_content(html: str, **_: Any) -> str:
    """Called by mkdocs with each page's HTML; returns it without the marks."""
    return AT_END.sub(":</p>", ALONE.sub("", html))
