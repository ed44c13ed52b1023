"""The operators in profiles of OpenVINO."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

_TYPES = {"f32": "float", "f16": "float16", "i8": "int8", "u8": "uint8", "bf16": "bfloat16"}


def operators(profiles: Sequence[Sequence[Any]]) -> list[dict[str, object]]:
    """A row for each operator that ran, with the median of its times in all `profiles`."""
    times: dict[str, list[int]] = {}
    for profile in profiles:
        for event in profile:
            if event.status == event.Status.EXECUTED:
                times.setdefault(event.node_name, []).append(event.real_time // timedelta(microseconds=1))
    rows = []
    for event in profiles[0]:
        if event.node_name in times:
            # As brgconv_avx512_1x1_f32.
            primitive, _, precision = event.exec_type.rpartition("_")
            rows.append(
                {
                    "type": event.node_type,
                    "computed": _TYPES.get(precision.lower(), ""),
                    "provider": primitive,
                    "ns": 1000 * int(statistics.median(times[event.node_name])),
                }
            )
    return rows
