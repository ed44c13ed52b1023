"""Writes the neutral graph as sections of a cfg."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.importing.graph import Graph, Node, Shape
from harness.importing.lower_layers import LAYERS
from harness.importing.passes.fusing import fusable
from harness.importing.sections import AXES, Chw, Sections, around, axis_places, natural
from harness.importing.shapes import BINARY, REDUCTIONS, UNARY

_WORDS = {"GeluTanh": "gelu_tanh", "Requantize": "linear"}
_EPSILON = 1e-5  # that a [layer_norm] has without the key
_FUNCTIONS = ("Abs", "Exp", "Neg", "Sqrt")  # with sections of their own
_ELEMENTWISE = {"Max": "maximum", "Min": "minimum"}


@dataclass(frozen=True, kw_only=True)
class Output:
    """An output of the model: its name and shape there, and the section that computes it."""

    name: str
    shape: Shape
    section: str


def lower(graph: Graph) -> tuple[Sections, tuple[Output, ...]]:
    """The sections of a graph. Raises ConfigurationError for what the cfg cannot express."""
    sections = Sections.of(graph)
    for node in graph.ordered():
        rule = _RULES.get(node.op)
        if rule is None:
            raise node.source.unsupported("this operator is not supported")
        with node.source.checked():
            rule(sections, node)
    places: list[str] = []
    for _, tensor in graph.outputs:
        section = sections.place(tensor, natural(graph.shape(tensor)))
        taken = section == sections.input or section in places
        places.append(sections.copy(section) if taken else section)
    outputs = []
    for (name, tensor), section in zip(graph.outputs, places, strict=True):
        renamed = sections.rename(section, name)
        outputs.append(Output(name=name, shape=graph.shape(tensor), section=renamed))
    return sections, tuple(outputs)


def _activation(s: Sections, node: Node) -> None:
    source = s.place(node.inputs[0])
    keys: list[tuple[str, object]] = []
    if node.op == "Clip":
        word = "clip"
        keys = [
            (key, float(node.number(key)))
            for key in ("min", "max")
            if math.isfinite(node.number(key, math.inf))
        ]
    elif node.op == "LeakyRelu":
        word, keys = "leaky", [("alpha", node.number("alpha", 0.01))]
    elif node.op == "Elu":
        word, keys = "elu", [("alpha", node.number("alpha", 1.0))]
    elif node.op == "HardSigmoid":
        word = "hard_sigmoid"
        keys = [("alpha", node.number("alpha", 0.2)), ("beta", node.number("beta", 0.5))]
    else:
        word = fusable(node) or _WORDS.get(node.op, "")
    if not word:
        raise node.source.unsupported("this activation is not supported")
    s.add("activation", node, [source], s.shape(source), ("activation", word), *keys)


def _function(s: Sections, node: Node) -> None:
    source = s.place(node.inputs[0])
    s.add(node.op.lower(), node, [source], s.shape(source))


def _prelu(s: Sections, node: Node) -> None:
    name, slopes = node.inputs
    shape, value = s.graph.shape(name), s.graph.value(slopes)
    if value is None:
        raise node.source.unsupported("its slopes are computed by the network")
    view = natural(shape)
    per_channel = len(shape) < 2 or value.size == 1 or (value.size == shape[1] == math.prod(view[:1]))
    if not per_channel or (value.size > 1 and value.ndim == len(shape) and value.shape[1] != value.size):
        raise node.source.unsupported(f"slopes of the shape {value.shape} are not one for each channel")
    slope = value.reshape(-1)
    s.graph.spend(view[0] - slope.size)
    s.add(
        "prelu",
        node,
        [s.place(name, view)],
        view,
        weights=[slope if slope.size > 1 else slope.repeat(view[0])],
    )


def _reshape(s: Sections, node: Node) -> None:
    s.alias(node.output, node.inputs[0])


def _transpose(s: Sections, node: Node) -> None:
    dims, order = collapsed(s.graph.shape(node.inputs[0]), node.integers("perm"))
    shape = natural(s.graph.shape(_reshaped(s.graph, node.output)))
    if len(dims) < 2:
        s.alias(node.output, node.inputs[0])
        return
    s.add(
        "transpose",
        node,
        [s.place(node.inputs[0])],
        shape,
        ("dims", dims),
        ("axes", order),
        *zip(AXES, shape, strict=True),
    )


def _reshaped(graph: Graph, tensor: str) -> str:
    """What a tensor becomes that only Reshapes read: its shape is chosen for their readers."""
    while (user := graph.only_user(tensor)) is not None and user.op == "Reshape":
        tensor = user.output
    return tensor


def collapsed(shape: Shape, order: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A transposition without axes of size 1, and with those joined that stay beside one another."""
    groups: list[list[int]] = []
    for axis in (axis for axis in order if shape[axis] != 1):
        between = range(groups[-1][-1] + 1, axis) if groups else range(0)
        beside = bool(groups) and axis > groups[-1][-1] and all(shape[place] == 1 for place in between)
        if beside:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    by_place = sorted(range(len(groups)), key=lambda group: groups[group][0])
    dims = tuple(math.prod(shape[axis] for axis in groups[group]) for group in by_place)
    return dims, tuple(by_place.index(group) for group in range(len(groups)))


def _concat(s: Sections, node: Node) -> None:
    shapes = [s.graph.shape(name) for name in node.inputs]
    axis = node.integer("axis")
    places = axis_places(s.graph.shape(node.output))
    # All inputs must be seen alike: with a batch of one in front, or without.
    if places is not None and axis in places and all(axis_places(shape) == places for shape in shapes):
        views, place = [natural(shape) for shape in shapes], places[axis]
    else:
        views, place = [around(shape, axis) for shape in shapes], 1
    sizes = list(views[0])
    sizes[place] = sum(view[place] for view in views)
    found = [s.place(name, view) for name, view in zip(node.inputs, views, strict=True)]
    keys = [("axis", AXES[place])] if place else []
    s.add("route", node, found, (sizes[0], sizes[1], sizes[2]), *keys)


def _slice(s: Sections, node: Node) -> None:
    shape = s.graph.shape(node.inputs[0])
    axis, begin, end, step = (node.integer(key) for key in ("axis", "begin", "end", "step"))
    before, _, after = around(shape, axis)
    source = s.place(node.inputs[0])
    channels, height, width = s.shape(source)
    image = height * width
    places = axis_places(shape)
    # A run of numbers that is whole channels of the tensor as it is.
    if before == 1 and step == 1 and begin * after % image == 0 and end * after % image == 0:
        view, place = (channels, height, width), 0
        begin, end = begin * after // image, end * after // image
    elif places is not None and axis in places:
        view, place = natural(shape), places[axis]
    else:
        view, place = around(shape, axis), 1
    sizes = list(view)
    sizes[place] = -(-(end - begin) // abs(step))
    keys: list[tuple[str, object]] = [("axis", AXES[place])]
    if step > 0:
        keys += [("begin", begin), ("end", end), *([("step", step)] if step > 1 else [])]
    else:  # as a range in Python: from the last element down
        keys += [("begin", end - 1), ("end", begin - 1), ("step", step)]
    s.add("slice", node, [s.place(node.inputs[0], view)], (sizes[0], sizes[1], sizes[2]), *keys)


def _elementwise(s: Sections, node: Node) -> None:
    names = node.inputs
    output = s.graph.shape(node.output)
    views = _views_of(s, names, output)
    if views is None:
        shapes = " and ".join(str(s.graph.shape(name)) for name in names)
        raise node.source.unsupported(f"tensors of the shapes {shapes} cannot be combined")
    shape = tuple(max(sizes) for sizes in zip(*views, strict=True))
    found = [s.place(name, view) for name, view in zip(names, views, strict=True)]
    keys = [("activation", node.text("activation"))] if "activation" in node.attributes else []
    kind = _ELEMENTWISE.get(node.op, node.op.lower())
    s.add(kind, node, found, (shape[0], shape[1], shape[2]), *keys)


def _views_of(s: Sections, names: Sequence[str], output: Shape) -> list[Chw] | None:
    """CHW shapes of operands that broadcast as their own shapes do; None if there are none."""
    shapes = [(1,) * (len(output) - len(s.graph.shape(name))) + s.graph.shape(name) for name in names]
    if all(shape == output for shape in shapes):
        computed = [name for name in names if s.graph.value(name) is None]
        return [s.shape(s.place(computed[0])) if computed else natural(output)] * len(names)
    places = axis_places(output)
    if places is not None:
        found = []
        for shape in shapes:
            sizes = [1, 1, 1]
            for axis, place in places.items():
                sizes[place] = shape[axis]
            found.append((sizes[0], sizes[1], sizes[2]))
        return found
    return _grouped(shapes, output)


def _grouped(shapes: Sequence[Shape], output: Shape) -> list[Chw] | None:
    groups: list[list[int]] = []
    patterns: list[tuple[bool, ...]] = []
    for axis, size in enumerate(output):
        if size == 1:
            continue
        pattern = tuple(shape[axis] == 1 for shape in shapes)
        if patterns and patterns[-1] == pattern:
            groups[-1].append(axis)
        else:
            groups.append([axis])
            patterns.append(pattern)
    if len(groups) > 3:
        return None
    padded = groups + [[]] * (3 - len(groups))
    return [
        (
            math.prod(shape[axis] for axis in padded[0]),
            math.prod(shape[axis] for axis in padded[1]),
            math.prod(shape[axis] for axis in padded[2]),
        )
        for shape in shapes
    ]


def _expand(s: Sections, node: Node) -> None:
    one = np.broadcast_to(np.float32(1), s.graph.shape(node.output))
    ones = s.graph.constant(one, name=f"{node.output}_ones")
    s.graph.set_inputs(node, [node.inputs[0], ones])
    node.op = "Mul"
    _elementwise(s, node)


def _softmax(s: Sections, node: Node) -> None:
    shape, axis = s.graph.shape(node.inputs[0]), node.integer("axis")
    places = axis_places(shape)
    if places is not None and axis in places:
        view, place = natural(shape), places[axis]
    else:
        view, place = around(shape, axis), 1
    s.add("softmax", node, [s.place(node.inputs[0], view)], view, ("axis", AXES[place]))


def _along_axes(s: Sections, node: Node) -> tuple[Chw, list[int]]:
    """The view of an input for an operation along several axes, and their places in it."""
    shape, axes = s.graph.shape(node.inputs[0]), node.integers("axes")
    places = axis_places(shape)
    axes = tuple(axis for axis in axes if shape[axis] != 1) or axes[:1]
    if places is not None and all(axis in places for axis in axes):
        return natural(shape), [places[axis] for axis in axes]
    if axes == tuple(range(axes[0], axes[-1] + 1)):
        before, after = math.prod(shape[: axes[0]]), math.prod(shape[axes[-1] + 1 :])
        return (before, math.prod(shape[axis] for axis in axes), after), [1]
    raise node.source.unsupported(f"the axes {axes} of {shape} together are not supported")


def _layer_norm(s: Sections, node: Node) -> None:
    view, chosen = _along_axes(s, node)
    names = ",".join(AXES[place] for place in chosen)
    keys: list[tuple[str, object]] = [("axes", names)]
    if not math.isclose(node.number("epsilon"), _EPSILON, rel_tol=1e-6):
        keys.append(("epsilon", node.number("epsilon")))
    s.add("layer_norm", node, [s.place(node.inputs[0], view)], view, *keys)


def _reduce(s: Sections, node: Node) -> None:
    kind = node.op.removeprefix("Reduce").lower()
    view, chosen = _along_axes(s, node)
    sizes = [1 if place in chosen else size for place, size in enumerate(view)]
    source, output = s.place(node.inputs[0], view), (sizes[0], sizes[1], sizes[2])
    if kind == "mean" and output == (view[0], 1, 1) and 0 not in chosen:
        s.add("avgpool", node, [source], output)
        return
    names = ",".join(AXES[place] for place in chosen)
    s.add("reduce", node, [source], output, ("type", kind), ("axes", names))


def _matmul(s: Sections, node: Node) -> None:
    first, second = (s.graph.shape(name) for name in node.inputs)
    batch, other = math.prod(first[:-2]), math.prod(second[:-2])
    if other not in (1, batch) or s.graph.shape(node.output)[:-2] != first[:-2]:
        raise node.source.unsupported(f"products of the shapes {first} and {second}")
    rows, inner, columns = first[-2], first[-1], second[-1]
    found = [s.place(node.inputs[0], (batch, rows, inner)), s.place(node.inputs[1], (other, inner, columns))]
    work = batch * rows * inner * columns
    s.add("matmul", node, found, (batch, rows, columns), multiply_adds=work)


_RULES: Mapping[str, Callable[[Sections, Node], None]] = {
    **dict.fromkeys(UNARY, _activation),
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(BINARY - {"Pow"}, _elementwise),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **LAYERS,
    "Concat": _concat,
    "Expand": _expand,
    "LayerNorm": _layer_norm,
    "MatMul": _matmul,
    "PRelu": _prelu,
    "Reshape": _reshape,
    "Slice": _slice,
    "Softmax": _softmax,
    "Transpose": _transpose,
}
