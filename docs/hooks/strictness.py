"""What is wrong with a page stops a strict build, a quiet one too.

`mkdocs --quiet` drops warnings before `--strict` can count them, so that a dead link would pass.
"""

from __future__ import annotations

import logging
from typing import Any


def on_startup(**_: Any) -> None:
    """Called by mkdocs once, before anything is built."""
    logger = logging.getLogger("mkdocs")
    logger.setLevel(min(logger.level, logging.WARNING))
