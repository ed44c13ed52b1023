"""The numbers of a weights file that repairs change, in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.config.darknet_cfg import NETWORK_INPUT, DarknetCfg, Layer, Section, read_cfg, sections_of
from harness.config.layer_shapes import Shape, window_terms
from harness.config.model_files import HEADERS, check_weights
from harness.errors import ConfigurationError
from harness.exporting.weights_file import EPSILON, Floats

Doubles = npt.NDArray[np.float64]


class Parameters:
    """A model whose convolutions can be scaled and moved. All other numbers stay as they are."""

    def __init__(self, cfg: Path, weights: Path, epsilon: float = EPSILON) -> None:
        """Reads the files; `epsilon` is that of batch normalisation. Raises ConfigurationError if they do not
        fit together, or if a layer's numbers have no known place."""
        self.cfg: DarknetCfg = read_cfg(cfg)
        self._epsilon = epsilon
        self.net, *self.sections = sections_of(self.cfg.text, self.cfg.file)
        for layer in self.cfg.layers:
            if layer.parameters is None:
                raise ConfigurationError(
                    f"{self.cfg.file}:{layer.line}: layer {layer.index} ({layer.kind}) cannot be repaired: "
                    "repairs know the numbers of convolutional layers alone",
                )
        check_weights(self.cfg, weights)
        data = weights.read_bytes()
        size = 4 * sum(layer.parameters or 0 for layer in self.cfg.layers)
        self.header = data[: HEADERS[1] if len(data) == HEADERS[1] + size else HEADERS[0]]
        self.values: Floats = np.frombuffer(data, "<f4", offset=len(self.header)).astype(np.float32)
        counts = [layer.parameters or 0 for layer in self.cfg.layers]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)

    @property
    def convolutions(self) -> tuple[Layer, ...]:
        """The layers that repairs change."""
        return tuple(layer for layer in self.cfg.layers if layer.kind == "convolutional")

    def shape_of(self, tensor: int) -> Shape:
        """Channels, height and width of a layer's output, or of the network's input."""
        return self.cfg.input_size if tensor == NETWORK_INPUT else self.cfg.layers[tensor].out

    def section(self, layer: Layer) -> Section:
        """The section of a layer."""
        return self.sections[layer.index]

    def groups(self, layer: Layer) -> int:
        """The groups of a convolution."""
        return max(self.section(layer).integer("groups", 1), 1)

    def bias(self, layer: Layer) -> Floats:
        """What a convolution adds to its sums, after batch normalisation: a view, [output channels]."""
        first = self._starts[layer.index]
        return self.values[first : first + layer.channels]

    def norm_scale(self, layer: Layer) -> Floats | None:
        """The factors of a convolution's batch normalisation, if it has any: a view, [output channels]."""
        if not self._normalised(layer):
            return None
        first = self._starts[layer.index] + layer.channels
        return self.values[first : first + layer.channels]

    def weights(self, layer: Layer) -> Floats:
        """A convolution's weights: a view, [output channels, input channels / groups, window]."""
        first = self._starts[layer.index] + layer.channels * (4 if self._normalised(layer) else 1)
        depth = self.shape_of(layer.inputs[0])[0] // self.groups(layer)
        last = self._starts[layer.index + 1]
        return self.values[first:last].reshape(layer.channels, depth, window_terms(self.section(layer)))

    def scale_outputs(self, layer: Layer, factors: Floats) -> None:
        """Multiplies each output channel, before its activation, by a factor."""
        self.bias(layer)[:] *= factors
        norm = self.norm_scale(layer)
        if norm is not None:
            norm *= factors
        else:
            self.weights(layer)[:] *= factors[:, None, None]

    def scale_inputs(self, layer: Layer, factors: Floats) -> None:
        """Multiplies what the layer computes from each input channel by a factor."""
        groups = self.groups(layer)
        by_group = factors.reshape(groups, 1, -1, 1)
        weights = self.weights(layer)
        weights.reshape(groups, layer.channels // groups, *weights.shape[1:])[:] *= by_group

    def folded(self, layer: Layer) -> tuple[Floats, Floats]:
        """A convolution's weights and bias as the engine uses them, after folding batch normalisation."""
        norm = self._norm(layer)
        weights, bias = self.weights(layer), self.bias(layer)
        if norm is None:
            return weights.copy(), bias.copy()
        factors, means = norm
        return (
            (weights * factors[:, None, None]).astype(np.float32),
            (bias - means * factors).astype(np.float32),
        )

    def set_folded(self, layer: Layer, weights: Floats, bias: Floats) -> None:
        """Changes weights and bias such that `folded` gives these. A channel whose batch normalisation
        multiplies by zero keeps its weights."""
        norm = self._norm(layer)
        if norm is None:
            self.weights(layer)[:], self.bias(layer)[:] = weights, bias
            return
        factors, means = norm
        used = factors != 0
        self.weights(layer)[used] = weights[used] / factors[used, None, None]
        self.bias(layer)[:] = bias + means * factors

    def data(self, layers: int | None = None) -> bytes:
        """The weights file, of all layers or of the first ones."""
        end = self._starts[len(self.cfg.layers) if layers is None else layers]
        return self.header + self.values[:end].astype("<f4").tobytes()

    def _norm(self, layer: Layer) -> tuple[Doubles, Doubles] | None:
        """The factors and means of a convolution's batch normalisation, if it has any."""
        scales = self.norm_scale(layer)
        if scales is None:
            return None
        first = self._starts[layer.index] + 2 * layer.channels
        means, variances = self.values[first : first + 2 * layer.channels].reshape(2, -1).astype(np.float64)
        return scales / np.sqrt(variances + self._epsilon), means

    def _normalised(self, layer: Layer) -> bool:
        section = self.section(layer)
        return bool(section.integer("batch_normalize", 0) or section.integer("cbn", 0))
