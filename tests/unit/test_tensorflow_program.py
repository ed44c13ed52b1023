"""What is checked of a Keras model or SavedModel before its conversion. TensorFlow is not loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli
from harness.importing import tensorflow_models
from harness.importing.tensorflow_program import RefusedError, check_layers, check_version, fixed, numbered


@pytest.mark.parametrize(
    ("declared", "wanted", "shape"),
    [
        ((None, 8, 6, 3), None, (1, 8, 6, 3)),
        ((2, 8, 6, 3), None, (2, 8, 6, 3)),  # refused by the import
        ((None, None, None, 3), (1, 3, 8, 6), (1, 8, 6, 3)),
        ((None, 3, None, None), (1, 3, 8, 6), (1, 3, 8, 6)),
        ((None, None, None, 16), (1, 16, 8, 6), (1, 8, 6, 16)),
        ((None, None), (1, 40), (1, 40)),
        ((None, 49, 10), None, (1, 49, 10)),
    ],
)
def test_open_sizes_are_fixed(
    declared: tuple[int | None, ...], wanted: tuple[int, ...] | None, shape: tuple[int, ...]
) -> None:
    assert fixed(declared, wanted) == shape


@pytest.mark.parametrize("wanted", [None, (1, 3, 8)])
def test_a_size_that_stays_open_is_refused(wanted: tuple[int, ...] | None) -> None:
    with pytest.raises(RefusedError, match=r"not fixed: 1,\?,6,3") as refusal:
        fixed((None, None, 6, 3), wanted)
    assert "--input-shape 1,3,H,6, or in a sweep input_shape: [1, 3, H, 6]." in refusal.value.hint
    with pytest.raises(RefusedError) as refusal:
        fixed((None, 64, None, 1), wanted)
    assert "--input-shape 1,1,64,W," in refusal.value.hint


@pytest.mark.parametrize("version", ["2.15.0", "3.0.5", "3.11.3"])
def test_an_old_keras_is_refused(version: str) -> None:
    with pytest.raises(RefusedError, match=f"Keras {version} may execute code") as refusal:
        check_version(version)
    assert "pip install -U 'keras>=3.12'" in refusal.value.hint


@pytest.mark.parametrize("version", ["3.12.0", "3.15.1", "4.0.0.dev1"])
def test_a_newer_keras_is_accepted(version: str) -> None:
    check_version(version)


def test_a_lambda_layer_is_found_at_any_depth() -> None:
    layer = {"class_name": "Lambda", "config": {"name": "bad"}}
    for config in (
        layer,
        {"config": {"layers": [{"class_name": "Functional", "config": {"layers": [layer]}}]}},
    ):
        with pytest.raises(RefusedError, match="'bad' is a Lambda layer"):
            check_layers(config)
    check_layers({"config": {"layers": [{"class_name": "Dense", "config": {"name": "Lambda"}}]}})


def test_outputs_are_sorted_by_their_numbers() -> None:
    names = ["output_10", "output_2", "boxes", "output_0", "2", "output"]
    assert sorted(names, key=numbered) == ["2", "boxes", "output", "output_0", "output_2", "output_10"]


def test_a_missing_tensorflow_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensorflow_models, "find_spec", lambda package: None)
    path = tmp_path / "model.h5"
    path.write_bytes(b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0")
    assert cli.main(["import", str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert f"{path}: is an HDF5 file, as Keras writes its models, and the Python package tensorflow" in error
    assert "pip install 'harness[import,train]'" in error
