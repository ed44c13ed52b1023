"""The fastest assignment of precisions whose loss stays within a limit, as an integer linear programme.

Solved exactly by HiGHS (through SciPy). The engine's rules about which tensors are stored as int8 are
constraints, so that conversions cost what the latency model says, on any graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.errors import HarnessError
from harness.search.latency import LatencyModel
from harness.search.memory import VALUE_BYTES, MemoryModel
from harness.search.precision_graph import FP32, INT8, Labels
from harness.search.precision_programme import PrecisionProgramme, Row, row_sum, scaled


@dataclass(frozen=True, kw_only=True)
class Found:
    """The best assignment, [layers with weights], with its milliseconds and its loss by the sums."""

    assignment: Labels
    milliseconds: float
    loss: float
    proven: bool  # False: the time limit came before the proof that nothing is faster


def fastest(
    model: LatencyModel,
    losses: npt.NDArray[np.float64],
    most_loss: float,
    *,
    memory: MemoryModel | None = None,
    most_bytes: float = np.inf,
    seconds: float = 60.0,
) -> Found | None:
    """The assignment with the least milliseconds among those whose losses sum to at most `most_loss` and that
    need at most `most_bytes` by `memory`.

    `losses` is [layers with weights, WIDTH]; inf excludes a precision of a layer. None if no assignment
    stays within the limits. Raises HarnessError if the solver finds none within `seconds`.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    bounded = memory if np.isfinite(most_bytes) else None
    if bounded and most_bytes <= bounded.base:
        return None
    converting = {moment.converting for moment in bounded.moments} if bounded else set()
    programme = PrecisionProgramme(model, losses, {index for index in converting if index is not None})
    programme.add({place: loss for place, loss in programme.losses.items() if loss}, high=most_loss)
    if bounded:
        _bound_memory(programme, bounded, most_bytes)
    matrix, low, high = programme.constraints()
    size = programme.size
    # With a limit of memory, HiGHS's presolve (in SciPy 1.17) loses assignments that fit: some programmes
    # become infeasible. Without one, 360 larger random programmes had the same optimum with it and without.
    options = {"time_limit": seconds, "mip_rel_gap": 0.0, "presolve": bounded is None}
    answer = milp(
        programme.costs(),
        constraints=LinearConstraint(matrix, low, high),
        bounds=Bounds(np.zeros(size), programme.upper()),
        integrality=np.array(programme.whole),
        options=options,
    )
    if answer.status == 2:
        return None
    if answer.x is None:
        raise HarnessError(
            f"no assignment of precisions was found in {seconds:.0f} s", hint="Give the search more time."
        )
    assignment = programme.assignment(answer.x)
    places = np.arange(len(assignment))
    return Found(
        assignment=assignment,
        milliseconds=float(model.milliseconds(assignment[None])[0]),
        loss=float(losses[places, assignment].sum()),
        proven=answer.status == 0,
    )


def _bound_memory(programme: PrecisionProgramme, memory: MemoryModel, most_bytes: float) -> None:
    """At every moment, weights and live tensors fit into what the limit leaves beyond the base."""
    room = most_bytes - memory.base
    weights = programme.variable(whole=False)  # all of them together, as a share of the room
    shares = {
        works: memory.weights[index, _executed(memory, index, label)] / room
        for index in memory.graph.weighted
        for label, works in programme.layers[index].works.items()
    }
    programme.add(shares | {weights: -1.0}, low=0, high=0)
    written, unpooled = memory.written, memory.unpooled
    for moment in memory.moments:
        live: list[Row] = [{weights: 1.0}]
        held = [(index, written[index]) for index in moment.tensors]
        if (pooled := moment.pooling) is not None:
            held.append((pooled, unpooled[pooled]))
        live += [scaled(_stored(programme, memory, index, values), 1 / room) for index, values in held]
        if (reader := moment.reading) is not None:
            share = memory.inputs[reader] / room
            live += [
                {works: share * VALUE_BYTES[_executed(memory, reader, label)]}
                for label, works in programme.layers[reader].works.items()
            ]
        if (reader := moment.converting) is not None:
            share = memory.inputs[reader] / room
            live += [scaled(both, share * VALUE_BYTES[runs]) for runs, both in programme.converted[reader]]
        programme.add(row_sum(*live), high=1.0)


def _stored(
    programme: PrecisionProgramme, memory: MemoryModel, index: int, values: npt.NDArray[np.int64]
) -> Row:
    """The bytes of a layer's output, which has `values` [WIDTH], by the precision in which the layer runs."""
    layer = programme.layers[index]
    if index not in memory.graph.weighted:
        return {place: values[FP32] * VALUE_BYTES[label] for label, place in layer.stored.items()}
    stored = []
    for label, works in layer.works.items():
        runs = _executed(memory, index, label)
        width = FP32 if runs == INT8 else runs  # a layer that runs in int8 stores fp32 if nothing reads int8
        stored.append({works: values[runs] * VALUE_BYTES[width]})
    narrower = values[INT8] * (VALUE_BYTES[INT8] - VALUE_BYTES[FP32])
    return row_sum(*stored, {} if layer.int8 is None else {layer.int8: narrower})


def _executed(memory: MemoryModel, index: int, label: int) -> int:
    """The precision in which a layer runs that is asked to run in `label`."""
    return FP32 if label == INT8 and not memory.graph.nodes[index].int8 else label
