"""Holds a board's clock still while it is measured: the governor of cpufreq, always put back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from harness import console
from harness.boards.board import Board, Completed, RunTimeoutError
from harness.boards.sensors import BoardPaths
from harness.errors import HarnessError
from harness.printable import one_line

GOVERNOR_SECONDS = 30.0
STEADY = "performance"  # the governor that does not move the clock by itself
_SUDO_CURE = (
    "allow it on the board without a password, by the line `USER ALL=(root) NOPASSWD: /usr/bin/tee "
    "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` in `sudo visudo -f /etc/sudoers.d/harness`, or "
    "leave `sudo` out of the boards file"
)

# The marker's first line is the boot it belongs to: after a restart a board has its governors anew.
_COMMON = r"""
exec 2>/dev/null
sys=$1 proc=$2 marker=$3 sudo=$4 governor=$5
case $marker in /*) ;; *) marker=${HOME:-.}/$marker ;; esac
boot=
IFS= read -r boot <"$proc/sys/kernel/random/boot_id"
mine() {
  known=
  [ -f "$marker" ] && IFS= read -r known <"$marker"
  [ -f "$marker" ] && [ "$known" = "boot $boot" ]
}
refused=
put() {
  printf '%s\n' "$1" >"$2" && return
  [ -n "$sudo" ] && refused=$(printf '%s\n' "$1" | sudo -n tee "$2" 2>&1 >/dev/null)
}
"""

# An older marker is kept: what it names was there before the session that died. A new one gets its name when
# it is whole, and before anything is changed.
_HOLD = (
    _COMMON
    + r"""
cores=
for core in "$sys"/devices/system/cpu/cpu[0-9]*; do
  [ -f "$core/cpufreq/scaling_governor" ] && cores=yes
done
[ -n "$cores" ] || { echo absent; exit; }
if ! mine; then
  (
    umask 077
    [ -d "$marker" ] && exit 1
    rm -f "$marker.new" || exit
    set -C
    exec >"$marker.new" || exit
    echo "boot $boot" || exit
    for core in "$sys"/devices/system/cpu/cpu[0-9]*; do
      old=
      IFS= read -r old <"$core/cpufreq/scaling_governor"
      [ -z "$old" ] || echo "${core##*/} $old" || exit
    done
  ) && mv -f "$marker.new" "$marker" || { rm -f "$marker.new"; echo unmarked; exit; }
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
    _COMMON
    + r"""
[ -f "$marker" ] || exit 0
if mine; then
  failed=
  while read -r core old; do
    case $core in cpu[0-9]*) ;; *) continue ;; esac
    case $core in */*) continue ;; esac
    file=$sys/devices/system/cpu/$core/cpufreq/scaling_governor
    [ -e "$file" ] || continue  # the core is off line
    now=
    IFS= read -r now <"$file"
    [ "$now" = "$old" ] && continue
    put "$old" "$file" </dev/null
    IFS= read -r now <"$file"
    [ "$now" = "$old" ] || failed=yes
  done <"$marker"
  [ -z "$failed" ] || exit 1
fi
rm -f "$marker"
"""
)


@dataclass(frozen=True, kw_only=True)
class HeldGovernor:
    """Whether a governor is in force on all cores that have one; if not, why, and what to do."""

    governor: str
    held: bool
    reason: str = ""
    cure: str = ""


def by_hand(governor: str) -> str:
    """The command by which a board's owner sets a governor."""
    return f"`echo {governor} | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` on the board"


@contextlib.contextmanager
def held_governor(board: Board, paths: BoardPaths, governor: str = STEADY) -> Iterator[HeldGovernor]:
    """Sets the governor of all cores where this user may, and puts back what was there in the end.

    A file on the board remembers what was there, for `restore_governors` should this process die. Where the
    paths say so, the board's sudo is asked for what this user may not do. Where the governors cannot be put
    back, as when the board is gone, there is a warning and no error: the measurement stands.
    """
    try:
        yield _hold(board, paths, governor)
    finally:
        try:
            restored = restore_governors(board, paths)
        except HarnessError as error:
            restored, why = False, f" ({error.message})"
        else:
            why = ""
        if not restored:
            console.warn(
                f"{board.name}: its governors could not be put back{why}; the next session tries again, "
                "and a restart of the board does it too"
            )


def restore_governors(board: Board, paths: BoardPaths) -> bool:
    """Puts back what a session that died had changed, if one had; whether all is as it was."""
    return _run(board, _RESTORE, paths).status == 0


def _hold(board: Board, paths: BoardPaths, governor: str) -> HeldGovernor:
    try:
        said = _run(board, _HOLD, paths, governor).stdout
    except RunTimeoutError:
        return HeldGovernor(
            governor=governor,
            held=False,
            reason=f"setting it took more than {GOVERNOR_SECONDS:g} s",
            cure="see what `sudo -n true` waits for on the board" if paths.sudo else by_hand(governor),
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
            cure=f"make {paths.governors} writable there; it is relative to the home folder",
        )
    if not {line.removeprefix("core ") for line in found} - {governor}:
        return HeldGovernor(governor=governor, held=True)
    if complaint := one_line(refused):
        return HeldGovernor(
            governor=governor, held=False, reason=f"sudo there says: {complaint}", cure=_SUDO_CURE
        )
    return HeldGovernor(
        governor=governor,
        held=False,
        reason=f"this user may not set it, or the board has no {governor}",
        cure=by_hand(governor),
    )


def _run(board: Board, script: str, paths: BoardPaths, governor: str = "") -> Completed:
    arguments = (paths.sys, paths.proc, paths.governors, "yes" if paths.sudo else "", governor)
    return board.run(["sh", "-c", script, "sh", *arguments], timeout=GOVERNOR_SECONDS)
