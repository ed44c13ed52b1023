"""Evaluation end to end with a stand-in for the engine."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from accuracy_stand_in import CLASSIFIER_CFG, DETECTOR_CFG, Floats, StandIn
from PIL import Image
from printing_runtime import PrintingRuntime

from harness import cli
from harness.accuracy.evaluate import evaluate, layer_report
from harness.accuracy.executor import FileExecutor
from harness.config.darknet_cfg import read_cfg
from harness.config.sweep import Options
from harness.errors import ConfigurationError
from harness.runtimes import engine as runtime
from harness.runtimes.base import ModelFile
from harness.runtimes.engine import EngineOptions


def finds_a_box(images: Floats, precision: str) -> Floats:
    """One box of class 1 in the middle of the right upper cell's anchor; int8 misses it in dark pictures."""
    heads = np.full((len(images), 7, 4, 4), -20, np.float32)
    heads[:, :4, 1, 2] = 0.0  # centre of cell (2, 1), the anchor's size: 2 by 2 of 4 pixels
    heads[:, 4, 1, 2] = 3.0
    heads[:, 6, 1, 2] = 2.0
    if precision == "int8":
        heads[images[:, 0, 0, 0] < 0.5, 4, 1, 2] = -20.0
    return heads


def brightness_class(images: Floats, precision: str) -> Floats:
    """Class 5 for white, class 0 for black; int8 says 1 for black."""
    scores = np.zeros((len(images), 6, 1, 1), np.float32)
    scores[:, 5, 0, 0] = images[:, 0, 0, 0]
    scores[:, 0 if precision == "fp32" else 1, 0, 0] += 0.5
    return scores


@pytest.fixture
def detector(tmp_path: Path) -> dict[str, Any]:
    for folder in ("data/images", "data/labels"):
        (tmp_path / folder).mkdir(parents=True)
    for number, value in enumerate((10, 200, 250)):
        Image.fromarray(np.full((8, 16, 3), value, np.uint8)).save(tmp_path / f"data/images/{number}.png")
        (tmp_path / f"data/labels/{number}.txt").write_text("1 0.625 0.375 0.5 0.5\n")
    return model(tmp_path, DETECTOR_CFG)


@pytest.fixture
def classifier(tmp_path: Path) -> dict[str, Any]:
    tmp_path = tmp_path / "classifier"
    (tmp_path / "data").mkdir(parents=True)
    for number, value in ((1, 0), (2, 255)):
        Image.fromarray(np.full((9, 7, 3), value, np.uint8)).save(tmp_path / f"data/n0000000{number}_x.png")
    (tmp_path / "labels.list").write_text("n00000001\na\nb\nc\nn00000002\nd\n")
    return model(tmp_path, CLASSIFIER_CFG)


def model(folder: Path, cfg: str) -> dict[str, Any]:
    (folder / "net.cfg").write_text(cfg.format(keys=""))
    (folder / "int8.cfg").write_text(cfg.format(keys="int8=1\n"))
    parameters = sum(layer.parameters or 0 for layer in read_cfg(folder / "net.cfg").layers)
    (folder / "net.weights").write_bytes(bytes(20 + 4 * parameters))
    return {"cfg": folder / "net.cfg", "weights": folder / "net.weights", "dataset": folder / "data"}


def detecting() -> StandIn:
    return StandIn(finds_a_box, (7, 4, 4))


def classifying() -> StandIn:
    return StandIn(brightness_class, (6, 1, 1))


def test_a_detector_that_finds_every_box(detector: dict[str, Any]) -> None:
    result = evaluate(detecting(), **detector)
    assert result == {
        "images": 3,
        "boxes": 3,
        "resize": "stretch",
        "map50": pytest.approx(1.0),
        "map": pytest.approx(1.0),
        "darknet_map50": pytest.approx(0.5),  # one of two classes has no box
    }


def test_the_same_boxes_as_coco_json_score_the_same(detector: dict[str, Any]) -> None:
    names = sorted(path.name for path in (detector["dataset"] / "images").iterdir())
    images = [
        {"id": number, "file_name": name, "width": 16, "height": 8} for number, name in enumerate(names)
    ]
    annotations = [{"image_id": number, "category_id": 9, "bbox": [6, 1, 8, 4]} for number in range(3)]
    document = {"images": images, "annotations": annotations, "categories": [{"id": 4}, {"id": 9}]}
    path = detector["dataset"] / "boxes.json"
    path.write_text(json.dumps(document))
    assert evaluate(detecting(), **(detector | {"dataset": path})) == evaluate(detecting(), **detector)


def test_boxes_missed_in_int8_lower_the_score(detector: dict[str, Any]) -> None:
    result = evaluate(detecting(), **(detector | {"cfg": detector["cfg"].with_name("int8.cfg")}))
    assert result["map50"] == pytest.approx(67 / 101)


def test_agreement_runs_fp32_beside_it_and_needs_no_labels(detector: dict[str, Any]) -> None:
    engine = detecting()
    pictures = detector["dataset"] / "images"
    int8 = detector | {"cfg": detector["cfg"].with_name("int8.cfg"), "dataset": pictures}
    result = evaluate(engine, **int8, agreement=True)
    assert result["agreement"] == pytest.approx(2 * 2 / (2 + 3))
    assert "map50" not in result
    assert {precision for precision, _ in engine.runs} == {"fp32", "int8"}
    with pytest.raises(ConfigurationError, match="has no labels"):
        evaluate(detecting(), **int8)


def test_another_runtime_is_scored_by_its_own_outputs(detector: dict[str, Any]) -> None:
    class Blind(PrintingRuntime):
        """Finds nothing, where the engine finds every box."""

        def outputs(
            self, model: ModelFile, images: Floats, *, threads: int, options: Options
        ) -> dict[int, Floats]:
            assert (model, threads, options.cores) == (file, 2, "1")
            return {0: np.full_like(finds_a_box(images, "fp32"), -20)}

    file = ModelFile(path=Path("net.onnx"), outputs={0: "head"})
    engine = detecting()
    executor = FileExecutor(runtime=Blind(), file=file, options=Options(cores="1"), engine=engine)
    options = EngineOptions(threads=2)
    assert evaluate(engine, **detector, options=options)["map50"] == 1.0
    engine.runs.clear()
    assert evaluate(engine, **detector, options=options, executor=executor)["map50"] == 0.0
    assert engine.runs == []


def test_letterboxed_boxes_are_mapped_back_to_the_picture(detector: dict[str, Any]) -> None:
    # The picture fills rows 1 and 2 of 4: the box is twice as high in the picture, and higher up.
    for number in range(3):
        (detector["dataset"] / f"labels/{number}.txt").write_text("1 0.625 0.25 0.5 1.0\n")
    # Clipped to the picture the box found reaches down from 0 to 0.75: an overlap of 0.75.
    result = evaluate(detecting(), **detector, resize="letterbox")
    assert result["map50"] == pytest.approx(1.0)
    assert result["resize"] == "letterbox"


def test_options_and_calibration_reach_the_engine(detector: dict[str, Any]) -> None:
    engine = detecting()
    ranges = detector["cfg"].with_name("c.json")
    ranges.write_text("{}")
    evaluate(engine, **detector, calibration=ranges, options=EngineOptions(threads=3))
    assert {(options.threads, options.calibration) for _, options in engine.runs} == {(3, ranges)}


def test_a_limit_evaluates_the_first_pictures(detector: dict[str, Any]) -> None:
    assert evaluate(detecting(), **detector, limit=2)["images"] == 2


def test_a_class_the_network_does_not_know_is_an_error_with_its_line(detector: dict[str, Any]) -> None:
    (detector["dataset"] / "labels/1.txt").write_text("2 .5 .5 .5 .5\n")
    with pytest.raises(ConfigurationError, match=r"1\.txt:1: unknown class 2"):
        evaluate(detecting(), **detector)


def test_pictures_without_any_box_are_an_error(detector: dict[str, Any]) -> None:
    for number in range(3):
        (detector["dataset"] / f"labels/{number}.txt").write_text("")
    with pytest.raises(ConfigurationError, match="none of the 3 pictures has a labelled box"):
        evaluate(detecting(), **detector)


def test_a_classifier_is_scored_by_its_ranks(classifier: dict[str, Any]) -> None:
    # White is class 4 by the list; the network says 5, and ranks 0 to 3 before 4.
    result = evaluate(classifying(), **classifier)
    assert result == {"images": 2, "resize": "crop", "top1": 0.5, "top5": 0.5}
    int8 = evaluate(
        classifying(), **(classifier | {"cfg": classifier["cfg"].with_name("int8.cfg")}), agreement=True
    )
    assert (int8["top1"], int8["top5"], int8["agreement"]) == (0.0, 0.5, 0.5)


def test_a_classifier_on_boxes_is_an_error(classifier: dict[str, Any], detector: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"has boxes; .* needs one class per picture"):
        evaluate(classifying(), **(classifier | {"dataset": detector["dataset"]}))


def test_missing_weights_are_an_error(detector: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="no such file"):
        evaluate(detecting(), **(detector | {"weights": Path("gone.weights")}))


def test_layers_are_compared_with_fp32(detector: dict[str, Any]) -> None:
    def coarse(images: Floats, precision: str) -> Floats:
        result = np.repeat(images[:, :1], 7, axis=1) + 1
        return result if precision == "fp32" else result + np.float32(0.01) * result

    engine = StandIn(coarse, (7, 4, 4))
    rows = layer_report(engine, **(detector | {"cfg": detector["cfg"].with_name("int8.cfg")}))
    assert [(row["index"], row["type"], row["precision"]) for row in rows] == [
        (0, "convolutional", "int8"),
        (1, "yolo", ""),
    ]
    assert rows[0]["sqnr_db"] == pytest.approx(40, abs=0.01)
    assert all(row["sqnr_db"] is None for row in layer_report(engine, **detector))


# --- the commands


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> argparse.Namespace:
    chosen = argparse.Namespace(engine=detecting())
    monkeypatch.setattr(runtime, "host_engine", lambda _: chosen.engine)
    return chosen


def words(material: dict[str, Any]) -> list[str]:
    return ["--cfg", str(material["cfg"]), "--weights", str(material["weights"])]


def test_eval_prints_fixed_keys(
    command: argparse.Namespace, detector: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", *words(detector), "--dataset", str(detector["dataset"])]
    assert cli.main([*arguments, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {"map50", "map", "darknet_map50", "images"} <= set(data)
    assert cli.main([*arguments, "--layers"]) == 0
    text = capsys.readouterr().out
    assert "mAP@0.5, Darknet      50.00 %" in text
    assert "0 convolutional  fp32" in text


def test_detect_gives_class_confidence_and_box_in_pixels(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = str(detector["dataset"] / "images/1.png")  # 16 x 8 pixels
    (tmp_path / "some.names").write_text("cat\ndog\n")
    assert cli.main(["detect", *words(detector), "--json", picture]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "images": [
            {
                "image": picture,
                "detections": [
                    {
                        "class": "dog",
                        "confidence": pytest.approx(0.9526 * 0.8808, abs=1e-4),
                        "box": pytest.approx([6, 1, 8, 4]),
                    }
                ],
            }
        ]
    }
    assert cli.main(["detect", *words(detector), picture]) == 0
    assert "dog: 84%  left 6  top 1  width 8  height 4" in capsys.readouterr().out
    assert cli.main(["detect", *words(detector), "--threshold", ".9", picture]) == 0
    assert "0 found" in capsys.readouterr().out


def test_detect_draws_boxes_on_the_picture(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path
) -> None:
    picture = detector["dataset"] / "images/2.png"
    out = tmp_path / "drawn.png"
    assert cli.main(["detect", *words(detector), "--draw", str(out), str(picture)]) == 0
    with Image.open(out) as drawn, Image.open(picture) as original:
        assert drawn.size == original.size
        changed = np.any(np.asarray(drawn) != np.asarray(original), axis=2)
    assert changed[1:5, 14].all()  # the right edge of the frame
    assert not changed[6:, :5].any()  # far from box and caption


def test_detect_draws_several_pictures_into_a_folder(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pictures = [str(detector["dataset"] / f"images/{number}.png") for number in (0, 1)]
    for drawn in (tmp_path / "new" / "drawn", tmp_path / "with.dot", tmp_path):
        assert cli.main(["detect", *words(detector), "--draw", str(drawn), *pictures]) == 0
        assert {"0.png", "1.png"} <= {path.name for path in drawn.iterdir()}
    assert cli.main(["detect", *words(detector), "--draw", str(tmp_path / "one"), pictures[0]]) == 0
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["0.png"]
    capsys.readouterr()
    assert cli.main(["detect", *words(detector), "--draw", str(detector["cfg"]), *pictures]) == 2
    assert "net.cfg: is a file; several pictures need a folder" in capsys.readouterr().err


def test_a_damaged_picture_leaves_no_partial_output(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"?")
    drawn = tmp_path / "drawn"
    good = str(detector["dataset"] / "images/0.png")
    assert cli.main(["detect", *words(detector), "--json", "--draw", str(drawn), good, str(bad)]) == 2
    captured = capsys.readouterr()
    assert list(json.loads(captured.out)) == ["error"]
    assert "bad.png: cannot decode the picture" in captured.err
    assert not drawn.exists()


@pytest.mark.parametrize(
    ("extra", "what"),
    [
        (["--threshold", "1.5"], "not between 0 and 1"),
        (["--names", "{folder}/three.names"], "has 3 names, but the network has 2 classes"),
        (["--draw", "{folder}/out.xyz"], 'unknown picture format ".xyz"'),
    ],
)
def test_bad_options_of_detect_are_errors(
    command: argparse.Namespace,
    detector: dict[str, Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    extra: list[str],
    what: str,
) -> None:
    (tmp_path / "three.names").write_text("a\nb\nc\n")
    picture = str(detector["dataset"] / "images/1.png")
    options = [word.format(folder=tmp_path) for word in extra]
    assert cli.main(["detect", *words(detector), *options, picture]) == 2
    captured = capsys.readouterr()
    assert what in captured.err
    assert captured.out == ""


def test_detect_with_a_classifier_gives_a_hint(
    command: argparse.Namespace, classifier: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    command.engine = classifying()
    picture = next(iter(classifier["dataset"].iterdir()))
    assert cli.main(["detect", *words(classifier), str(picture)]) == 2
    assert "harness eval" in capsys.readouterr().err


def test_calibrate_writes_the_file_and_says_so(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.json"
    arguments = ["calibrate", *words(detector), "--dataset", str(detector["dataset"]), "--limit", "2"]
    assert cli.main([*arguments, "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "out": str(out),
        "method": "minmax",
        "images": 2,
        "tensors": 3,
    }
    assert json.loads(out.read_text())["images"] == 2
    assert cli.main([*arguments, "--out", str(tmp_path / "gone" / "c.json")]) == 2
    assert "the folder does not exist" in capsys.readouterr().err


def multiplied(data: Path, count: int) -> None:
    """Copies the pictures with their labels until there are `count`."""
    originals = sorted(path for path in data.rglob("*.png"))
    for number in range(count - len(originals)):
        original = originals[number % len(originals)]
        copy = original.with_name(f"{original.stem}-{number}.png")
        copy.write_bytes(original.read_bytes())
        label = original.parent.parent / "labels" / f"{original.stem}.txt"
        if label.exists():
            label.with_name(f"{copy.stem}.txt").write_text(label.read_text())


@pytest.mark.parametrize(
    ("kind", "metric", "engine"), [("detector", "map50", detecting), ("classifier", "top1", classifying)]
)
def test_every_policy_is_scored_on_the_same_resamples(
    kind: str, metric: str, engine: Callable[[], StandIn], request: pytest.FixtureRequest
) -> None:
    fp32 = request.getfixturevalue(kind)
    if kind == "classifier":
        fp32["names"] = fp32["cfg"].with_name("labels.list")
    multiplied(fp32["dataset"], 24)
    int8 = fp32 | {"cfg": fp32["cfg"].with_name("int8.cfg")}
    one, other = (evaluate(engine(), **policy, resample=True) for policy in (fp32, int8))
    assert (one["resampled"]["metric"], one["resampled"]["pictures"]) == (metric, 24)
    assert one["resampled"]["draws"] == other["resampled"]["draws"]
    assert one[metric] > other[metric]
    values = np.array([each["resampled"]["values"] for each in (one, other)])
    assert values.mean(axis=1) == pytest.approx([one[metric], other[metric]], abs=0.03)
    assert (values[0] >= values[1]).all()
    assert evaluate(engine(), **fp32, resample=True) == one
    assert "resampled" not in evaluate(engine(), **fp32)
    assert "resampled" not in evaluate(engine(), **fp32, resample=True, limit=19)  # too few pictures


def test_evaluated_pictures_used_for_calibration_are_counted(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "c.json"
    data = ["--dataset", str(detector["dataset"])]
    assert cli.main(["calibrate", *words(detector), *data, "--limit", "2", "--out", str(out)]) == 0
    assert f"from 2 images of {detector['dataset']}" in capsys.readouterr().out
    evaluation = ["eval", *words(detector), *data, "--calibration", str(out), "--json"]
    assert cli.main(evaluation) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["calibration_overlap"] == 2
    assert "2 of the 3 evaluated pictures were also used for calibration" in captured.err


def test_eval_and_calibrate_take_a_split(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.txt").write_text("data/images/0.png\n")
    (tmp_path / "data.yaml").write_text("train: train.txt\nval: data/images\nnames: [cat, dog]\n")
    data = ["--dataset", str(tmp_path / "data.yaml")]
    counts = []
    for split in ([], ["--split", "train"], ["--split", "val"]):
        assert cli.main(["eval", *words(detector), *data, *split, "--json"]) == 0
        counts.append(json.loads(capsys.readouterr().out)["images"])
        command_line = [
            "calibrate",
            *words(detector),
            *data,
            *split,
            "--out",
            str(tmp_path / "c.json"),
            "--json",
        ]
        assert cli.main(command_line) == 0
        counts.append(json.loads(capsys.readouterr().out)["images"])
    assert cli.main(["calibrate", *words(detector), *data, "--out", str(tmp_path / "c.json")]) == 0
    assert "from 1 images of" in (shown := capsys.readouterr().out)
    assert "data.yaml:train" in shown
    assert counts == [3, 1, 1, 1, 3, 3]
    assert cli.main(["eval", *words(detector), *data, "--split", "test"]) == 2
    assert "data.yaml: has no split test; it has train and val" in capsys.readouterr().err


def test_a_warning_if_most_pictures_have_no_labels(
    command: argparse.Namespace, detector: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (0, 1):
        (detector["dataset"] / f"labels/{number}.txt").unlink()
    assert cli.main(["eval", *words(detector), "--dataset", str(detector["dataset"])]) == 0
    captured = capsys.readouterr()
    assert "3 images, 1 boxes, 2 without a label file, stretch" in captured.out
    assert "2 of 3 pictures have no label file and count as background" in captured.err


def test_detect_takes_the_names_of_a_data_yaml(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text("names: {0: cat, 1: hot dog}\n")
    picture = str(detector["dataset"] / "images/1.png")
    assert cli.main(["detect", *words(detector), "--names", str(tmp_path / "mine.yaml"), picture]) == 0
    assert "hot dog: 84%" in capsys.readouterr().out


DYNAMIC = "{default: int8, quantize: 1}"


@pytest.mark.parametrize(("policy", "precision"), [("fp16", "fp32"), (DYNAMIC, "int8")])
def test_commands_apply_policy(
    command: argparse.Namespace,
    detector: dict[str, Any],
    tmp_path: Path,
    policy: str,
    precision: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The engine of these tests tells int8 from anything else."""
    before = detector["cfg"].read_text()
    picture = str(next(iter((detector["dataset"] / "images").iterdir())))
    data = ["--dataset", str(detector["dataset"])]
    (detector["cfg"].parent / "net.names").write_text("cat\ndog\n")
    for words_of in (
        ["eval", *data],
        ["detect", picture],
        ["calibrate", *data, "--out", str(tmp_path / "c.json")],
    ):
        command.engine = detecting()
        assert cli.main([words_of[0], *words(detector), *words_of[1:], "--policy", policy, "--json"]) == 0
        assert {ran for ran, _ in command.engine.runs} == {precision}
        out = json.loads(capsys.readouterr().out)
        if words_of[0] == "eval":
            assert out["policy"] == policy
        if words_of[0] == "detect":  # names are looked for beside the user's own cfg
            assert {found["class"] for found in out["images"][0]["detections"]} <= {"cat", "dog"}
    assert detector["cfg"].read_text() == before


def test_int8_without_ranges_is_refused_with_both_solutions(
    command: argparse.Namespace, detector: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", *words(detector), "--dataset", str(detector["dataset"]), "--policy", "int8"]
    assert cli.main(arguments) == 2
    said = capsys.readouterr().err
    assert "error: --policy int8: layer 0 (convolutional): int8 needs recorded ranges" in said
    assert "Add --calibration" in said
    assert "--policy '{default: int8, quantize: 1}'" in said
    assert not command.engine.runs


def test_calibration_needs_no_ranges(
    command: argparse.Namespace, detector: dict[str, Any], tmp_path: Path
) -> None:
    arguments = ["calibrate", *words(detector), "--dataset", str(detector["dataset"]), "--policy", "int8"]
    assert cli.main([*arguments, "--out", str(tmp_path / "c.json")]) == 0
    assert {precision for precision, _ in command.engine.runs} == {"fp32"}
