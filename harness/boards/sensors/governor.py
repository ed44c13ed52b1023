"""Holds a board's clock still while it is measured: the governor of cpufreq, put back by the board itself."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from harness import console
from harness.boards.base import Board, Completed, RunTimeoutError
from harness.boards.paths import BoardPaths
from harness.errors import BoardUnreachableError, HarnessError
from harness.text import one_line, printable

GOVERNOR_SECONDS = 30.0
STEADY = "performance"  # the governor that does not move the clock by itself
_SUDO_HINT = (
    "allow it on the board without a password, by the line `USER ALL=(root) NOPASSWD: /usr/bin/tee "
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` in `sudo visudo -f /etc/sudoers.d/harness`, or "
    "leave `sudo` out of the boards file"
)

_PUT = r"""
exec 2>/dev/null
refused=
put() {
  printf '%s\n' "$1" >"$2" && return
  [ -n "$sudo" ] && refused=$(printf '%s\n' "$1" | sudo -n tee "$2" 2>&1 >/dev/null)
}
"""

# The script that undoes it begins with this, and goes on with a line for each core. Somebody else may have
# run and removed it meanwhile: then the governors are the next one's to set.
_BACK = (
    _PUT
    + r"""
failed=0
back() {
  [ -e "$0" ] || exit 0
  file=$sys/devices/system/cpu/$1/cpufreq/scaling_governor
  [ -e "$file" ] || return  # the core is off line
  now=
  IFS= read -r now <"$file"
  [ "$now" = "$2" ] && return
  put "$2" "$file" </dev/null
  IFS= read -r now <"$file"
  [ "$now" = "$2" ] || failed=1
}
"""
)

# The first line of the script that undoes it is the boot it belongs to: after a restart a board has its
# governors anew, and a power cut may have left anything in the file.
_MINE = r"""
boot=
IFS= read -r boot <"$proc/sys/kernel/random/boot_id"
mine() {
  known=
  [ -f "$undo" ] && IFS= read -r known <"$undo"
  [ "$known" = "# boot $boot" ]
}
"""

# An older script is kept: what it puts back was there before the harness that died. A new one gets its name
# when it is whole, and before anything is changed.
_HOLD = (
    "sys=$1 proc=$2 undo=$3 sudo=$4 governor=$5 back=$6\n"
    + _PUT
    + _MINE
    + r"""
cores=
for core in "$sys"/devices/system/cpu/cpu[0-9]*; do
  [ -f "$core/cpufreq/scaling_governor" ] && cores=yes
done
[ -n "$cores" ] || { echo absent; exit; }
if ! mine; then
  (
    umask 077
    [ -d "$undo" ] && exit 1
    rm -f "$undo.new" || exit
    set -C
    exec >"$undo.new" || exit
    printf '%s\n' "# boot $boot" "$back" || exit
    for core in "$sys"/devices/system/cpu/cpu[0-9]*; do
      old=
      IFS= read -r old <"$core/cpufreq/scaling_governor"
      case ${core##*/cpu},$old in *, | *[!0-9A-Za-z_,-]*) continue ;; esac
      echo "back ${core##*/} $old" || exit
    done
    echo 'exit "$failed"'
  ) && mv -f "$undo.new" "$undo" || { rm -f "$undo.new"; echo unmarked; exit; }
fi
for core in "$sys"/devices/system/cpu/cpu[0-9]*; do
  file=$core/cpufreq/scaling_governor
  [ -f "$file" ] || continue
  now=
  IFS= read -r now <"$file"
  [ "$now" = "$governor" ] || put "$governor" "$file"
  IFS= read -r now <"$file"
  echo "core $now"
done
printf 'refused %s\n' "$refused"
"""
)

_RESTORE = (
    "proc=$1 undo=$2\n"
    + _MINE
    + r"""
[ -f "$undo" ] || exit 0
if mine; then sh "$undo" || exit; fi
rm -f "$undo"
"""
)


@dataclass(frozen=True, kw_only=True)
class HeldGovernor:
    """Whether a governor is in force on all cores that have one; if not, why, and what to do."""

    governor: str
    held: bool
    reason: str = ""
    hint: str = ""


def by_hand(governor: str) -> str:
    """The command by which a board's owner sets a governor."""
    return f"`echo {governor} | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` on the board"


@contextlib.contextmanager
def held_governor(board: Board, paths: BoardPaths, governor: str = STEADY) -> Iterator[HeldGovernor]:
    """Sets the governor of all cores where this user may, and puts back what was there in the end.

    What puts it back is written to `board.undo` before: should this process die, or the connection, the board
    itself runs that. Where the paths say so, the board's sudo is asked for what this user may not do. Where
    the governors cannot be put back, there is a warning and no error: the measurement stands.
    """
    try:
        yield _hold(board, paths, governor)
    finally:
        try:
            restored, why = restore_governors(board, paths), ""
        except BoardUnreachableError:  # then the board puts them back by itself
            restored, why = True, ""
        except HarnessError as error:
            restored, why = False, f" ({error.message})"
        if not restored:
            console.warn(
                f"{board.name}: its governors could not be put back{why}; the next measured run there tries "
                "again, and a restart of the board does it too"
            )


def restore_governors(board: Board, paths: BoardPaths) -> bool:
    """Puts back what was changed, also by a harness that died, if anything was; whether all is as it was."""
    return _run(board, _RESTORE, paths.proc, board.undo).status == 0


def _hold(board: Board, paths: BoardPaths, governor: str) -> HeldGovernor:
    try:
        sudo = "yes" if paths.sudo else ""
        back = f"sys={shlex.quote(paths.sys)} sudo={sudo}{_BACK}"
        said = _run(board, _HOLD, paths.sys, paths.proc, board.undo, sudo, governor, back).stdout
    except RunTimeoutError:
        return HeldGovernor(
            governor=governor,
            held=False,
            reason=f"setting it took more than {GOVERNOR_SECONDS:g} s",
            hint="see what `sudo -n true` waits for on the board" if paths.sudo else by_hand(governor),
        )
    cores, _, refused = said.partition("\nrefused ")
    found = cores.splitlines()
    if found == ["absent"]:
        return HeldGovernor(
            governor=governor,
            held=False,
            reason="the board shows no governor: its clock is not Linux's to set",
        )
    if not found or found == ["unmarked"]:
        return HeldGovernor(
            governor=governor,
            held=False,
            reason="what was there cannot be remembered on the board, so nothing was changed",
            hint=f"make {printable(board.undo)} writable there",
        )
    if not {line.removeprefix("core ") for line in found} - {governor}:
        return HeldGovernor(governor=governor, held=True)
    if complaint := one_line(refused):
        return HeldGovernor(
            governor=governor, held=False, reason=f"sudo there says: {complaint}", hint=_SUDO_HINT
        )
    return HeldGovernor(
        governor=governor,
        held=False,
        reason=f"this user may not set it, or the board has no {governor}",
        hint=by_hand(governor),
    )


def _run(board: Board, script: str, *arguments: str) -> Completed:
    return board.run(["sh", "-c", script, "sh", *arguments], timeout=GOVERNOR_SECONDS)
