"""The system's LLVM disassembler and machine code analyser."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from harness.errors import HarnessError

LEAST_VERSION = 14
VERSION_FOR_ALL_CORES = 16  # the newest required by a core in toolchains/cores/
HINT = "apt-get install llvm-19"
_NEWEST_TRIED = 40
_TRIPLE = "aarch64"
# Instruction sets of all targets' cores, for llvm-mc.
_ATTRIBUTES = "-mattr=+v8.2a,+fullfp16,+dotprod,+lse,+crc,+aes,+sha2"
_VERSION = re.compile(r"LLVM version (\d+)\.(\d+)\.(\d+)")
_INVALID = re.compile(r"^<stdin>:(\d+):\d+: warning: invalid instruction", re.MULTILINE)
_CYCLES = re.compile(r"Total Cycles:\s+(\d+)")
_ITERATIONS = 40
_BLOCKS_A_CALL = 100
UNKNOWN = "nop"  # shown for words that are not instructions


@dataclass(frozen=True, kw_only=True)
class Llvm:
    """Programs of one version."""

    mc: str
    mca: str
    version: tuple[int, int, int]

    def __str__(self) -> str:
        return "LLVM " + ".".join(map(str, self.version))

    def disassemble(self, words: Sequence[int]) -> dict[int, str]:
        """The text of every instruction word; UNKNOWN for words that are not instructions."""
        distinct = sorted(set(words))
        text = "\n".join(
            " ".join(f"0x{byte:02x}" for byte in word.to_bytes(4, "little")) for word in distinct
        )
        done = _run([self.mc, f"-triple={_TRIPLE}", _ATTRIBUTES, "-disassemble"], text)
        # Invalid words are missing in the output; a warning names their lines.
        invalid = {int(line) - 1 for line in _INVALID.findall(done.stderr)}
        valid = [word for number, word in enumerate(distinct) if number not in invalid]
        lines = [line.strip().replace("\t", " ") for line in done.stdout.splitlines() if line[:1] == "\t"]
        shown = [line for line in lines if not line.startswith(".")]
        if len(shown) != len(valid):
            raise HarnessError(f"{self.mc} showed {len(shown)} of {len(valid)} instructions", hint=HINT)
        return dict.fromkeys(distinct, UNKNOWN) | dict(zip(valid, shown, strict=True))

    def loop_cycles(self, blocks: Sequence[Sequence[int]], cpu: str) -> list[float]:
        """Cycles per iteration of each block as the body of a loop, averaged over some iterations.

        If LLVM's model of the core lacks an instruction of a block, the block costs a cycle per instruction.
        """
        text = self.disassemble([word for block in blocks for word in block])
        cycles: list[float] = []
        for start in range(0, len(blocks), _BLOCKS_A_CALL):
            cycles += self._analysed(blocks[start : start + _BLOCKS_A_CALL], cpu, text)
        return cycles

    def command(self, cpu: str) -> str:
        """The command that analyses a file of assembly as the body of a loop, without the file's name."""
        return " ".join(self._analysis(cpu))

    def _analysis(self, cpu: str) -> list[str]:
        return [
            *(self.mca, f"-mtriple={_TRIPLE}", _ATTRIBUTES, f"-mcpu={cpu}", f"-iterations={_ITERATIONS}"),
            *("-instruction-info=0", "-resource-pressure=0"),
        ]

    def _analysed(self, blocks: Sequence[Sequence[int]], cpu: str, text: Mapping[int, str]) -> list[float]:
        regions = [
            "\n".join([f"# LLVM-MCA-BEGIN {number}", *(text[word] for word in block), "# LLVM-MCA-END"])
            for number, block in enumerate(blocks)
        ]
        output = _run(self._analysis(cpu), "\n".join([*regions, ""])).stdout
        found = [int(match) / _ITERATIONS for match in _CYCLES.findall(output)]
        if len(found) == len(blocks):
            return found
        if len(blocks) == 1:
            return [float(len(blocks[0]))]
        middle = len(blocks) // 2
        return self._analysed(blocks[:middle], cpu, text) + self._analysed(blocks[middle:], cpu, text)


def find_llvm() -> Llvm | None:
    """The newest LLVM on this system that has both programs; None if no version has."""
    suffixes = ("", *(f"-{version}" for version in range(LEAST_VERSION, _NEWEST_TRIED)))
    found = ((shutil.which(f"llvm-mc{suffix}"), shutil.which(f"llvm-mca{suffix}")) for suffix in suffixes)
    return _newest(tuple((mc, mca) for mc, mca in found if mc and mca))


@cache
def _newest(programs: tuple[tuple[str, str], ...]) -> Llvm | None:
    """Of pairs of llvm-mc and llvm-mca. Others may be installed while harness runs."""
    found: list[Llvm] = []
    for mc, mca in programs:
        match = _VERSION.search(_run([mca, "--version"], "").stdout)
        if match and int(match[1]) >= LEAST_VERSION:
            found.append(Llvm(mc=mc, mca=mca, version=(int(match[1]), int(match[2]), int(match[3]))))
    return max(found, key=lambda llvm: llvm.version, default=None)


def _run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    except OSError as error:
        raise HarnessError(f"{command[0]} cannot be run: {error.strerror}", hint=HINT) from None
