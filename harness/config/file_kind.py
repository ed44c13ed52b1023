"""Recognises kinds of file by their content, for imports, and for errors where another kind is expected.

Names are ignored: a renamed ONNX model is recognised. Unknown content passes, because the reader of the file
checks it.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ConfigurationError, file_error
from harness.files import open_regular

_HEAD = 4096  # bytes to look at
_IMPORT = "Import it with `harness import MODEL --out DIR`, which writes a cfg and weights."
_THEN = ", then import that with `harness import model.onnx --out DIR`."
_FROM_PYTORCH = (
    f"Export it to ONNX: `yolo export model=MODEL format=onnx`, or torch.onnx.export in Python{_THEN}"
)
_FROM_GRAPH = (
    "Export it to ONNX: `python -m tf2onnx.convert --graphdef MODEL --inputs IN:0 --outputs OUT:0 "
    f"--output model.onnx`{_THEN}"
)
_FROM_SOURCE = (
    "Its format has no way back to ONNX. Export the model that it was made from: "
    f"`yolo export model=MODEL.pt format=onnx`, or torch.onnx.export in Python{_THEN}"
)
_NO_MODEL = "Name the network's Darknet cfg and its weights."
_ARCHIVE = "Unpack it, and name the Darknet cfg and the weights in it."
_FETCH = "The large file behind this pointer was not fetched: run `git lfs pull` in its repository."
_SWAPPED = "Are the cfg and the weights swapped?"


@dataclass(frozen=True)
class Kind:
    """A kind of file: its name with an article, and a hint for errors that expect another kind."""

    name: str
    hint: str = _NO_MODEL


CFG = Kind("a Darknet cfg file", _SWAPPED)
WEIGHTS = Kind("a Darknet weights file", _SWAPPED)
ONNX = Kind("an ONNX model", _IMPORT)
TFLITE = Kind("a TensorFlow Lite model", _IMPORT)
SAVED_MODEL = Kind("a TensorFlow SavedModel", _IMPORT)
KERAS = Kind("a Keras model", _IMPORT)
HDF5 = Kind("an HDF5 file, as Keras writes its models", _IMPORT)
_CORE_ML = Kind("a Core ML model", _FROM_SOURCE)
_ENGINE = Kind("a TensorRT engine", _FROM_SOURCE)
_TEXT = Kind("a text file")
BINARY = Kind("a binary file")
_PICKLE = Kind("a Python pickle, as old PyTorch models are", _FROM_PYTORCH)
_GRAPH = Kind("a protocol buffer, as TensorFlow's frozen graphs are", _FROM_GRAPH)
_HTML = Kind("an HTML page", "Was a web page saved instead of the file?")
_PYTORCH = Kind("a PyTorch model", _FROM_PYTORCH)

# (offset, bytes there, kind)
_MAGIC: Sequence[tuple[int, bytes, Kind]] = (
    (4, b"TFL3", TFLITE),
    (0, b"\x89HDF\r\n\x1a\n", HDF5),
    (0, b"ftrt", _ENGINE),
    (0, b"ptrt", _ENGINE),
    (0, b"\x93NUMPY", Kind("a NumPy array")),
    (0, b"version https://git-lfs.github.com/spec/", Kind("a Git LFS pointer", _FETCH)),
    (0, b"\x89PNG\r\n\x1a\n", Kind("a PNG picture")),
    (0, b"\xff\xd8\xff", Kind("a JPEG picture")),
    (0, b"GIF8", Kind("a GIF picture")),
    (8, b"WEBPVP8", Kind("a WebP picture")),
    (0, b"II*\0", Kind("a TIFF picture")),
    (0, b"MM\0*", Kind("a TIFF picture")),
    (0, b"\x1f\x8b", Kind("a gzip archive", _ARCHIVE)),
    (0, b"\xfd7zXZ\0", Kind("an xz archive", _ARCHIVE)),
    (0, b"BZh", Kind("a bzip2 archive", _ARCHIVE)),
    (0, b"\x28\xb5\x2f\xfd", Kind("a Zstandard archive", _ARCHIVE)),
    (0, b"7z\xbc\xaf\x27\x1c", Kind("a 7-Zip archive", _ARCHIVE)),
    (0, b"Rar!\x1a\x07", Kind("a RAR archive", _ARCHIVE)),
    (257, b"ustar", Kind("a tar archive", _ARCHIVE)),
    (0, b"%PDF-", Kind("a PDF document")),
    (0, b"\x7fELF", Kind("a program or library (ELF)")),
    (0, b"SQLite format 3\0", Kind("an SQLite database")),
)
# Matched at the beginning of the file. In the first format, the length of a JSON header comes first.
_PATTERNS: Sequence[tuple[re.Pattern[bytes], Kind]] = tuple(
    (re.compile(pattern, re.DOTALL), kind)
    for pattern, kind in (
        (rb".{3}\0{5}\{\"", Kind("a safetensors file", _FROM_PYTORCH)),
        (rb"\x80[\x02-\x05](?=[\x8a\x95}\](cK])", _PICKLE),
        # Protocol buffers: the version first, then one of the message's other fields.
        (rb"\x08\x01\x12[\x80-\xff]+[\0-\x7f]\x0a", SAVED_MODEL),
        # Core ML's second field is a message, ONNX's a word.
        (rb"\x08[\x01-\x20]\x12[\x01-\xff]{1,4}\x0a[\x01-\xff]{1,4}\x0a", _CORE_ML),
        (rb"\x08[\x01-\x20](?=[\x12\x1a\x22\x28\x32\x3a\x42\x72\xa2])", ONNX),
        (rb"\x0a.{1,9}\x0a.{1,200}\x12", _GRAPH),
        (rb"BM.{4}\0{4}", Kind("a BMP picture")),
        (rb"7767517\s", Kind("an ncnn model (.param)", _FROM_SOURCE)),
        (rb"\s*<\?xml[^\0]{0,200}<net\s", Kind("an OpenVINO model", _FROM_SOURCE)),
        (rb"(?i)\s*<(!doctype\s+html|html)\b", _HTML),
        (rb"\s*<\?xml\b", Kind("an XML file")),
        (rb"(\s*#[^\n]*\n|\s*(name|input|input_dim)\s*:[^\n]*\n)*\s*(layers?|input_param)\s*\{",
         Kind("a Caffe model", _FROM_SOURCE)),
        (rb"\s*\{\s*\"", Kind("a JSON file")),
    )
)  # fmt: skip
# int32 major, minor and revision of Darknet's version, which has been 0.1 or 0.2 since 2014.
_WEIGHTS_HEADER = re.compile(rb"[\0\x01]\0{3}[\x01-\x05]\0{3}[\0-\x10]\0{3}", re.DOTALL)
# Ultralytics writes a JSON header with its length before a TensorRT engine.
_ENGINE_METADATA = re.compile(rb".{4}\{\"[^\0]{0,4000}\"(stride|task|imgsz|names)\"", re.DOTALL)
_SECTION = re.compile(rb"\s*([#;][^\n]*\n\s*)*\[\s*(net|network)\s*\]")


def expect_cfg(path: Path) -> None:
    """Raises ConfigurationError if a file is clearly not a Darknet cfg."""
    kind = kind_of(path)
    if kind and kind not in (CFG, _TEXT):
        raise _other(path, kind, CFG)


def expect_weights(path: Path) -> None:
    """Raises ConfigurationError if the file is missing or clearly not Darknet weights."""
    try:
        open_regular(path).close()
    except FileNotFoundError:
        raise ConfigurationError(f"{path}: no such file") from None
    except OSError as error:
        raise file_error(path, error) from None
    kind = kind_of(path)
    # A file of numbers looks like any other binary file without a magic number.
    if kind and kind not in (WEIGHTS, BINARY):
        raise _other(path, kind, WEIGHTS)


def kind_of(path: Path) -> Kind | None:
    """The kind of a file, or of a folder that is a model; None if it is unknown, empty or unreadable."""
    if (path / "saved_model.pb").is_file():
        return SAVED_MODEL
    if path.suffix == ".mlpackage" and (path / "Manifest.json").is_file():
        return _CORE_ML
    try:
        with open_regular(path) as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError, ConfigurationError):
        return None
    if not head:
        return None
    if _ENGINE_METADATA.match(head):
        return _ENGINE
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_kind(path)
    if _WEIGHTS_HEADER.match(head):
        return WEIGHTS
    for offset, magic, kind in _MAGIC:
        if head.startswith(magic, offset):
            return kind
    text = head.removeprefix(b"\xef\xbb\xbf")
    if _SECTION.match(text):
        return CFG
    for pattern, kind in _PATTERNS:
        if pattern.match(text):
            return kind
    return BINARY if b"\0" in head else _TEXT


def _zip_kind(path: Path) -> Kind:
    """The kind of a ZIP archive: PyTorch, Keras and others keep models in one."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile):
        names = []
    if any(name.endswith("data.pkl") for name in names):
        return _PYTORCH
    if "config.json" in names and any(name.endswith(".weights.h5") for name in names):
        return KERAS
    return Kind("a ZIP archive", _ARCHIVE)


def _other(path: Path, found: Kind, wanted: Kind) -> ConfigurationError:
    return ConfigurationError(
        f"{path}: is {found.name}; harness reads {wanted.name.partition(' ')[2]}s",
        hint=found.hint,
    )
