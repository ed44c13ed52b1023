"""The content-addressed store on a board: every file is FOLDER/objects/SHA256/NAME.

A file is sent to the session's own folder, hashed on the board, and renamed. When a session ends, its
interrupted uploads are moved to FOLDER/partial/SHA256; the next session that sends the same content resumes
them.

Verified files are marked by their modification time: a time years ago that depends on the hash. Every write
sets the time to the board's present, so a file with the expected size and mark is trusted without reading it;
any other file is hashed again. A rename keeps the mark, and the mark needs no clock and no second file. Data
lost in a power cut shows in the size, as journaling file systems record the size after the content. Damage
that keeps time and size, for example by worn flash, is not detected: after removing FOLDER/objects, all files
are sent again.

The store is a cache, see harness.boards.ssh.cache_eviction.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO, NoReturn, TypeVar

from harness import console
from harness.boards.ssh.cache_eviction import ask, make_room
from harness.errors import ConfigurationError, HarnessError
from harness.file_digest import file_digest
from harness.text import printable

if TYPE_CHECKING:
    from harness.boards.ssh.remote import Remote

_Word = TypeVar("_Word")

_LARGE = 8 << 20  # bytes from which a transfer shows its progress
_AT_ONCE = 200  # files in a command line, which must stay below 128 KiB
_PIECE = 1 << 18
_UNASKED = 16 << 20  # bytes that a session sends at most before it checks the free space again

# An existing file is marked as used before it is examined, so that it is not evicted. One `stat` skips
# missing files and describes the others; files are hashed if `stat` does not support formats.
_LOOK = r"""
cd "$1" || exit 1
uses=$2 digests=
shift 2
for file; do
  digest=${file%%/*}
  if [ -f "$file" ]; then true >"$uses/$digest" || exit 1; fi
  if [ -f "$file" ]; then echo there; else echo absent; fi
  digests="$digests $digest"
done
stat -c 'size=%s mtime=%Y mode=%a' -- "$@" 2>/dev/null
touch -c $digests
"""

# One `sha256sum` for each file: names may contain anything but a slash. An upload is marked as used before it
# gets its final name.
_HASH = r"""
session=$1
shift
for file; do
  case $file in "$session/uploads/"*) true >"$session/uses/${file##*/}" || exit 1 ;; esac
  if [ -f "$file" ]; then sha256sum <"$file"; else echo absent; fi
done
"""


@dataclass(frozen=True, kw_only=True)
class _File:
    """A local file and where it belongs on the board."""

    local: Path
    digest: str
    path: str
    size: int
    mode: int

    @property
    def shown(self) -> str:
        return printable(self.local.name)


class Deployment:
    """The files that one session deploys to its board."""

    def __init__(self, board: Remote) -> None:
        self._board = board
        self._folder = board.session.folder
        self._name = printable(board.name)
        self._verified: set[str] = set()  # paths whose content was verified in this session
        self._room = 0  # bytes that may be sent before the next check of the free space

    def deploy(self, files: Mapping[str, Path]) -> dict[str, str]:
        """Stores files that the board does not have; returns the path of each on the board."""
        size = sum(path.stat().st_size for path in files.values() if path.is_file())
        with _waiting(f"comparing {size >> 20} MB with what is on {self._name}", size):
            wanted = {name: self._file(path) for name, path in files.items()}
            unseen = [file for file in wanted.values() if file.path not in self._verified]
            present = self._present(unseen)
        missing = [file for file in unseen if file.path not in present]
        while missing:
            by_content = {
                file.digest: file for file in missing
            }  # the same content under another name follows
            self._send(list(by_content.values()))
            missing = [file for file in missing if file is not by_content[file.digest]]
        self._verified.update(file.path for file in unseen)
        return {name: file.path for name, file in wanted.items()}

    def _file(self, local: Path) -> _File:
        digest = file_digest(local)
        status = local.stat()
        return _File(
            local=local,
            digest=digest,
            path=f"{self._folder}/objects/{digest}/{local.name}",
            size=status.st_size,
            mode=0o700 if status.st_mode & 0o111 else 0o600,
        )

    def _present(self, files: Sequence[_File]) -> set[str]:
        """The paths of the files that the board has with the right content. These are marked as used: they
        are not evicted during this session."""
        present, doubtful = set(), []
        places = f"{self._folder}/objects", f"{self._board.session.path}/uses"
        for some in _portions(files):
            names = [f"{file.digest}/{file.local.name}" for file in some]
            lines = ask(self._board, "looking for files", _LOOK, *places, *names).splitlines()
            there = [file for file, line in zip(some, lines, strict=False) if line == "there"]
            said = lines[len(some) :]
            if len(said) != len(there):
                said = [""] * len(there)
            for file, line in zip(there, said, strict=True):
                if line == f"size={file.size} mtime={_mark(file.digest)} mode={file.mode:o}":
                    present.add(file.path)
                elif not line or line.startswith(f"size={file.size} "):
                    doubtful.append(file)
        hashes = self._hashes([file.path for file in doubtful])
        with self._board.reachable("marking files"):
            for file in doubtful:
                if hashes[file.path] == file.digest:
                    self._finish(file.path, file)
                    present.add(file.path)
        return present

    def _finish(self, path: str, file: _File) -> None:
        """Sets the mode and the mark of a verified file."""
        self._board.files().finish(path, mode=file.mode, modified=_mark(file.digest))

    def _upload_path(self, file: _File) -> str:
        return f"{self._board.session.path}/uploads/{file.digest}"

    def _arrived(self, file: _File) -> int:
        """How many bytes an earlier session has sent; this session takes them over."""
        upload = self._upload_path(file)
        with self._board.reachable(f"sending {file.shown}"):
            with contextlib.suppress(FileNotFoundError):
                self._board.files().rename(f"{self._folder}/partial/{file.digest}", upload)
            there = self._board.files().size(upload) or 0
        return there if there <= file.size else 0

    def _send(self, files: Sequence[_File]) -> None:
        """Uploads the rest of each file, has the board hash them whole, and stores those that are right."""
        starts = {file.digest: self._arrived(file) for file in files}
        self._make_room(sum(file.size - starts[file.digest] for file in files))
        for file in files:
            self._upload(file, starts[file.digest])
        hashes = self._hashes_of_uploads(files)
        doubtful = [file for file in files if hashes[file.digest] != file.digest and starts[file.digest]]
        for file in doubtful:  # the earlier part was damaged
            self._upload(file, 0)
        hashes |= self._hashes_of_uploads(doubtful)
        damaged = [file for file in files if hashes[file.digest] != file.digest]
        for file in files:
            if file not in damaged:
                self._store(file)
        for file in damaged:
            self._give_up(
                file,
                f"{file.shown} is damaged after the transfer: its hash on the board is {hashes[file.digest]}",
            )

    def _hashes_of_uploads(self, files: Sequence[_File]) -> dict[str, str]:
        """The hashes of the uploads on the board, by their expected hashes."""
        with _waiting(f"checking files on {self._name}", sum(file.size for file in files)):
            hashes = self._hashes([self._upload_path(file) for file in files])
        return {file.digest: hashes[self._upload_path(file)] for file in files}

    def _store(self, file: _File) -> None:
        upload = self._upload_path(file)
        with self._board.reachable(f"storing {file.shown}"):
            self._finish(upload, file)
            folder = str(PurePosixPath(file.path).parent)
            if self._board.files().size(folder) is None:
                self._board.files().make_folder(folder)
            self._board.files().rename(upload, file.path)

    def _upload(self, file: _File, start: int) -> None:
        """Sends the file from byte `start` on."""
        upload = self._upload_path(file)
        with self._board.reachable(f"sending {file.shown}"):
            stored = None
            try:
                with (
                    file.local.open("rb") as stream,
                    _bar(f"sending {file.shown} to {self._name}", file.size) as show,
                ):
                    stream.seek(start)
                    self._board.files().write(upload, _pieces(stream, show), start=start)
                stored = self._board.files().size(upload)
            except OSError as error:
                if not self._board.refused(error):
                    raise
        if stored != file.size:
            self._give_up(file, f"{file.shown} cannot be stored on the board")

    def _give_up(self, file: _File, problem: str) -> NoReturn:
        """Removes the upload and raises the reason: the file changed here, the disk is full, or `problem`."""
        with self._board.reachable(f"removing {file.shown}"), contextlib.suppress(FileNotFoundError):
            self._board.files().remove(self._upload_path(file))
        if file_digest(file.local) != file.digest:
            raise ConfigurationError(f"{file.local}: was changed while it was sent to {self._name}")
        self._room = 0
        self._make_room(file.size)
        raise HarnessError(
            f"{self._name}: {problem}",
            hint="Check the board's storage and its free space (df), then try again.",
        )

    def _hashes(self, paths: Sequence[str]) -> dict[str, str]:
        """The SHA-256 of the files, computed on the board; `absent` for a missing file."""
        found: dict[str, str] = {}
        for some in _portions(paths):
            lines = ask(self._board, "hashing files", _HASH, self._board.session.path, *some).splitlines()
            if len(lines) != len(some):
                raise HarnessError(
                    f"{self._name}: sha256sum failed on the board: {len(lines)} lines for {len(some)} files",
                    hint="The board needs a POSIX shell and coreutils (or BusyBox).",
                )
            found.update(zip(some, (line.split(" ")[0] for line in lines), strict=True))
        return found

    def _make_room(self, size: int) -> None:
        """Frees space on the board unless enough is known to be free: a check takes time."""
        if size > self._room:
            left = make_room(self._board, size)
            self._room = size + min(max(left - size, 0), _UNASKED)
        self._room -= size


def _mark(digest: str) -> int:
    """The modification time, in seconds, that marks a file of this content: in 2001 or 2002."""
    return 1_000_000_000 + 2 * int(digest[:6], 16)  # even: FAT counts in twos


def _pieces(stream: BinaryIO, show: Callable[[int], object]) -> Iterator[bytes]:
    """The rest of a file in pieces; shows the progress after each."""
    while piece := stream.read(_PIECE):
        yield piece
        show(stream.tell())


def _portions(words: Sequence[_Word]) -> Iterator[Sequence[_Word]]:
    return (words[start : start + _AT_ONCE] for start in range(0, len(words), _AT_ONCE))


def _waiting(description: str, size: int) -> contextlib.AbstractContextManager[object]:
    """Shows a progress line for large files."""
    return console.progress(description, None) if size >= _LARGE else contextlib.nullcontext()


@contextlib.contextmanager
def _bar(description: str, size: int) -> Iterator[Callable[[int], object]]:
    """Shows a progress bar in MB for a large file, given the bytes so far."""
    if size < _LARGE:
        yield lambda _sent: None
        return
    with console.progress(f"{description}, MB", size >> 20) as progress:
        shown = 0

        def show(sent: int) -> None:
            nonlocal shown
            progress.advance((sent >> 20) - shown)
            shown = sent >> 20

        yield show
