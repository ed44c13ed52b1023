"""The scripts of `harness --completion`, in real shells."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from harness import cli, completion
from harness.config.targets import all_targets

# Completes the words that it is given, as bash does at a Tab.
BASH = """
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
$(complete -p harness | sed 's/.* -F \\([^ ]*\\) .*/\\1/') harness "${@: -1}" "${@: -2:1}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'source $argv[1]; complete --do-complete "$argv[2]"'


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    written = {}
    for shell in completion.SHELLS:
        written[shell] = folder / f"harness.{shell}"
        written[shell].write_text(completion.script(cli._parser(cli.COMMANDS), shell))
    return written


def completed(shell: str, script: Path, *words: str, folder: Path) -> set[str]:
    """What a shell offers for the last word."""
    arguments = {
        "bash": ["bash", "--norc", "-c", BASH, "bash", str(script), *words],
        "fish": ["fish", "--no-config", "-c", FISH, str(script), " ".join(words)],
    }
    done = subprocess.run(arguments[shell], capture_output=True, text=True, check=True, cwd=folder)
    assert done.stderr == ""
    return {line.partition("\t")[0].rstrip("/") for line in done.stdout.splitlines()} - {""}


@pytest.mark.parametrize("shell", ["bash", *filter(shutil.which, ["fish"])])
def test_a_shell_completes_commands_options_names_and_files(
    shell: str, scripts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "net.cfg").touch()
    (tmp_path / "results").mkdir()

    def offered(*words: str) -> set[str]:
        return completed(shell, scripts[shell], "harness", *words, folder=tmp_path)

    assert offered("pred") == {"predict"}
    assert offered("predict", "--thr") == {"--threads"}
    targets = {name for target in all_targets() for name in (target.name, *target.aliases)}
    assert offered("predict", "--target", "p") == {name for name in targets if name.startswith("p")}
    assert offered("eval", "--policy", "i") == {"int8"}
    assert offered("eval", "--cfg", "n") == {"net.cfg"}
    assert offered("run", "--results", "r") == {"results"}
    assert offered("models", "fe") == {"fetch"}


def test_every_command_and_option_is_in_every_script(scripts: dict[str, Path]) -> None:
    words = {
        word for action in completion._actions(cli._parser(cli.COMMANDS)) for word in action.option_strings
    }
    assert {"--target", "--fail-on", "--completion"} <= words
    for shell, script in scripts.items():
        text = script.read_text()
        for word in (*cli.COMMANDS, *words):
            assert word.lstrip("-") in text, (shell, word)


def test_the_command_prints_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--completion", "bash"])
    assert caught.value.code == 0
    assert "complete -o" in capsys.readouterr().out
