"""Holds a board's clock constant while it is measured. The board itself restores the CPU governors."""

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
    "allow it on the board without a password with the line `USER ALL=(root) NOPASSWD: /usr/bin/tee "
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

# The restore script begins with these functions; a line for each core follows. Another process may run and
# remove the script meanwhile: then this one stops, as a new holder may have set the governors.
_BACK = (
    _PUT
    + r"""
failed=0
back() {
  [ -e "$0" ] || exit 0
  file=$sys/devices/system/cpu/$1/cpufreq/scaling_governor
  [ -e "$file" ] || return  # the core is offline
  now=
  IFS= read -r now <"$file"
  [ "$now" = "$2" ] && return
  put "$2" "$file" </dev/null
  IFS= read -r now <"$file"
  [ "$now" = "$2" ] || failed=1
}
"""
)

# The first line of the restore script names its boot: a restart resets the governors, and a power cut may
# leave any content in the file.
_MINE = r"""
boot=
IFS= read -r boot <"$proc/sys/kernel/random/boot_id"
mine() {
  known=
  [ -f "$script" ] && IFS= read -r known <"$script"
  [ "$known" = "# boot $boot" ]
}
"""

# An existing script is kept: it has the settings from before a harness that died. A new script is written
# under another name and renamed before any governor is changed.
_HOLD = (
    "sys=$1 proc=$2 script=$3 sudo=$4 governor=$5 back=$6\n"
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
    [ -d "$script" ] && exit 1
    rm -f "$script.new" || exit
    set -C
    exec >"$script.new" || exit
    printf '%s\n' "# boot $boot" "$back" || exit
    for core in "$sys"/devices/system/cpu/cpu[0-9]*; do
      old=
      IFS= read -r old <"$core/cpufreq/scaling_governor"
      case ${core##*/cpu},$old in *, | *[!0-9A-Za-z_,-]*) continue ;; esac
      echo "back ${core##*/} $old" || exit
    done
    echo 'exit "$failed"'
  ) && mv -f "$script.new" "$script" || { rm -f "$script.new"; echo unmarked; exit; }
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
    "proc=$1 script=$2\n"
    + _MINE
    + r"""
[ -f "$script" ] || exit 0
if mine; then sh "$script" || exit; fi
rm -f "$script"
"""
)


@dataclass(frozen=True, kw_only=True)
class HeldGovernor:
    """Whether all cores with a governor use this one; if not, the reason and a hint."""

    governor: str
    held: bool
    reason: str = ""
    hint: str = ""


def by_hand(governor: str) -> str:
    """The command by which a board's owner sets a governor."""
    return f"`echo {governor} | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` on the board"


@contextlib.contextmanager
def held_governor(board: Board, paths: BoardPaths, governor: str = STEADY) -> Iterator[HeldGovernor]:
    """Sets the governor of all cores if this user may, and restores the previous governors at the end.

    The restore script is written to `board.restore_script` first: the board runs it if this process or the
    connection dies. With `paths.sudo`, sudo on the board sets what this user may not set. A failure to
    restore is a warning, not an error: the measurement is valid.
    """
    try:
        yield _hold(board, paths, governor)
    finally:
        try:
            restored, why = restore_governors(board, paths), ""
        except BoardUnreachableError:  # the board restores them when the session ends
            restored, why = True, ""
        except HarnessError as error:
            restored, why = False, f" ({error.message})"
        if not restored:
            console.warn(
                f"{board.name}: could not restore the CPU governors{why}; retried at the next run; "
                "a restart of the board also resets them"
            )


def restore_governors(board: Board, paths: BoardPaths) -> bool:
    """Restores governors that this harness, or one that died, has changed. Returns whether it succeeded."""
    return _run(board, _RESTORE, paths.proc, board.restore_script).status == 0


def _hold(board: Board, paths: BoardPaths, governor: str) -> HeldGovernor:
    try:
        sudo = "yes" if paths.sudo else ""
        back = f"sys={shlex.quote(paths.sys)} sudo={sudo}{_BACK}"
        said = _run(board, _HOLD, paths.sys, paths.proc, board.restore_script, sudo, governor, back).stdout
    except RunTimeoutError:
        return HeldGovernor(
            governor=governor,
            held=False,
            reason=f"setting it took more than {GOVERNOR_SECONDS:g} s",
            hint="run `sudo -n true` on the board to see why it waits" if paths.sudo else by_hand(governor),
        )
    cores, _, refused = said.partition("\nrefused ")
    found = cores.splitlines()
    if found == ["absent"]:
        return HeldGovernor(
            governor=governor,
            held=False,
            reason="the board has no CPU governor, so Linux does not control its clock",
        )
    if not found or found == ["unmarked"]:
        return HeldGovernor(
            governor=governor,
            held=False,
            reason="the restore script cannot be written on the board, so the governors were not changed",
            hint=f"make {printable(board.restore_script)} writable there",
        )
    if not {line.removeprefix("core ") for line in found} - {governor}:
        return HeldGovernor(governor=governor, held=True)
    if complaint := one_line(refused):
        return HeldGovernor(
            governor=governor, held=False, reason=f"sudo failed on the board: {complaint}", hint=_SUDO_HINT
        )
    return HeldGovernor(
        governor=governor,
        held=False,
        reason=f"this user may not set it, or the board does not support {governor}",
        hint=by_hand(governor),
    )


def _run(board: Board, script: str, *arguments: str) -> Completed:
    return board.run(["sh", "-c", script, "sh", *arguments], timeout=GOVERNOR_SECONDS)
