"""Text as it may be shown."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.text import one_line, one_paragraph, printable, printable_lines

ANYTHING = st.text(st.characters())  # also halves of characters, as names of files have them


@given(text=ANYTHING)
def test_printable_text_is_one_line_without_control_characters(text: str) -> None:
    assert printable(text).isprintable()


def test_ordinary_names_are_shown_as_they_are() -> None:
    assert printable("it's Ünïcode $(a) 2") == "it's Ünïcode $(a) 2"
    assert printable("a\n\x1b[31m\u202e") == r"a\n\x1b[31m\u202e"


@given(text=ANYTHING)
def test_lines_stay_lines(text: str) -> None:
    assert [line.isprintable() for line in printable_lines(text).split("\n")] == [True] * (
        1 + text.count("\n")
    )


@given(text=ANYTHING)
def test_a_paragraph_is_one_line_of_words(text: str) -> None:
    shown = one_paragraph(text)
    assert shown.isprintable()
    assert shown.split() == [printable(word) for word in text.split()]


def test_a_name_of_a_file_in_another_encoding_can_be_printed() -> None:
    assert printable("caf\udce9") == r"caf\udce9"


@given(text=st.text())
def test_text_of_a_board_is_one_line_without_double_blanks(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert line == line.strip()
    assert "  " not in line
    assert len(line) <= 200


def test_unprintable_characters_separate_words() -> None:
    assert one_line("\tRaspberry Pi 4\nModel B\x1b[31m \0") == "Raspberry Pi 4 Model B [31m"
    assert one_line("x" * 300) == "x" * 200
