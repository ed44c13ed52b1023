"""The commands: `bench` measures a model, `outputs` computes its outputs, `convert` converts it for a
runtime, and `unpack` unpacks the packages."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from importlib import import_module


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="program", allow_abbrev=False)
    commands = found.add_subparsers(dest="command", required=True)
    unpack = commands.add_parser("unpack")
    unpack.add_argument("archive")
    unpack.add_argument("folder")
    unpack.add_argument("temporary")
    for name in ("bench", "outputs", "convert"):
        command = commands.add_parser(name)
        command.add_argument("--packages", required=True, action="append", help="a folder")
        command.add_argument("--session", required=True, help="the module of the runtime")
        command.add_argument("--model", required=True)
        command.add_argument("--threads", type=int, default=1)
        command.add_argument("--cores", type=_numbers)
        command.add_argument("--option", action="append", default=[], help="KEY=VALUE of the runtime")
    bench = commands.choices["bench"]
    bench.add_argument("--picture", type=_numbers, required=True, help="channels,height,width of the input")
    bench.add_argument("--warmup", type=int, required=True)
    bench.add_argument("--runs", type=int, required=True)
    bench.add_argument("--min-seconds", type=float, required=True)
    bench.add_argument("--mark", action="store_true", help="mark the last run for a profiler")
    bench.add_argument("--profile", help="a path for temporary files with the times of operators")
    bench.add_argument("--profiled-runs", type=int, default=5, help="inferences for these times")
    outputs = commands.choices["outputs"]
    outputs.add_argument("--inputs", required=True, help=".npy: float32, images, channels, height, width")
    outputs.add_argument("--output", action="append", default=[], help="the name of an output")
    outputs.add_argument("--channels-last", action="store_true", help="the model has them last; move them")
    outputs.add_argument("--folder", required=True, help="where output 0, 1, … becomes 0.npy, 1.npy, …")
    convert = commands.choices["convert"]
    convert.add_argument("--converted", required=True, help="the file to write")
    convert.add_argument("--pictures", help=".npy: as --inputs; quantise to int8 with the ranges on them")
    convert.add_argument("--in-float", action="append", default=[], help="an operator that stays in float")
    return found


def main(words: list[str]) -> int:
    """Runs a command and returns the exit status. What runtimes print goes to standard error."""
    arguments = parser().parse_args(words)
    sys.stdout.flush()
    stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        document = _run(arguments)
    except Exception as error:  # noqa: BLE001 - of a runtime: any
        said = str(error).strip() or "no reason given"
        print(f"failed: {type(error).__name__}: {said}", file=sys.stderr)
        return 1
    with os.fdopen(stdout, "w", encoding="ascii") as stream:
        json.dump(document, stream)
        stream.write("\n")
    return 0


def _run(arguments: argparse.Namespace) -> object:
    if arguments.command == "unpack":
        from .unpack import unpack

        unpack(arguments.archive, arguments.folder, arguments.temporary)
        return {}
    if arguments.cores:
        os.sched_setaffinity(0, arguments.cores)
    sys.path[:0] = arguments.packages
    # NumPy's library would start threads of its own.
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    from . import bench, convert, outputs

    interpreter = bench.status_bytes("VmRSS")  # before the runtime is loaded
    runtime = import_module(arguments.session)
    if arguments.command == "bench":
        return bench.bench(runtime, arguments, interpreter)
    if arguments.command == "convert":
        return convert.convert(runtime, arguments)
    return outputs.outputs(runtime, arguments)


def _numbers(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def end(status: int) -> None:
    """Ends the process without destructors: some runtimes' crash at the end."""
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(status)
