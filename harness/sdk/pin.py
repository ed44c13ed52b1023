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

    package: str
    version: str  # of TensorFlow
    python: str
    platform: str  # as in the wheel's name
    sha256: str


_SHAPE = Record(
    what="a TensorFlow wheel",
    make=made_of(WheelPin),
    fields={
        "package": Field(shape=Text(pattern=r"[a-z-]+"), help="the package's name", required=True),
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
            cure="Its file names the version with the key tensorflow; toolchains/tensorflow/ pins them.",
        )
    folder = resource("toolchains", "tensorflow")
    file = folder / f"{target.tensorflow}-{target.architecture}.yaml"
    if not file.is_file():
        suffix = f"-{target.architecture}.yaml"
        known = ", ".join(sorted(path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}")))
        raise ConfigurationError(
            f"no wheel of TensorFlow {target.tensorflow} for {target.architecture} is pinned, "
            f"as {target.name} asks for",
            cure=f"There are {known}.",
        )
    return _SHAPE.read(read_document(file))
