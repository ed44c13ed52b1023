"""ONNX's operators that move, cut and join tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from harness.importing.onnx_operator import Operator

_FAR = 1 << 31  # an end beyond any axis


def _reshape(o: Operator) -> list[str]:
    before = o.builder.shape(o.input(0))
    wanted = list(o.integers_at(1, "shape"))
    if not o.integer("allowzero"):
        for axis, size in enumerate(wanted):
            if size == 0 and axis < len(before):
                wanted[axis] = before[axis]
    return [o.builder.reshape_with_free(o.input(0), wanted)]


def _flatten(o: Operator) -> list[str]:
    shape = o.builder.shape(o.input(0))
    axis = o.integer("axis", 1)
    axis += len(shape) if axis < 0 else 0
    rows = 1
    for size in shape[:axis]:
        rows *= size
    return [o.builder.reshape_with_free(o.input(0), (rows, -1))]


def _squeeze(o: Operator) -> list[str]:
    shape = o.builder.shape(o.input(0))
    axes = {o.builder.axis(axis, len(shape)) for axis in o.integers_at(1, "axes")}
    if any(shape[axis] != 1 for axis in axes):
        raise o.unsupported(f"the axes {sorted(axes)} of {shape} are not of size 1")
    kept = [size for axis, size in enumerate(shape) if (axis not in axes if axes else size != 1)]
    return [o.builder.reshape(o.input(0), kept)]


def _unsqueeze(o: Operator) -> list[str]:
    axes = o.integers_at(1, "axes")
    rank = o.rank() + len(axes)
    places = {o.builder.axis(axis, rank) for axis in axes}
    sizes = iter(o.builder.shape(o.input(0)))
    if len(places) != len(axes):
        raise o.unsupported(f"the axes {axes} are named twice")
    return [o.builder.reshape(o.input(0), [1 if axis in places else next(sizes) for axis in range(rank)])]


def _transpose(o: Operator) -> list[str]:
    order = o.integers("perm") or tuple(reversed(range(o.rank())))
    return [o.builder.transpose(o.input(0), order)]


def _concat(o: Operator) -> list[str]:
    return [o.builder.concat(o.inputs, o.builder.axis(o.integer("axis"), o.rank()))]


def _split(o: Operator) -> list[str]:
    axis = o.axis()
    size, number = o.builder.shape(o.input(0))[axis], len(o.node.output)
    sizes = o.integers_at(1, "split")
    if not sizes:
        each = -(-size // number)
        sizes = tuple(min(each, size - each * place) for place in range(number))
        if min(sizes) < 1:
            raise o.unsupported(f"{size} cannot be split into {number}")
    return o.builder.split(o.input(0), axis, sizes)


def _slice(o: Operator) -> list[str]:
    found = o.input(0)
    begins, ends = o.integers_at(1, "starts"), o.integers_at(2, "ends")
    axes = o.integers_at(3, "axes") or tuple(range(len(begins)))
    steps = o.integers_at(4, "steps") or (1,) * len(begins)
    if not len(begins) == len(ends) == len(axes) == len(steps):
        raise o.unsupported("its bounds are not of one number")
    for begin, end, axis, step in zip(begins, ends, axes, steps, strict=True):
        size = o.builder.shape(found)[axis := o.builder.axis(axis, o.rank())]
        if step < 0 and end < -size:
            end = -_FAR  # before the first element
        found = o.builder.python_slice(found, axis, begin, end, step)
    return [found]


def _gather(o: Operator) -> list[str]:
    return [o.builder.gather(o.input(0), o.axis(), o.builder.value(o.input(1), "the list of indices"))]


def _expand(o: Operator) -> list[str]:
    return [o.builder.emit("Expand", o.input(0), shape=o.integers_at(1, "shape"))]


def _tile(o: Operator) -> list[str]:
    return [o.builder.tile(o.input(0), o.integers_at(1, "repeats"))]


def _pad(o: Operator) -> list[str]:
    pads = list(o.integers_at(1, "pads") or o.integers("paddings"))
    value = o.number("value")
    if o.has(2):
        value = float(o.builder.value(o.input(2), "the padding's value").reshape(-1)[0])
    if o.has(3):
        axes = [o.builder.axis(axis, o.rank()) for axis in o.integers_at(3, "axes")]
        chosen, pads = pads, [0] * (2 * o.rank())
        for place, axis in enumerate(axes):
            pads[axis], pads[axis + o.rank()] = chosen[place], chosen[place + len(axes)]
    mode = o.text("mode", "constant")
    if mode not in ("constant", "reflect", "edge"):
        raise o.unsupported(f"the padding's mode {mode} is not supported")
    found = o.input(0)
    for axis in range(o.rank()):  # negative paddings cut off
        before, after = -min(pads[axis], 0), -min(pads[axis + o.rank()], 0)
        if before or after:
            found = o.builder.slice(found, axis, before, o.builder.shape(found)[axis] - after)
    kept = tuple(max(pad, 0) for pad in pads)
    return [o.builder.emit("Pad", found, pads=kept, mode=mode, value=value) if any(kept) else found]


SHAPE_OPERATORS: Mapping[str, Callable[[Operator], Sequence[str]]] = {
    "Concat": _concat,
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
