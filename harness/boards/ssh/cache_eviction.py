"""Room for what is deployed to a board.

What was deployed is a cache. Before something is sent, what was not used for longest is removed until the
store keeps to its size and the storage has room for it; what a session in progress uses stays.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.text import brief, printable

if TYPE_CHECKING:
    from harness.boards.ssh.remote import Remote

HOUSEKEEPING_SECONDS = 300.0  # hashing and removing, also of large files on slow cards

_ROOM = re.compile("(?P<free>[0-9]{1,15}) (?P<left>-?[0-9]{1,15})")

# All in KiB. `df` is read from its per cent sign back, as names before it may hold blanks. What is removed is
# moved away first and looked at again: a session may have begun to use it. What was used before the board's
# clock went back would seem to be used last for as long: it counts as used now.
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
    if said is None:  # no `df` that can be read: the board will say when it is full
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
    """What a script prints on a board. Raises HarnessError where it fails."""
    result = board.run(["sh", "-c", script, "sh", *words], timeout=HOUSEKEEPING_SECONDS)
    if result.status != 0:
        said = brief(result.stderr) or "no output"
        raise HarnessError(
            f"{printable(board.name)}: {doing} failed on the board: {said}",
            hint="The board needs a POSIX shell, coreutils (or BusyBox), and writable storage.",
        )
    return result.stdout
