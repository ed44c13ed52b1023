"""Eviction from the cache of deployed files on a board.

Before a file is sent, the least recently used files are removed until the cache is below its limit and the
disk has enough free space. Files that an active session uses stay.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.text import brief, printable

if TYPE_CHECKING:
    from harness.boards.ssh.remote import Remote

HOUSEKEEPING_SECONDS = 300.0  # to hash and remove large files on slow cards

_ROOM = re.compile("(?P<free>[0-9]{1,15}) (?P<left>-?[0-9]{1,15})")

# Sizes are in KiB. `df` is parsed backwards from its per cent sign, as names before it may contain blanks. A
# file is moved before it is removed and then checked again: a session may have begun to use it. Files with a
# time in the future, after the board's clock was set back, get the current time.
_MAKE_ROOM = r"""
cd "$1" || exit 1
session=$2 keep=$3 need=$4
free() {
  line=$(df -Pk . | tail -n 1)
  set -f
  set -- ${line%\%*}
  if [ "$#" -gt 2 ]; then shift $(($# - 2)); echo "$1"; fi
}
size() { du -sk "$1" | { read -r kib _; echo "${kib:-0}"; }; }
used() {
  for use in sessions/*/uses/"$1"; do
    if [ -e "$use" ]; then return 0; fi
  done
  return 1
}
if true >"$session/now"; then
  for old in objects/* partial/*; do
    if [ "$old" -nt "$session/now" ]; then touch -c "$old"; fi
  done
  rm -f "$session/now"
fi 2>/dev/null
total=$(($(size objects) + $(size partial)))
for old in $(ls -dtr objects/* partial/* 2>/dev/null); do
  case ${old#*/} in *[!0-9a-f]*) continue ;; esac
  case ${old%/*} in objects | partial) ;; *) continue ;; esac
  room=$(free)
  if [ $((total + need)) -le "$keep" ] && [ "${room:-$need}" -ge "$need" ]; then break; fi
  if used "${old#*/}"; then continue; fi
  freed=$(size "$old")
  mv -f "$old" "$session/." || continue
  if used "${old#*/}" && mv -f "$session/${old#*/}" "${old%/*}/."; then continue; fi
  rm -rf "$session/${old#*/}"
  total=$((total - freed))
done
echo "$(free) $((keep - total))"
"""


def make_room(board: Remote, size: int) -> int:
    """Removes the least recently used files until `size` more bytes fit into the board's cache limit.

    Returns how many bytes may be sent then: fewer than `size` where files in use exceed the limit. Raises
    HarnessError where the storage still has no room for `size` bytes.
    """
    session, need = board.session, (size >> 10) + 1
    words = (session.folder, session.path, str(board.cache_limit_bytes >> 10), str(need))
    said = _ROOM.fullmatch(ask(board, "making room", _MAKE_ROOM, *words).strip())
    if said is None:  # unknown output of `df`: a full disk shows in the transfer
        return size
    free, left = int(said["free"]), int(said["left"])
    if free < need:
        raise HarnessError(
            f"{printable(board.name)}: not enough free space in {printable(session.folder)}: "
            f"{size / 1e6:.1f} MB needed, {free * 1024 / 1e6:.1f} MB free",
            hint="Free some space, or set `folder` in the boards file to one on a larger disk.",
        )
    return min(free, left) << 10


def ask(board: Remote, doing: str, script: str, *words: str) -> str:
    """The output of a script on a board. Raises HarnessError if the script fails."""
    result = board.run(["sh", "-c", script, "sh", *words], timeout=HOUSEKEEPING_SECONDS)
    if result.status != 0:
        said = brief(result.stderr) or "no output"
        raise HarnessError(
            f"{printable(board.name)}: {doing} failed on the board: {said}",
            hint="The board needs a POSIX shell, coreutils (or BusyBox), and writable storage.",
        )
    return result.stdout
