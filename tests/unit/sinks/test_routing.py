"""Inserts of a large step are kept apart, and no line is lost, doubled or changed by it."""

from __future__ import annotations

import io
from collections import Counter
from contextlib import closing
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.sinks.postgres.write import routing
from core.sinks.postgres.write.routing import Routed, whole

KINDS = st.sampled_from(["I", "U", "B", "d", "x", "?", "II"])
VALUES = st.sampled_from(["\\N", "", "x", "1\\t2", "\\n", "9\t9\tI\tz", "I", "\\\\"])
LINES = st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9), KINDS, VALUES), max_size=40)


def _text(lines: list[tuple[int, int, str, str]]) -> bytes:
    return b"".join(f"{point}\t{sequence}\t{kind}\t{value}\n".encode() for point, sequence, kind, value in lines)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routing, "LEAST", 1)
    monkeypatch.setattr(routing, "BLOCK", 16)
    monkeypatch.setattr(routing, "SPOOL", 64)
    monkeypatch.setattr(routing, "SORTED", 64)
    monkeypatch.setattr(routing, "TOGETHER", 2)


def _all(reader: BinaryIO) -> bytes:
    return b"".join(iter(lambda: reader.read(7) or b"", b""))


@pytest.mark.usefixtures("small")
@settings(max_examples=300, deadline=None)
@given(LINES, st.sampled_from([b"", b"5\t5\tI\tcut", b"5\t5"]))
def test_every_line_is_either_kept_apart_or_staged(lines: list[tuple[int, int, str, str]], cut: bytes) -> None:
    text = _text(lines) + cut
    with closing(Routed(io.BytesIO(text))) as routed:
        _agrees(routed, text, lines)


def _agrees(routed: Routed, text: bytes, lines: list[tuple[int, int, str, str]]) -> None:
    rest = _all(routed.rest())
    inserts = [one for one in lines if one[2] == "I"]
    apart = _all(routed.lines())
    assert Counter(rest.splitlines(True)) + Counter(apart.splitlines(True)) == Counter(text.splitlines(True))
    if not routed.inserts:
        assert rest == text
        assert (routed.first, routed.second) == (None, None)
        return
    assert apart == _text(inserts)
    assert routed.inserts == len(inserts)
    for places in ((1,), (1, 2), (2,), (3, 1)):
        rows = _all(routed.bodies(places)).splitlines(True)
        assert Counter(rows) == Counter(f"{value}\n".encode() for *_, value in inserts)
    assert (routed.first, routed.second) == max((point, sequence) for point, sequence, *_ in inserts)


def test_a_step_that_is_not_tried_is_passed_on_as_it_came() -> None:
    text = b"1\t0\tI\ta\n" * 30
    reader = io.BytesIO(text)
    assert _all(whole(reader.read(11), reader)) == text


@pytest.mark.parametrize(("places", "wanted"), [((1,), b"a1\tz\na2\tb\nc\ta\n"), ((2,), b"c\ta\na2\tb\na1\tz\n")])
def test_inserts_come_in_the_order_of_their_keys(places: tuple[int, ...], wanted: bytes) -> None:
    text = b"1\t0\tI\tc\ta\n1\t1\tI\ta1\tz\n1\t2\tI\ta2\tb\n"
    with closing(Routed(io.BytesIO(text))) as routed:
        assert _all(routed.rest()) == b""
        assert _all(routed.bodies(places)) == wanted


def test_a_large_step_has_its_inserts_apart() -> None:
    text = b"1\t0\tI\ta\n" * routing.LEAST + b"1\t1\td\ta\n"
    with closing(Routed(io.BytesIO(text))) as routed:
        assert _all(routed.rest()) == b"1\t1\td\ta\n"
        assert routed.inserts == routing.LEAST
