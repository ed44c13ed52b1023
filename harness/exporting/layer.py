"""One layer of a network, for writers of other formats."""

from __future__ import annotations

from dataclasses import dataclass

from harness.config.darknet_cfg import CFG_PRECISIONS, Layer, Section
from harness.config.layer_shapes import Shape, WindowAxis, window_axes
from harness.errors import ConfigurationError
from harness.exporting.weights_file import Floats

_LOGISTIC_WITHOUT_KEY = ("convolutional", "connected", "deconvolutional")  # as in Darknet
# Keys that change what a layer computes, which the engine refuses as well.
_REFUSED = {
    "convolutional": (
        *("antialiasing", "binary", "xnor", "flipped", "sway", "rotate", "stretch", "stretch_sway"),
        *("coordconv", "share_index"),
    ),
    "maxpool": ("maxpool_depth", "antialiasing", "maxpool_zero_nonmax"),
    "reorg": ("flatten", "extra"),
    "softmax": ("spatial", "tree"),
}
_REFUSED_EVERYWHERE = ("dontload", "dontloadscales", "numload")


@dataclass(frozen=True, kw_only=True)
class NetworkLayer(Layer):
    """A layer with its section and its numbers.

    weights, bias:
      convolutional    [output channels, input channels / groups, rows, columns], [output channels]
      connected        [outputs, inputs], [outputs]; inputs in the order channels, height, width
      deconvolutional  [input channels, output channels / groups, rows, columns], [output channels]
      prelu            [channels], None
      constant         [channels, height, width], None
      all others       None, None
    """

    section: Section
    input_shapes: tuple[Shape, ...]
    tensor: str  # name of the output: that of the cfg, else kind and index
    weights: Floats | None = None
    bias: Floats | None = None

    @property
    def activation(self) -> str:
        """The word of its activation; "linear" if it has none."""
        absent = "logistic" if self.kind in _LOGISTIC_WITHOUT_KEY else "linear"
        return self.section.word("activation") or absent

    @property
    def groups(self) -> int:
        """Of a convolution, a transposed one, or a route."""
        return max(self.section.integer("groups", 1), 1)

    @property
    def channels_apart(self) -> bool:
        """Whether each output channel reads one input channel."""
        if self.kind != "convolutional" or self.groups == 1:
            return False
        return self.groups == self.channels == self.input_shapes[0][0]

    @property
    def window(self) -> tuple[WindowAxis, WindowAxis]:
        """Of a convolution, a transposed one, or a pooling layer: its rows, its columns."""
        return window_axes(self.section)

    @property
    def filters(self) -> tuple[Floats, Floats]:
        """Weights and bias of a layer that has both."""
        assert self.weights is not None
        assert self.bias is not None
        return self.weights, self.bias

    def error(self, message: str, *, key: str = "", hint: str = "") -> ConfigurationError:
        """The error to raise about this layer, with file and line (of the key, if the section has it)."""
        line = self.section.option_lines.get(key, self.line)
        what = f"layer {self.index} ({self.kind})"
        return ConfigurationError(f"{self.section.file}:{line}: {what} {message}", hint=hint)


def check_layer(layer: NetworkLayer) -> None:
    """Raises ConfigurationError for a layer that the engine would refuse, and that no format can express."""
    section = layer.section
    for key in (*_REFUSED.get(layer.kind, ()), *_REFUSED_EVERYWHERE):
        if key in section.options and (section.integer(key, 0) or key in ("tree", "share_index")):
            raise layer.error(f"has {key}=, which changes what is computed and is not supported", key=key)
    asked = [key for key in CFG_PRECISIONS if section.integer(key, 0)]
    if layer.weighted and len(asked) > 1:
        raise layer.error(f"has {asked[0]} and {asked[1]} both 1; a layer has one precision", key=asked[1])
    if min(layer.out) < 1:
        raise layer.error(f"makes {'x'.join(map(str, layer.out))}, which is not a size")
    if layer.kind in ("convolutional", "deconvolutional"):
        channels = layer.input_shapes[0][0]
        if channels % layer.groups or layer.channels % layer.groups:
            raise layer.error(
                f"has groups={layer.groups}, which divides not both the {channels} input channels and the "
                f"{layer.channels} filters",
                key="groups",
            )
