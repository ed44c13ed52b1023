"""Layers whose windows slide over a map, and products with weights, as ONNX."""

from __future__ import annotations

from typing import Any

from harness.exporting.onnx_operation import Operation


def convolution(o: Operation) -> str:
    """Conv, or ConvInteger and the like: the writer of the weights knows."""
    return o.emit("Conv", o.inputs[0], o.weights, o.bias, **convolution_attributes(o))


def convolution_attributes(o: Operation) -> dict[str, Any]:
    """A connected layer is a convolution with a window of the map's size."""
    if o.layer.kind == "connected":
        return {"kernel_shape": o.layer.input_shapes[0][1:]}
    return {**_window(o, dilated=True), "group": o.layer.groups}


def deconvolution(o: Operation) -> str:
    axes = o.layer.window
    added = [o.layer.section.integer(f"output_pad_{axis}", 0) for axis in "yx"]
    after = [axis.after for axis in axes]
    for place, axis in enumerate(axes):
        # Runtimes take this many; more is as good as less padding.
        if added[place] >= max(axis.stride, axis.dilation):
            instead = min(added[place], after[place])
            added[place], after[place] = added[place] - instead, after[place] - instead
            if added[place] >= max(axis.stride, axis.dilation):
                raise o.layer.error("has an output_pad_ that is not below its stride", key="output_pad_y")
    names = (f"{o.layer.tensor}/{name}" for name in ("weights", "bias"))
    return o.emit(
        "ConvTranspose",
        o.inputs[0],
        *(o.large(numbers, name) for numbers, name in zip(o.layer.filters, names, strict=True)),
        **_window(o, dilated=True) | {"pads": [*(axis.before for axis in axes), *after]},
        group=o.layer.groups,
        output_padding=added,
    )


def pool(o: Operation) -> str:
    """[maxpool], and [pool] of both types."""
    section, axes = o.layer.section, o.layer.window
    average, counted = section.word("type") == "average", section.integer("count_padding", 0)
    window, (x,) = _window(o, dilated=not average), o.inputs
    if any(axis.before >= axis.extent or axis.after >= axis.extent for axis in axes):
        # Windows of padding alone, which runtimes refuse.
        if not counted:
            raise o.layer.error("has padding as wide as its window, of which ONNX has no average")
        pads = [0, 0, *(axis.before for axis in axes), 0, 0, *(axis.after for axis in axes)]
        x = o.emit("Pad", x, o.sizes(pads))
        window["pads"] = [0, 0, 0, 0]
    if average:
        return o.emit("AveragePool", x, **window, count_include_pad=int(counted != 0))
    return o.emit("MaxPool", x, **window)


def every(o: Operation, name: str, rows: int, columns: int) -> str:
    """Every `rows`-th row and `columns`-th column: maxima of one value. ncnn has no slices with steps."""
    return o.emit("MaxPool", name, kernel_shape=[1, 1], strides=[rows, columns], pads=[0] * 4)


def _window(o: Operation, *, dilated: bool) -> dict[str, Any]:
    axes = o.layer.window
    attributes = {
        "kernel_shape": [axis.taps for axis in axes],
        "strides": [axis.stride for axis in axes],
        "pads": [*(axis.before for axis in axes), *(axis.after for axis in axes)],
    }
    return attributes | ({"dilations": [axis.dilation for axis in axes]} if dilated else {})
