"""`harness build`: compiles the engine for targets and prints the paths."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from harness import console
from harness.errors import BuildError, ConfigurationError, HarnessError
from harness.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.build.engine import EngineBuild
    from harness.build.toolchain import Toolchain
    from harness.config.targets import Target
    from harness.sdk.layout import Sdk


def configure(parser: argparse.ArgumentParser) -> None:
    """Options."""
    parser.add_argument(
        "--target",
        action="append",
        required=True,
        metavar="T",
        help="target: name, alias, your own file (.yaml), or all; can be repeated",
    )
    parser.add_argument(
        "--toolchain",
        metavar="X",
        help="compiler: zig, gcc, clang or armclang (default: zig; with --in image: the image's own gcc)",
    )
    parser.add_argument(
        "--in",
        dest="place",
        default="host",
        choices=["host", "image"],
        help="compile on this machine or natively in the target's arm64 image, under QEMU (default: host)",
    )
    parser.add_argument(
        "--flags",
        default="",
        metavar="F",
        help="add compiler flags, as one argument: --flags='-O2 -fno-unroll-loops'",
    )
    parser.add_argument(
        "--with",
        dest="extras",
        action="append",
        default=[],
        choices=["tensorflow", "ablation"],
        help="tensorflow: also make the target's libtensorflow SDK; ablation: add the algorithms that only "
        "docs/ablation.md uses to the engine",
    )
    parser.add_argument(
        "--sdk",
        choices=["wheel", "bazel"],
        help="take libtensorflow from TensorFlow's wheel or build it from source, for hours (default: wheel)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Builds the targets one after the other. A failure does not stop the others."""
    from harness.build.engine import build_engine

    _check_compiler(arguments)
    provider = _provider(arguments.extras, arguments.sdk)
    targets = _targets(arguments.target, arguments.place)
    built: list[tuple[EngineBuild, Sdk | None]] = []
    failed: dict[str, HarnessError] = {}
    for target in targets:
        make_sdk = provider
        if provider and "all" in arguments.target and not _has_sdk(target, arguments.sdk):
            console.log(f"{target.name}: built without libtensorflow, which its file does not name")
            make_sdk = None
        try:
            compiler = _compiler(target, arguments.toolchain, arguments.place)
            ablation = "ablation" in arguments.extras
            engine = build_engine(target, toolchain=compiler, flags=arguments.flags, ablation=ablation)
            built.append((engine, None))
            if make_sdk:
                built[-1] = engine, make_sdk(target)
        except HarnessError as error:
            if len(targets) == 1:
                raise
            console.warn(f"{target.name}: {error}")
            failed[target.name] = error
    if arguments.json:
        rows = [_row(*build) for build in built]
        rows += [{"target": name, "error": _error(error)} for name, error in failed.items()]
        console.emit_json(rows[0] if len(targets) == 1 else rows)
    elif len(targets) == 1:
        build = built[0][0]
        how = "unchanged" if build.cached else f"built in {build.seconds:.0f} s"
        if not (build.cached or build.compiled):
            how = f"compiled before, checked in {build.seconds:.0f} s"
        how += f" by {build.compiler} in the image" if build.place == "image" else ""
        print(printable(f"{build.target.name}: {build.engine} ({how}, needs glibc {build.glibc_needed})"))
    else:
        _print([build for build, _ in built])
    if not arguments.json:
        for sdk in {sdk.folder: sdk for _, sdk in built if sdk}.values():
            _print_sdk(sdk)
    # With several targets, a failure for one of them is no mistake in the command line.
    statuses = [max(error.exit_status, BuildError.exit_status) for error in failed.values()]
    return max(statuses, default=0)


def _has_sdk(target: Target, provider: str | None) -> bool:
    """Whether the target's file names the TensorFlow that a provider needs."""
    return bool(target.tensorflow_bazel if provider == "bazel" else target.tensorflow)


def _error(error: HarnessError) -> dict[str, object]:
    return {"status": error.exit_status, "message": error.message, "hint": error.hint or None}


def _check_compiler(arguments: argparse.Namespace) -> None:
    """Raises ConfigurationError for options that no target can be built with."""
    from harness.build.request import flag_words
    from harness.build.toolchain import load_toolchain

    flag_words(arguments.flags)
    if arguments.place == "host" and arguments.toolchain:
        load_toolchain(arguments.toolchain)
    elif arguments.place == "image" and arguments.toolchain not in (None, "gcc"):
        raise ConfigurationError(
            f"--toolchain {arguments.toolchain} cannot be used with --in image: the images have GCC",
            hint="Omit --toolchain, or build with --in host.",
        )


def _compiler(target: Target, toolchain: str | None, place: str) -> str | Toolchain:
    """The toolchain: by name on this machine, or the compiler of the target's image."""
    if place == "host":
        return toolchain or "zig"
    from harness.images.native_compiler import image_compiler

    return image_compiler(target)


def _provider(extras: list[str], name: str | None) -> Callable[[Target], Sdk] | None:
    """The function that makes the SDK; None without --with tensorflow."""
    if "tensorflow" not in extras:
        if name:
            raise ConfigurationError(
                f"--sdk {name} has no effect without --with tensorflow",
                hint="Add --with tensorflow.",
            )
        return None
    if name == "bazel":
        from harness.sdk.bazel import tensorflow_sdk

        return tensorflow_sdk
    from harness.sdk.wheel import tensorflow_sdk

    return tensorflow_sdk


def _targets(names: list[str], place: str) -> list[Target]:
    from harness.config.targets import all_targets, load_target

    every = [target for target in all_targets() if place == "host" or target.image]
    chosen = [target for name in names for target in (every if name == "all" else [load_target(name)])]
    return list({target.name: target for target in chosen}.values())


def _row(build: EngineBuild, sdk: Sdk | None) -> dict[str, object]:
    row: dict[str, object] = {
        "target": build.target.name,
        "toolchain": build.toolchain,
        "in": build.place,
        "compiler": build.compiler,
        "flags": build.flags,
        "engine": str(build.engine),
        "manifest": str(build.manifest),
        "bytes": build.bytes,
        "glibc_needed": build.glibc_needed,
        "glibc_allowed": build.target.glibc,
        "seconds": round(build.seconds, 3),
        "cached": build.cached,
        "compiled": build.compiled,
    }
    if sdk:
        row["sdk"] = {
            "provider": sdk.provider,
            "folder": str(sdk.folder),
            "tensorflow": sdk.version,
            "glibc_needed": sdk.glibc_needed,
            "seconds": round(sdk.seconds, 3),
            "cached": sdk.cached,
            "files": sdk.files,
        }
    return row


def _print_sdk(sdk: Sdk) -> None:
    how = "unchanged" if sdk.cached else f"made in {sdk.seconds:.0f} s"
    print(printable(f"libtensorflow {sdk.version}: {sdk.folder} ({how}, needs glibc {sdk.glibc_needed})"))
    for name, size in sdk.files.items():
        print(f"  {size:>11,}  {name}")


def _print(builds: list[EngineBuild]) -> None:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("target", "compiler", "seconds", "MB", "needs glibc", "allowed", "engine"):
        number = heading in ("seconds", "MB", "needs glibc", "allowed")
        table.add_column(heading, justify="right" if number else "left", overflow="fold")
    for build in builds:
        table.add_row(
            console.text(build.target.name),
            console.text(build.compiler),
            "unchanged" if build.cached else f"{build.seconds:.0f}",
            f"{build.bytes / 1e6:.2f}",
            build.glibc_needed,
            build.target.glibc,
            console.text(printable(str(build.engine))),
        )
    console.stdout().print(table)
