"""Pictures of calibration that are evaluated on as well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.accuracy.overlap import overlap, picture_digest
from harness.errors import ConfigurationError


def test_pictures_are_recognised_by_their_content(tmp_path: Path) -> None:
    pictures = [tmp_path / f"{number}.jpg" for number in range(4)]
    for number, picture in enumerate(pictures):
        picture.write_text(str(number % 3))  # the last one is a copy of the first
    calibration = tmp_path / "c.json"
    calibration.write_text(json.dumps({"pictures": [picture_digest(picture) for picture in pictures[:2]]}))
    assert overlap(calibration, pictures) == 3
    assert overlap(calibration, pictures[2:3]) == 0
    calibration.write_text("{}")  # of an earlier version
    assert overlap(calibration, pictures) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", r"c\.json:1: not JSON"),
        ("[]", "not a calibration file"),
        ('{"pictures": 1}', "pictures: expected a list of digests"),
        ('{"pictures": [1]}', "pictures: expected a list of digests"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "thousands of digits"),
    ],
)
def test_another_file_is_an_error(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(ConfigurationError, match=what):
        overlap(tmp_path / "c.json", [])
