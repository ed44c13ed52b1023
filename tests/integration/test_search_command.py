"""harness search: on this machine and for an emulated board."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.config.darknet_cfg import read_cfg
from harness.config.policy import applied
from harness.config.policy_file import read_policy
from harness.images.availability import emulation_missing
from harness.prediction.llvm import find_llvm
from harness.qemu.profiler import profiling_missing
from harness.report.search_page import answer

pytestmark = pytest.mark.engine

DIGITS = Path(__file__).resolve().parents[2] / "cfg" / "digits"
CALIBRATION = ["--calibration", str(DIGITS / "digits.calibration.json")]
NETWORK = ["--cfg", str(DIGITS / "digits.cfg"), "--weights", str(DIGITS / "digits.weights"), *CALIBRATION]
PICTURES = ["--dataset", str(DIGITS / "data"), "--limit", "16"]


def search(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert cli.main(["search", "--json", *NETWORK, *PICTURES, *words]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.emulation
def test_the_front_for_a_board_is_verified_and_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if missing := [*emulation_missing(), *profiling_missing()]:
        pytest.skip("; ".join(missing))
    if find_llvm() is None:
        pytest.skip("needs llvm-mca")
    found = search(
        capsys, "--target", "pi4", "--max-drop", "2", "--min-agreement", "90", "--out", str(tmp_path)
    )
    best = found["best"]
    assert best["verified"]["ms"] == pytest.approx(best["ms"], rel=0.1)
    assert best["agreement"] >= 0.9
    fp32, _, int8 = found["uniform"]
    assert str(fp32["accuracy_change"]) == "0.0"  # not -0.0
    assert best["ms"] < fp32["ms"]
    assert [row["ms"] for row in found["front"]] == sorted(row["ms"] for row in found["front"])
    assert found["evaluations"] > 2 * len(read_cfg(DIGITS / "digits.cfg").weighted)
    for place, row in enumerate(found["front"], start=1):
        cfg = read_cfg(Path(row["cfg"]))
        policy = read_policy(f"@{tmp_path / f'policy-{place}.yaml'}")
        assert applied(policy, read_cfg(DIGITS / "digits.cfg")).text == cfg.text
    assert (tmp_path / "ranges.json").read_bytes() == (DIGITS / "digits.calibration.json").read_bytes()
    weighted = {layer.index for layer in cfg.weighted}
    page = (tmp_path / "search.html").read_text()
    assert found["page"] == str(tmp_path / "search.html")
    assert answer(found) in page
    times = [layer["ms"] for layer in found["best_layers"]]
    assert sum(times) == pytest.approx(best["ms"])
    assert len(times) == len(cfg.layers)
    assert Counter(
        layer["precision"] for layer in found["best_layers"] if layer["index"] in weighted
    ) == Counter({name: count for name, count in best["layers"].items() if count})
    assert int8["layers"]["int8"] == len(cfg.weighted)
    # The same again, for this machine: no evaluation is repeated.
    again = search(capsys, "--target", "host", "--threads", "2", "--min-fps", "1", "--budget", "1s")
    assert (again["predicted"], again["threads"]) == (False, 2)
    assert again["executed"] < again["evaluations"]
    assert (
        cli.main(["search", *NETWORK, *PICTURES, "--target", "host", "--min-fps", "1e9", "--budget", "1s"])
        == 0
    )
    assert "No policy meets the limits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--limit", "3"], "3 pictures are too few"),
        (["--target", "nowhere"], "nowhere"),
        (["--max-drop", "101"], "--max-drop"),
    ],
)
def test_what_cannot_be_searched_is_one_error(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    try:
        status = cli.main(["search", *NETWORK, *PICTURES, "--target", "host", *words])
    except SystemExit as end:
        status = int(str(end.code))
    assert status == 2
    assert said in capsys.readouterr().err
