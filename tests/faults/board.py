"""A board that can be rebooted and broken: an sshd in namespaces of its own, with a disk of its own.

Stands for a device where there is none: processes, disk, keys and connection are real; arm64 programs run
there under QEMU as a Cortex-A72. Needs root, for namespaces and the disk, and binfmt_misc with qemu-aarch64.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time
import uuid
from pathlib import Path

from proxy import Proxy
from ssh_server import free_port, make_key, wait_for

# The first process of the namespace collects the others' dead, as a board's init does.
# Each start has a number of its own, as each start of a kernel has; and the board's user a home of their own,
# whose shell does not start what this machine's does.
_INIT = (
    'mount -t proc proc /proc; mount --bind "$1" /proc/sys/kernel/random/boot_id; mount --bind "$2" "$HOME"; '
    'shift 2; "$@" & while :; do wait; sleep 1; done'
)
DISK = "192m"
ARM64_LIBRARIES = "/usr/aarch64-linux-gnu"  # Debian's libc6-arm64-cross


class Board:
    """`folder` holds its keys, its configuration and its disk."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        folder.mkdir(parents=True)
        self.disk = folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.disk], check=True)
        for key in ("host", "other", "user"):
            make_key(folder / key)
        (folder / "authorized").write_bytes((folder / "user.pub").read_bytes())
        self.port = free_port()
        self._key = "host"
        self._init: subprocess.Popen[bytes] | None = None
        self.start()
        self.proxy = Proxy(self.port)

    @property
    def work(self) -> Path:
        """The folder that harness works in."""
        return self.disk / "a folder's name"

    def entry(self) -> dict[str, object]:
        """The board in a boards file."""
        return {
            "name": self.name,
            "target": "pi4",
            "host": "127.0.0.1",
            "port": self.proxy.port,
            "user": "root",
            "key": str(self.folder / "user"),
            "host_key": " ".join((self.folder / "host.pub").read_text().split()[:2]),
            "folder": str(self.work),
        }

    def start(self) -> None:
        config = self.folder / "config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/{self._key}\n"
            f"AuthorizedKeysFile {self.folder}/authorized\nPidFile none\nStrictModes no\nUsePAM no\n"
            "Subsystem sftp internal-sftp\nMaxStartups 100\n"
            f"SetEnv QEMU_CPU=cortex-a72 QEMU_LD_PREFIX={ARM64_LIBRARIES}\n"
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert sshd is not None
        number = self.folder / "boot_id"
        number.write_text(f"{uuid.uuid4()}\n")
        home = self.disk / "home"
        home.mkdir(exist_ok=True)
        words = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", _INIT, "sh"]
        words += [str(number), str(home), sshd, "-D", "-e", "-f", str(config)]
        self._init = subprocess.Popen(words, stderr=subprocess.DEVNULL)
        wait_for(self.port)

    def stop(self) -> None:
        """Everything that runs there ends at once, as without power."""
        assert self._init is not None
        self._init.kill()  # takes the first process of the namespace along
        self._init.wait()

    def reboot(self, seconds: float) -> None:
        self.stop()
        self.proxy.cut()
        time.sleep(seconds)
        self.start()

    def change_host_key(self, seconds: float) -> None:
        """Answers with another key for a while."""
        self._key = "other"
        self.reboot(0.0)
        time.sleep(seconds)
        self._key = "host"
        self.reboot(0.0)

    def processes(self) -> list[int]:
        """What runs there, without the first process."""
        assert self._init is not None
        found = []
        with contextlib.suppress(OSError):
            (first,) = _children(self._init.pid)
            space = Path(f"/proc/{first}/ns/pid").readlink()
            for path in Path("/proc").iterdir():
                with contextlib.suppress(OSError):
                    if (
                        path.name.isdigit()
                        and path.name != str(first)
                        and (path / "ns/pid").readlink() == space
                    ):
                        found.append(int(path.name))
        return found

    def unexpected(self) -> list[int]:
        """What runs there beside sshd's processes and the first one's sleep."""
        usual = {"sshd", "sleep"}
        return [process for process in self.processes() if Path(_words(process)[0]).name not in usual]

    def engines(self) -> list[int]:
        """Under binfmt_misc the program is QEMU's first argument."""
        return [
            process
            for process in self.processes()
            if any(Path(word).name == "mpe" for word in _words(process)[:3])
        ]

    def signal_engine(self, number: signal.Signals) -> bool:
        """Whether there was one."""
        engines = self.engines()
        for process in engines:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
        return bool(engines)

    def limit_memory(self, size: int) -> None:
        """Address space for what sshd starts from now on; 0: without a limit."""
        assert self._init is not None
        with contextlib.suppress(OSError, ValueError):
            (first,) = _children(self._init.pid)
            for process in _children(first):
                words = ["prlimit", f"--as={size or 'unlimited'}:unlimited", "--pid", str(process)]
                subprocess.run(words, check=False, capture_output=True)

    def fill_disk(self) -> None:
        with contextlib.suppress(OSError), (self.disk / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))

    def free_disk(self) -> None:
        (self.disk / "filler").unlink(missing_ok=True)

    def forget_files(self) -> None:
        """As if somebody had cleared the card."""
        shutil.rmtree(self.work / "objects", ignore_errors=True)

    def damage_file(self, chance: random.Random) -> bool:
        """Changes a byte of a file that was deployed."""
        files = [
            path for path in sorted(self.work.glob("objects/*/*")) if path.is_file() and path.stat().st_size
        ]
        if not files:
            return False
        path = chance.choice(files)
        with contextlib.suppress(OSError), path.open("r+b") as file:
            position = chance.randrange(path.stat().st_size)
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 1]))
        return True

    def shift_clock(self, seconds: float) -> None:
        """Moves the time stamps of all files, which is what a clock that jumps does to them."""
        for path in self.work.rglob("*"):
            with contextlib.suppress(OSError):
                state = path.stat()
                os.utime(path, (state.st_atime + seconds, state.st_mtime + seconds))

    def close(self) -> None:
        self.stop()
        self.proxy.close()
        subprocess.run(["umount", "--lazy", self.disk], check=False)


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def _words(process: int) -> list[str]:
    """Its command line; sshd puts a title there instead, whose first word ends with a colon."""
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return ["sshd", *words[1:]] if words[0].startswith("sshd:") else words
    return [""]
