"""A board that can be rebooted and broken: an sshd in namespaces of its own, with a disk of its own.

Stands for a device where there is none: processes, disk, keys and connection are real; arm64 programs run
there under QEMU as a Cortex-A72. Its governors are files of its own, and its programs have a clock of their
own (clock.c), which moves. Needs root, for namespaces and the disk, and binfmt_misc with qemu-aarch64.
"""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from proxy import Proxy
from ssh_server import free_port, make_key, wait_for

# The first process of the namespace collects the others' dead, as a board's init does, until sshd ends.
# Each start has a number of its own, as each start of a kernel has; and the board's user a home of their own,
# whose shell does not start what this machine's does.
_INIT = (
    'mount -t proc proc /proc; mount --bind "$1" /proc/sys/kernel/random/boot_id; mount --bind "$2" ~root; '
    'mount --bind "$3" /sys/devices/system/cpu; shift 3; "$@" & wait'
)
CORES = 4
GOVERNOR = "ondemand"
# Address space that a shell and sshd can do with, and QEMU cannot.
LITTLE_MEMORY = 64 << 20
WORK = ("bench", "forward")  # what a sweep has engines do
DISK = "192m"
CLOCK = "clock.so"
ARM64_LIBRARIES = "/usr/aarch64-linux-gnu"  # Debian's libc6-arm64-cross


class Board:
    """`folder` holds its keys, its configuration and its disk; `libraries` is what `build_libraries` made."""

    more_configuration = ""  # of sshd

    def __init__(self, name: str, folder: Path, libraries: Path) -> None:
        self.name = name
        self.folder = folder
        self._libraries = libraries
        self.clock = folder / "clock"
        folder.mkdir(parents=True)
        self.disk = folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.disk], check=True)
        self.set_clock(0)
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
            f"SetEnv QEMU_CPU=cortex-a72 QEMU_LD_PREFIX={self._libraries} "
            f"LD_PRELOAD={self._libraries}/{CLOCK} BOARD_CLOCK={self.clock}\n" + self.more_configuration
        )
        Path("/run/sshd").mkdir(exist_ok=True)
        sshd = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        assert sshd is not None
        number = self.folder / "boot_id"
        number.write_text(f"{uuid.uuid4()}\n")
        home = self.disk / "home"
        home.mkdir(exist_ok=True)
        command = ["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c", _INIT, "sh"]
        command += [str(number), str(home), str(self._cores()), sshd, "-D", "-e", "-f", str(config)]
        self._init = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        wait_for(self.port)

    def _cores(self) -> Path:
        """The stand-in for /sys/devices/system/cpu, as after a start."""
        folder = self.folder / "cpu"
        for core in range(CORES):
            frequency = folder / f"cpu{core}" / "cpufreq"
            frequency.mkdir(parents=True, exist_ok=True)
            (frequency / "scaling_governor").write_text(f"{GOVERNOR}\n")
            for name in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq"):
                (frequency / name).write_text("1500000\n")
        for name in ("online", "possible", "present"):
            (folder / name).write_text(f"0-{CORES - 1}\n")
        return folder

    def governors(self) -> set[str]:
        return {path.read_text().strip() for path in self.folder.glob("cpu/*/cpufreq/scaling_governor")}

    @property
    def boot(self) -> str:
        return (self.folder / "boot_id").read_text().strip()

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

    def use_host_key(self, key: str) -> None:
        """`host`, which is on record, or `other`."""
        self._key = key
        self.reboot(0.0)

    def processes(self) -> list[int]:
        """The processes there, without the first one."""
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

    def unexpected(self) -> list[str]:
        """The processes there besides those of sshd without connections."""
        return [
            f"process {process} {command}"
            for process in self.processes()
            if (command := command_line(process)) and not command.startswith("sshd: /")
        ]

    def engines(self, *subcommands: str) -> list[int]:
        """Those at work, or at these subcommands. Under binfmt_misc the program is QEMU's first argument."""
        wanted = subcommands or WORK
        return [process for process in self.processes() if _is_engine(words(process)[:4], wanted)]

    def signal_engine(self, number: signal.Signals) -> bool:
        """Whether there was one."""
        reached = False
        for process in self.engines():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)
                reached = True
        return reached

    def limit_memory(self, size: int) -> None:
        """Limits the address space of processes that connections start from now on; resource.RLIM_INFINITY:
                no limit.

        Running processes keep their limit.
        """
        for process in self.processes():
            if words(process)[0] == "sshd":
                with contextlib.suppress(OSError):  # it ends
                    resource.prlimit(process, resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))

    def starts_engine_within(self, size: int) -> bool:
        """Whether a shell that has such a limit is there to run an engine."""
        for process in self.processes():
            if words(process)[0] == "sh" and _is_engine(words(process), WORK):
                with contextlib.suppress(OSError):
                    if resource.prlimit(process, resource.RLIMIT_AS)[0] == size:
                        return True
        return False

    def fill_disk(self) -> None:
        with contextlib.suppress(OSError), (self.disk / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))

    def free_disk(self) -> None:
        (self.disk / "filler").unlink(missing_ok=True)

    def forget_files(self) -> None:
        """Removes the files, as if the card had been cleared."""
        shutil.rmtree(self.work / "objects", ignore_errors=True)

    def damage_file(self, chance: random.Random) -> bool:
        """Changes a byte of a file that was deployed; whether there was one."""
        with contextlib.suppress(OSError):
            files = [path for path in sorted(self.work.glob("objects/*/*")) if path.stat().st_size]
            if files:
                with chance.choice(files).open("r+b") as file:
                    position = chance.randrange(os.fstat(file.fileno()).st_size)
                    file.seek(position)
                    (byte,) = file.read(1)
                    file.seek(position)
                    file.write(bytes([byte ^ 1]))
                return True
        return False

    def set_clock(self, seconds: int) -> None:
        """So far from this machine's, as its programs see it."""
        new = self.clock.with_suffix(".new")
        new.write_text(f"{seconds}\n")
        new.replace(self.clock)

    def close(self) -> None:
        self.stop()
        self.proxy.close()
        subprocess.run(["umount", "--lazy", self.disk], check=False)


def _children(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(word) for word in text.split()]


def words(process: int) -> list[str]:
    """Its command line; sshd puts a title there instead, whose first word ends with a colon."""
    with contextlib.suppress(OSError):
        found = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace").split("\0")
        return ["sshd", *found[1:]] if found[0].startswith("sshd:") else [Path(found[0]).name, *found[1:]]
    return [""]


def command_line(process: int) -> str:
    """To be shown; empty for one that is gone."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{process}/cmdline").read_bytes().decode(errors="replace")
        return " ".join(text.replace("\0", " ").split())[:200]
    return ""


def _is_engine(command: Sequence[str], subcommands: Sequence[str]) -> bool:
    """Whether `mpe SUBCOMMAND` is within; scripts that look after files get the path of mpe alone."""
    return any(Path(word).name == "mpe" and following in subcommands for word, following in pairwise(command))


def build_libraries(folder: Path) -> Path:
    """Makes what QEMU takes for an arm64 board's root: its libraries, and clock.c for arm64 at the path where
    this machine has it for itself.
    """
    root = folder / "libraries"
    root.mkdir()
    (root / "lib").symlink_to(f"{ARM64_LIBRARIES}/lib")
    for target, output in (
        ("x86_64-linux-gnu.2.27", root / CLOCK),
        ("aarch64-linux-gnu.2.27", root / root.relative_to("/") / CLOCK),
    ):
        output.parent.mkdir(parents=True, exist_ok=True)
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-shared", "-fPIC", "-O2"]
        source = Path(__file__).with_name("clock.c")
        subprocess.run([*compiler, "-o", output, source], check=True, capture_output=True)
    return root
