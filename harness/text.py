"""Makes names and output of boards safe to show: without control characters."""

from __future__ import annotations

LONGEST_ERROR = 500  # characters of a program's output in an error
_LONGEST = 200  # characters of a text in a table or message


def printable(text: str) -> str:
    """Text on one line, with control characters as escapes."""
    if text.isprintable():  # the usual case
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def printable_lines(text: str) -> str:
    """The same, but line ends stay."""
    return "\n".join(map(printable, text.split("\n")))


def one_paragraph(text: str) -> str:
    """Text on one line, with each run of whitespace replaced by one space."""
    return printable(" ".join(text.split()))


def one_line(text: str) -> str:
    """Text from a board on one line: unprintable characters become single spaces, and long text is cut."""
    # The usual case: the space is the only printable whitespace.
    if len(text) <= _LONGEST and text.isprintable() and "  " not in text:
        return text.strip()
    line = text[: 4 * _LONGEST]
    if not line.isprintable():
        line = "".join(letter if letter.isprintable() else " " for letter in line)
    return " ".join(line.split())[:_LONGEST].strip()


def brief(text: str) -> str:
    """A program's output for an error: on one line, with control characters as escapes.

    The middle of a long text is omitted: programs print the file first and the cause last.
    """
    text = text.strip()
    if len(text) <= LONGEST_ERROR:
        return printable(text)
    half = LONGEST_ERROR // 2
    return f"{printable(text[:half])} … {printable(text[-half:])}"


def is_utf8(name: str) -> bool:
    """Whether a name from the system is UTF-8: Python represents other bytes as surrogates."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
