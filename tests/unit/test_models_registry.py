"""The list of models and the command that shows it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.cli import main
from harness.config.darknet_cfg import parse_cfg, read_cfg
from harness.config.document import read_document
from harness.config.policy import apply
from harness.config.sweep_file import MATRIX
from harness.errors import ConfigurationError
from harness.models.registry import all_models, find_model
from harness.resources import resource


def test_the_list_that_ships_is_readable_and_its_cfgs_are_networks() -> None:
    models = {model.name: model for model in all_models()}
    assert models["digits"].published is None
    assert models["digits"].weights.exists()
    published = models["yolov3-tiny"].published
    assert published is not None
    assert published.bytes == 35_434_956
    assert len(read_cfg(models["yolov3-tiny"].cfg).weighted) == 13


def test_an_unknown_model_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="yolov3-tiny"):
        find_model("yolo3-tiny")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sha256: 12ab", "64 lower-case"),
        ("bytes: many", "whole number"),
        ("url: ftp://example.org/w", "http or https"),
        ("mirror: http://example.org/w", "unknown key mirror"),
    ],
)
def test_a_wrong_entry_is_an_error_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.cfg").write_text("[net]\n")
    right = {"url": "http://example.org/w", "bytes": "4", "sha256": "0" * 64}
    key = line.partition(":")[0]
    entries = [line] + [f"{name}: {value}" for name, value in right.items() if name != key]
    text = (
        "models:\n  - name: a\n    description: one\n    cfg: a.cfg\n    weights: a.weights\n    published:\n"
    )
    (tmp_path / "models.yaml").write_text(text + "".join(f"      {entry}\n" for entry in entries))
    with pytest.raises(ConfigurationError, match=message) as caught:
        all_models(tmp_path / "models.yaml")
    assert "models.yaml:7" in str(caught.value)


def test_the_command_lists_models(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models"]) == 0
    assert "harness models fetch" in capsys.readouterr().out or all(m.weights.exists() for m in all_models())
    assert main(["models", "list", "--json"]) == 0
    listed = {model["name"]: model for model in json.loads(capsys.readouterr().out)["models"]}
    assert listed["digits"]["present"]
    assert listed["digits"]["url"] is None


def test_a_model_that_ships_cannot_be_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "fetch", "digits"]) == 2
    assert "ships with harness" in capsys.readouterr().err


def test_fetching_an_unreachable_address_is_status_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    words = [
        "models",
        "fetch",
        "yolov3-tiny",
        "--to",
        str(tmp_path),
        "--url",
        "http://127.0.0.1:1/w",
        "--quiet",
    ]
    assert main(words) == 3
    error = capsys.readouterr().err
    assert error.startswith("harness: error: http://127.0.0.1:1/w: no connection")
    assert list(tmp_path.iterdir()) == []


def test_yolov3_tiny_carries_every_precision_key() -> None:
    cfg = read_cfg(resource("cfg", "yolov3-tiny", "yolov3-tiny.cfg"))
    for key in ("fp32=1", "fp16=0", "int8=0", "quantize=0"):
        assert cfg.text.count(key + "\n") == 13


def test_the_mixed_yolov3_tiny_is_its_policy_applied_to_the_plain_one() -> None:
    sweep = read_document(resource("cfg", "sweeps", "yolov3-tiny.yaml"))
    policies = MATRIX.fields["policies"].shape.read(sweep.entries["policies"])
    assert isinstance(policies, tuple)
    mixed = next(policy for policy in policies if policy.name == "int8-dynamic-fp32-ends")
    plain = read_cfg(resource("cfg", "yolov3-tiny", "yolov3-tiny.cfg"))
    shipped = read_cfg(resource("cfg", "yolov3-tiny", "yolov3-tiny-mixed.cfg"))
    applied = parse_cfg(apply(mixed, plain.text), "applied")
    asked = [(layer.index, layer.precision, layer.quantize) for layer in applied.weighted]
    assert [(layer.index, layer.precision, layer.quantize) for layer in shipped.weighted] == asked
