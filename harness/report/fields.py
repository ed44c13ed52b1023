"""The fields of a kept result that a report shows, and what each may be."""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any

_NUMBER = int | float | None
_COUNT = int | None
_TEXT = str | None
_FLAG = bool | None
FIELDS: Mapping[str, type | UnionType] = {
    **dict.fromkeys(("fps", "p50_ms", "p90_ms", "p99_ms", "conversion_ms", "bytes_moved"), _NUMBER),
    **dict.fromkeys(("peak_rss_bytes", "arena_bytes", "weight_bytes", "instructions", "attempts"), _COUNT),
    **dict.fromkeys(("instructions_isa", "instructions_missing", "isa", "digest", "board"), _TEXT),
    **dict.fromkeys(("digest_matches_host", "exact", "throttled", "prediction_validated"), _FLAG),
    **dict.fromkeys(("predicted_ms", "predicted_low_ms", "predicted_high_ms", "prediction_error"), _NUMBER),
    **dict.fromkeys(("prediction_missing", "prediction_coefficients_of"), _TEXT),
    "conditions": dict | None,
    "course": list | None,
    "rounds": list | None,
}
_CONDITIONS: Mapping[str, type | UnionType] = {
    **dict.fromkeys(("reasons", "warnings"), list),
    **dict.fromkeys(("energy_joules", "energy_seconds"), _NUMBER),
    "energy_source": _TEXT,
}
_POINT = dict.fromkeys(("seconds", "fps", "clock", "celsius"), _NUMBER)


def fields_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """All fields, None where the result has none. Raises ValueError where one is not what it may be."""
    found = {name: result.get(name) for name in FIELDS}
    _check(found, FIELDS)
    if found["conditions"]:
        _check(found["conditions"], _CONDITIONS)
    for name in ("reasons", "warnings"):
        texts = (found["conditions"] or {}).get(name, ())
        _check({f"{name}, {place}": text for place, text in enumerate(texts)}, str)
    for point in found["course"] or ():
        if not isinstance(point, dict) or not _POINT.keys() <= point.keys():
            raise ValueError("course is not a list of points")
        _check(point, _POINT)
    _check({f"rounds, {place}": length for place, length in enumerate(found["rounds"] or ())}, int)
    return found


def _check(values: Mapping[Any, object], kinds: Mapping[str, type | UnionType] | type) -> None:
    for name, value in values.items():
        kind = kinds if isinstance(kinds, type) else kinds.get(name, object)
        if not isinstance(value, kind):
            raise ValueError(f"{name} is {str(value)[:40]!r}")  # noqa: TRY004 - of a file, not of a caller
