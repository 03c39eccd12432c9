"""Any value that a table may contain is read from a binlog row as PostgreSQL would write it.

The expected text is Python's own text of the value (datetime, Decimal, JSON), never the decoder's.
"""

from __future__ import annotations

import random
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slotkeeper.core.domain.slot import Column
from slotkeeper.core.sources.hologres.stream.shard import ShardStream
from slotkeeper.core.sources.hologres.stream.values import RowReader
from slotkeeper.demo.hologres.stream_rows import array, message, row

EPOCH = datetime(1970, 1, 1)
US = timedelta(microseconds=1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
Made = tuple[str, Any, str | None]
"""A column's type, its value as the encoder takes it, and the expected text."""


EVENTS = {"I": (5,), "U": (3, 7), "D": (2,)}


def whole(type_: str, bits: int) -> st.SearchStrategy[Made]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1).map(lambda value: (type_, value, str(value)))


def fraction(moment: datetime) -> str:
    return f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""


def day(value: date) -> Made:
    return "date", (value - date(1970, 1, 1)).days, value.isoformat()


def moment(value: datetime) -> Made:
    text = value.replace(microsecond=0).isoformat(" ") + fraction(value)
    return "timestamp without time zone", (value - EPOCH) // US, text


def zoned(value: datetime) -> Made:
    value = value.replace(microsecond=value.microsecond // 1000 * 1000)
    text = value.replace(microsecond=0).isoformat(" ") + fraction(value)
    return "timestamp with time zone", (value - EPOCH) // US // 1000, f"{text}+00"


def at(value: datetime) -> Made:
    start = value.replace(hour=0, minute=0, second=0, microsecond=0)
    return "time without time zone", (value - start) // US, value.strftime("%H:%M:%S") + fraction(value)


def at_zone(value: datetime, minutes: int) -> Made:
    _, us, text = at(value)
    zone = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02d}" + (f":{abs(minutes) % 60:02d}" * bool(minutes % 60))
    return "time with time zone", struct.pack("<qi4x", us, -60 * minutes), f"{text}{zone}"


def numeric(digits: int, scale: int) -> Made:
    value = Decimal(f"{digits}E-{scale}")
    raw = digits.to_bytes(16, "little", signed=True)
    return f"numeric(38,{scale})", raw, f"{value:.{scale}f}"


def texts(type_: str, value: str) -> Made:
    return type_, value.encode(), value


def elements(values: list[str | None]) -> Made:
    """The array's text is not compared with another encoder's text, but read back by `unquoted`."""
    return "text[]", array("Q", [None if one is None else one.encode() for one in values]), repr(values)


DATETIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
ANY: st.SearchStrategy[Made] = st.one_of(
    whole("smallint", 16),
    whole("integer", 32),
    whole("bigint", 64),
    st.integers(0, 2**32 - 1).map(lambda value: ("oid", value, str(value))),
    st.booleans().map(lambda value: ("boolean", value, "t" if value else "f")),
    st.dates().map(day),
    DATETIMES.map(moment),
    DATETIMES.map(zoned),
    DATETIMES.map(at),
    st.builds(at_zone, DATETIMES, st.integers(-15 * 60, 15 * 60)),
    st.builds(numeric, st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 38)),
    st.builds(texts, st.sampled_from(["text", "character varying(40)", "json", "jsonb"]), TEXTS),
    st.binary(max_size=40).map(lambda value: ("bytea", value, "\\x" + value.hex())),
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), max_size=70).map(
        lambda some: ("bigint[]", array("q", some), f"{{{','.join('NULL' if x is None else str(x) for x in some)}}}")
    ),
    st.lists(st.one_of(st.none(), st.booleans()), max_size=70).map(
        lambda some: (
            "boolean[]",
            array("?", some),
            f"{{{','.join({None: 'NULL', True: 't', False: 'f'}[x] for x in some)}}}",
        )
    ),
)
NULLS = ANY.map(lambda made: (made[0], None, None))
ROWS = st.lists(st.one_of(ANY, ANY, NULLS), max_size=130)


def read(made: list[Made]) -> tuple[str | None, ...]:
    raw = row(2**62, 7, 1_700_000_000_000_000, [one[0] for one in made], [one[1] for one in made])
    found = RowReader([Column(f"c{place}", one[0]) for place, one in enumerate(made)]).row(raw)
    assert (found.lsn, found.type, found.us) == (2**62, 7, 1_700_000_000_000_000)
    return found.values


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_a_row_of_any_values_comes_out_as_they_are(made: list[Made]) -> None:
    assert read(made) == tuple(one[2] for one in made)


@settings(max_examples=100, deadline=None)
@given(st.floats(), st.floats(width=32))
def test_floats_come_out_as_texts_of_the_same_number(double: float, real: float) -> None:
    one, two = read([("double precision", double, ""), ("real", real, "")])
    assert one is not None
    assert two is not None
    assert struct.pack("<d", float(one)) == struct.pack("<d", double) or double != double
    assert struct.pack("<f", float(two)) == struct.pack("<f", real) or real != real
    assert len(one) <= 24
    assert len(two) <= 15


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.none(), TEXTS), max_size=70))
def test_an_array_of_texts_can_be_read_back(values: list[str | None]) -> None:
    (text,) = read([elements(values)])
    assert text is not None
    assert unquoted(text) == values


def unquoted(text: str) -> list[str | None]:
    """An array's elements by PostgreSQL's rules ("Array Input and Output Syntax"), written apart."""
    found: list[str | None] = []
    rest = text[1:-1]
    while rest:
        if rest[0] == '"':
            out, place = "", 1
            while rest[place] != '"':
                place += rest[place] == "\\"
                out += rest[place]
                place += 1
            found.append(out)
            rest = rest[place + 2 :]
        else:
            one, _, rest = rest.partition(",")
            found.append(None if one.upper() == "NULL" else one)
    return found


@pytest.mark.parametrize("count", [100, pytest.param(20_000, marks=pytest.mark.chaos)])
def test_however_rows_are_cut_into_messages_and_sent_again_each_comes_once(count: int, seed: int) -> None:
    """Messages begin at any row that was sent before, or where a new connection begins, and end anywhere."""
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(count):
        events = [event for change in draw.choices("IUD", k=draw.randint(1, 25)) for event in EVENTS[change]]
        rows = [row(lsn, event, 1, ["bigint"], [lsn]) for lsn, event in enumerate(events, 1)]
        stream, came, sent = ShardStream(0, _columns), list[int](), 0
        while stream.lsn < len(rows):
            if sent == len(rows) or draw.random() < 0.2:
                sent = max(0, stream.connected())
            begin = draw.randint(max(0, sent - 3), sent)
            end = draw.randint(begin + 1, min(begin + 6, len(rows)))
            came += [one.lsn for one in stream.feed(message(rows[begin:end])).rows]
            sent = max(sent, end)
        assert came == list(range(1, len(rows) + 1))


def _columns() -> tuple[int, list[Column]]:
    return 1, [Column("id", "bigint")]
