"""Command lines for a shell at the other end of a connection."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from harness.boards.base import Completed

_PID_LINE = re.compile(r"\A([1-9][0-9]{0,9})\n")

# Prints the start time of a process in ticks since boot, or nothing if the process is gone. It is field 22 of
# `stat`; field 2 is a name that may contain blanks and brackets. Call it in `$()`, because it changes shell
# options, and because QEMU reports a wrong start time to a process that asks about itself.
STARTED = r"""
started() {
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 0
  set -f
  set -- ${stat##*) }
  if [ "$1" != Z ]; then echo "${20}"; fi
}
"""

# Runs a command as the leader of a process group, so that its children can be killed with it. OpenSSH makes
# every command a leader. Other servers, such as Dropbear, do not; then `setsid` does, and the command gets
# the variable `led`.
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

# The first line of output is the process number, for killing. It is also the number of the process group,
# because the command is a leader; `exec` keeps it for the inner shell. That shell stays until the end: it
# reports a death by signal as status 128 + n, which some SSH libraries do not. A command is started only
# after its group is entered among the running groups of its session.
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
    """The command line that runs `argv` as the leader of a process group. If that takes a prefix (`setsid`),
    the variable `led` contains it. If it is impossible, the command prints `no group` and fails."""
    return ["sh", "-c", _LEADER, "sh", *argv]


def wrapped(
    argv: Sequence[str], environment: Mapping[str, str], running: str, leader: Sequence[str] = ()
) -> str:
    """The line that runs `argv`, with more variables, and first prints the number of its process group.

    While it runs, the folder `running` contains a file GROUP-START. `leader`: the prefix, if any, that makes
    a command the leader of a group.
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
