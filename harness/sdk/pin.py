"""The pinned TensorFlow of a target, from toolchains/tensorflow/."""

from __future__ import annotations

from harness.config.document import read_document
from harness.config.targets import Target
from harness.errors import ConfigurationError
from harness.resources import resource
from harness.sdk.wheels import WHEEL_SHAPE, WheelPin


def read_pin(target: Target) -> WheelPin:
    """The target's pin. Raises ConfigurationError for a target without one."""
    if not target.tensorflow:
        raise ConfigurationError(
            f"the target {target.name} has no TensorFlow pinned",
            hint="Set `tensorflow` in its file to a version in toolchains/tensorflow/.",
        )
    folder = resource("toolchains", "tensorflow")
    file = folder / f"{target.tensorflow}-{target.architecture}.yaml"
    if not file.is_file():
        suffix = f"-{target.architecture}.yaml"
        known = ", ".join(sorted(path.name.removesuffix(suffix) for path in folder.glob(f"*{suffix}")))
        raise ConfigurationError(
            f"the target {target.name} asks for TensorFlow {target.tensorflow}, but no wheel of it for "
            f"{target.architecture} is pinned",
            hint=f"Pinned versions: {known}.",
        )
    return WHEEL_SHAPE.read(read_document(file))
