"""Inserts of a large step are handled separately, and no line is lost, duplicated or changed."""

from __future__ import annotations

import io
import random
from collections import Counter
from contextlib import closing
from typing import BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotkeeper.core.drivers.pipe import SWITCH
from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.core.sinks.postgres.write.routing import Routed, whole

COMPILED = pytest.mark.skipif(not routing.BUILT, reason="no compiler built the router")

KINDS = st.sampled_from(["I", "U", "B", "d", "x", "?", "II"])
VALUES = st.sampled_from(["\\N", "", "x", "1\\t2", "\\n", "9\t9\tI\tz", "I", "\\\\"])
PLACES = [(1,), (1, 2), (2,), (3, 1)]
LINES = st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 9), KINDS, VALUES), max_size=40)


def _text(lines: list[tuple[int, int, str, str]]) -> bytes:
    return b"".join(f"{point}\t{sequence}\t{kind}\t{value}\n".encode() for point, sequence, kind, value in lines)


@pytest.fixture(autouse=True, params=[pytest.param("on", marks=COMPILED), "off"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv(SWITCH, request.param)
    return str(request.param)


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
@settings(max_examples=100, deadline=None)
@given(LINES, st.sampled_from([b"", b"5\t5\tI\tcut", b"5\t5"]), st.sampled_from(PLACES))
def test_every_line_is_either_kept_apart_or_staged(
    lines: list[tuple[int, int, str, str]], cut: bytes, places: tuple[int, ...]
) -> None:
    text = _text(lines) + cut
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "WATCHED", 0)
        with closing(Routed(io.BytesIO(text), places)) as routed:
            _agrees(routed, text, lines)


@pytest.mark.usefixtures("small")
@settings(max_examples=100, deadline=None)
@given(LINES, st.sampled_from(PLACES))
def test_no_line_is_lost_where_a_key_repeats(lines: list[tuple[int, int, str, str]], places: tuple[int, ...]) -> None:
    text = _text(lines)
    with closing(Routed(io.BytesIO(text), places)) as routed:
        _passed_on(routed, text)
        if not routed.repeated:
            keys = [_key(value, places) for _, _, kind, value in lines if kind in ("I", "U", "d")]
            assert len(set(keys)) == len(keys)


def _key(value: str, places: tuple[int, ...]) -> tuple[str, ...]:
    columns = value.split("\t")
    return tuple(column for n in places for column in columns[n - 1 : n])


@pytest.mark.parametrize(
    ("events", "repeated"),
    [
        ("Ia Ub Bb dc", False),
        ("Ia Bb Bb Ub", False),
        ("xa xa Bb xb xb", False),
        ("Ia Ia", True),
        ("Ia da", True),
        ("da Ia", True),
        ("Ua Ua", True),
        ("xa da", True),
        ("Ia xa", True),
        ("Ia Ibb", False),
    ],
)
@pytest.mark.parametrize("places", [(1,), (1, 2), (1, 2, 3), (3, 1)])
def test_two_events_of_one_key_are_seen_while_a_step_is_read(
    events: str, repeated: bool, places: tuple[int, ...]
) -> None:
    for more in ("", "\tz"):
        keys = [(event[0], "\t".join([event[1:]] * max(places)) + more) for event in events.split()]
        text = _text([(1, n, kind, row) for n, (kind, row) in enumerate(keys)])
        with closing(Routed(io.BytesIO(text), places)) as routed:
            _all(routed.rest())
            assert routed.repeated is repeated


def test_only_a_bounded_number_of_keys_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a step stays bounded; the target's checks find duplicates among the later keys."""
    monkeypatch.setattr(routing, "WATCHED", 3)
    monkeypatch.setattr(routing, "BLOCK", 1)
    for same, repeated in ((2, True), (4, False)):
        text = b"".join(b"1\t%d\tI\t%d\tz\n" % (n, 0 if n == same else n) for n in range(6))
        with closing(Routed(io.BytesIO(text), (1,))) as routed:
            _all(routed.rest())
            assert routed.repeated is repeated


def _passed_on(routed: Routed, text: bytes) -> bytes:
    """Each line is staged or an insert, except old images that are left out; return the inserts."""
    rest, apart = _all(routed.rest()), _all(routed.lines())
    missing = Counter(text.splitlines(True)) - Counter(rest.splitlines(True)) - Counter(apart.splitlines(True))
    assert len(rest.splitlines()) + len(apart.splitlines()) + routed.left_out == len(text.splitlines())
    assert sum(missing.values()) == routed.left_out
    assert all(line.split(b"\t")[2] == b"B" for line in missing)
    return apart


def _agrees(routed: Routed, text: bytes, lines: list[tuple[int, int, str, str]]) -> None:
    inserts = [one for one in lines if one[2] == "I"]
    apart = _passed_on(routed, text)
    if not routed.inserts:
        assert (routed.first, routed.second) == (None, None)
        return
    assert apart == _text(inserts)
    assert routed.inserts == len(inserts)
    bodies = _all(routed.bodies()).splitlines(True)
    assert Counter(bodies) == Counter(f"{value}\n".encode() for *_, value in inserts)
    assert (routed.first, routed.second) == max((point, sequence) for point, sequence, *_ in inserts)


def test_a_step_that_is_not_tried_is_passed_on_as_it_came() -> None:
    text = b"1\t0\tI\ta\n" * 30
    reader = io.BytesIO(text)
    assert _all(whole(reader.read(11), reader)) == text


@COMPILED
def test_the_compiled_router_and_python_route_random_steps_in_the_same_way() -> None:
    from tests.support import routed_lines

    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    assert routed_lines.compare(random.Random(seed), 20_000)


@pytest.mark.parametrize("number", [b" 1", b"+1", b"1_0", b"9223372036854775808", b"99999999999999999999"])
def test_a_step_with_unusual_numbers_is_routed_in_python(number: bytes) -> None:
    usual = b"4\t1\tB\ta\n4\t3\tB\tb\n4\t4\tU\tb\n4\t5\tI\tc\n"
    text = usual + number + b"\t6\tI\td\n" + b"5\t7\td\te\n"
    reader = io.BytesIO(text[len(usual) :])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "BLOCK", 1)
        with closing(Routed(reader, (1,), usual)) as routed:
            assert _passed_on(routed, text) == b"4\t5\tI\tc\n" + number + b"\t6\tI\td\n"
            assert (routed.inserts, routed.first) == (2, max(4, int(number)))


def test_an_old_image_is_left_out_only_before_a_new_image_with_its_key(way: str) -> None:
    pairs = {b"1\t0\tB\ta\tz\n": b"1\t1\tU\ta\ty\n", b"1\t2\tB\tb\n": b"1\t3\tU\tb\n"}
    others = [b"1\t4\tB\tc\n", b"1\t5\tU\tcc\n", b"1\t6\tB\td\n", b"1\t7\tx\td\n", b"2\t8\tB\te\n", b"1\t9\tU\te\n"]
    text = b"".join((*pairs, *others, *pairs.values()))
    with closing(Routed(io.BytesIO(text), (1,))) as routed:
        staged = sorted(_all(routed.rest()).splitlines(True))
    wanted = [*pairs.values(), *others] if way == "on" else text.splitlines(True)
    assert staged == sorted(wanted)
    assert routed.left_out == (2 if way == "on" else 0)


@pytest.mark.parametrize(("places", "wanted"), [((1,), b"a1\tz\na2\tb\nc\ta\n"), ((2,), b"c\ta\na2\tb\na1\tz\n")])
def test_inserts_come_in_the_order_of_their_keys(places: tuple[int, ...], wanted: bytes) -> None:
    text = b"1\t0\tI\tc\ta\n1\t1\tI\ta1\tz\n1\t2\tI\ta2\tb\n"
    with closing(Routed(io.BytesIO(text), places)) as routed:
        assert _all(routed.rest()) == b""
        assert _all(routed.bodies()) == wanted


def test_a_large_step_has_its_inserts_apart() -> None:
    text = b"".join(b"1\t0\tI\t%d\n" % n for n in range(routing.LEAST)) + b"1\t1\td\ta\n"
    with closing(Routed(io.BytesIO(text), (1,))) as routed:
        assert _all(routed.rest()) == b"1\t1\td\ta\n"
        assert routed.inserts == routing.LEAST
