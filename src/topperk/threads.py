"""How many threads a computation takes, and how much memory for its blocks.

Users are worked on in blocks, and blocks side by side in threads: kernels run without the
interpreter's lock. Within a computation BLAS keeps to one thread per worker and is given back its
own number afterwards. Any number of threads gives the same bits: the blocks do not depend on it,
and results are taken in the order of the users. Under a ``memory_limit`` they do depend on it, as
the threads share the limit; then BLAS may round scores differently, and the lengths are the same
unless two values tie that closely.

Memory beyond the scores' own, for a block of B users and n items in ``n_jobs`` threads, is about

    n_jobs * (B * (n * bytes_per_pair + bytes_per_user) + 40 * n),

``bytes_per_pair`` 4 for scores in single precision, 24 at most otherwise. ``bytes_per_user`` is
what lists take, 8,700 + 64 * max_k at most, and next to nothing in fitting. B is what
``memory_limit`` allows; without a limit a block has ``BLOCK_PAIRS`` pairs, or ``LEAST_USERS`` users
where that is more (of a large catalogue), as matrix products of fewer are slow, and ``MOST_USERS``
at most.

Lists from factors in single precision need no block of all scores (``topperk._tiles``). They take

    n_jobs * (B * (8,200 + bytes_per_user) + 40 * n),

and without a limit B is ``TILED_USERS`` or more. Where users are left over that tiles do not serve,
they are done in such blocks as above, besides.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from topperk.errors import SettingError

__all__ = ["Resources", "resources"]

T = TypeVar("T")
R = TypeVar("R")

# 2 million scores are 8 MB in single precision: large enough for a fast matrix product, and small
# enough to stay near the processor. Of a large catalogue that would be few users, and a product for
# few reads all item vectors with little to do: then a block has LEAST_USERS, up to MOST_PAIRS.
BLOCK_PAIRS = 2_000_000
LEAST_USERS = 256
MOST_PAIRS = 32_000_000
MOST_USERS = 8192
BYTES_PER_PAIR = 24
SCRATCH_PER_ITEM = 40
# Where scores come in tiles, a product is as fast as it gets from so many users on; of a small
# catalogue more are taken, as a block has costs of its own.
TILED_USERS = 256
MOST_TILED_USERS = 1024
LOOKED_AT_EVERY = 1.0  # seconds


@dataclass(frozen=True)
class Resources:
    """What a computation may take; ``None`` means all processors, or memory as it comes."""

    n_jobs: int | None = None
    memory_limit: int | None = None

    @property
    def threads(self) -> int:
        """How many threads work."""
        return self.n_jobs or available_processors()

    def users_per_block(self, n_items: int, bytes_per_user: int = 0) -> int:
        """How many users make a block."""
        n_items = max(1, n_items)
        if self.memory_limit is None:
            most = max(1, MOST_PAIRS // n_items)
            return min(MOST_USERS, max(1, BLOCK_PAIRS // n_items, min(LEAST_USERS, most)))
        left = self.memory_limit / self.threads - SCRATCH_PER_ITEM * n_items
        return min(MOST_USERS, max(1, int(left / (BYTES_PER_PAIR * n_items + bytes_per_user))))

    def users_per_tile(self, n_items: int, bytes_per_user: int) -> int:
        """How many users make a block whose scores come in tiles."""
        n_items = max(1, n_items)
        most = max(TILED_USERS, min(MOST_TILED_USERS, BLOCK_PAIRS // n_items))
        if self.memory_limit is None:
            return most
        left = self.memory_limit / self.threads - SCRATCH_PER_ITEM * n_items
        return max(1, min(most, int(left / bytes_per_user)))


AS_IT_COMES = Resources()
_IN_FORCE: ContextVar[Resources] = ContextVar("resources", default=AS_IT_COMES)


def current() -> Resources:
    """What is in force here."""
    return _IN_FORCE.get()


@contextmanager
def resources(
    n_jobs: int | None = None, memory_limit: float | str | None = None
) -> Iterator[Resources]:
    """Within this block, computations take so many threads and so much memory for their blocks.

    ``n_jobs``: threads; None or -1 is one for each processor. ``memory_limit``: bytes, or text such
    as "2 GB"; it bounds what blocks take, not the scores and interactions that are there already.
    A limit that not even one user's scores fit into makes blocks of one user.

    >>> with resources(n_jobs=2, memory_limit="500 MB") as taken:
    ...     taken.users_per_block(n_items=100_000)
    102
    """
    if n_jobs == -1:
        n_jobs = None
    if n_jobs is not None and (
        isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer))
    ):
        raise SettingError(f"n_jobs is {n_jobs!r}. Give a number of threads, or -1 for all.")
    if n_jobs is not None and n_jobs < 1:
        raise SettingError(f"n_jobs is {n_jobs}. Give 1 or more, or -1 for all processors.")
    taken = Resources(n_jobs, None if memory_limit is None else _bytes_of(memory_limit))
    token = _IN_FORCE.set(taken)
    try:
        yield taken
    finally:
        _IN_FORCE.reset(token)


def _bytes_of(limit: float | str) -> int:
    """``2 GB`` as a number of bytes."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(limit).lower())
    if found and not isinstance(limit, bool):
        base = 1024 if found[3] else 1000
        size = int(float(found[1]) * base ** " kmgt".index(found[2] or " "))
        if size > 0:
            return size
    raise SettingError(
        f"memory_limit is {limit!r}. Give a number of bytes, or text like '2 GB' or '512 MiB'."
    )


def available_processors() -> int:
    """The processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _OneThreadForBlas:
    """While any computation lasts, BLAS has one thread; after the last, its own number again.

    The number belongs to the process and computations may overlap, so it is set by the first that
    comes and given back by the last that goes.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.running = 0
        self.limits: Any = None
        self.libraries: Any = None
        self.modules = -1
        self.looked_at = 0.0

    def __enter__(self) -> None:
        from threadpoolctl import ThreadpoolController

        with self.lock:
            if self.running == 0:
                # Looking for what is loaded takes milliseconds. A BLAS comes with some module,
                # which may be told of a little before it is there.
                now = time.monotonic()
                if self.modules != len(sys.modules) or now > self.looked_at + LOOKED_AT_EVERY:
                    self.libraries = ThreadpoolController()
                    self.modules, self.looked_at = len(sys.modules), now
                self.limits = self.libraries.limit(limits=1, user_api="blas")
            self.running += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.running -= 1
            if self.running == 0:
                self.limits.restore_original_limits()


_ONE_THREAD_FOR_BLAS = _OneThreadForBlas()


def in_order(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """``work(item)`` for each item, in order; several at once, no more than there are threads.

    An exception, of the work or of whoever takes the results (Ctrl-C), ends it: what has not begun
    is dropped, what runs is waited for, which is as long as one block takes.
    """
    threads = min(current().threads, len(items))
    with _ONE_THREAD_FOR_BLAS:
        if threads <= 1:
            yield from map(work, items)
            return
        pool = ThreadPoolExecutor(threads, thread_name_prefix="topperk")
        waiting: deque[Future[R]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
