"""The file that a runtime executes for a variant: the model's own, if the runtime reads its format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.accuracy.import_description import import_description
from harness.config.file_kind import kind_of
from harness.errors import ConfigurationError
from harness.runtimes.base import ModelFile, Runtime

if TYPE_CHECKING:
    from harness.config.darknet_cfg import DarknetCfg
    from harness.config.sweep import Variant


def model_file(runtime: Runtime, name: str, variant: Variant) -> ModelFile | None:
    """None if the runtime executes cfg and weights. `name` is the runtime's.

    Raises ConfigurationError if the model has another format, or the policy asks for other precisions than
    those in the model's file.
    """
    if not runtime.formats:
        return None
    source = variant.model.source
    wanted = " or ".join(kind.name for kind in runtime.formats)
    if source is None:
        raise _not_executed(name, wanted, f"{variant.model.name} is a Darknet cfg")
    kind = kind_of(source)
    if kind not in runtime.formats:
        raise _not_executed(name, wanted, f"{source.name} is {kind.name if kind else 'another file'}")
    if _precisions(variant.cfg) != _precisions(variant.model.network):
        raise ConfigurationError(
            f"{name} runs the model's own file; policy {variant.policy} needs an export",
            hint="Use the policy as-is, or the precision that the file has.",
        )
    described = import_description(variant.model.cfg)
    if described is None:
        raise ConfigurationError(f"{variant.model.cfg}: the description of its import is missing")
    network = variant.model.network
    layers = network.outputs or (len(network.layers) - 1,)
    outputs = dict(zip(layers, described.names, strict=True))
    return ModelFile(path=source, outputs=outputs, more=described.cut)


def _not_executed(name: str, wanted: str, found: str) -> ConfigurationError:
    return ConfigurationError(f"{name} runs {wanted}; {found} and needs an export")


def _precisions(cfg: DarknetCfg) -> Sequence[tuple[str, bool]]:
    return [(layer.precision, layer.quantize) for layer in cfg.weighted]
