"""The commands of the documentation's `sh` blocks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = (*sorted(REPOSITORY.glob("*.md")), *sorted(REPOSITORY.glob("docs/*.md")))


def blocks(text: str, language: str) -> list[str]:
    """The fenced blocks of a page in a language."""
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)


def scripts(page: Path) -> list[str]:
    """The `sh` blocks of a page, and the steps of its workflows."""
    text = page.read_text(encoding="utf-8")
    found = blocks(text, "sh")
    for block in blocks(text, "yaml"):
        document = yaml.safe_load(block)
        jobs = document.get("jobs", {}) if isinstance(document, dict) else {}
        found += [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    return found


def commands(script: str) -> Iterator[list[str]]:
    """The words of each simple command of a script, without redirections."""
    for line in script.replace("\\\n", " ").splitlines():
        inner = re.sub(r'"\$\((.*)\)"', r"; \1", line)  # eval "$(command)"
        lexer = shlex.shlex(inner, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in (*lexer, ";"):
            if set(word) <= set("&|;()"):
                if words:
                    yield words
                words = []
            else:
                words.append(word)


def arguments_of_harness(words: list[str]) -> list[str] | None:
    """The arguments of a command of `harness`, or None for another program."""
    if Path(words[0]).name == "sudo":
        words = words[1:]
    if Path(words[0]).name != "harness":
        return None
    end = next((at for at, word in enumerate(words) if set(word) <= set("<>")), len(words))
    return words[1:end]
