"""Evaluation of imported models with a stand-in for the engine: outputs in their own order and shapes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accuracy_stand_in import StandIn
from encoded_outputs import HEIGHT, WIDTH, Floats, Object, yolox
from onnx_models import model_of, node
from PIL import Image

from harness import cli
from harness.accuracy.evaluate import check_dataset, evaluate, warning_of_guesses
from harness.errors import ConfigurationError
from harness.runtimes import engine as runtime
from harness.runtimes.engine import EngineOptions, Forward

CFG = """\
[net]
width={width}
height={height}
channels=3
{keys}

[convolutional]
filters=3
size=1
stride=1
activation=linear
{precision}

[maxpool]
size=1
stride=1
"""

Compute = Callable[[Floats, str], dict[int, Floats]]


class Imported(StandIn):
    """Gives the outputs of layers as `compute(image, precision)` says, in the engine's three axes."""

    def __init__(self, compute: Compute, outs: dict[int, tuple[int, int, int]]) -> None:
        super().__init__(lambda images, _: images, (1, 1, 1))
        self.outputs, self.outs = compute, outs
        self.seen: list[Floats] = []

    def info(self, cfg: Path) -> dict[str, Any]:
        text = cfg.read_text()
        keys = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        return {
            "input": [3, int(keys["height"]), int(keys["width"])],
            "inputs": [-1],
            "layers": [
                {
                    "index": index,
                    "type": kind,
                    "out": list(self.outs.get(index, (1, 1, 1))),
                    "precision": precision,
                }
                for index, (kind, precision) in enumerate(
                    [("convolutional", "int8" if "int8=1" in text else "fp32"), ("maxpool", "")]
                )
            ],
        }

    def forward(self, cfg: Path, weights: Path, images: Any, *_: object, **__: object) -> Forward:
        self.seen.extend(images)
        precision = self.info(cfg)["layers"][0]["precision"]
        each = [self.outputs(image, precision) for image in images]
        return Forward(
            heads={
                layer: np.stack([one[layer].reshape(out) for one in each]) for layer, out in self.outs.items()
            }
        )


def model(folder: Path, keys: str, size: tuple[int, int] = (WIDTH, HEIGHT)) -> dict[str, Any]:
    for name, precision in (("net", ""), ("int8", "int8=1\nquantize=1")):
        text = CFG.format(width=size[0], height=size[1], keys=keys, precision=precision)
        (folder / f"{name}.cfg").write_text(text)
    (folder / "net.weights").write_bytes(bytes(20 + 4 * 12))
    return {"cfg": folder / "net.cfg", "weights": folder / "net.weights", "dataset": folder / "data"}


BRIGHT = Object(x=40.0, y=16.0, width=20.0, height=20.0)
SMALL = Object(x=100.0, y=16.0, width=10.0, height=8.0, class_id=1)


def detects(image: Floats, precision: str) -> dict[int, Floats]:
    """Two objects in the upper half; int8 misses the small one, and sees another in bright pictures."""
    outputs = yolox(BRIGHT)[0]
    if precision == "fp32":
        outputs = np.maximum(outputs, 0) + np.minimum(outputs, 0) + yolox(SMALL)[0]
    elif image.max() > 150:
        outputs = outputs + yolox(Object(x=100.0, y=48.0, class_id=0))[0]
    return {1: outputs}


TABLE = {1: (168, 1, 10)}
KEYS = "std=1\ncolors=bgr\nresize=letterbox_top_left\ndecoder=yolox\noutputs=1"


@pytest.fixture
def detector(tmp_path: Path) -> dict[str, Any]:
    for folder in ("data/images", "data/labels"):
        (tmp_path / folder).mkdir(parents=True)
    for number, value in enumerate((100, 200)):
        # Twice as wide as high: the picture fills the upper half of an input of 128 x 128.
        picture = np.zeros((80, 160, 3), np.uint8)
        picture[..., 0] = value
        Image.fromarray(picture).save(tmp_path / f"data/images/{number}.png")
        rows = [
            f"{seen.class_id} {seen.x / 128} {seen.y / 64} {seen.width / 128} {seen.height / 64}"
            for seen in (BRIGHT, SMALL)
        ]
        (tmp_path / f"data/labels/{number}.txt").write_text("\n".join(rows))
    return model(tmp_path, KEYS)


def test_a_detector_is_read_by_its_decoder(detector: dict[str, Any]) -> None:
    engine = Imported(detects, TABLE)
    result = evaluate(engine, **detector)
    assert (result["decoder"], result["decoder_guessed"]) == ("yolox", False)
    assert (result["resize"], result["boxes"]) == ("letterbox_top_left", 4)
    assert (result["map50"], result["map"]) == (pytest.approx(1.0), pytest.approx(1.0))
    assert engine.seen[0][:, 0, 0].tolist() == [0, 0, 100]  # blue first, not divided
    assert warning_of_guesses(result) == ""


def test_per_class_scores_show_what_int8_loses(detector: dict[str, Any]) -> None:
    int8 = detector | {"cfg": detector["cfg"].with_name("int8.cfg"), "origin": detector["cfg"]}
    result = evaluate(Imported(detects, TABLE), **int8, per_class=True)
    rows = {row["class"]: row for row in result["classes"]}
    assert rows["3"] == {
        "class": "3",
        "boxes": 2,
        "map50": pytest.approx(1.0),
        "map": pytest.approx(1.0),
        "recall": 1.0,
        "map50_change": pytest.approx(0.0),
        "recall_change": 0.0,
    }
    assert (rows["1"]["map50"], rows["1"]["recall"]) == (0.0, 0.0)
    assert (rows["1"]["map50_change"], rows["1"]["recall_change"]) == (pytest.approx(-1.0), -1.0)
    sizes = {row["size"]: row for row in result["sizes"]}
    assert [sizes[size]["boxes"] for size in ("small", "medium", "large")] == [4, 0, 0]
    assert sizes["small"]["recall"] == 0.5
    assert sizes["large"]["map50"] is None
    fp32 = evaluate(Imported(detects, TABLE), **detector, per_class=True)
    assert "recall_change" not in fp32["classes"][0]
    assert "classes" not in evaluate(Imported(detects, TABLE), **detector)


def test_a_model_without_names_takes_those_of_the_data_set(
    command: argparse.Namespace, detector: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data = detector["dataset"]

    def shown(dataset: str) -> list[str]:
        result = evaluate(Imported(detects, TABLE), **detector | {"dataset": data / dataset}, per_class=True)
        return [row["class"] for row in result["classes"]]

    def detected() -> set[str]:
        arguments = [*words(detector, "net.cfg"), "--json", str(data / "images/1.png")]
        assert cli.main(["detect", *arguments]) == 0
        (image,) = json.loads(capsys.readouterr().out)["images"]
        return {found["class"] for found in image["detections"]}

    (data / "data.yaml").write_text("val: images\nnames: [ant, bee, cow, dog]\n")
    assert (shown(""), shown("data.yaml"), detected()) == (["1", "3"], ["1", "3"], {"1", "3"})
    (data / "data.yaml").write_text("val: images\nnames: [ant, bee, cow, dog, eel]\n")
    assert (shown(""), shown("data.yaml"), detected()) == (["bee", "dog"], ["bee", "dog"], {"bee", "dog"})
    (data.parent / "other.names").write_text("a\nb\nc\nd\ne\n")  # perhaps of another model
    assert (shown(""), detected()) == (["bee", "dog"], {"bee", "dog"})
    (data.parent / "net.names").write_text("v\nw\nx\ny\nz\n")
    assert (shown(""), detected()) == (["w", "y"], {"w", "y"})


def test_a_wrong_decoder_gives_a_warning(detector: dict[str, Any]) -> None:
    cfg = detector["cfg"]
    cfg.write_text(cfg.read_text().replace("decoder=yolox\n", "").replace("std=1\n", "std=2\n"))
    result = evaluate(Imported(lambda image, _: {1: 0 * detects(image, "fp32")[1]}, TABLE), **detector)
    assert (result["map50"], result["decoder"], result["decoder_guessed"]) == (0.0, "yolox", True)
    assert "read as yolox, guessed from their shapes" in warning_of_guesses(result)


def test_what_the_cfg_alone_tells_is_checked_without_an_engine(detector: dict[str, Any]) -> None:
    cfg, dataset = detector["cfg"], detector["dataset"]
    check_dataset(cfg, dataset, None)
    cfg.write_text(cfg.read_text().replace("outputs=1", "outputs=1\noutput_shapes=168x6"))
    with pytest.raises(ConfigurationError, match="unknown class 3; the network has 0 to 0"):
        check_dataset(cfg, dataset, None)
    cfg.write_text(cfg.read_text().replace("decoder=yolox", "decoder=classifier"))
    with pytest.raises(ConfigurationError, match=r"has boxes; .* needs one class per picture"):
        check_dataset(cfg, dataset, None)


def test_a_classifier_with_background_and_a_folder_per_class(tmp_path: Path) -> None:
    for name, value in (("cat", 0), ("dog", 255)):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.fromarray(np.full((9, 7, 3), value, np.uint8)).save(tmp_path / f"data/{name}/x.png")
    (tmp_path / "x.names").write_text("background\ncat\ndog\n")

    def scores(image: Floats, _: str) -> dict[int, Floats]:
        return {1: np.array([9.0, 1.0, 2.0 * image.max()], np.float32)}

    material = model(tmp_path, "mean=0\nlabels=x.names", (4, 4))
    result = evaluate(Imported(scores, {1: (3, 1, 1)}), **material, per_class=True)
    assert (result["top1"], result["resize"], result["decoder"]) == (1.0, "crop", "classifier")
    assert result["classes"] == [
        {"class": "cat", "images": 1, "top1": 1.0},
        {"class": "dog", "images": 1, "top1": 1.0},
    ]


def test_what_eval_is_told_of_a_model_reaches_its_pictures(
    command: argparse.Namespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, color in (("cat", (0, 0, 0)), ("dog", (50, 100, 250))):
        (tmp_path / "data" / name).mkdir(parents=True)
        Image.new("RGB", (4, 4), color).save(tmp_path / f"data/{name}/x.png")
    nodes = [node("Conv", "x w", "c"), node("GlobalAveragePool", "c")]
    network = model_of(nodes, (1, 3, 4, 4), {"w": np.ones((2, 3, 1, 1), np.float32)})
    (tmp_path / "net.onnx").write_bytes(network.SerializeToString())
    command.engine = Imported(lambda image, _: {1: np.array([1.0, image.max()], np.float32)}, {1: (2, 1, 1)})
    data = ["--model", str(tmp_path / "net.onnx"), "--dataset", str(tmp_path / "data"), "--json"]
    assert cli.main(["eval", *data]) == 0
    assert json.loads(capsys.readouterr().out)["assumed"] == ["mean", "std", "colors", "resize"]
    command.engine.seen.clear()
    told = ["--mean", "10,20,30", "--std", "2", "--colors", "bgr", "--decoder", "classifier"]
    assert cli.main(["eval", *data, *told, "--resize", "stretch"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["top1"], result["assumed"], result["decoder_guessed"]) == (1.0, [], False)
    assert [image[:, 0, 0].tolist() for image in command.engine.seen] == [[-5, -10, -15], [120, 40, 10]]


def test_outputs_without_a_decoder_are_compared_with_fp32(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(2):
        Image.fromarray(np.full((4, 4, 3), 50 * number, np.uint8)).save(tmp_path / f"data/{number}.png")

    def two(_: Floats, precision: str) -> dict[int, Floats]:
        noise = 0.0 if precision == "fp32" else 0.05
        return {
            0: np.array([1, 2, 3, 4, 5, 6], np.float32),
            1: np.array([10, 10, 10, 10 + noise, 10, 10 + 20 * noise, 10, 10], np.float32),
        }

    material = model(tmp_path, "outputs=1,0\noutput_shapes=2x4,3x2", (4, 4))
    int8 = material | {"cfg": material["cfg"].with_name("int8.cfg")}
    result = evaluate(Imported(two, {0: (6, 1, 1), 1: (8, 1, 1)}), **int8)
    assert result["decoder"] == "none"
    table, vector = result["outputs"]
    assert (table["name"], table["shape"], table["agreement"]) == ("1", [2, 4], 7 / 8)
    assert table["sqnr_db"] == pytest.approx(10 * np.log10(800 / 1.0025), abs=1e-3)
    assert (vector["shape"], vector["agreement"], vector["sqnr_db"]) == ([3, 2], 1.0, None)
    assert result["agreement"] == pytest.approx((7 / 8 + 1) / 2)


def test_agreement_of_outputs_has_an_interval(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(24):
        Image.fromarray(np.full((4, 4, 3), 10 * number, np.uint8)).save(tmp_path / f"data/{number}.png")

    def noisy_in_the_bright(image: Floats, precision: str) -> dict[int, Floats]:
        off = 1.0 if precision != "fp32" and image.max() > 0.5 else 0.0
        return {1: np.array([[1, 2], [3, 4 + off]], np.float32)}

    material = model(tmp_path, "std=255\noutputs=1\noutput_shapes=2x2", (4, 4))
    int8 = material | {"cfg": material["cfg"].with_name("int8.cfg")}
    result = evaluate(Imported(noisy_in_the_bright, {1: (2, 1, 2)}), **int8, resample=True)
    bright = sum(10 * number / 255 > 0.5 for number in range(24)) / 24
    assert result["agreement"] == pytest.approx(1 - bright / 4)
    assert result["resampled"]["metric"] == "agreement"
    assert np.mean(result["resampled"]["values"]) == pytest.approx(result["agreement"], abs=0.01)
    assert 0 < np.std(result["resampled"]["values"]) < 0.05


# --- the commands


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    chosen = argparse.Namespace(engine=Imported(detects, TABLE))
    monkeypatch.setattr(runtime, "host_engine", lambda _: chosen.engine)
    return chosen


def words(material: dict[str, Any], cfg: str = "int8.cfg") -> list[str]:
    return ["--cfg", str(material["cfg"].with_name(cfg)), "--weights", str(material["weights"])]


def test_eval_prints_a_row_per_size_and_class(
    command: argparse.Namespace, detector: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", *words(detector), "--dataset", str(detector["dataset"]), "--per-class"]
    assert cli.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "size        boxes    mAP@0.5        mAP     recall  Δ mAP@0.5   Δ recall" in lines
    assert "small           4      50.00      50.00      50.00     -50.00     -50.00" in lines
    assert "large           0          -          -          -          -          -" in lines
    assert "1              2       0.00       0.00       0.00    -100.00    -100.00" in lines
    assert cli.main([*arguments, "--json"]) == 0
    assert {row["size"] for row in json.loads(capsys.readouterr().out)["sizes"]} == {
        "small",
        "medium",
        "large",
    }


def test_detect_compares_with_fp32(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(detector["dataset"] / "images/1.png")
    out = tmp_path / "both.png"
    arguments = ["detect", *words(detector), "--compare", "--draw", str(out), picture]
    assert cli.main([*arguments, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["images"]
    assert {found["class"]: found["new"] for found in row["detections"]} == {"3": False, "0": True}
    assert {found["class"]: found["lost"] for found in row["fp32"]} == {"3": False, "1": True}
    with Image.open(out) as drawn:
        assert drawn.width >= 2 * 160
        red = np.all(np.asarray(drawn.convert("RGB")) == [255, 0, 0], axis=2)
    left, right = red[:, : drawn.width // 2], red[:, drawn.width // 2 :]
    assert left.any()
    assert right.any()
    assert cli.main(arguments) == 0
    text = capsys.readouterr().out
    assert "1.png: 2 found, 2 in fp32: 1 lost, 1 new" in text
    assert text.splitlines()[-1].endswith("  lost")


def test_there_is_nothing_to_compare_in_fp32(
    command: argparse.Namespace, detector: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(detector["dataset"] / "images/1.png")
    assert cli.main(["detect", *words(detector, "net.cfg"), "--compare", picture]) == 2
    assert "every layer is fp32" in capsys.readouterr().err


def test_options_reach_every_run(detector: dict[str, Any]) -> None:
    engine = Imported(detects, TABLE)
    evaluate(engine, **detector, options=EngineOptions(threads=3), limit=1, agreement=True)
    assert len(engine.seen) == 1  # the cfg is fp32: it agrees with itself


def test_a_copy_with_a_policy_finds_what_is_beside_the_cfg(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Labels and shapes: the engine's three axes do not tell that the output is a table."""
    command.engine = Imported(detects, {1: (168, 2, 5)})
    cfg = detector["cfg"]
    cfg.write_text(cfg.read_text().replace("outputs=1", "outputs=1\nlabels=x.names"))
    (tmp_path / "x.names").write_text("a\nb\nc\nd\ne\n")
    (tmp_path / "net.import.json").write_text(json.dumps({"outputs": [{"shape": [1, 168, 10]}], "cut": []}))
    policy = ["--policy", "{default: int8, quantize: 1}"]
    picture = str(detector["dataset"] / "images/0.png")
    assert cli.main(["detect", *words(detector, "net.cfg"), *policy, picture]) == 0
    assert "  d: 80%" in capsys.readouterr().out
    assert cli.main(["detect", *words(detector, "net.cfg"), *policy, "--compare", picture]) == 0
    assert "  b: 80%" in capsys.readouterr().out
    data = ["--dataset", str(detector["dataset"])]
    assert cli.main(["eval", *words(detector, "net.cfg"), *policy, *data, "--per-class"]) == 0
    assert "\nd              2     100.00" in capsys.readouterr().out


def test_a_shape_that_the_engine_does_not_have_is_an_error(detector: dict[str, Any]) -> None:
    cfg = detector["cfg"]
    cfg.write_text(cfg.read_text().replace("outputs=1", "outputs=1\noutput_shapes=168x11"))
    with pytest.raises(
        ConfigurationError, match="the output 1 has 1680 values, not those of the shape 168x11"
    ):
        evaluate(Imported(detects, TABLE), **detector)
