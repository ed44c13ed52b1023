"""Computes the outputs of given inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .tensors import array_for, channels_first, layout, placed, real

if TYPE_CHECKING:
    import argparse


def outputs(runtime: Any, arguments: argparse.Namespace) -> dict[str, object]:
    """Writes each output as float32 [images, ...], in the model's order of axes. Channels that are said to be
    last are moved to the front."""
    images = np.load(arguments.inputs, allow_pickle=False)
    session = runtime.load(
        arguments.model, threads=arguments.threads, options=arguments.option, wanted=arguments.output
    )
    if len(session.inputs) != 1:
        raise ValueError(f"the model has {len(session.inputs)} inputs")
    (tensor,) = session.inputs
    found = layout(tensor, images.shape[1:], channels_last=arguments.channels_last)
    session.resize([found.shape])
    results = []
    for image in images:
        computed = session.run([array_for(tensor, placed(image, found))])
        numbers = [real(output, values) for output, values in zip(session.outputs, computed)]
        results.append([channels_first(each) for each in numbers] if arguments.channels_last else numbers)
    for place, values in enumerate(zip(*results)):
        np.save(Path(arguments.folder) / f"{place}.npy", np.stack(values), allow_pickle=False)
    return {"version": runtime.version(), "outputs": len(session.outputs), "images": len(images)}
