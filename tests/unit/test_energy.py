"""Energy by a user's own command: counted, or integrated over the watts it prints; never at a cell's cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.boards.energy import EnergyMeter, EnergyUnit, Metered, integral, metered
from harness.errors import HarnessError


def meter(script: str, *words: str, unit: EnergyUnit = "watts", every: float = 0.02) -> EnergyMeter:
    return EnergyMeter(command=("sh", "-c", script, *words), unit=unit, seconds=5.0, every=every)


def measured(meter: EnergyMeter | None, seconds: float = 0.3) -> Metered:
    with metered(meter) as found:
        time.sleep(seconds)
    return found


def test_watts_are_integrated_over_the_time_of_the_run() -> None:
    begun = time.monotonic()
    found = measured(meter("echo 2.5"), seconds=1.0)
    elapsed = time.monotonic() - begun
    assert found.warning == ""
    assert found.source == "the command sh"
    assert found.seconds is not None
    assert 0 < found.seconds <= elapsed
    assert found.joules == pytest.approx(2.5 * found.seconds)


def test_joules_are_counted_from_before_to_after(tmp_path: Path) -> None:
    counter = tmp_path / "it's $(id) so far"
    counter.write_text("100.25\n")
    with metered(meter('cat "$0"', str(counter), unit="joules")) as found:
        counter.write_text(" 1.1275e2 \n\n")
    assert (found.joules, found.warning) == (12.5, "")
    assert found.seconds is not None
    assert 0 < found.seconds < 5


@pytest.mark.parametrize(("after", "why"), [("99", "fell from 100 to 99"), ("100", "stayed at 100")])
def test_a_counter_that_does_not_rise_is_a_warning(tmp_path: Path, after: str, why: str) -> None:
    counter = tmp_path / "counter"
    counter.write_text("100")
    with metered(meter('cat "$0"', str(counter), unit="joules")) as found:
        counter.write_text(after)
    assert (found.joules, found.seconds) == (None, None)
    assert why in found.warning
    assert "min_seconds" in found.warning


@pytest.mark.parametrize("unit", ["watts", "joules"])
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/nowhere/read-plug", "secret"), "the command read-plug cannot be started: No such file"),
        (("sh", "-c", "echo 'no plug' >&2; exit 3", "secret"), "failed with status 3: Run the"),
        (("sh", "-c", "echo 'login: secret' >&2; exit 1"), "failed with status 1: Run the"),
        (("sh", "-c", "printf 'five\\033[31m secret watts'"), "did not print a number of"),
        (("sh", "-c", "true", "secret"), "did not print a number of"),
        (
            ("sh", "-c", "sleep 30", "secret"),
            "did not end within 0.2 s: Increase `seconds` under `energy`",
        ),
    ],
)
def test_a_meter_that_fails_is_a_warning_with_a_hint(
    command: tuple[str, ...], said: str, unit: EnergyUnit
) -> None:
    found = measured(EnergyMeter(command=command, unit=unit, seconds=0.2, every=0.01), 0.1)
    assert (found.joules, found.seconds) == (None, None)
    assert said in found.warning
    assert "secret" not in found.warning
    assert found.warning.isprintable()


@pytest.mark.parametrize(
    ("script", "shown"),
    [
        ("echo 'no plug' >&2; exit 3", "warning: the command sh printed: no plug\n"),
        (r"printf 'five\033[31m watts'", 'warning: the command sh printed "five [31m watts"\n'),
    ],
)
def test_output_of_a_failed_meter_is_shown_only_on_stderr(
    script: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = measured(meter(script), 0.1)
    assert capsys.readouterr().err == shown
    assert "plug" not in found.warning
    assert "five" not in found.warning


def test_a_meter_that_fails_later_gives_no_half_a_figure(tmp_path: Path) -> None:
    script = 'if [ -e "$0" ]; then echo gone; else echo 5; fi'
    with metered(meter(script, str(tmp_path / "gone"))) as found:
        time.sleep(0.2)
        (tmp_path / "gone").touch()
        time.sleep(0.2)
    assert found.joules is None
    assert "did not print a number of watts" in found.warning


def test_a_run_too_short_for_two_readings_is_a_warning() -> None:
    found = measured(meter("echo 5", every=30.0), 0.05)
    assert found.joules is None
    assert "was read fewer than two times" in found.warning
    assert "`every`" in found.warning


@pytest.mark.parametrize("unit", ["watts", "joules"])
def test_an_error_of_the_program_is_raised_and_ends_the_readings(tmp_path: Path, unit: EnergyUnit) -> None:
    calls = tmp_path / "calls"

    def fail() -> None:
        with metered(meter('echo call >>"$0"; echo 5', str(calls), unit=unit)):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    before = calls.read_text()
    time.sleep(0.2)
    assert calls.read_text() == before


def test_there_is_no_message_without_a_meter() -> None:
    assert measured(None, 0) == Metered()


@given(text=st.one_of(st.text(), st.from_regex(r"[-+]?[0-9٣_.,]{1,20}([eE]-?[0-9]{1,3})?|nan|inf|0x1f")))
def test_output_of_a_meter_is_a_number_or_refused(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("harness.boards.energy.run_user_command", lambda *_, **__: text)
        found = measured(EnergyMeter(command=("meter",), unit="joules"), 0)
    assert found.warning.isprintable()
    if "it stayed" in found.warning:  # it is a number
        assert 0 <= float(text.strip()) <= 1e12
        assert text.strip().isascii()
    else:
        assert "did not print a number of joules" in found.warning


POINTS = st.lists(
    st.tuples(st.floats(0, 1e6), st.floats(0, 1e4)), max_size=20, unique_by=lambda each: each[0]
)


@given(points=POINTS)
def test_the_integral_is_between_those_of_the_least_and_the_most_power(
    points: list[tuple[float, float]],
) -> None:
    points.sort()
    found = integral(points)
    if len(points) < 2:
        assert found is None
        return
    assert found is not None
    joules, seconds = found
    watts = [power for _, power in points]
    assert seconds == points[-1][0] - points[0][0]
    assert min(watts) * seconds * 0.999 - 1e-6 <= joules <= max(watts) * seconds * 1.001 + 1e-6


def test_a_meter_that_prints_without_end_is_ended() -> None:
    meter = EnergyMeter(command=("yes", "0123456789012345678901234567890123456789"), seconds=60)
    with pytest.raises(HarnessError, match="the command yes printed more than 4 MB"):
        meter.read()
