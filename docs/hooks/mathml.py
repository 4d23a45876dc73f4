"""Formulas become MathML when the pages are built.

Browsers draw MathML themselves, so a page with mathematics needs no script, no font and no
network. `pymdownx.arithmatex` finds `$...$` and `$$...$$` (and leaves code alone); what it has
marked is translated here. A command that latex2mathml does not know stops the build, since it
would otherwise stand in the page as its bare name.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

MARKED = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\s*'
    r"\\(?P<opening>[(\[])(?P<latex>.*?)\\[)\]]\s*</(?P=tag)>",
    re.DOTALL,
)
UNKNOWN = re.compile(r"<m[ino][^>]*>\\[A-Za-z]+")


def mathml(latex: str, *, block: bool) -> str:
    """One formula as a MathML element."""
    element = convert(latex.strip(), display="block" if block else "inline")
    if unknown := UNKNOWN.search(element):
        command = unknown.group().partition("\\")[2]
        raise PluginError(f"latex2mathml does not know \\{command}, in the formula: {latex}")
    return element


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with each page's HTML; returns it with the formulas translated."""

    def translate(match: re.Match[str]) -> str:
        block = match["opening"] == "["
        tag, display = match["tag"], "block" if block else "inline"
        try:
            element = mathml(unescape(match["latex"]), block=block)
        except PluginError as error:
            raise PluginError(f"{page.file.src_uri}: {error}") from error
        except Exception as error:  # latex2mathml has many error classes and no common root
            raise PluginError(
                f"{page.file.src_uri}: {type(error).__name__} in the formula: {match['latex']}"
            ) from error
        return f'<{tag} class="arithmatex" data-display="{display}">{element}</{tag}>'

    return MARKED.sub(translate, html)
