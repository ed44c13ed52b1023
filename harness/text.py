"""Names, and what boards print, as they may be shown: nothing in them moves a cursor or colours a line."""

from __future__ import annotations

LONGEST_ERROR = 500  # characters of what a program said
_LONGEST = 200  # characters of a text that is only shown


def printable(text: str) -> str:
    """Text on one line, with control characters as escapes."""
    if text.isprintable():  # as nearly always
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def printable_lines(text: str) -> str:
    """The same with the ends of its lines as they are."""
    return "\n".join(map(printable, text.split("\n")))


def one_paragraph(text: str) -> str:
    """The same on one line, where all blanks are one space."""
    return printable(" ".join(text.split()))


def one_line(text: str) -> str:
    """What a board says of itself, to be shown: blanks for what cannot be printed, one at a time, and cut."""
    # As nearly always: of all blanks only the space is printable.
    if len(text) <= _LONGEST and text.isprintable() and "  " not in text:
        return text.strip()
    line = text[: 4 * _LONGEST]
    if not line.isprintable():
        line = "".join(letter if letter.isprintable() else " " for letter in line)
    return " ".join(line.split())[:_LONGEST].strip()


def brief(text: str) -> str:
    """What a program said, to be shown in an error: on one line, with control characters as escapes.

    Of a long text the middle is left out: programs name the file first and the cause last.
    """
    text = text.strip()
    if len(text) <= LONGEST_ERROR:
        return printable(text)
    half = LONGEST_ERROR // 2
    return f"{printable(text[:half])} … {printable(text[-half:])}"


def is_utf8(name: str) -> bool:
    """Whether a name that the system gave is UTF-8: Python keeps other bytes as halves of characters."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
