"""YAML documents: scalars, lines, and refusals."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.config.document import Node, nearest, parse_document, read_document
from harness.errors import ConfigurationError


@pytest.mark.parametrize(
    ("source", "kind", "scalar"),
    [
        ("12", "integer", 12),
        ("-3", "integer", -3),
        ("1e-3", "number", 1e-3),
        (".5", "number", 0.5),
        ("2.", "number", 2.0),
        ("true", "boolean", True),
        ("False", "boolean", False),
        ("~", "nothing", None),
        ("''", "text", ""),
        ("'12'", "text", "12"),
        ("!!str 12", "text", "12"),
        ("!!int '12'", "integer", 12),
        ("on", "text", "on"),
        ("no", "text", "no"),
        ("12:30", "text", "12:30"),
        ("2024-01-01", "text", "2024-01-01"),
        ("0x10", "text", "0x10"),
        ("3-7", "text", "3-7"),
        (".inf", "text", ".inf"),
        ("1_000", "text", "1_000"),
        ("=", "text", "="),
    ],
)
def test_scalars_follow_the_core_schema(source: str, kind: str, scalar: object) -> None:
    node = parse_document(f"key: {source}\n", "f").entries["key"]
    assert (node.kind, node.scalar) == (kind, scalar)
    assert type(node.scalar) is type(scalar)


def test_lines_count_from_one() -> None:
    root = parse_document("# first\na: 1\nb:\n  - x\n  - {c: 2}\n", "f")
    assert root.key_lines == {"a": 2, "b": 3}
    assert [item.line for item in root.entries["b"].items] == [4, 5]
    assert root.entries["b"].items[1].entries["c"].line == 5
    assert "f:3: wrong" in str(root.error("wrong", key="b"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: [\n", "f:3:"),
        ("a: 1\na: 2\n", "f:2: the key a is already set on line 1"),
        ("a: &x 1\nb: *x\n", "f:1: anchors and aliases"),
        ("b: *x\n", "f:1: anchors and aliases"),
        ("? [1, 2]\n: 3\n", "f:1: a key must be a word"),
        ("a: !!python/object:os.system x\n", "f:1: the tag"),
        ("a: !!int x\n", 'f:1: "x" is not a usable int'),
        ("a: !!set {b}\n", "f:1: the tag"),
        ("a: 1e999\n", "f:1: "),
        ("a: " + "9" * 5000 + "\n", "f:1: "),
        ("a: 1\n---\nb: 2\n", "f:2:"),
        ("a: \x01\n", "f:1: the character U+0001"),
        ("[\n" * 5000, "f:65: nested too deeply"),
        ("{a: " * 5000, "f:1: nested too deeply"),
        ("a: [\n" + "{}, " * 50_000, "f:2: more than 50,000 values"),
        ("1: 1\n? &x 2\n: 3\n", "f:2: anchors and aliases"),
        ("a: !x [1]\n", "f:1: the tag !x"),
        ("\tb: 1", "f:1:"),
        ('a: "\\ud83d"', "f:1: holds half a character"),
    ],
)
def test_errors_name_the_line(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^f:") as caught:
        parse_document(text, "f")
    assert expected in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "sweep.yaml").write_text("a: 1")
    with pytest.raises(ConfigurationError, match=r"Did you mean .*/sweep\.yaml\?"):
        read_document(tmp_path / "swep.yaml")
    (tmp_path / "latin").write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(ConfigurationError, match=r"latin:2: not UTF-8 text \(byte 8\)"):
        read_document(tmp_path / "latin")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_document(tmp_path)
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(1 << 30)
    with pytest.raises(ConfigurationError, match="larger than 1 MiB"):
        read_document(tmp_path / "large")


def test_keys_are_text_whatever_they_look_like() -> None:
    huge = "9" * 1000
    root = parse_document(f"{huge}: 1\n~: 2\n1e999: 3\ntrue: 4\n", "f")
    assert list(root.entries) == [huge, "~", "1e999", "true"]


def test_a_megabyte_of_braces_is_refused_at_once() -> None:
    start = time.process_time()
    with pytest.raises(ConfigurationError, match="more than 50,000 values"):
        parse_document("a: [" + "{a: 1}, " * 131_000 + "]", "f")
    assert time.process_time() - start < 10  # 13 s on a fast machine where all of it is parsed in Python


@pytest.fixture(params=["libyaml", "python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("yaml.__with_libyaml__", request.param == "libyaml")
    return str(request.param)


def test_both_parsers_give_the_same(parser: str) -> None:
    text = (
        """\
# first
a: {b: [1, 'x', "\\ud83d\\ude00 \\x41"], c: |
    two
    lines
  }
""".replace("c: |\n    two\n    lines\n  }", "c: d}")
        + "e: >-\n  folded\n  text\nf:\n- g: ~\n  h:\n-\n"
    )
    root = parse_document(text, "f")
    assert _value(root) == {
        "a": {"b": [1, "x", "😀 A"], "c": "d"},
        "e": "folded text",
        "f": [{"g": None, "h": None}, None],
    }
    assert [node.line for node in _all(root)] == [2, 2, 2, 2, 2, 2, 2, 3, 7, 7, 7, 8, 9]
    for broken in ("a: 1\nb: [\n", "\tb: 1", "a: b: c\n", "a: 'x\n\n"):
        with pytest.raises(ConfigurationError) as caught:
            parse_document(broken, "f")
        assert re.match(r"f:[1-3]: [a-z]", str(caught.value))


YAMLISH = st.sampled_from(" \n\t-:{}[],#&*!|>'\"%@`?~0a1.é\u2028\ud7ff\x85\x00") | st.characters()


@given(st.text(alphabet=YAMLISH))
@example("?")  # libyaml places the missing key behind the text
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    places = []
    try:
        places += [f"f:{node.line}:" for node in _all(parse_document(text, "f"))]
    except ConfigurationError as error:
        places.append(str(error))
    lines = len(re.split("\r\n|[\n\r\x85\u2028\u2029]", text))
    for place in places:
        found = re.match(r"f:(\d+):", place)
        assert found
        assert 1 <= int(found[1]) <= lines


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        # YAML allows keys of 1024 characters, and JSON escapes one of them as up to twelve.
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=80), inner),
        max_leaves=20,
    )
)
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert _value(parse_document(json.dumps(value), "f")) == value


def test_nearest_ignores_case_and_gives_nothing_for_nonsense() -> None:
    assert nearest("Polices", ["policies", "models"]) == "policies"
    assert nearest("zzz", ["policies", "models"]) == ""


def _all(node: Node) -> list[Node]:
    found = [node]
    for child in (*node.items, *node.entries.values()):
        found += _all(child)
    return found


def _value(node: Node) -> object:
    if node.kind == "list":
        return [_value(item) for item in node.items]
    if node.kind == "mapping":
        return {key: _value(value) for key, value in node.entries.items()}
    return node.scalar
