"""Which TensorFlow a target gets, from toolchains/tensorflow/."""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.document import read_document
from harness.configuration.shapes import Field, Record, Text, made_of
from harness.configuration.targets import Target
from harness.errors import ConfigurationError
from harness.resources import resource


@dataclass(frozen=True, kw_only=True)
class WheelPin:
    """One wheel of PyPI."""

    version: str  # of TensorFlow
    python: str
    platform: str  # as in the wheel's name
    sha256: str


_SHAPE = Record(
    what="a TensorFlow wheel",
    make=made_of(WheelPin),
    fields={
        "version": Field(shape=Text(pattern=r"\d+\.\d+\.\d+"), help="TensorFlow's version", required=True),
        "python": Field(shape=Text(pattern=r"3\.\d+"), help="the wheel's Python", required=True),
        "platform": Field(shape=Text(pattern=r"[a-z0-9_]+"), help="the wheel's platform", required=True),
        "sha256": Field(shape=Text(pattern=r"[0-9a-f]{64}"), help="the wheel's SHA-256", required=True),
    },
)


def read_pin(target: Target) -> WheelPin:
    """The target's pin. Raises ConfigurationError for a target that has none."""
    if not target.tensorflow:
        raise ConfigurationError(
            f"the target {target.name} has no TensorFlow pinned",
            cure="Its file names one of toolchains/tensorflow/ with the key tensorflow.",
        )
    return _SHAPE.read(read_document(resource("toolchains", "tensorflow", f"{target.tensorflow}.yaml")))
