"""Fitted models as folders: what of a model goes into one, and how it comes back.

``storage`` writes and reads the folder itself. Nothing is pickled: a utility is kept as its name
and settings, or as its arrays; one made of functions, or a calibration that is not topperk's own,
has to be passed again to ``load``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk import utility as utilities
from topperk._policies import PersonalPolicy, Policy, RandomPolicy, TablePolicy
from topperk.calibration import Calibration, PlattCalibration
from topperk.custom import Custom
from topperk.errors import SettingError, StorageError
from topperk.fitted import FittedK, Seen
from topperk.ids import IdIndex, Ids
from topperk.reasons import Reason
from topperk.storage import pack_strings, read_folder, unpack_strings, write_folder

__all__ = ["load", "save"]

Arrays = dict[str, npt.NDArray[Any]]
KINDS: Mapping[str, type[utilities.Utility]] = {
    kind.__name__: kind
    for kind in (
        utilities.NDCG,
        utilities.PDCG,
        utilities.FBeta,
        utilities.TP,
        utilities.Precision,
        utilities.Recall,
        utilities.DCG,
        utilities.NetGain,
    )
}


class StoredCalibration(Protocol):
    """A calibration's type, as ``load`` needs it for one that is not topperk's own."""

    def from_state(
        self, users: IdIndex, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> Calibration:
        """The calibration that ``state`` described."""
        ...


def save(model: FittedK, path: str | Path) -> None:
    """Write a fitted model to a folder, replacing an older model whole or not at all."""
    arrays: Arrays = {"seen.offsets": model.seen.offsets, "seen.items": model.seen.items}
    config: dict[str, Any] = {
        "name": model.name,
        "min_k": model.min_k,
        "max_k": model.max_k,
        "frame_kind": model.ids.frame_kind,
        "users": _pack_ids("users", model.ids.users, arrays),
        "items": _pack_ids("items", model.ids.items, arrays),
        "policy": _pack_policy(model.policy, arrays),
    }
    write_folder(path, config, arrays)


def load(
    path: str | Path,
    *,
    utility: utilities.Utility | None = None,
    calibration: StoredCalibration | None = None,
) -> FittedK:
    """Read a model that ``save`` wrote; it answers bit for bit like the one that was saved.

    ``utility`` and ``calibration`` are needed where the model was fitted with a utility made of
    functions or with a calibration type of your own: the utility itself, and that type.
    """
    config, arrays = read_folder(path)
    try:
        ids = Ids(
            _unpack_ids("users", config["users"], arrays),
            _unpack_ids("items", config["items"], arrays),
            config["frame_kind"],
        )
        policy = _unpack_policy(path, config["policy"], arrays, ids, utility, calibration)
        seen = Seen(arrays["seen.offsets"], arrays["seen.items"])
        return FittedK(
            config["name"], ids, seen, int(config["min_k"]), int(config["max_k"]), policy
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        if isinstance(error, SettingError):
            raise
        raise StorageError(
            f"{path} is a topperk folder but not a whole model ({error!r}). Save the model again."
        ) from error


def _pack_ids(name: str, index: IdIndex, arrays: Arrays) -> dict[str, Any]:
    if index.outside_type is not None and index.outside_type != pl.Categorical:
        # an enumeration: its categories are the index's own strings
        outside = "enum"
    else:
        outside = "categorical" if index.outside_type is not None else "plain"
    if index.holds_strings:
        arrays[f"{name}.bytes"], arrays[f"{name}.offsets"] = pack_strings(index.values.to_list())
    else:
        arrays[f"{name}.integers"] = index.values.to_numpy()
    return {"type": outside, "strings": index.holds_strings}


def _unpack_ids(name: str, config: Mapping[str, Any], arrays: Arrays) -> IdIndex:
    if config["strings"]:
        values = pl.Series(
            unpack_strings(arrays[f"{name}.bytes"], arrays[f"{name}.offsets"]), dtype=pl.String
        )
    else:
        values = pl.Series(arrays[f"{name}.integers"])
    outside: dict[str, pl.DataType | None] = {
        "plain": None,
        "categorical": pl.Categorical(),
        "enum": pl.Categorical(),
    }
    return IdIndex(values, outside[config["type"]])


def _pack_policy(policy: Policy, arrays: Arrays) -> dict[str, Any]:
    if isinstance(policy, RandomPolicy):
        return {"kind": "random", **asdict(policy)}
    if isinstance(policy, TablePolicy):
        arrays["lengths"] = policy.k
        arrays["reasons"] = policy.reason
        return {"kind": "table", "reasons": [reason.name for reason in Reason]}
    personal = cast(PersonalPolicy, policy)
    settings, own = personal.calibration.state()
    arrays.update({f"calibration.{name}": value for name, value in own.items()})
    return {
        "kind": "personal",
        "method": personal.method,
        "paper_terms": personal.paper_terms,
        "min_k": personal.min_k,
        "max_k": personal.max_k,
        "utility": _pack_utility(personal.utility, arrays),
        "calibration": {"type": type(personal.calibration).__name__, "settings": settings},
    }


def _unpack_policy(
    path: str | Path,
    config: Mapping[str, Any],
    arrays: Arrays,
    ids: Ids,
    utility: utilities.Utility | None,
    calibration: StoredCalibration | None,
) -> Policy:
    kind = config["kind"]
    if kind == "random":
        return RandomPolicy(config["seed"], config["min_k"], config["max_k"])
    if kind == "table":
        codes = np.array([Reason[name].code for name in config["reasons"]], dtype=np.uint8)
        return TablePolicy(arrays["lengths"], codes[arrays["reasons"]])
    own = {
        name.removeprefix("calibration."): value
        for name, value in arrays.items()
        if name.startswith("calibration.")
    }
    stored = config["calibration"]
    if stored["type"] == PlattCalibration.__name__:
        fitted: Calibration = PlattCalibration.from_state(ids.users, stored["settings"], own)
    elif calibration is not None:
        fitted = calibration.from_state(ids.users, stored["settings"], own)
    else:
        raise SettingError(
            f"{path} was fitted with a calibration of type {stored['type']}, which is not "
            f"topperk's own. Pass the type: load(path, calibration={stored['type']})."
        )
    return PersonalPolicy(
        _unpack_utility(path, config["utility"], arrays, utility),
        config["min_k"],
        config["max_k"],
        fitted,
        config["method"],
        config["paper_terms"],
    )


def _pack_utility(utility: utilities.Utility, arrays: Arrays) -> dict[str, Any]:
    if type(utility).__name__ in KINDS and type(utility) in KINDS.values():
        return {"kind": type(utility).__name__, "settings": asdict(cast(Any, utility))}
    parts = _custom_parts(utility)
    if parts is None:
        return {"kind": "own", "name": utility.name}
    arrays.update({f"utility.{name}": value for name, value in parts.items()})
    return {"kind": "arrays", "name": utility.name, "parts": sorted(parts)}


def _custom_parts(utility: utilities.Utility) -> Arrays | None:
    """The arrays of a Custom utility, or None where a function is among them."""
    if not isinstance(utility, Custom):
        return None
    given = {field.name: getattr(utility, field.name) for field in fields(utility)}
    parts = {name: value for name, value in given.items() if name != "label" and value is not None}
    if any(callable(value) for value in parts.values()):
        return None
    return {name: np.asarray(value) for name, value in parts.items()}


def _unpack_utility(
    path: str | Path,
    config: Mapping[str, Any],
    arrays: Arrays,
    given: utilities.Utility | None,
) -> utilities.Utility:
    if config["kind"] == "own":
        if given is None or given.name != config["name"]:
            raise SettingError(
                f"{path} was fitted for a utility of your own, {config['name']!r}. "
                "Pass it again: load(path, utility=...)."
            )
        return given
    if config["kind"] == "arrays":
        parts = {name: arrays[f"utility.{name}"] for name in config["parts"]}
        return Custom(
            config["name"], parts["discounts"], parts.get("penalties"), parts.get("normalisers")
        )
    return KINDS[config["kind"]](**config["settings"])
