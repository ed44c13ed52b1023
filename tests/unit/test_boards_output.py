"""The output of `harness boards` for a board with hostile names."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.boards.inventory import read_boards
from harness.boards.probe.expectations import Mismatch
from harness.boards.probe.facts import BoardFacts, ThermalZone
from harness.commands import boards, boards_probe
from harness.commands.boards_probe import Probed

NAME = "it's [red]x[/red] [/] :heart: \\"


def test_output_of_a_board_is_not_interpreted_as_markup(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "boards.yaml"
    (tmp_path / "known_hosts").touch()
    name = NAME.replace("'", "''")
    file.write_text(f"boards: [{{name: '{name}', target: pi4, host: h, user: u, known_hosts: known_hosts}}]")
    (entry,) = read_boards(file)
    facts = BoardFacts(model=NAME, thermal_zones=(ThermalZone(name=NAME, celsius=48.0),))
    mismatch = Mismatch(message=f"{NAME} message", hint=f"{NAME} hint")
    boards_probe._print(Probed(entry=entry, facts=facts, mismatches=(mismatch,)))
    columns = ("name", "target", "kind", "address", "status", "detail")
    boards._print([{column: NAME if column == "detail" else "" for column in columns}])
    shown = capsys.readouterr().out
    for text in (f"{NAME} (pi4, u@h:22)", f"zone {NAME}", f"{NAME} message", f"{NAME} hint"):
        assert text in shown
    assert shown.count(NAME) == 6
