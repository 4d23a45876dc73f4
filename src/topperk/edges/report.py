"""The report: one self-contained HTML page that shows why the lengths differ.

:func:`write_report` turns a :class:`ReportData` into a page with four pictures: how lengths are
spread, utility against every fixed length, three users with their cut, and how far the
probabilities can be trusted. The page holds its own style and drawings, runs no script, asks
nothing of any host, and follows the reader's light or dark setting and the width of the screen.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

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
from topperk.errors import StorageError

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
    before survives any failure. A missing or read-only folder is a :class:`StorageError`.
    """
    target = Path(path)
    content = page(data).encode("utf-8")
    if not target.parent.is_dir():
        raise StorageError(
            f"the report can not be written to {str(target)!r}: there is no folder "
            f"{str(target.parent)!r}. Make it first, or name another place."
        )
    if target.is_dir():
        raise StorageError(
            f"the report can not be written to {str(target)!r}: that is a folder. "
            "Name a file in it, such as report.html."
        )
    unfinished = target.with_name(f".{target.name[:200]}.{secrets.token_hex(6)}.tmp")
    try:
        try:
            with open(unfinished, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(unfinished, target)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"the report can not be written to {str(target)!r}: {error.strerror or error}. "
            "Free space or choose a folder that you may write to."
        ) from error
