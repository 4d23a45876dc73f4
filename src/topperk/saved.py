"""Fitted models as folders: what of a model goes into one, and how it comes back.

``storage`` writes and reads the folder itself. Nothing is pickled: a utility is kept as its name
and settings, or as its arrays; one made of functions, or a calibration that is not topperk's own,
has to be passed again to ``load``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk import utility as utilities
from topperk._frames import FrameKind
from topperk._policies import PersonalPolicy, Policy, RandomPolicy, TablePolicy
from topperk._stored import reasons_named, stored_array, stored_count, stored_seen, stored_text
from topperk._strings import pack_strings, unpack_strings
from topperk._utility_tables import Method
from topperk.calibration import Calibration, PlattCalibration
from topperk.custom import Custom
from topperk.errors import SettingError, StorageError
from topperk.fitted import FittedK, Seen
from topperk.ids import IdIndex, Ids
from topperk.reasons import Reason
from topperk.storage import read_folder, write_folder

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
        "min_k": int(model.min_k),
        "max_k": int(model.max_k),
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
    functions or with a calibration type of your own: the utility itself, and that type. Where the
    model stores its own they are refused; ``for_utility`` gives a loaded model another utility.
    """
    if utility is not None:
        utilities.check_utility(utility)
    config, arrays = read_folder(path)
    try:
        wanting = _wanting(path, config, utility, calibration)
        model = None if wanting else _unpack(config, arrays, utility, calibration)
    except (
        AttributeError,
        KeyError,
        StorageError,
        TypeError,
        ValueError,
        pl.exceptions.PolarsError,
    ) as error:
        # What is wrong, without a cure that is not one here.
        said = str(error).partition(". ")[0].removesuffix(".")
        said = f"there is no {said}" if isinstance(error, KeyError) else said
        raise StorageError(
            f"{path} is a topperk folder but not a whole model ({said}). Save the model again."
        ) from error
    if model is None:
        raise SettingError(wanting)
    return model


def _wanting(
    path: str | Path,
    config: Mapping[str, Any],
    utility: utilities.Utility | None,
    calibration: StoredCalibration | None,
) -> str:
    """What has to be passed to ``load`` and was not, or the reverse, as a sentence, or nothing."""
    policy = config["policy"]
    if policy["kind"] != "personal":
        given = "calibration" if utility is None else "utility"
        said = f"{path} is the method {config['name']!r}, which has no {given}. Leave {given} out."
        return "" if utility is None and calibration is None else said
    name = policy["utility"].get("name", policy["utility"]["kind"])
    if policy["utility"]["kind"] != "own" and utility is not None:
        return (
            f"{path} stores its own utility, {name!r}. Load it without one, and then change it: "
            "load(path).for_utility(...)."
        )
    if policy["utility"]["kind"] == "own" and (utility is None or utility.name != name):
        return f"{path} was fitted for a utility of your own, {name!r}. " + (
            "Pass it again: load(path, utility=...)."
            if utility is None
            else f"Pass that one; {utility.name!r} was given."
        )
    kind = policy["calibration"]["type"]
    own = kind == PlattCalibration.__name__
    if own and calibration is not None and calibration is not PlattCalibration:
        return f"{path} stores its own calibration. Load it without one: load(path)."
    if not own and not hasattr(calibration, "from_state"):
        return (
            f"{path} was fitted with a calibration of type {kind}, which is not topperk's own. "
            f"Pass the type: load(path, calibration={kind})."
        )
    return ""


def _unpack(
    config: Mapping[str, Any],
    arrays: Arrays,
    utility: utilities.Utility | None,
    calibration: StoredCalibration | None,
) -> FittedK:
    if config["frame_kind"] not in get_args(FrameKind):
        raise ValueError(f"frame_kind is {config['frame_kind']!r}")
    ids = Ids(
        _unpack_ids("users", config["users"], arrays),
        _unpack_ids("items", config["items"], arrays),
        config["frame_kind"],
    )
    min_k, max_k = _unpack_range(config)
    seen = Seen(*stored_seen(arrays, ids.n_users, ids.n_items))
    policy = _unpack_policy(config["policy"], arrays, ids, max_k, utility, calibration)
    return FittedK(stored_text(config, "name"), ids, seen, min_k, max_k, policy)


def _unpack_range(config: Mapping[str, Any]) -> tuple[int, int]:
    min_k, max_k = stored_count(config, "min_k"), stored_count(config, "max_k", 1)
    if min_k > max_k:
        raise ValueError(f"min_k is {min_k} and max_k {max_k}")
    return min_k, max_k


def _pack_ids(name: str, index: IdIndex, arrays: Arrays) -> dict[str, Any]:
    outside = "plain" if index.outside_type is None else "categorical"
    if isinstance(index.outside_type, pl.Enum):
        outside = "enum"
        categories = pack_strings(index.outside_type.categories.to_list())
        arrays[f"{name}.enum.bytes"], arrays[f"{name}.enum.offsets"] = categories
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
        integers = arrays[f"{name}.integers"]
        if integers.ndim != 1 or integers.dtype.kind not in "iu" or not integers.dtype.isnative:
            raise ValueError(f"the array '{name}.integers' is {integers.dtype}, which is no id")
        values = pl.Series(integers)
    if len(values) == 0:
        raise ValueError(f"there are no {name}")
    kind = config["type"]
    outside: pl.DataType | None = None
    if kind == "enum":
        packed = arrays[f"{name}.enum.bytes"], arrays[f"{name}.enum.offsets"]
        outside = pl.Enum(unpack_strings(*packed))
        values.cast(outside)
    elif kind == "categorical":
        outside = pl.Categorical()
    elif kind != "plain":
        raise ValueError(f"the type of {name} is {kind!r}")
    if outside is not None and not config["strings"]:
        raise ValueError(f"the {name} are integers of a type for strings")
    return IdIndex(values, outside)


def _pack_policy(policy: Policy, arrays: Arrays) -> dict[str, Any]:
    if isinstance(policy, RandomPolicy):
        return {"kind": "random", "seed": int(policy.seed)} | _range(policy)
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
        "paper_terms": int(personal.paper_terms),
        "utility": _pack_utility(personal.utility, arrays),
        "calibration": {"type": type(personal.calibration).__name__, "settings": settings},
    } | _range(personal)


def _range(policy: PersonalPolicy | RandomPolicy) -> dict[str, Any]:
    return {"min_k": int(policy.min_k), "max_k": int(policy.max_k)}


def _unpack_policy(
    config: Mapping[str, Any],
    arrays: Arrays,
    ids: Ids,
    max_k: int,
    utility: utilities.Utility | None,
    calibration: StoredCalibration | None,
) -> Policy:
    kind = config["kind"]
    if kind == "table":
        lengths = stored_array(arrays, "lengths", np.int32, ids.n_users + 1)
        if not 0 <= lengths.min() <= lengths.max() <= max_k:
            raise ValueError(f"the array 'lengths' leaves 0..{max_k}")
        codes = stored_array(arrays, "reasons", np.uint8, lengths.size)
        return TablePolicy(lengths, reasons_named(config["reasons"], codes))
    least, most = _unpack_range(config)
    if most != max_k:
        raise ValueError(f"max_k is {max_k} and {most}")
    if kind == "random":
        if type(config["seed"]) is not int:
            raise ValueError(f"the seed is {config['seed']!r}")
        return RandomPolicy(config["seed"], least, most)
    if kind != "personal" or config["method"] not in get_args(Method):
        raise ValueError(f"the kind is {kind!r} and the method {config.get('method')!r}")
    own = {
        name.removeprefix("calibration."): value
        for name, value in arrays.items()
        if name.startswith("calibration.")
    }
    stored = config["calibration"]
    if stored["type"] == PlattCalibration.__name__:
        fitted: Calibration = PlattCalibration.from_state(ids.users, stored["settings"], own)
    else:
        own_type = cast(StoredCalibration, calibration)
        fitted = own_type.from_state(ids.users, stored["settings"], own)
    return PersonalPolicy(
        _unpack_utility(config["utility"], arrays, max_k, utility),
        least,
        most,
        fitted,
        config["method"],
        stored_count(config, "paper_terms", 1),
    )


def _pack_utility(utility: utilities.Utility, arrays: Arrays) -> dict[str, Any]:
    if type(utility).__name__ in KINDS and type(utility) in KINDS.values():
        settings = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in asdict(cast(Any, utility)).items()
        }
        return {"kind": type(utility).__name__, "settings": settings}
    parts = _custom_parts(utility)
    if parts is None:
        return {"kind": "own", "name": utility.name}
    arrays.update({f"utility.{name}": value for name, value in parts.items()})
    return {"kind": "arrays", "name": utility.name, "parts": sorted(parts)}


def _custom_parts(utility: utilities.Utility) -> Arrays | None:
    """The arrays of a Custom utility, or None where a function is among them."""
    if type(utility) is not Custom:
        return None
    given = {field.name: getattr(utility, field.name) for field in fields(utility)}
    parts = {name: value for name, value in given.items() if name != "label" and value is not None}
    if any(callable(value) for value in parts.values()):
        return None
    return {name: np.asarray(value) for name, value in parts.items()}


def _unpack_utility(
    config: Mapping[str, Any], arrays: Arrays, max_k: int, given: utilities.Utility | None
) -> utilities.Utility:
    kind = config["kind"]
    if kind == "own":
        return cast(utilities.Utility, given)
    if kind != "arrays":
        if any(type(value) not in (int, float) for value in config["settings"].values()):
            raise ValueError(f"the settings of {kind} are {config['settings']!r}")
        return KINDS[kind](**config["settings"])
    parts = {name: arrays[f"utility.{name}"] for name in config["parts"]}
    for name, part in parts.items():
        if part.dtype != np.float64:
            raise ValueError(f"the array 'utility.{name}' is {part.dtype}")
    utility = Custom(
        stored_text(config, "name"),
        parts["discounts"],
        parts.get("penalties"),
        parts.get("normalisers"),
    )
    last = np.array([float(max_k)])
    utility.discount(last)
    utility.penalty(last)
    utility.normaliser(np.ones(1), last)
    return utility
