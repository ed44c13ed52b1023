"""The models of a sweep file: a cfg with weights, or a file that is imported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from harness.config.data_set_path import DataSetPath
from harness.config.document import Node
from harness.config.file_kind import SAVED_MODEL, kind_of
from harness.config.import_options import IMPORT_KEYS, ImportKey, ImportOptions
from harness.config.preprocessing import RESIZES
from harness.config.random_weights import random_weights_file
from harness.config.sweep import Calibration, Model
from harness.config.validation import (
    Choice,
    Either,
    ExistingPath,
    Field,
    Integer,
    Record,
    Schema,
    Shape,
    Text,
    existing_kind,
    from_dataclass,
)
from harness.errors import ConfigurationError

METHODS = ("minmax", "percentile", "kl", "mse")
RANDOM = "random"
NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}"

_CALIBRATION = Record(
    what="a calibration",
    defaults=Calibration,
    fields={
        "dataset": Field(
            shape=DataSetPath(),
            help="data set to record ranges on (of a data.yaml its split train); the model's own if absent",
            example="../digits/data",
        ),
        "images": Field(
            shape=Integer(least=1, most=100_000),
            help="number of images from the start of the data set",
            example=64,
        ),
        "method": Field(
            shape=Choice(what="method", names=lambda: METHODS),
            help="how a range is derived from the values of a tensor",
            example="percentile",
        ),
    },
    make=from_dataclass(Calibration),
)


class _Weights:
    """The path of a weights file, or `random`."""

    _path = ExistingPath(what="weights file")

    def read(self, node: Node) -> Path | None:
        return None if node.source == RANDOM else self._path.read(node)

    def schema(self) -> Schema:
        return self._path.schema()


class _ImportPath:
    """The path of a model to import: a file, or the folder of a SavedModel."""

    _text = Text(expected="the path of a model to import")

    def read(self, node: Node) -> Path:
        path = Path(node.file).parent / self._text.read(node)
        kind = existing_kind(node, path, "model to import")
        if kind != "file" and kind_of(path) != SAVED_MODEL:
            raise node.error(f"expected a model to import, but {path} is a {kind}")
        return path

    def schema(self) -> Schema:
        return self._text.schema()


@dataclass(frozen=True, kw_only=True)
class _Written:
    """The text of an import key, or a list of its parts."""

    key: ImportKey

    def read(self, node: Node) -> object:
        parts = node.items if node.kind == "list" else (node,)
        written = ",".join(part.source for part in parts)
        try:
            if any(part.kind not in ("text", "integer", "number") for part in parts):
                raise ValueError(written)
            return self.key.read(written)
        except ValueError:
            found = f'"{written[:40]}"' if written else node.describe()
            raise node.error(f"expected {self.key.expected}, found {found}") from None

    def schema(self) -> Schema:
        part: Schema = {"type": ["number", "string"]}
        return {"anyOf": [part, {"type": "array", "minItems": 1, "items": part}]}


def _import_field(name: str, key: ImportKey) -> Field:
    shape: Shape[object] = Choice(what=name, names=lambda: key.words) if key.words else _Written(key=key)
    return Field(
        shape=shape,
        help=f"of an imported model: {key.help}; {key.absent} if absent",
        example=key.example,
    )


_ABSENT = Path()  # in place of a path that is not given


def _make_model(
    node: Node,
    *,
    model: Path | None = None,
    cfg: Path | None = None,
    weights: Path | None = _ABSENT,
    **values: Any,
) -> Model:
    given = {key: values.pop(key) for key in IMPORT_KEYS if key in values}
    if model is not None:
        if cfg is not None or weights is not _ABSENT:
            raise node.error("model takes the place of cfg and weights: give one or the other", key="model")
        return Model(
            cfg=_ABSENT,
            weights=_ABSENT,
            source=model,
            import_options=ImportOptions(**given),
            place=f"{node.file}:{node.line}",
            **values,
        )
    if cfg is None or weights is _ABSENT:
        raise node.error(f"{values['name']} needs model, or cfg and weights")
    for key in given:
        raise node.error(
            f"{key} applies to a model that is imported, not to a cfg",
            hint=f"Write {IMPORT_KEYS[key].in_cfg} into [net] of {cfg}.",
            key=key,
        )
    if weights is None and values.get("dataset"):
        raise node.error("random weights have no accuracy: leave out the dataset", key="dataset")
    return Model(
        cfg=cfg,
        weights=weights or random_weights_file(cfg),
        random_weights=weights is None,
        place=f"{node.file}:{node.line}",
        **values,
    )


PLAIN_NAME = Text(expected="a name of letters, digits and . _ - +", pattern=NAME)
MODEL = Record(
    what="a model",
    fields={
        "name": Field(shape=PLAIN_NAME, help="name in reports", required=True, example="digits"),
        "model": Field(
            shape=_ImportPath(),
            help="path of an ONNX, TensorFlow Lite or Keras file or of a SavedModel folder, relative to this "
            "file; in place of cfg and weights",
            example="yolox_nano.onnx",
        ),
        "cfg": Field(
            shape=ExistingPath(what="Darknet cfg"),
            help="path of the cfg, relative to this file",
            example="../digits/digits.cfg",
        ),
        "weights": Field(
            shape=_Weights(),
            help="path of the Darknet weights, relative to this file; `random` to measure speed alone",
            example="../digits/digits.weights",
        ),
        "calibration": Field(
            shape=Either(short=ExistingPath(what="calibration file"), long=_CALIBRATION),
            help="path of a file of `harness calibrate`, or how to record the ranges of int8 layers",
            example={"images": 32, "method": "minmax"},
        ),
        "dataset": Field(
            shape=DataSetPath(),
            help="data set to evaluate accuracy on, relative to this file: a folder with images/ and YOLO "
            "labels/, a data.yaml (its split val, or data.yaml:test), COCO JSON, or ImageNet-like file names",
            example="../digits/data",
        ),
        "labels": Field(
            shape=ExistingPath(what="label list"),
            help="path of a list of WordNet ids in the order of a classifier's outputs",
            example="imagenet.labels",
        ),
        "resize": Field(
            shape=Choice(what="resize", names=lambda: RESIZES),
            help="how pictures are fitted to the network's input; if absent, as the model was most likely "
            "trained",
            example="letterbox",
        ),
        "limit": Field(
            shape=Integer(least=1, most=10_000_000),
            help="number of images to evaluate, from the start of the data set; all if absent",
            example=500,
        ),
        **{name: _import_field(name, key) for name, key in IMPORT_KEYS.items()},
    },
    make=_make_model,
)


class ModelFiles(Protocol):
    """What an import gives."""

    @property
    def cfg(self) -> Path: ...
    @property
    def weights(self) -> Path: ...
    @property
    def calibration(self) -> Path | None: ...


Importer = Callable[[Path, ImportOptions], ModelFiles]


def imported(model: Model, importer: Importer | None) -> Model:
    """The model with the files of its import. Raises ConfigurationError with the model's place."""
    if model.source is None:
        return model
    if importer is None:
        raise ConfigurationError(f"{model.place}: {model.source}: models are not imported here")
    try:
        files = importer(model.source, model.import_options)
    except ConfigurationError as error:
        raise ConfigurationError(f"{model.place}: {error.message}", hint=error.hint) from None
    calibration = model.calibration
    if isinstance(calibration, Calibration) and files.calibration is not None:
        calibration = files.calibration
    return replace(model, cfg=files.cfg, weights=files.weights, calibration=calibration)
