"""Personal lists beside implicit's fixed ones, and beside the matrix product that both need.

64 factors, 1 % of the items seen, lists of at most 50, 45 relevant items expected, one thread.

*Bare*: for topperk ``model.blocks``, that is product, exclusion of what was seen, calibration,
count distribution, curves of all lengths, choice and list, as arrays; for implicit its top-50 with
its filter (``implicit.cpu.topk.topk``), as arrays; the product alone is numpy's, in topperk's
blocks and into memory that is there already.

*As a user calls it*: ``model.sizes`` and ``model.recommend``, which give frames, each beside
implicit's ``recommend`` for the same users, which gives arrays of codes.

    python benchmarks/bench_lists.py [--quick]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from implicit.cpu.als import AlternatingLeastSquares
from implicit.cpu.topk import topk
from made_up import calibration_for, factors_of, ids_of, seen_by_all
from side_by_side import asked, checked, claim, in_turn, on_one_thread, record

import topperk as tp
from topperk._tiles import TILE
from topperk.threads import Resources

FACTORS, SEEN, MAX_K, MEAN, SEED = 64, 0.01, 50, 45.0, 0
UTILITIES = {"F1": tp.F1(), "NDCG": tp.NDCG(), "TP": tp.TP(), "PDCG": tp.PDCG()}


class Catalogue:
    """Everything that the rivals take, for a number of users and items."""

    def __init__(self, n_users: int, n_items: int) -> None:
        random = np.random.default_rng(SEED)
        self.n_users, self.n_items = n_users, n_items
        ids = ids_of(n_users, n_items)
        self.scores = factors_of(ids, FACTORS, random)
        self.split = seen_by_all(ids, SEEN, random)
        self.calibration = calibration_for(self.scores, MEAN, random)
        self.seen = self.split.train.to_scipy().astype(np.float32)
        self.peer = AlternatingLeastSquares(factors=FACTORS, num_threads=1)
        self.peer.user_factors = self.scores.user_vectors
        self.peer.item_factors = self.scores.item_vectors

    def model(self, utility: tp.Utility) -> tp.FittedK:
        """The fitted model for a utility."""
        method = tp.PersonalizedK(utility, max_k=MAX_K, calibrator=self.calibration)
        return method.fit(self.scores, self.split)

    def bare(self, utility: tp.Utility) -> Callable[[], Any]:
        """Lists, lengths and curves as arrays."""
        model = self.model(utility)

        def run() -> None:
            for _ in model.blocks(self.scores):
                pass

        return run

    def top(self) -> Any:
        """The top-50 of implicit with its filter, as arrays."""
        users, items = self.scores.user_vectors, self.scores.item_vectors
        return topk(items, users, MAX_K, filter_query_items=self.seen, num_threads=1)

    def recommended(self) -> Any:
        """The same as implicit's users call it."""
        return self.peer.recommend(np.arange(self.n_users), self.seen, N=MAX_K)

    def blocks(self) -> None:
        """The scores as topperk's blocks have them: into new memory, which costs on its own."""
        size = Resources(n_jobs=1).users_per_block(self.n_items)
        for begin in range(0, self.n_users, size):
            last = min(begin + size, self.n_users)
            self.scores.block(np.arange(begin, last, dtype=np.int32))

    def product(self, tile: int | None = None) -> Callable[[], Any]:
        """The scores, block by block, into the same memory; or of so many items at a time."""
        size = Resources(n_jobs=1).users_per_block(self.n_items) if tile is None else 256
        width = self.n_items if tile is None else tile
        users, items = self.scores.user_vectors, self.scores.item_vectors.T
        room = np.empty(size * width, dtype=np.float32)

        def run() -> None:
            for begin in range(0, self.n_users, size):
                part = users[begin : begin + size]
                for first in range(0, self.n_items, width):
                    some = items[:, first : first + width]
                    shape = part.shape[0], some.shape[1]
                    np.matmul(part, some, out=room[: shape[0] * shape[1]].reshape(shape))

        return run


def main() -> None:
    quick = asked(__doc__).quick
    repetitions = 9 if quick else 25
    claims: list[dict[str, Any]] = []
    tables: dict[str, Any] = {}
    with on_one_thread():
        for n_users, n_items in ((888 if quick else 1776, 9_000), (256, 112_000)):
            large = n_items > 9_000
            catalogue = Catalogue(n_users, n_items)
            model = catalogue.model(tp.F1())
            bare = {name: catalogue.bare(utility) for name, utility in UTILITIES.items()}
            rivals: dict[str, Callable[[], Any]] = {
                **bare,
                "implicit": catalogue.top,
                "product": catalogue.product(),
                "product into new memory": catalogue.blocks,
                "product in tiles": catalogue.product(TILE),
                "sizes": lambda model=model, c=catalogue: model.sizes(c.scores),
                "recommend": lambda model=model, c=catalogue: model.recommend(c.scores),
                "implicit recommend": catalogue.recommended,
            }
            taken = in_turn(rivals, repetitions)
            works = f"{n_items:,} items"
            fixed, plain = "implicit's top-50 with its filter", "the matrix product alone"
            for name in UTILITIES:
                at_most = 0.6 if large else 0.7 if name == "F1" else 0.8
                claims.append(
                    claim(
                        f"personal lists for {name}, {works}, bare",
                        fixed,
                        taken[name],
                        taken["implicit"],
                        at_most=at_most,
                        try_for=0.5 if name == "F1" and not large else None,
                    )
                )
            claims.append(
                claim(
                    f"personal lists for F1, {works}, bare",
                    plain,
                    taken["F1"],
                    taken["product"],
                    at_most=None if large else 3.0,
                    try_for=None if large else 2.0,
                )
            )
            for verb in ("sizes", "recommend"):
                claims.append(
                    claim(
                        f"`model.{verb}` for F1, {works}",
                        "implicit's `recommend`",
                        taken[verb],
                        taken["implicit recommend"],
                    )
                )
            lengths = model.sizes(catalogue.scores)
            tables[works] = {
                "users": n_users,
                "mean_k": float(lengths["k"].mean()),
                "microseconds_per_user": {
                    name: 1e6 * float(np.median(seconds)) / n_users
                    for name, seconds in taken.items()
                },
            }
    for works, table in tables.items():
        print(f"{works}, mean length {table['mean_k']:.1f}; microseconds per user:")
        for name, microseconds in table["microseconds_per_user"].items():
            print(f"  {name:24} {microseconds:8.1f}")
    checked(claims)
    if quick:
        return
    result = {
        "factors": FACTORS,
        "seen": SEEN,
        "max_k": MAX_K,
        "mean": MEAN,
        "seed": SEED,
        "catalogues": tables,
        "claims": claims,
    }
    record(__file__, result, ("numpy", "numba", "implicit"))


if __name__ == "__main__":
    main()
