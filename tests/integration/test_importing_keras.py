"""Keras models and SavedModels compute the same after their import as in Keras. Nothing is trained."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_models import run_imported

from harness import cli
from harness.errors import ConfigurationError
from harness.importing.model import import_model

pytestmark = [
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore"),  # TensorFlow's own
]

SHAPE = (12, 10, 3)  # height, width, channels


@pytest.fixture(scope="module")
def keras() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return pytest.importorskip("keras", reason="the train extra is not installed")


def network(keras: Any, shape: tuple[int | None, ...] = SHAPE) -> Any:
    """Convolutions, a residual, and a classifier, with random weights and statistics."""
    layers = keras.layers
    x = inputs = keras.Input(shape)
    x = layers.Conv2D(8, 3, strides=2, padding="same", use_bias=False)(x)
    x = layers.ReLU(6.0)(layers.BatchNormalization()(x))
    y = layers.BatchNormalization()(layers.DepthwiseConv2D(3, padding="same")(x))
    x = layers.Add()([x, layers.Activation("silu")(y)])
    x = layers.GlobalAveragePooling2D()(x)
    model = keras.Model(inputs, layers.Dense(5, activation="softmax")(x))
    random = np.random.default_rng(0)
    model.set_weights([random.uniform(0.2, 1.0, value.shape) for value in model.get_weights()])
    return model


def saved(model: Any, path: Path) -> Path:
    """The model as a file or, without a suffix, as a SavedModel."""
    if path.suffix:
        model.save(path)
    else:
        model.export(path, verbose=False)
    return path


def same(path: Path, model: Any, size: tuple[int, int, int] = SHAPE, **options: Any) -> None:
    x = np.random.default_rng(1).normal(size=(1, *size)).astype(np.float32)
    found, *_ = run_imported(import_model(path, **options), x.transpose(0, 3, 1, 2))
    expected = np.asarray(model(x))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 2e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "folder"])
def test_a_model_computes_the_same_after_its_import(name: str, keras: Any, tmp_path: Path) -> None:
    model = network(keras)
    same(saved(model, tmp_path / name), model)


@pytest.mark.parametrize("name", ["model.keras", "folder"])
def test_sizes_that_a_model_leaves_open(name: str, keras: Any, tmp_path: Path) -> None:
    model = network(keras, (None, None, 3))
    path = saved(model, tmp_path / name)
    same(path, model, (6, 8, 3), input_shape=(1, 3, 6, 8))
    with pytest.raises(ConfigurationError, match=rf"{name}: the size of its input is not fixed: 1,\?,\?,3"):
        import_model(path)


@pytest.mark.parametrize("name", ["model.keras", "folder"])
def test_outputs_keep_their_order(name: str, keras: Any, tmp_path: Path) -> None:
    inputs = keras.Input(SHAPE)
    channels = (5, 3, 7, 2, 9, 4, 6, 8, 11, 10, 13, 12)
    model = keras.Model(inputs, [keras.layers.Conv2D(number, 1)(inputs) for number in channels])
    found = import_model(saved(model, tmp_path / name)).outputs
    assert tuple(output.shape[-1] for output in found) == channels


@pytest.mark.parametrize("name", ["model.keras", "folder"])
def test_several_inputs(name: str, keras: Any, tmp_path: Path) -> None:
    """A vector beside pictures of an open size, as a dictionary."""
    vector, picture = keras.Input((4,), name="a_vector"), keras.Input((None, None, 3), name="picture")
    x = keras.layers.Conv2D(4, 3)(picture)
    x = keras.layers.Multiply()([x, keras.layers.Reshape((1, 1, 4))(vector)])
    model = keras.Model({"picture": picture, "a_vector": vector}, x)
    network = import_model(saved(model, tmp_path / name), input_shape=(1, 3, 6, 8))
    values, image = np.arange(4, dtype=np.float32), np.ones((1, 6, 8, 3), np.float32).cumsum(1)
    found, *_ = run_imported(network, image.transpose(0, 3, 1, 2), values)
    expected = np.asarray(model({"picture": image, "a_vector": values[None]}))
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 2e-5 * np.abs(expected).max()


def test_the_command_names_the_model_and_not_a_temporary_file(
    keras: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = saved(network(keras), tmp_path / "tiny")
    assert cli.main(["import", str(path), "--out", str(tmp_path / "out"), "--mean", "127.5", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert Path(printed["cfg"]) == tmp_path / "out" / "tiny.cfg"
    assert printed["input"] == [3, 12, 10]
    assert "mean=127.5" in (tmp_path / "out" / "tiny.cfg").read_text()
    source = json.loads((tmp_path / "out" / "tiny.import.json").read_text())["source"]
    assert (source["name"], source["format"], len(source["sha256"])) == ("tiny", "saved_model", 64)
    assert cli.main(["import", str(path), "--out", str(tmp_path / "again"), "--mean", "127.5"]) == 0
    for file in (tmp_path / "out").iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("name", ["model.keras", "model.h5"])
def test_code_in_a_file_is_not_executed(name: str, keras: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    inputs = keras.Input(SHAPE)
    code: Callable[[Any], Any] = eval(f"lambda x: [open({str(trace)!r}, 'w').close(), x][1]")
    model = keras.Model(inputs, keras.layers.Lambda(code, output_shape=SHAPE, name="bad")(inputs))
    path = saved(model, tmp_path / name)
    model(np.zeros((1, *SHAPE), np.float32))
    trace.unlink()
    with pytest.raises(ConfigurationError, match=rf"{name}: the layer 'bad' is a Lambda layer: Python code"):
        import_model(path)
    with pytest.raises(ValueError, match="`Lambda` layer"):  # Keras's own refusal, behind the import's
        keras.models.load_model(path, compile=False, safe_mode=True)
    assert not trace.exists()


def test_layers_of_the_users_own(keras: Any, tmp_path: Path) -> None:
    class Own(keras.layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return x * 2

    inputs = keras.Input(SHAPE)
    model = keras.Model(inputs, Own()(keras.layers.Conv2D(4, 1)(inputs)))
    with pytest.raises(ConfigurationError, match=r"own\.keras: TensorFlow cannot convert it") as failure:
        import_model(saved(model, tmp_path / "own.keras"))
    assert "Could not locate class 'Own'" in failure.value.message
    assert "model.export('FOLDER')" in failure.value.hint
    same(saved(model, tmp_path / "folder"), model)


def test_files_without_one_model(keras: Any, tmp_path: Path) -> None:
    network(keras).save_weights(tmp_path / "net.weights.h5")
    with pytest.raises(ConfigurationError, match=r"net\.weights\.h5: it holds weights alone"):
        import_model(tmp_path / "net.weights.h5")
