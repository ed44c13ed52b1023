"""What a model says about its pictures and classes: metadata of Ultralytics and of `harness export`, and
files packed into a model."""

from __future__ import annotations

import ast
import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.config.import_options import IMPORT_KEYS, ImportOptions
from harness.config.preprocessing import RESIZES, Preprocessing
from harness.errors import ConfigurationError
from harness.importing.cfg_text import default_preprocessing
from harness.importing.model import ImportedModel

_LARGEST = 1 << 20  # bytes of all packed files
_LARGEST_LITERAL = 1 << 19  # characters: Python needs some hundred times as many bytes to read one
_MOST_LABELS = 100_000
_EXPORT_MARKS = {"policy", "precisions", "source"}  # together only `harness export` writes them
_DECODING = ("anchors", "nms", "detections")  # keys of [net] for the decoder
_NUMBERS = re.compile(r"[0-9., ]{1,4096}")


@dataclass(frozen=True, kw_only=True)
class Description:
    """Names of the classes, how a picture is prepared, and how the outputs are read."""

    preprocessing: Preprocessing
    decoder: str | None = None
    decoding: Mapping[str, str] = field(default_factory=dict)  # further keys of [net] for the decoder
    labels: tuple[str, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)  # all that the model says, by key


def describe(model: ImportedModel, options: ImportOptions) -> Description:
    """Collects what the model says, replaced by what the user says; defaults for the rest.

    Raises ConfigurationError if the user's numbers are not as many as the channels.
    """
    channels = model.sections.input_shape[0]
    for key, numbers in (("mean", options.mean), ("std", options.std)):
        if numbers is not None and len(numbers) not in (1, channels):
            raise ConfigurationError(
                f"{model.source}: {key} has {len(numbers)} numbers, but the input has "
                f"{channels} channel{'s'[: channels > 1]}"
            )
    said = dict(model.metadata)
    labels: tuple[str, ...] = ()
    if model.format == "tflite":
        packed, labels = _packed(model.source)
        said |= packed
    preparation = default_preprocessing(model)
    if model.normalization and model.sections.grid(model.sections.input) is None:
        mean, deviation = model.normalization
        if len(mean) in (1, channels) and len(deviation) == len(mean):
            preparation = Preprocessing(mean=mean, std=deviation)
    if "stride" in said and "task" in said:  # as Ultralytics writes them
        crop = said["task"] == "classify"
        preparation = replace(
            preparation,
            mean=preparation.mean or (0.0,),
            std=preparation.std or (255.0,),
            colors="rgb",
            resize="crop" if crop else "letterbox",
            fill=None if crop else 114.0,
        )
    exported = _exported(said, channels)
    return Description(
        preprocessing=preparation.replaced(exported).replaced(options),
        decoder=options.decoder or exported.decoder,
        decoding={
            key: said[key] for key in _DECODING if exported.decoder and _NUMBERS.fullmatch(said.get(key, ""))
        },
        labels=names_of(said.get("names", "")) or labels,
        said=said,
    )


def _exported(said: Mapping[str, str], channels: int) -> ImportOptions:
    """What `harness export` wrote under the names of [net]'s keys, without values that do not fit. Other
    programs' keys may mean something else, such as a mean of values from 0 to 1."""
    found: dict[str, Any] = {}
    if not said.keys() >= _EXPORT_MARKS:
        return ImportOptions()
    for name, written in said.items():
        key = IMPORT_KEYS.get(name)
        if key is None or (key.words and written not in key.words):
            continue
        with suppress(ValueError):
            value = key.read(written)
            if not isinstance(value, tuple) or len(value) in (1, channels):
                found[name] = value
    if said.get("resize") in RESIZES:
        found["resize"] = said["resize"]
    return ImportOptions(**found)


def names_of(written: str) -> tuple[str, ...]:
    """The classes in a dictionary or list as Python or JSON writes it; none if it is neither."""
    try:
        found = ast.literal_eval(written) if len(written) <= _LARGEST_LITERAL else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return ()
    if isinstance(found, dict):
        number = len(found)
        if set(found) == set(range(number)):
            found = [found[index] for index in range(number)]
        elif set(found) == {str(index) for index in range(number)}:
            found = [found[str(index)] for index in range(number)]
    if not isinstance(found, list) or len(found) > _MOST_LABELS:
        return ()
    return tuple(_label(name) for name in found)


def _label(name: object) -> str:
    """A name on one line."""
    return re.sub(r"\s+", " ", str(name)).strip()


def _packed(path: Path) -> tuple[dict[str, str], tuple[str, ...]]:
    """What is in the files that a ZIP archive at the end of a TensorFlow Lite model has."""
    said: dict[str, str] = {}
    labels: tuple[str, ...] = ()
    left = _LARGEST
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist()[:16]:
                if info.file_size > left or not info.filename.endswith((".txt", ".json")):
                    continue
                left -= info.file_size
                text = archive.read(info).decode("utf-8", "replace")
                if (found := _dictionary(text)) is not None:
                    said |= found
                elif info.filename.endswith(".txt"):
                    labels = tuple(_label(line) for line in text.splitlines()[:_MOST_LABELS])
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, RuntimeError, EOFError):
        pass  # most models have no archive; a damaged one has no names
    return said, labels


def _dictionary(text: str) -> dict[str, str] | None:
    """Keys and values as text; None for anything but a dictionary."""
    if not text.lstrip().startswith("{") or len(text) > _LARGEST_LITERAL:
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict):
            return {str(key): str(value) for key, value in found.items()}
    return None
