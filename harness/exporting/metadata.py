"""What a user of an exported model needs to know: how pictures become its input, and what its outputs are."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.config.preprocessing import Preprocessing
from harness.exporting.network import Network
from harness.exporting.outputs import Output
from harness.exporting.precision_plan import LayerFormat

# Keys of the sections [yolo] and [region] with which boxes are decoded.
_DECODING_KEYS = (
    *("anchors", "mask", "num", "classes", "coords", "softmax"),
    *("scale_x_y", "new_coords", "nms_kind", "beta_nms"),
)
_NET_DECODING_KEYS = ("decoder", "anchors", "nms", "detections")


@dataclass(frozen=True, kw_only=True)
class Description:
    """What is known of a model beside its layers."""

    pictures: Preprocessing | None  # None: the input is no picture
    names: Sequence[str] = ()  # of the classes
    policy: str = "as-is"
    sources: Mapping[str, str]  # SHA-256 by name of file


def metadata_of(
    network: Network, formats: Sequence[LayerFormat], outputs: Sequence[Output], said: Description
) -> dict[str, str]:
    """Text by key; values other than words and numbers are JSON. docs/export.md lists the keys."""
    found = {
        "policy": said.policy,
        "precisions": json.dumps(_precisions(network, formats)),
        "source": json.dumps(dict(said.sources)),
        "outputs": json.dumps([_described(network, output) for output in outputs]),
    }
    if said.pictures is not None:
        found |= said.pictures.keys()
    if said.names:
        found["names"] = json.dumps(dict(enumerate(said.names)))
    return found | {key: network.net.word(key) for key in _NET_DECODING_KEYS if network.net.word(key)}


def metadata_file(stem: str, metadata: Mapping[str, str]) -> Mapping[str, bytes]:
    """The file for formats that have no place for it in their own; none without metadata."""
    if not metadata:
        return {}
    text = json.dumps(dict(metadata), indent=2, ensure_ascii=False)
    return {f"{stem}.metadata.json": f"{text}\n".encode()}


def _precisions(network: Network, formats: Sequence[LayerFormat]) -> dict[str, str]:
    """Of the layers with weights, by the names of their outputs."""
    return {layer.tensor: formats[layer.index].executed for layer in network.layers if layer.weighted}


def _described(network: Network, output: Output) -> dict[str, object]:
    """An output, with the keys of the layer that decodes it."""
    row: dict[str, object] = {"name": output.name, "layer": output.layer}
    for layer in network.layers:
        if layer.kind in ("yolo", "region") and network.producer(layer.inputs[0]) == output.layer:
            keys: Mapping[str, str] = layer.section.options
            return row | {"decoder": layer.kind} | {key: keys[key] for key in _DECODING_KEYS if key in keys}
    return row
