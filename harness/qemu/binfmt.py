"""Whether the kernel starts arm64 programs by QEMU: its registry of binary formats."""

from __future__ import annotations

from pathlib import Path

from harness.config.targets import host_architecture

BINFMT = Path("/proc/sys/fs/binfmt_misc")

ARM64_HINT = (
    "`apt-get install qemu-user-static binfmt-support`; if "
    f"{BINFMT} is empty, also `mount -t binfmt_misc binfmt_misc {BINFMT}` and "
    "`update-binfmts --enable qemu-aarch64`"
)

# The first bytes of every arm64 program: 64 bits, little-endian, machine 183.
_ARM64_ELF = bytes.fromhex("7f454c46020101") + bytes(9) + bytes.fromhex("0200b700")


def arm64_programs_run(registry: Path = BINFMT) -> bool:
    """Whether the kernel starts arm64 programs, in containers too."""
    return host_architecture() == "aarch64" or arm64_interpreter(registry) is not None


def arm64_interpreter(registry: Path = BINFMT) -> str | None:
    """The program by which the kernel starts arm64 programs, in containers too."""
    try:
        entries = [path.read_text() for path in registry.iterdir() if path.name not in ("register", "status")]
    except OSError:
        return None
    return next((found for entry in entries if (found := _arm64_interpreter_of(entry))), None)


def _arm64_interpreter_of(entry: str) -> str | None:
    """The interpreter of an entry of binfmt_misc, if it is for arm64 and found in any container."""
    lines = entry.splitlines()
    values = dict(line.split(" ", 1) for line in lines if " " in line)
    try:
        magic = bytes.fromhex(values.get("magic", ""))
        mask = bytes.fromhex(values["mask"]) if "mask" in values else b"\xff" * len(magic)
    except ValueError:
        return None
    if lines[:1] != ["enabled"] or not magic or values.get("offset") != "0":
        return None
    if "F" not in values.get("flags:", ""):  # without it the interpreter is looked for inside the container
        return None
    matches = len(magic) <= len(_ARM64_ELF) and all(
        byte & bits == wanted & bits for byte, bits, wanted in zip(_ARM64_ELF, mask, magic, strict=False)
    )
    return values.get("interpreter") if matches else None
