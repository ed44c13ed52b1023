"""The list of models, cfg/models.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.config.document import nearest, read_document
from harness.config.validation import ExistingPath, Field, Integer, ListOf, Record, Text, Then, from_dataclass
from harness.errors import ConfigurationError
from harness.resources import resource


@dataclass(frozen=True, kw_only=True)
class Publication:
    """The address of published weights, and the size and hash of the right file."""

    url: str
    bytes: int
    sha256: str  # lower-case hexadecimal


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network and its weights; `published` is None if the weights ship with harness."""

    name: str
    description: str
    cfg: Path
    weights: Path
    published: Publication | None = None


_MODEL = Record(
    what="a model",
    fields={
        "name": Field(
            shape=Text(expected="a name of letters, digits and . _ -", pattern=r"[A-Za-z0-9][A-Za-z0-9._-]*"),
            help="its name on the command line",
            required=True,
        ),
        "description": Field(shape=Text(expected="a line of text"), help="what it is", required=True),
        "cfg": Field(shape=ExistingPath(what="Darknet cfg"), help="its cfg", required=True),
        "weights": Field(
            shape=Then(shape=Text(expected="a path"), make=lambda node, path: Path(node.file).parent / path),
            help="its weights, or where they are fetched to",
            required=True,
        ),
        "published": Field(
            shape=Record(
                what="a publication",
                fields={
                    "url": Field(
                        shape=Text(expected="an http or https address", pattern=r"https?://\S+"),
                        help="where the file is published",
                        required=True,
                    ),
                    "bytes": Field(shape=Integer(least=1, most=1 << 40), help="its size", required=True),
                    "sha256": Field(
                        shape=Text(expected="64 lower-case hexadecimal digits", pattern="[0-9a-f]{64}"),
                        help="its hash",
                        required=True,
                    ),
                },
                make=from_dataclass(Publication),
            ),
            help="where the weights come from; absent where they ship",
        ),
    },
    make=from_dataclass(Model),
)
_REGISTRY = Record(
    what="the list of models",
    fields={"models": Field(shape=ListOf(what="models", item=_MODEL), help="the models", required=True)},
    make=lambda _node, models: models,
)


def all_models(file: Path | None = None) -> tuple[Model, ...]:
    """The models listed in `file`, or in the one that ships. Raises ConfigurationError with file and line."""
    models: tuple[Model, ...] = _REGISTRY.read(read_document(file or resource("cfg", "models.yaml")))
    return models


def find_model(name: str) -> Model:
    """The model of that name. Raises ConfigurationError with the nearest known name."""
    models = {model.name: model for model in all_models()}
    if name not in models:
        near = nearest(name, models)
        hint = f"Did you mean {near}?" if near else f"Known models: {', '.join(models)}."
        raise ConfigurationError(f"there is no model {name}", hint=hint)
    return models[name]
