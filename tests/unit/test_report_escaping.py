"""Whatever stands in a name, a note or an error: reports show it, and take nothing in it for markup."""

from __future__ import annotations

import contextlib
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from harness.measure.result import TimePoint
from harness.report.data import data
from harness.report.html import html
from harness.report.markdown import markdown
from harness.report.result import Report, Row
from harness.report.terminal import print_report
from harness.text import one_paragraph

MARKUP = ["<script>", "</td>", "&lt;", "]]>", "-->", '" onclick="', "'", "|", "\\", "\\|", "`", "*", "[x](y)"]
MARKUP += ["[red]", "[/]", "[link=x]", ":heart:", "\n", "\r\n", "\t", "\x1b[31m", "\x00", "\u202e", "\udce9"]
NAMES = st.lists(st.sampled_from(MARKUP) | st.text(st.characters(), max_size=3), min_size=1, max_size=4).map(
    "".join
)


def report(name: str) -> Report:
    """The name in every place where one can be."""
    row = Row(
        model=f"m{name}",
        policy=f"p{name}",
        target="host",
        runtime="engine",
        toolchain="zig",
        threads=1,
        options=f"o{name}",
        emulated=False,
        status="failed",
        error=f"e{name}",
    )
    points = [TimePoint(seconds=float(second), fps=5.0, celsius=50.0, clock=1.0) for second in range(3)]
    row = replace(row, time_series=points)
    step = Row(**(vars(row) | {"step": f"s{name}", "note": f"n{name}", "target": f"t{name}"}))
    return Report(sweep=f"w{name}", folder=Path(), environment={f"k{name}": f"v{name}"}, rows=[row, step])


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(f"{tag} {attrs}")

    def handle_endtag(self, tag: str) -> None:
        self.tags.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


PLAIN = Page(html(report("")))


@given(name=NAMES)
def test_a_page_has_the_elements_that_it_has_with_harmless_names(name: str) -> None:
    page = Page(html(report(name)))
    assert page.tags == PLAIN.tags
    for place in "mpos":
        assert one_paragraph(f"{place}{name}") in page.texts
    assert f"{one_paragraph(f'k{name}')}: {one_paragraph(f'v{name}')}" in page.texts


@given(name=NAMES)
def test_a_table_in_markdown_has_the_cells_that_it_has_with_harmless_names(name: str) -> None:
    text = markdown(report(name))
    assert text.count("\n") == markdown(report("")).count("\n")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.findall(r" ((?:[^\\|]|\\.)*?) (?=\|)", row) for row in rows]
    shown = [[re.sub(r"\\(.)", r"\1", cell) for cell in row] for row in cells]
    assert [len(row) for row in shown] == [len(shown[0])] * 3 + [len(shown[3])] * 3
    assert one_paragraph(f"m{name}") in shown[2]
    assert one_paragraph(f"s{name}") in shown[5]
    for line in text.splitlines():
        bare = re.sub(r"\\.", "", line)
        assert not set(bare) & set("<>`*_[]{}~&")


@given(name=NAMES)
@example(name=3 * "\x1b\U0002fa1e" + "\x1b\x85\U0002fa1e")
def test_a_terminal_shows_names_as_they_are(name: str) -> None:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        print_report(report(name))
    shown = output.getvalue()
    for place in "mpo":
        for word in one_paragraph(f"{place}{name}").split():  # a column breaks a long name at its spaces
            assert word in shown
    assert all(line.isprintable() for line in shown.split("\n"))


@given(name=NAMES)
def test_the_json_has_names_as_they_are(name: str) -> None:
    cell = json.loads(json.dumps(data(report(name))))["cells"][1]
    assert [cell[key] for key in ("model", "step", "error")] == [f"m{name}", f"s{name}", f"e{name}"]
