"""Where machine code is kept on disk, and read from where nothing can be written.

numba takes a cache folder only if it can write to it, so a filled one on a read-only file system
would serve nobody. Here it is read all the same; what it lacks goes to whichever folder numba finds
to write to, if there is one.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from numba.core.caching import (
    CompileResultCacheImpl,
    FunctionCache,
    InTreeCacheLocator,
    NullCache,
    UserProvidedCacheLocator,
)


class _ReadProvided(UserProvidedCacheLocator):
    """The folder of NUMBA_CACHE_DIR, whether it can be written to or not."""

    def ensure_cache_path(self) -> None:
        pass


class _ReadInTree(InTreeCacheLocator):
    """The folder beside the package, whether it can be written to or not."""

    def ensure_cache_path(self) -> None:
        pass


class _Found(CompileResultCacheImpl):
    _locator_classes = [_ReadProvided, _ReadInTree]  # noqa: RUF012 - as numba declares it


class _Reader(FunctionCache):
    _impl_class = _Found


class _TwoFolders(NullCache):
    """Reads what one folder holds; all else is read from and kept in the other, if there is any."""

    def __init__(self, filled: Any, other: Any) -> None:
        self._filled = filled
        self._other = other

    @property
    def cache_path(self) -> Any:
        return self._other.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(OSError):
            found = self._filled.load_overload(sig, target_context)
            if found is not None:
                return found
        return self._other.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._other.save_overload(sig, data)


def keep(dispatcher: Any) -> Any:
    """Let numba keep what it compiles for this function, and read what was kept before."""
    # Where no folder can be made (a read-only image without a home), numba refuses; the function
    # then works all the same and, unless a filled folder is there, is compiled once per process.
    with suppress(RuntimeError):
        dispatcher.enable_caching()
    with suppress(RuntimeError):
        filled = cast(Any, _Reader)(dispatcher.py_func)
        unwritable = filled.cache_path != dispatcher.stats.cache_path
        if unwritable and any(Path(filled.cache_path).glob("*.nbi")):
            dispatcher._cache = _TwoFolders(filled, dispatcher._cache)
    return dispatcher
