"""Names that a shell, a page, a table or a terminal could take for something else, in every place of a sweep.

Nothing of them is executed, files and results are right, and what cannot be is refused with file and line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from arm64_board import running_board
from hostile_names import CONTROL, LINE, PATH, Place, harness, hostile_place, nothing_was_executed
from ssh_server import Server
from tiny_sweep import results, run

pytestmark = [pytest.mark.engine, pytest.mark.emulation]

STYLE = re.compile(r"--rows:\d+|min-height:\d+px")  # all that elements have of their own


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_board(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture(scope="module")
def place(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return hostile_place(server, tmp_path_factory.mktemp("names"))


@pytest.fixture(scope="module")
def report(place: Place) -> dict[str, Any]:
    return run(place.sweep, "--boards", str(place.boards), environment=place.environment)


def test_a_sweep_works(place: Place, server: Server, report: dict[str, Any]) -> None:
    for cell in report["cells"]:
        assert (cell["status"], cell["board"], cell["emulated"]) == ("done", LINE, False)
        assert cell["digest_matches_host"] is True
        assert cell["throttled"] is False
    assert [cell["step"] for cell in report["cells"]] == [LINE, "<img src=x onerror=alert(1)>"]
    assert {row[2] for row in results(place.sweep)} == {"done"}
    assert nothing_was_executed(place, server)
    deployed = {path.name for path in (server.folder / PATH / "objects").glob("*/*")}
    assert f"{PATH}.weights" in deployed


class Page(HTMLParser):
    """What a browser makes of a report: elements with their attributes, and all text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[tuple[str, str]] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements |= {(tag, name) for name, _ in attrs} or {(tag, "")}

    def handle_data(self, data: str) -> None:
        self.text += data


def without_libraries(page: str) -> str:
    """What the report itself has written: all but the script that draws, at the end."""
    return page.split("<script>", maxsplit=1)[0]


def test_the_page_has_no_element_or_attribute_from_a_name(place: Place, report: dict[str, Any]) -> None:
    text = without_libraries((place.results / "report.html").read_text())
    page = Page(text)
    names = {name for name, _ in page.elements}
    assert not names & {"img", "a", "red"}
    assert {attribute for _, attribute in page.elements} <= {
        *("", "lang", "charset", "name", "content", "class", "http-equiv"),
        *("id", "tabindex", "role", "aria-label", "aria-labelledby", "type", "scope"),
        "style",
    }
    assert all(STYLE.fullmatch(value) for value in re.findall(r'style="([^"]*)"', text))
    assert {attribute for name, attribute in page.elements if name == "script"} <= {"type", "class"}
    assert LINE in page.text
    assert "<img src=x onerror=alert(1)>" in page.text
    assert not CONTROL.search(page.text)


def test_tables_in_markdown_keep_their_columns(place: Place, report: dict[str, Any]) -> None:
    lines = (place.results / "report.md").read_text().split("\n")
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + len(report["cells"])
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert not any(CONTROL.search(line) for line in lines)


def test_the_json_is_exact(place: Place, report: dict[str, Any]) -> None:
    assert json.loads((place.results / "report.json").read_text()) == report
    assert report["results"] == str(place.results)
    assert [cell["note"] for cell in report["cells"]] == [f"{PATH}{LINE}", ""]


@pytest.mark.parametrize("form", ["table", "markdown", "html"])
def test_reports_have_no_control_characters(place: Place, report: dict[str, Any], form: str) -> None:
    shown = without_libraries(harness(place, "report", str(place.results), "--format", form).stdout)
    assert not CONTROL.search(shown)
    if form == "table":
        assert "[red]ü;" in " ".join(shown.split())


def test_boards_are_listed_and_probed(place: Place, server: Server) -> None:
    boards = ["boards", "--boards", str(place.boards)]
    row = json.loads(harness(place, *boards, "--json").stdout)["boards"][0]
    assert (row["name"], row["status"]) == (LINE, "answers")
    shown = harness(place, *boards).stdout
    assert "[red]ü;" in shown
    assert not CONTROL.search(shown)
    # This machine is no Raspberry Pi.
    (row,) = json.loads(harness(place, *boards, "probe", LINE, "--json", status=4).stdout)["boards"]
    assert (row["name"], row["facts"]["kernel"]) == (LINE, os.uname().release)
    assert not CONTROL.search(harness(place, *boards, "probe", status=4).stdout)
    assert nothing_was_executed(place, server)


def test_models_are_calibrated_evaluated_and_run_on_pictures(place: Place, server: Server) -> None:
    model = [f"--cfg={PATH}.cfg", f"--weights={PATH}.weights"]
    out = place.folder / f"{PATH}.json"
    shown = harness(place, "calibrate", *model, f"--dataset={PATH}", f"--out={out}").stdout
    assert "ranges of" in shown
    assert not CONTROL.search(shown)
    assert json.loads(out.read_text())
    scores = harness(place, "eval", *model, f"--dataset={PATH}", f"--calibration={out}", "--json").stdout
    assert json.loads(scores)["images"] == 6
    (place.folder / f"{PATH}.names").write_text(f"{LINE}\nother\n")
    picture = f"./{PATH}/images/{PATH}0.png"
    words = ["detect", *model, "--threshold=0.001", f"--draw={PATH}.png", picture]
    found = json.loads(harness(place, *words, "--json").stdout)["images"]
    assert [row["image"] for row in found] == [str(Path(picture))]
    assert {box["class"] for box in found[0]["detections"]} <= {LINE, "other"}
    assert (place.folder / f"{PATH}.png").is_file()
    assert not CONTROL.search(harness(place, *words).stdout)
    assert nothing_was_executed(place, server)


def test_a_cached_build_is_found_and_a_path_that_cmake_misreads_is_refused(
    place: Place, server: Server
) -> None:
    built = json.loads(harness(place, "build", "--target=host", "--json").stdout)
    assert Path(built["engine"]).is_file()
    assert not CONTROL.search(harness(place, "build", "--target=host").stdout)
    target = place.folder / f"target {PATH}.yaml"
    target.write_text('{description: a board, glibc: "2.36"}')
    for words in (["--target=host", "--flags=-D'A=$(touch executed)'"], [f"--target={target}"]):
        shown = harness(place, "build", *words, status=3).stderr
        assert "a build cannot have" in shown
        assert not CONTROL.search(shown)
    assert nothing_was_executed(place, server)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("models", {"name": LINE}, "expected a name of letters"),
        ("policies", {"name": LINE}, "expected a name of letters"),
        ("policies", {"name": "p", "layers": {LINE: "int8"}}, "is not a layer"),
        ("steps", {"name": PATH}, "which has unprintable characters"),
        ("targets", LINE, "unknown target -rf it's"),
        ("policies", LINE, "unknown policy -rf it's"),
        ("models", {"cfg": LINE}, "does not exist"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_its_line(
    place: Place, server: Server, key: str, value: Any, said: str
) -> None:
    document = json.loads(place.sweep.read_text())
    known = document[key][0] if isinstance(document[key][0], dict) else {}
    document[key] = [known | value if isinstance(value, dict) else value]
    file = place.folder / "wrong.yaml"
    file.write_text(json.dumps(document, indent=1))  # the value is on a line of its own
    shown = harness(place, "run", "--matrix", file.name, "--boards", str(place.boards), status=2).stderr
    number = int(re.match(r"harness: error: wrong\.yaml:([0-9]+): ", shown)[1])  # type: ignore[index]
    line = file.read_text().splitlines()[number - 1]
    assert "touch executed" in line or line.strip() == "{"
    assert said in shown
    assert not CONTROL.search(shown)
    assert nothing_was_executed(place, server)


def test_a_section_that_is_none_is_refused_with_its_line(place: Place, server: Server) -> None:
    cfg = place.folder / "section.cfg"
    cfg.write_bytes(f"[net]\nwidth=32\nheight=32\nchannels=3\n[{LINE}\x1b[31m]\n".encode())
    words = ["detect", "--cfg=section.cfg", f"--weights={PATH}.weights", f"./{PATH}/images/{PATH}0.png"]
    shown = harness(place, *words, status=2).stderr
    assert shown.startswith("harness: error: section.cfg:5: ")
    assert not CONTROL.search(shown)
    assert nothing_was_executed(place, server)
