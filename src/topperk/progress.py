"""How a long computation tells how far it is.

A ``Progress`` is any callable ``progress(stage, done, total)``. The library calls it between
blocks and never prints; the command line passes one that draws a bar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
