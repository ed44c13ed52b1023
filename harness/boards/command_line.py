"""Command lines for a shell at the other end of a connection."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from harness.boards.base import Completed

_PID_LINE = re.compile(r"\A([1-9][0-9]{0,9})\n")

# The start of a process in ticks since boot, nothing for one that is gone: field 22 of its `stat`, where a
# name that may hold blanks and brackets comes before the third. To be called in `$()`, as it changes the
# options; then it is also another process than the one it asks about: QEMU makes up what is said of itself.
STARTED = r"""
started() {
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
  set -f
  set -- ${stat##*) }
  if [ "$1" != Z ]; then echo "${20}"; fi
}
"""

# Runs words as the leader of a process group, so that all they start can be killed with it. OpenSSH makes
# every command one; where a server does not, as Dropbear's, `setsid` does, and `led` says so to the words.
_LEADER = r"""
group=$(
  read -r stat <"/proc/$$/stat"
  set -f
  set -- ${stat##*) }
  echo "$3"
)
unset led
if [ "$group" = $$ ]; then exec "$@"; fi
if ! command -v setsid >/dev/null; then echo "no group"; exit 1; fi
led=setsid exec setsid "$@"
"""

# The first line of output is the process number, for killing. The command is the leader of a group, so it is
# also the number of the process group; `exec` keeps it for the inner shell. That shell
# stays: it turns a death by signal into 128 + n, which SSH libraries do not all report. What is not entered
# among the running groups of its session is not started.
_WRAPPER = (
    STARTED
    + r"""
entry=$1/$$-$(started $$)
shift
true >"$entry" || exit
echo "$$"
"$@"
status=$?
rm -f "$entry"
exit "$status"
"""
)


def quoted(argv: Sequence[str]) -> str:
    """One line that a POSIX shell splits into exactly these words.

    Raises ValueError for an empty command, or a null character.
    """
    if not argv:
        raise ValueError("a command needs at least one word")
    for word in argv:
        if "\0" in word:
            raise ValueError(f"the word {word!r} holds a null character")
    return " ".join(shlex.quote(word) for word in argv)


def leading(argv: Sequence[str]) -> list[str]:
    """The words that run `argv` as the leader of a process group, with the variable `led` as the word that it
    took to make it one, if any. Where that cannot be done they print `no group` and fail."""
    return ["sh", "-c", _LEADER, "sh", *argv]


def wrapped(
    argv: Sequence[str], environment: Mapping[str, str], running: str, leader: Sequence[str] = ()
) -> str:
    """The line that runs `argv`, with more variables, and first prints the number of its process group.

    While it runs, the folder `running` holds a file GROUP-START for it. `leader`: the word, if any, that it
    takes to make a command the leader of a group.
    """
    assignments = [f"{name}={value}" for name, value in environment.items()]
    prefix = ["env", *assignments] if assignments else []
    return f"exec {quoted([*leader, 'sh', '-c', _WRAPPER, 'sh', running, *prefix, *argv])}"


def split_pid(stdout: str) -> tuple[int | None, str]:
    """The process group's number, None if missing, and the program's output."""
    found = _PID_LINE.match(stdout)
    return (int(found[1]), stdout[found.end() :]) if found else (None, stdout)


def completed(status: int, stdout: str, stderr: str) -> Completed:
    """The result of a `wrapped` command, with the shell's 128 + n as -n."""
    return Completed(status=128 - status if 128 < status <= 192 else status, stdout=stdout, stderr=stderr)


def kill_group(group: int) -> str:
    """The line that kills a process group on a board."""
    return f"kill -KILL -{group} 2>/dev/null || kill -KILL {group} 2>/dev/null || :"
