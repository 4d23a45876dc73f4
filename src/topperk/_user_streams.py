"""Random numbers that belong to a user: they follow from a seed and the user's own id alone."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import OffsetArray
from topperk.ids import IdIndex


def user_keys(users: IdIndex, seed: int) -> npt.NDArray[np.uint64]:
    """A 64-bit key for each user, from the seed and the user's id alone."""
    # The tag keeps the integer 17 and the string '17' apart.
    tag = "s" if users.holds_strings else "i"
    start = blake2b(f"topperk split {seed} {tag}".encode(), digest_size=8)
    keys = bytearray()
    for user_id in users.values.to_list():
        own = start.copy()
        own.update(str(user_id).encode("utf-8", "surrogatepass"))
        keys += own.digest()
    return np.frombuffer(keys, dtype="<u8").astype(np.uint64)


def stream_numbers(keys: npt.NDArray[np.uint64], offsets: OffsetArray) -> npt.NDArray[np.uint64]:
    """Numbers for ``offsets[u]:offsets[u + 1]``: the splitmix64 stream that starts at keys[u].

    The number at place n of a user's own range is the (n + 1)-th of the user's stream.
    """
    counts = np.diff(offsets)
    place = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts)
    # Unsigned numpy arithmetic wraps around modulo 2**64, as splitmix64 wants.
    z = (place.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z += np.repeat(keys, counts)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
