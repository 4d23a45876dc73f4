"""The report: one self-contained HTML page that shows why the lengths differ.

:func:`write_report` turns a :class:`ReportData` into a page with four pictures: how lengths are
spread, utility against every fixed length, three users with their cut, and how far the
probabilities can be trusted. The page holds its own style and drawings, runs no script, asks
nothing of any host, and follows the reader's light or dark setting and the width of the screen.
"""

from __future__ import annotations

import os
from pathlib import Path

from topperk._files import replacing
from topperk.edges.report_content import (
    ItemExample,
    MethodRow,
    PairedTest,
    ReliabilityCurve,
    ReliabilitySection,
    ReportData,
    TruthCurve,
    UserExample,
    UtilitySection,
)
from topperk.edges.report_page import page

__all__ = [
    "ItemExample",
    "MethodRow",
    "PairedTest",
    "ReliabilityCurve",
    "ReliabilitySection",
    "ReportData",
    "TruthCurve",
    "UserExample",
    "UtilitySection",
    "write_report",
]


def write_report(path: str | os.PathLike[str], data: ReportData) -> None:
    """Write the page to ``path``, whole or not at all.

    It is written under another name in the same folder and then renamed, so whatever was there
    before survives any failure. A missing or read-only folder is a ``StorageError``.
    """
    content = page(data).encode("utf-8")
    with replacing(Path(path)) as unfinished:
        unfinished.write_bytes(content)
