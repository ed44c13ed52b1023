"""A session on a board: its programs and temporary files there end with the connection.

Every connection has a keeper on the board: a shell that reads from the connection. When its input ends
(connection closed or lost, or this process killed), the keeper kills the session's process groups, restores
the settings that the session changed, releases the lock and removes temporary files.

A lost connection may also stay open without traffic. So this side sends a line every few seconds and the
keeper answers each. The keeper ends the session when lines are missing; this side closes the connection when
answers are missing. If the keeper is gone too, for example after a restart of the board, the next session
ends this one.

The working folder there:

    objects/SHA256/NAME      deployed files (harness.boards.ssh.deployment); beside an archive of packages the
                             folder NAME.unpacked (harness.sdk.packages)
    partial/SHA256           interrupted uploads
    lock/held/SESSION        the lock's holder, if any (harness.boards.ssh.lock)
    sessions/SESSION/        running/GROUP-START, uploads/SHA256, uses/SHA256, temporary files, and `undo`:
                             the restore script for settings such as CPU governors
    ended/SESSION/           a session that is being removed
    undo-BOOT                a restore script that failed: the next holder of the lock runs it again

A session's name is its keeper's PID-START-BOOT, with the start in ticks since boot: a later process with the
same PID has another name. The board decides whether a session is alive; no clocks are compared.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import TYPE_CHECKING

from harness.boards.command_line import STARTED, leading, quoted
from harness.errors import HarnessError
from harness.text import brief, one_line, printable

if TYPE_CHECKING:
    from paramiko import Transport

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 20  # the keeper ends the session after one to two times this; an integer for `sleep`
UNANSWERED_SECONDS = 60.0  # longer: a board answers late when all its cores are busy
ANSWER_SECONDS = 20.0
HURRY_SECONDS = 2.0  # instead of ANSWER_SECONDS, when a command was interrupted
_NAME = re.compile(r"(?P<name>[1-9][0-9]{0,9}-[0-9]{1,20}-[0-9a-f-]{1,64})(?: (?P<leader>setsid))?\n")

# For scripts with the working folder as first argument. Shell functions have no local variables: functions
# that others call use unique names.
FUNCTIONS = (
    STARTED
    + r"""
folder=$1
boot=$(cat /proc/sys/kernel/random/boot_id)

alive() {  # session
  [ "${1#*-*-}" = "$boot" ] || return 1
  start=${1#*-}
  [ "$(started "${1%%-*}")" = "${start%%-*}" ]
}

members() {  # process group: prints something while any of its processes runs
  members_of=$1
  cat /proc/[0-9]*/stat 2>/dev/null | while read -r stat; do
    set -f
    set -- ${stat##*) }
    if [ "$3" = "$members_of" ] && [ "$1" != Z ]; then echo "$3"; fi
  done
}

kill_all() {  # process group
  tries=50
  while [ -n "$(members "$1")" ] && [ "$tries" -gt 0 ]; do
    kill -KILL "-$1" 2>/dev/null
    tries=$((tries - 1))
    sleep 0.1 2>/dev/null || sleep 1
  done
}

# A restore script that waits, for example for a sudo password, must not block the lock: it is killed after
# 12 s, which is enough on a slow disk. Its end is not awaited, as the kernel may keep it alive.
restore() {  # script
  [ -f "$1" ] || return 0
  sh "$1" </dev/null >/dev/null 2>&1 &
  restoring=$!
  tenths=120
  while [ -n "$(started "$restoring")" ] && [ "$tenths" -gt 0 ]; do
    if sleep 0.1 2>/dev/null; then tenths=$((tenths - 1)); else sleep 1; tenths=$((tenths - 10)); fi
  done
  if [ "$tenths" -gt 0 ] && wait "$restoring"; then rm -f "$1"; return; fi
  kill -KILL "$restoring" 2>/dev/null
  mv -f "$1" "$folder/undo-$boot" 2>/dev/null
}

# The session is moved first, so that no new program escapes. The lock is released last, so that the next
# holder is alone. Several processes may run this for one session. After a restart of the board there are no
# settings to restore.
end() {  # session
  mv -f "$folder/sessions/$1" "$folder/ended/." 2>/dev/null
  if [ "${1#*-*-}" = "$boot" ]; then
    for entry in "$folder/ended/$1/running"/*-*; do
      [ -e "$entry" ] || continue
      entry=${entry##*/}
      now=$(started "${entry%-*}")
      # The number of a group is not reused while any of its processes lives.
      if [ "${now:-${entry#*-}}" = "${entry#*-}" ]; then kill_all "${entry%-*}"; fi
    done
    restore "$folder/ended/$1/undo"
  fi
  for entry in "$folder/ended/$1/uploads"/*; do
    if [ -f "$entry" ]; then mv -f "$entry" "$folder/partial/."; fi
  done
  rm -f "$folder/lock/held/$1"
  rm -rf "$folder/ended/$1"
}
"""
)

_KEEPER = r"""
umask 077
trap '' HUP USR1 PIPE
mkdir -p "$folder" || exit 1
if ! [ -O "$folder" ]; then
  ls -d "$folder" >/dev/null && echo "the folder belongs to another user" >&2
  exit 1
fi
chmod 700 "$folder" || exit 1
for part in objects partial lock sessions ended; do mkdir -p "$folder/$part" || exit 1; done
for each in "$folder"/undo-*; do
  if [ "$each" != "$folder/undo-$boot" ]; then rm -f "$each"; fi
done
for each in "$folder/sessions"/* "$folder/lock/held"/*; do
  if [ -e "$each" ] && ! alive "${each##*/}"; then end "${each##*/}"; fi
done
for each in "$folder/ended"/*; do
  if [ -e "$each" ]; then end "${each##*/}"; fi
done
session=$$-$(started $$)-$boot
for part in "" /running /uploads /uses; do mkdir "$folder/sessions/$session$part" || exit 1; done
(
  trap 'heard=1' USR1
  while :; do
    heard=
    sleep "$2" &
    while kill -0 "$!" 2>/dev/null; do wait "$!"; done
    if [ -z "$heard" ]; then
      kill -KILL $$
      end "$session"
      exit
    fi
  done
) </dev/null >/dev/null 2>&1 &
echo "$session${led:+ $led}"
while read -r _; do
  kill -USR1 "$!"
  echo
done
end "$session"
kill -KILL "-$$"  # the rest of its own group
"""


def keeper_command(folder: str) -> list[str]:
    """The command that starts a keeper. The keeper first ends sessions of dead keepers.

    It prints the session's name and, if the server starts commands without a process group, the program that
    creates one; or an error if the folder is unusable.
    """
    return leading(["sh", "-c", FUNCTIONS + _KEEPER, "sh", folder, str(SILENCE_SECONDS)])


class Session:
    """This side of a connection to a keeper; `name` and `path` are the session's on the board.

    `leader` is the prefix, if any, with which a command on the board gets a process group.
    """

    def __init__(self, transport: Transport, folder: str, board: str) -> None:
        """Raises HarnessError if the board's folder cannot be used, and paramiko's errors."""
        self.folder = folder
        self.silence = ""  # the reason, if this side has closed a silent connection
        self._stop = threading.Event()
        self._transport = transport
        self._channel = transport.open_session(timeout=ANSWER_SECONDS)
        self._channel.settimeout(ANSWER_SECONDS)
        self._channel.exec_command(f"exec {quoted(keeper_command(folder))}")
        with self._channel.makefile("rb") as output:
            said = output.readline(100).decode("utf-8", "replace")
        if said == "no group\n":
            raise HarnessError(
                f"{board}: its SSH server starts programs without a process group, so they cannot be killed",
                hint="Install setsid (in util-linux and BusyBox) or OpenSSH's server on the board.",
                where=board,
            )
        named = _NAME.fullmatch(said)
        if named is None and said.strip():  # a keeper prints errors only on standard error
            raise HarnessError(
                f"{board}: the login shell prints text before each command: {one_line(said)}",
                hint="Change the shell's start-up files, such as .bashrc, to print only on terminals.",
                where=board,
            )
        if named is None:
            raise HarnessError(
                f"{board}: the folder {printable(folder)} cannot be used: {self._complaint()}",
                hint="Set `folder` in the boards file to a writable folder that belongs to the user.",
                where=board,
            )
        self._channel.settimeout(BEAT_SECONDS)
        self.name = named["name"]
        self.leader = [named["leader"]] if named["leader"] else []
        self.path = f"{folder}/sessions/{self.name}"
        for work in (self._beat, self._listen):
            threading.Thread(target=work, daemon=True).start()

    def _complaint(self) -> str:
        with self._channel.makefile_stderr("rb") as errors:
            return brief(errors.read(1 << 14).decode("utf-8", "replace")) or "no output from the shell"

    def close(self, *, hurry: bool = False) -> None:
        """Tells the board to end the session, and waits until it has ended: with `hurry` at most two seconds,
        after which the board ends it by itself. Does nothing without a connection."""
        self._stop.set()
        with contextlib.suppress(Exception):
            self._channel.shutdown_write()
            self._channel.status_event.wait(HURRY_SECONDS if hurry else ANSWER_SECONDS)
            self._channel.close()

    def _beat(self) -> None:
        """Sends a line every BEAT_SECONDS while the connection is open."""
        with contextlib.suppress(Exception):
            while not self._stop.wait(BEAT_SECONDS):
                self._channel.sendall(b"\n")

    def _listen(self) -> None:
        """Closes a silent connection, which interrupts all waits on it."""
        heard = time.monotonic()
        with contextlib.suppress(Exception):
            while not self._stop.is_set():
                try:
                    if not self._channel.recv(1000):
                        return
                    heard = time.monotonic()
                except TimeoutError:  # the monotonic clock: the time may be set meanwhile
                    if time.monotonic() - heard >= UNANSWERED_SECONDS:
                        self.silence = f"no answer for {UNANSWERED_SECONDS:g} s"
                        self._transport.close()
                        return
