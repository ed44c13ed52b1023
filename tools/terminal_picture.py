"""`python -m tools.terminal_picture F.svg COMMAND...`: an SVG of a command's output on a terminal."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import pty
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

_LINES = 50


def output_of(command: Sequence[str], columns: int) -> str:
    """Standard output of a command that writes to a terminal of this width. Raises CalledProcessError."""
    reader, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(columns)}
    environment.pop("NO_COLOR", None)
    with subprocess.Popen(command, stdout=terminal, env=environment) as process:
        os.close(terminal)
        parts = []
        with contextlib.suppress(OSError):  # EIO: the command closed the terminal
            while part := os.read(reader, 65536):
                parts.append(part)
    os.close(reader)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return b"".join(parts).decode().replace("\r\n", "\n")


def draw(text: str, columns: int, title: str) -> str:
    """The SVG of a text with ANSI escape sequences."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=columns, file=nowhere, force_terminal=True)
        console.print(Text.from_ansi(text.strip("\n")), soft_wrap=True)
        return console.export_svg(title=title, theme=MONOKAI, unique_id="terminal")


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the picture and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.terminal_picture", description=__doc__)
    parser.add_argument("--columns", type=int, default=100, metavar="N", help="width (default: 100)")
    parser.add_argument("--title", metavar="TEXT", help="title of the window (default: the command)")
    parser.add_argument("picture", type=Path, metavar="F.svg", help="the file to write")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command to run")
    options = parser.parse_args(arguments)
    text = output_of(options.command, options.columns)
    svg = draw(text, options.columns, options.title or shlex.join(options.command))
    options.picture.write_text(svg, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
