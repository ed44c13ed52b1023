"""The requirements of each feature on this machine, and how to check them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from harness.config.targets import host_architecture
from harness.errors import BuildError, HarnessError
from harness.images.bootstrap import PACKAGES
from harness.prediction import llvm

# Folders with programs for system administrators, which a user's PATH may lack.
SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One thing a feature needs."""

    name: str
    purpose: str
    find: Callable[[], str | None]  # the finding, or None; raises HarnessError with a reason
    hint: str
    packages: tuple[str, ...] = ()  # Debian's and Ubuntu's; empty: not a package
    tests_only: bool = False
    needs: tuple[str, ...] = ()  # names of requirements for the search itself
    expected: str | None = None  # of a check: the expected output
    optional: bool = False  # without it, everything but its own feature works


class DoesNotApplyError(HarnessError):
    """The requirement does not apply; this is no error."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of a check; neither found nor wrong if it was skipped."""

    requirement: Requirement
    found: str | None = None
    error: HarnessError | None = None
    skipped: str = ""  # why it was not looked for

    @property
    def ok(self) -> bool:
        return self.found is not None

    @property
    def left_out(self) -> bool:
        """Whether an optional requirement is missing; one that is present but broken is an error."""
        return self.requirement.optional and not self.ok and self.error is None

    @property
    def reason(self) -> str:
        """The reason why it was not found; empty if it was."""
        if self.ok:
            return ""
        if self.error is not None:
            return self.error.message
        return self.skipped or f"missing; it {self.requirement.purpose}"

    @property
    def hint(self) -> str:
        """What to do; empty if there is nothing to do."""
        if self.ok or self.skipped:
            return ""
        return (self.error.hint if self.error else "") or self.requirement.hint

    @property
    def exit_status(self) -> int:
        """The exit status of its error; a missing requirement has that of a build error."""
        if self.ok or self.skipped or self.left_out:
            return 0
        return self.error.exit_status if self.error else BuildError.exit_status


def look(requirement: Requirement, met: Collection[str] = ()) -> Finding:
    """Checks one requirement, unless one of its own requirements is not met."""
    lacking = [need for need in requirement.needs if need not in met]
    if lacking:
        return Finding(requirement=requirement, skipped=f"not checked: needs {', '.join(lacking)}")
    try:
        return Finding(requirement=requirement, found=requirement.find())
    except DoesNotApplyError as reason:
        return Finding(requirement=requirement, skipped=reason.message)
    except HarnessError as error:
        return Finding(requirement=requirement, error=error)


def examine(*, tests: bool) -> list[Finding]:
    """Checks all requirements (`tests`: also those of the tests). Changes nothing."""
    return [look(requirement) for requirement in REQUIREMENTS if tests or not requirement.tests_only]


def requirement_named(name: str) -> Requirement:
    """One of REQUIREMENTS by name."""
    found = next(requirement for requirement in REQUIREMENTS if requirement.name == name)
    return replace(found, optional=False)


def system_program(name: str) -> str | None:
    """The path of a program, also of one in a system administrator's folder."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PATH)


def docker_answers() -> str | None:
    """The version of the Docker Engine; None if none answers (a client is not enough).

    Raises DockerAccessError if this user may not use it.
    """
    from harness.images import docker_engine

    try:
        client = docker_engine.connect(timeout=docker_engine.ANSWER_SECONDS)
    except docker_engine.DockerAccessError:
        raise
    except HarnessError:
        return None
    try:
        return f"Docker Engine {client.version().get('Version', 'of an unknown version')}"
    finally:
        client.close()


def arm64_runs() -> str | None:
    """How the kernel starts arm64 programs; None if it cannot."""
    from harness.qemu.binfmt import arm64_programs_run

    if not arm64_programs_run():
        return None
    return "this machine is arm64" if host_architecture() == "aarch64" else "registered in binfmt_misc"


def _compiler() -> str | None:
    from harness.build.toolchain import build_tool, load_toolchain
    from harness.config.targets import load_target

    try:
        build_tool("cmake")
        build_tool("ninja")
        return f"{load_toolchain('zig').version(load_target('host'))}, CMake and Ninja"
    except HarnessError:
        return None


def _bootstrap() -> str | None:
    return system_program("mmdebstrap") if shutil.which("arch-test") else None


def _profiler() -> str | None:
    from harness.qemu.profiler import profiling_missing

    return None if profiling_missing() else shutil.which("qemu-aarch64")


def _llvm() -> str | None:
    found = llvm.find_llvm()
    return str(found) if found and found.version >= (llvm.VERSION_FOR_ALL_CORES, 0, 0) else None


def _self_test() -> str | None:
    from harness.build.emulator import find_emulator
    from harness.config.targets import load_target

    emulator = find_emulator(load_target("pi4"))
    return emulator.description if emulator else None


def _benchmark() -> str | None:
    """Its header, in the include folders of the distribution's compilers."""
    header = Path("/usr/include/benchmark/benchmark.h")
    return str(header) if header.is_file() else None


def _sanitizers() -> str | None:
    return shutil.which("g++")


def _fuzzer() -> str | None:
    clang = shutil.which("clang++")
    if clang is None:
        return None
    asked = [clang, "-print-resource-dir"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    libraries = Path(found.stdout.strip() or "/nonexistent") / "lib"
    return clang if any(libraries.rglob("libclang_rt.fuzzer*.a")) else None


def _ssh_server() -> str | None:
    return system_program("sshd")


COMPILER = "compiler"
DOCKER_ENGINE = "Docker Engine"
ARM64_PROGRAMS = "binfmt for arm64"
_APT = "`apt-get install {}`"

REQUIREMENTS: tuple[Requirement, ...] = (
    Requirement(
        name=COMPILER,
        purpose="builds the engine for every target",
        find=_compiler,
        hint="`pip install --force-reinstall ziglang cmake ninja`",
    ),
    Requirement(
        name=DOCKER_ENGINE,
        purpose="runs emulated boards",
        find=docker_answers,
        hint=_APT.format("docker.io iptables")
        + ", then `systemctl start docker` (`dockerd &` without systemd); users other than root "
        "join the group docker",
        packages=("docker.io", "iptables"),
        optional=True,
    ),
    Requirement(
        name=ARM64_PROGRAMS,
        purpose="starts arm64 programs in the containers of emulated boards",
        find=arm64_runs,
        hint=_APT.format("qemu-user-static binfmt-support") + "; where /proc/sys/fs/binfmt_misc "
        "is empty: `mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc` and "
        "`update-binfmts --enable qemu-aarch64`",
        packages=("qemu-user-static", "binfmt-support"),
        optional=True,
    ),
    Requirement(
        name="mmdebstrap",
        purpose="builds base images if no registry is reachable",
        find=_bootstrap,
        hint=_APT.format(" ".join(PACKAGES)),
        packages=PACKAGES,
        optional=True,
    ),
    Requirement(
        name="QEMU with plugins",
        purpose="profiles programs on emulated boards",
        find=_profiler,
        hint=_APT.format("qemu-user"),
        packages=("qemu-user",),
        optional=True,
    ),
    Requirement(
        name=f"llvm-mca {llvm.VERSION_FOR_ALL_CORES} or newer",
        purpose="estimates the cost of instructions on a core, for predictions",
        find=_llvm,
        hint=llvm.HINT,
        packages=("llvm-19",),
        optional=True,
    ),
    Requirement(
        name="arm64 self-test",
        purpose="tests a new engine on the target's core",
        find=_self_test,
        hint=_APT.format("qemu-user libc6-arm64-cross"),
        packages=("qemu-user", "libc6-arm64-cross"),
        optional=True,
    ),
    Requirement(
        name="g++",
        purpose="builds the engine's tests with sanitizers",
        find=_sanitizers,
        hint=_APT.format("g++"),
        packages=("g++",),
        tests_only=True,
        optional=True,
    ),
    Requirement(
        name="g++ for arm64",
        purpose="compiles for --toolchain gcc and clang, and for tests of the gate",
        find=lambda: shutil.which("aarch64-linux-gnu-g++"),
        hint=_APT.format("g++-aarch64-linux-gnu"),
        packages=("g++-aarch64-linux-gnu",),
        tests_only=True,
        optional=True,
    ),
    Requirement(
        name="clang with libFuzzer",
        purpose="fuzzes the engine's parsers",
        find=_fuzzer,
        hint=_APT.format("clang libclang-rt-dev"),
        packages=("clang", "libclang-rt-dev"),
        tests_only=True,
        optional=True,
    ),
    Requirement(
        name="Google Benchmark",
        purpose="benchmarks single layers of the engine",
        find=_benchmark,
        hint=_APT.format("libbenchmark-dev"),
        packages=("libbenchmark-dev",),
        tests_only=True,
        optional=True,
    ),
    Requirement(
        name="sshd",
        purpose="replaces a board in tests of SSH",
        find=_ssh_server,
        hint=_APT.format("openssh-server"),
        packages=("openssh-server",),
        tests_only=True,
        optional=True,
    ),
    Requirement(
        name="Chromium",
        purpose="opens a report's page in tests",
        find=lambda: shutil.which("chromium") and shutil.which("chromedriver"),
        hint=_APT.format("chromium chromium-driver fonts-dejavu-core fonts-liberation"),
        packages=("chromium", "chromium-driver", "fonts-dejavu-core", "fonts-liberation"),
        tests_only=True,
        optional=True,
    ),
    Requirement(
        name="BusyBox",
        purpose="has the shell of small boards, for tests of scripts",
        find=lambda: shutil.which("busybox"),
        hint=_APT.format("busybox"),
        packages=("busybox",),
        tests_only=True,
        optional=True,
    ),
)
