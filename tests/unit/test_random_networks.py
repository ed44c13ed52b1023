"""What the campaign of random networks takes for a finding, with programs that print what a test wants."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import random_networks
from random_networks import PATHS, Campaign, Programs, Tally

Earlier = dict[str, list[str]]


def programs(folder: Path, differential: str, mpe: str = "exit 1") -> Programs:
    """Shell scripts in place of the engine's programs; `$2` is the first seed."""
    for name, body in (("differential", differential), ("mpe", mpe)):
        path = folder / PATHS[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        written = 'case "$*" in *--only-write*) mkdir -p "$5"; exit 0;; esac\n'
        path.write_text(f"#!/bin/sh\n{written if name == 'differential' else ''}{body}\n")
        path.chmod(0o755)
    return Programs(folder=folder)


def row(**changes: object) -> str:
    common = {"runs": 50, "refused": "", "int8_digests": [], "kernels": {"int8 avx2 gemm": 3}, "findings": []}
    text = json.dumps(common | changes)
    return f'echo "seed $2"; echo \'{{"seed": \'"$2"\', {text[1:]}\''


def run(folder: Path, found: Programs, networks: int = 2, earlier: Earlier | None = None) -> Tally:
    campaign = Campaign(found, folder / "findings", earlier=earlier or {})
    return campaign.run(7, seconds=60, networks=networks)


def test_networks_without_findings_are_counted(tmp_path: Path) -> None:
    tally = run(tmp_path, programs(tmp_path, row()))
    assert tally.holds
    assert (tally.networks, tally.configurations, tally.seeds) == (2, 100, [7, 8])
    assert tally.layers == {"int8 avx2 gemm": 6}


def test_json_of_a_campaign_serves_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = programs(tmp_path, row(int8_digests=["a1"]), mpe='echo \'{"digests": ["a1"]}\'')
    monkeypatch.setattr(random_networks, "build_programs", lambda *_, **__: found)
    words = ["random_networks", "--networks", "2", "--seed", "7", "--folder", str(tmp_path / "findings")]
    monkeypatch.setattr("sys.argv", [*words, "--json"])
    assert random_networks.main() == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["layers"] == {"int8 avx2 gemm": 6}
    (tmp_path / "earlier.json").write_text(printed)
    monkeypatch.setattr("sys.argv", [*words, "--compare", str(tmp_path / "earlier.json")])
    assert random_networks.main() == 0
    table = capsys.readouterr().out
    assert "2 networks, seeds 7 to 8" in table
    assert re.search("digests compared with another campaign's +│ +2", table)


def test_running_no_network_is_a_failure(tmp_path: Path) -> None:
    assert not Tally().holds
    tally = run(tmp_path, programs(tmp_path, "echo differential: no space >&2; exit 2"))
    assert not tally.holds
    assert tally.findings[0] == "seed 7: exit status 2: differential: no space"


def test_a_finding_is_named_and_its_network_is_kept(tmp_path: Path) -> None:
    tally = run(tmp_path, programs(tmp_path, row(findings=["heads differ"]) + "; exit 1"), networks=1)
    assert tally.findings == ["seed 7: heads differ"]
    assert (tmp_path / "findings" / "seed-7" / "finding.txt").read_text() == "heads differ\n"


def test_a_crash_is_the_finding_of_its_seed_and_the_next_seed_follows(tmp_path: Path) -> None:
    crash = 'echo "seed $2"; echo "SUMMARY: AddressSanitizer: heap-buffer-overflow gemm.h:7" >&2; exit 1'
    tally = run(tmp_path, programs(tmp_path, f'if [ "$2" = 7 ]; then {crash}; fi; {row()}'))
    summary = "SUMMARY: AddressSanitizer: heap-buffer-overflow gemm.h:7"
    assert tally.findings == [f"seed 7: exit status 1: {summary}"]
    assert tally.networks == 1
    assert summary in (tmp_path / "findings" / "seed-7" / "finding.txt").read_text()


def test_a_leak_is_found_after_the_last_network(tmp_path: Path) -> None:
    leak = 'echo "SUMMARY: AddressSanitizer: 8 byte(s) leaked in 1 allocation(s)." >&2; exit 23'
    tally = run(tmp_path, programs(tmp_path, f"{row()}; {leak}"), networks=1)
    assert tally.networks == 1
    assert "8 byte(s) leaked" in tally.findings[0]


def test_a_network_that_takes_too_long_is_a_finding(tmp_path: Path) -> None:
    tally = run(tmp_path, programs(tmp_path, 'echo "seed $2"; kill -s ALRM $$'), networks=1)
    assert tally.findings == ["seed 7: takes more than 60 seconds of a processor, or waits for ever"]


def test_digests_are_compared_with_an_earlier_campaign_and_the_command_line(tmp_path: Path) -> None:
    found = programs(tmp_path, row(int8_digests=["a1"]), mpe='echo \'{"digests": ["a1"]}\'')
    same = run(tmp_path, found, networks=1, earlier={"7": ["a1"]})
    assert same.holds
    assert (same.compared_digests, same.command_lines, same.digests) == (1, 1, {"7": ["a1"]})
    other = run(tmp_path, found, networks=1, earlier={"7": ["b2"]})
    assert other.findings == ["seed 7: other int8 digests than in the campaign compared with"]
    found = programs(tmp_path, row(int8_digests=["a1"]), mpe='echo \'{"digests": ["c3"]}\'')
    assert run(tmp_path, found, networks=1).findings == ["seed 7: `mpe forward` prints other digests"]
    found = programs(tmp_path, row(int8_digests=["a1"]), mpe="echo mpe: crashed >&2; exit 139")
    assert "`mpe forward` fails: mpe: crashed" in run(tmp_path, found, networks=1).findings[0]
