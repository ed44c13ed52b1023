"""A session on a board: whatever happens, what it started and wrote there ends with the connection.

Every connection has a keeper there, a shell that reads from it. At the end of its input, however that came
(closed, cut, or whoever had it was killed), the keeper kills the process groups that were started, puts back
what the session had set elsewhere, gives the lock back and removes temporary files. A connection can also
fall silent without an end: so this side sends a line now and then, and the keeper answers each. A keeper that
has not had one for a while ends the session as well, and this side closes a connection when answers are
missing, so that nothing here waits for a board that is gone. A session whose keeper is gone too, as after a
restart of the board, is ended by the next one.

The working folder there:

    objects/SHA256/NAME      what was deployed (harness.boards.ssh.deployment)
    partial/SHA256           what has arrived of files whose sending was cut
    lock/held/SESSION        the lock's holder, if any (harness.boards.ssh.lock)
    sessions/SESSION/        running/GROUP-START, uploads/SHA256, uses/SHA256, temporary files, and `undo`: a
                             script that puts back what the lock's holder has set elsewhere, such as governors
    ended/SESSION/           the same while it is being removed
    undo-BOOT                a script that failed: the next holder of the lock gets it, and tries again

A session is called after its keeper: PID-START-BOOT, with its start in ticks since boot, so that nothing is
taken for it that gets its number later. Whether it lives is decided on the board; no clocks are compared.
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
SILENCE_SECONDS = 20  # the keeper gives up after one to two times this, whole seconds for `sleep`
UNANSWERED_SECONDS = 60.0  # this side gives up later: a board whose cores are all at work answers late
ANSWER_SECONDS = 20.0
HURRY_SECONDS = 2.0  # instead, when a command is to end at once
_NAME = re.compile(r"(?P<name>[1-9][0-9]{0,9}-[0-9]{1,20}-[0-9a-f-]{1,64})(?: (?P<leader>setsid))?\n")

# For scripts whose first argument is the working folder. Shell functions have no variables of their own:
# those called by others use names that nothing else uses.
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

members() {  # process group: says something while any of its processes runs
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

# Whatever it waits for, as a sudo that asks, must not keep the lock: it is killed after 12 s. A slow disk may
# take some of them. It is not waited for then, as the kernel may not let it die.
undo() {  # script
  [ -f "$1" ] || return 0
  sh "$1" </dev/null >/dev/null 2>&1 &
  undoing=$!
  tenths=120
  while [ -n "$(started "$undoing")" ] && [ "$tenths" -gt 0 ]; do
    if sleep 0.1 2>/dev/null; then tenths=$((tenths - 1)); else sleep 1; tenths=$((tenths - 10)); fi
  done
  if [ "$tenths" -gt 0 ] && wait "$undoing"; then rm -f "$1"; return; fi
  kill -KILL "$undoing" 2>/dev/null
  mv -f "$1" "$folder/undo-$boot" 2>/dev/null
}

# Moved away first, so that nothing is started any more that would be missed. The lock is given back last:
# its next holder is alone. Several may do this to one session at once. After a restart nothing that
# it had set is left.
end() {  # session
  mv -f "$folder/sessions/$1" "$folder/ended/." 2>/dev/null
  if [ "${1#*-*-}" = "$boot" ]; then
    for entry in "$folder/ended/$1/running"/*-*; do
      [ -e "$entry" ] || continue
      entry=${entry##*/}
      now=$(started "${entry%-*}")
      # Without its first process a group still has its number to itself.
      if [ "${now:-${entry#*-}}" = "${entry#*-}" ]; then kill_all "${entry%-*}"; fi
    done
    undo "$folder/ended/$1/undo"
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
kill -KILL "-$$"  # with what is left of its own group
"""


def keeper_command(folder: str) -> list[str]:
    """The words that start a keeper, which first ends sessions whose keeper is gone.

    It prints the session's name, and what makes a command the leader of a group if the server does not; or
    why the folder cannot be used.
    """
    return leading(["sh", "-c", FUNCTIONS + _KEEPER, "sh", folder, str(SILENCE_SECONDS)])


class Session:
    """One side of a connection to a keeper; `name` and `path` say how and where the board knows it.

    `leader` holds the word, if any, that a command there has to begin with to have a process group.
    """

    def __init__(self, transport: Transport, folder: str, board: str) -> None:
        """Raises HarnessError where the board's folder cannot be used, else what paramiko raises."""
        self.folder = folder
        self.silence = ""  # why this side has closed the connection, if it has
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
        if named is None and said.strip():  # a keeper complains on standard error alone
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
        """Has the board end the session, and waits until it has; in a `hurry` for two seconds, after which
        the board ends it by itself. Without a connection nothing happens."""
        self._stop.set()
        with contextlib.suppress(Exception):
            self._channel.shutdown_write()
            self._channel.status_event.wait(HURRY_SECONDS if hurry else ANSWER_SECONDS)
            self._channel.close()

    def _beat(self) -> None:
        """Says now and then that this side is there, for as long as there is a connection."""
        with contextlib.suppress(Exception):
            while not self._stop.wait(BEAT_SECONDS):
                self._channel.sendall(b"\n")

    def _listen(self) -> None:
        """Closes a connection that has fallen silent. Whoever waits for something there hears of that."""
        heard = time.monotonic()
        with contextlib.suppress(Exception):
            while not self._stop.is_set():
                try:
                    if not self._channel.recv(1000):
                        return
                    heard = time.monotonic()
                except TimeoutError:  # by a clock that may be set meanwhile
                    if time.monotonic() - heard >= UNANSWERED_SECONDS:
                        self.silence = f"no answer for {UNANSWERED_SECONDS:g} s"
                        self._transport.close()
                        return
