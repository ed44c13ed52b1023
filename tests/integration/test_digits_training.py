"""The training script end to end, for a few steps: what it writes, the engine computes as Keras does."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.resources import resource
from harness.runtimes.engine import HostEngine

pytestmark = [
    pytest.mark.train,
    # TensorFlow's and scikit-learn's own warnings are not ours to mend.
    pytest.mark.filterwarnings("ignore"),
]

FOLDER = resource("cfg", "digits")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a script of cfg/digits by name."""
    pytest.importorskip("sklearn", reason="the train extra is not installed")
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.mark.engine
def test_the_engine_computes_what_keras_trained(module: Any, host_engine: HostEngine, tmp_path: Path) -> None:
    pytest.importorskip("tensorflow", reason="the train extra is not installed")
    train, darknet, scenes = module("train"), module("darknet"), module("scenes")
    text = (FOLDER / "digits.cfg").read_text()
    phase = {"steps": 1, "learning_rate": 1e-3, "box_weight": 2}
    phases = [
        train.Phase(scenes=range(32), ranked=False, **phase),
        train.Phase(scenes=range(32, 64), ranked=True, **phase),
    ]
    model = train.train(text, phases)
    rng = np.random.default_rng(1)
    for layer in model.layers:
        if layer.name.startswith("normalisation"):  # as far from their first values as after long training
            spread = zip(layer.get_weights(), (0.1, 0.3, 0.3, 0.1), strict=True)
            layer.set_weights(
                [values * rng.uniform(0.5, 1.5) + rng.uniform(0, s, values.shape) for values, s in spread]
            )
    cfg, weights = tmp_path / "digits.cfg", tmp_path / "digits.weights"
    cfg.write_text(text)
    darknet.write_weights(weights, model, images_seen=32)
    drawn = scenes.scenes(scenes.load_digits("held-out"), 9, 0, 3)
    pixels = np.stack([scene.pixels for scene in drawn])
    expected = model.predict(pixels.astype(np.float32) / 255, verbose=0)
    found = host_engine.forward(cfg, weights, pixels).heads
    assert list(found) == [15, 22]
    for tensor, wanted in zip(found.values(), expected, strict=True):
        wanted = wanted.transpose(0, 3, 1, 2)
        assert wanted.std() > 0.01, "a dead network would compare equal to anything"
        assert tensor == pytest.approx(wanted, abs=1e-4)


def test_the_split_is_between_writers(module: Any) -> None:
    """Every form begins with 0 to 9 three times over; the first held-out sample is where one begins."""
    scenes = module("scenes")
    held_out = [digit.label for digit in scenes.load_digits("held-out")]
    train = [digit.label for digit in scenes.load_digits("train")]
    assert len(train) + len(held_out) == 1797
    assert held_out[:30] == [*range(10)] * 3
    assert held_out[30:40] == train[30:40] == [0, 9, 5, 5, 6, 5, 0, 9, 8, 9]


def test_the_scenes_that_ship_are_the_scripts(module: Any, tmp_path: Path) -> None:
    train = module("train")
    train.write_scenes(tmp_path, "held-out", train.HELD_OUT_SEED, 5)
    for index in range(5):
        name = f"{index:03}"
        shipped = (FOLDER / "data" / "labels" / f"{name}.txt").read_text()
        assert (tmp_path / "labels" / f"{name}.txt").read_text() == shipped
