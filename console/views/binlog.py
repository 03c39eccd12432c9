"""Convert a page of binlog rows to table rows, with update pairs, changed columns, and the history of a key. Pure.

An update consists of two events: a B immediately followed by its U at the same sync point. A B or d event can contain
only the key; the changed columns are then shown as `?`, never as "nothing".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.console.monitor.snapshot import Level, TableSeen
from slotkeeper.console.views.rows import UNKNOWN, Column, Row, both_ends, short
from slotkeeper.core.domain.inspection import Ask, ChangeRow, Page
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe

SIGNS = {"I": "+", "B": "<", "U": ">", "d": "-"}
WORDS = {"I": "insert", "B": "before update", "U": "after update", "d": "delete"}
HIDDEN = "***"
KEY_ONLY = "(pk only)"
_NULL, _EMPTY = "NULL", "''"
_NUMBERS = ("smallint", "integer", "bigint", "numeric", "real", "double", "tinyint")
_WIDEST = 20
_CHANGED_LEAST = 9
_CELL = 300


@dataclass(frozen=True, slots=True)
class Shown:
    """A row of a page. `pair` is the other half of an update; `changed` is None if it cannot be determined.

    `key_only` is true if the old image contains only the key, or if every other column in it is NULL.
    """

    row: ChangeRow
    pair: ChangeRow | None
    changed: tuple[str, ...] | None
    key_only: bool

    @property
    def key(self) -> str:
        """The row's key, unique on its DN."""
        return self.row.key


def shown_rows(page: Page) -> list[Shown]:
    """Return the rows of a page with their pairs and the columns that each update changed."""
    at = {row.position.pair: row for row in page.rows}
    found = []
    for row in page.rows:
        pair = None
        if row.kind in ("B", "U"):
            first, second = row.position.pair
            other = at.get((first, second + (1 if row.kind == "B" else -1)))
            pair = other if other is not None and {row.kind, other.kind} == {"B", "U"} else None
        found.append(Shown(row, pair, _changed(page, row, pair), _key_only(page, row)))
    return found


def _changed(page: Page, row: ChangeRow, pair: ChangeRow | None) -> tuple[str, ...] | None:
    if row.kind != "U":
        return ()
    if pair is None or _key_only(page, pair):
        return None
    names = [column.name for column in page.identity.columns]
    return tuple(name for name, old, new in zip(names, pair.values, row.values, strict=True) if old != new)


def _key_only(page: Page, row: ChangeRow) -> bool:
    key = page.identity.key
    rest = [value for column, value in zip(page.identity.columns, row.values, strict=True) if column.name not in key]
    return row.kind in ("B", "d") and bool(rest) and all(value is None for value in rest)


def key_of(page: Page, row: ChangeRow) -> dict[str, str]:
    """Return the key values of a row, without NULLs."""
    named = zip(page.identity.columns, row.values, strict=True)
    return {column.name: value for column, value in named if column.name in page.identity.key and value is not None}


def key_words(key: Mapping[str, str]) -> str:
    """Return a key as text."""
    return " ".join(f"{safe(name, 40)}={worded(value, False)}" for name, value in key.items())


def history(page: Page, key: Mapping[str, str]) -> list[ChangeRow]:
    """Return the rows of a page that change a key."""
    return [row for row in page.rows if key and key_of(page, row) == key]


def net_effect(rows: Sequence[ChangeRow]) -> str:
    """Return a key's history as glyphs (one glyph for both events of an update) and its net effect.

    >>> row = lambda kind, n: ChangeRow(n, kind, None, ())
    >>> net_effect([row("I", 1), row("B", 2), row("U", 3), row("d", 4)])
    '+ > -  net: deleted'
    >>> net_effect([row("B", 1)]), net_effect([])
    ('<  net: key changed', 'no rows')
    """
    if not rows:
        return "no rows"
    last, kinds = len(rows) - 1, [row.kind for row in rows]
    signs = [
        SIGNS.get(kind, UNKNOWN)
        for place, kind in enumerate(kinds)
        if kind != "B" or place == last or kinds[place + 1] != "U"
    ]
    ends = {"I": "inserted", "d": "deleted", "B": "key changed"}
    net = ends.get(kinds[-1], "inserted" if kinds[0] == "I" else "updated")
    return f"{' '.join(signs)}  net: {net}"


def worded(value: str | None, hidden: bool) -> str:
    """Return a value as text; NULL, the empty string and a masked value cannot be confused with literal values.

    >>> [worded(value, False) for value in (None, "", "NULL", "it's", "'a'")]
    ['NULL', "''", "'NULL'", "it's", "''a''"]
    >>> worded("secret", True), worded(None, True), worded("", True)
    ('***', 'NULL', "''")
    """
    if value is None:
        return _NULL
    if not value:
        return _EMPTY
    if hidden:
        return HIDDEN
    return safe(f"'{value}'" if value in (_NULL, HIDDEN) or value.startswith("'") else value, 5_000)


def moment(time_us: int | None) -> datetime | None:
    """Return the time of a row."""
    return None if time_us is None else datetime.fromtimestamp(time_us / 1_000_000, timezone.utc)


# -- the table -------------------------------------------------------------------------------------------------------


def binlog_rows(page: Page, hidden: bool) -> list[Row]:
    """Return the rows of a page in the order of the stream."""
    return [Row(one.key, Level.FINE, _cells(page, one, hidden)) for one in shown_rows(page)]


def _cells(page: Page, one: Shown, hidden: bool) -> dict[str, str]:
    row, key = one.row, page.identity.key
    at = moment(row.time_us)
    cells = {
        "mark": SIGNS.get(row.kind, UNKNOWN),
        "point": row.position.shown,
        "sequence": str(row.position.pair[1]),
        "type": safe(row.kind, 4),
        "time": "" if at is None else f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}",
        "changed": changed_words(one),
    }
    for number, (column, value) in enumerate(zip(page.identity.columns, row.values, strict=True)):
        absent = one.key_only and column.name not in key
        text = "" if absent else worded(value, hidden and column.name not in key)
        cells[f"v{number}"] = text[:_CELL]
    return cells


def changed_words(one: Shown) -> str:
    """Return the text of the column CHANGED."""
    if one.key_only:
        return KEY_ONLY
    if one.row.kind != "U":
        return ""
    if one.changed is None:
        return UNKNOWN
    return safe(",".join(one.changed), 200) or "nothing"


def binlog_columns(page: Page, rows: Sequence[Row], width: int, gap: int = 1) -> tuple[Column, ...]:
    """Return the columns that fit: position, key, then values, changed ones first. CHANGED takes the rest."""
    columns = [
        Column("mark", "", 1),
        _fitted("point", page.rows[0].position.called.upper() if page.rows else "POINT", rows, right=True),
        _fitted("sequence", "SEQ", rows, right=True),
        Column("type", "T", 1),
    ]
    if any(row.cells["time"] for row in rows):
        columns.append(Column("time", "TIME", 12))
    names = [column.name for column in page.identity.columns]
    changed = {name for one in shown_rows(page) for name in one.changed or ()}
    order = sorted(range(len(names)), key=lambda n: (names[n] not in page.identity.key, names[n] not in changed, n))
    for number in order:
        numeric = page.identity.columns[number].type.startswith(_NUMBERS)
        made = _fitted(f"v{number}", safe(names[number], _WIDEST), rows, numeric)
        if sum(one.width + gap for one in (*columns, made)) + _CHANGED_LEAST + gap > width:
            break
        columns.append(made)
    return (*columns, Column("changed", "CHANGED", 0))


def left_out(page: Page, columns: Iterable[Column]) -> int:
    """Return the number of the table's columns that do not fit."""
    return len(page.identity.columns) - sum(one.key.startswith("v") for one in columns)


def _fitted(key: str, label: str, rows: Sequence[Row], right: bool = False) -> Column:
    widest = max((len(row.cells[key]) for row in rows), default=0)
    return Column(key, label, max(len(label), min(_WIDEST, widest)), right)


# -- one row in full -------------------------------------------------------------------------------------------------

IMAGE_COLUMNS = (
    Column("mark", "", 1),
    Column("column", "COLUMN", 18),
    Column("before", "BEFORE", 22),
    Column("after", "AFTER", 0),
)


def images(page: Page, key: str | None, hidden: bool) -> list[Row]:
    """Return the columns of a row before and after the change; changed ones are marked with `*`."""
    one = next((each for each in shown_rows(page) if each.key == key), None)
    if one is None:
        return []
    row, pair = one.row, one.pair
    sides: dict[str, tuple[ChangeRow | None, ChangeRow | None]] = {"B": (row, pair), "I": (None, row), "U": (pair, row)}
    before, after = sides.get(row.kind, (row, None))
    changed = set(one.changed or ())
    if one.row.kind == "B" and one.pair is not None:
        changed |= set(_changed(page, one.pair, one.row) or ())
    found = []
    for number, column in enumerate(page.identity.columns):
        secret = hidden and column.name not in page.identity.key
        cells = {
            "mark": "*" if column.name in changed else "",
            "column": safe(column.name, 60),
            "before": _image(page, before, number, secret),
            "after": _image(page, after, number, secret),
        }
        found.append(Row(column.name, Level.FINE, cells))
    return found


def _image(page: Page, row: ChangeRow | None, number: int, hidden: bool) -> str:
    if row is None or (_key_only(page, row) and page.identity.columns[number].name not in page.identity.key):
        return ""
    return worded(row.values[number], hidden)


def image_title(page: Page, key: str | None) -> str:
    """Return the title of the selected row."""
    one = next((each for each in shown_rows(page) if each.key == key), None)
    if one is None:
        return "no row is selected"
    with_its = f", paired with {one.pair.kind}" if one.pair else ""
    alone = "" if one.pair or one.row.kind not in ("B", "U") else ", its other half is on another page"
    at = moment(one.row.time_us)
    when = f"   {at:%m-%d %H:%M:%S}.{at.microsecond:06d} UTC" if at else ""
    place = one.row.position
    where = place.plain if place.called == "point" else f"{place.called} {place.plain}"
    return f"{where} {safe(one.row.kind, 4)} {WORDS.get(one.row.kind, 'unknown')}{with_its}{alone}{when}"


def read_so_far(page: Page, seen: TableSeen | None, key: Mapping[str, str]) -> list[str]:
    """Return one line per slot with its position on this DN, from the last slot poll. Sends no query."""
    if seen is None or seen.slots is None:
        return ["slot positions are not known yet (press 3 to see them)"]
    rows = history(page, key) or list(page.rows)
    said = []
    for slot in seen.slots.slots:
        own = seen.retained.slot(slot.name).shards if seen.retained and not seen.retained.words.marks else ()
        here = next((one for one in own or slot.shards if one.shard == page.shard), None)
        points = [one for one in (here.live, here.durable) if one is not None] if here else []
        name = both_ends(safe(slot.name), 40)
        if not points:
            said.append(f"{name} {UNKNOWN}")
            continue
        past = [row.kind for row in rows if row.position <= min(points)]
        share = "all" if len(past) == len(rows) else " ".join(past) if key else f"{len(past)} of {len(rows)} rows"
        said.append(f"{name} has read to {min(points).shown} ({share or 'none'})")
    return said or ["no slot found"]


# -- the tables to inspect --------------------------------------------------------------------------------------------

PLACE_COLUMNS = (
    Column("mark", "", 1),
    Column("table", "TABLE", 0, name=True),
    Column("source", "SOURCE", 16),
    Column("job", "READ BY", 24),
    Column("dns", "LANES", 5, right=True),
)


@dataclass(frozen=True, slots=True)
class Place:
    """A source table that a configured job reads, with the slots of those jobs."""

    source: str
    table: str
    jobs: tuple[str, ...]
    slots: tuple[str, ...]

    @property
    def key(self) -> str:
        """The table's key, unique among all tables."""
        return f"{self.source}\x1f{self.table}"

    @property
    def slot(self) -> str:
        """The slot to start from; empty unless exactly one slot reads the table."""
        return self.slots[0] if len(self.slots) == 1 else ""


def places_of(jobs: Iterable[JobSpec]) -> list[Place]:
    """Return the tables that jobs read, according to the configuration. Does not query any source."""
    found: dict[tuple[str, str], list[JobSpec]] = {}
    for job in jobs:
        for channel in job.channels:
            found.setdefault((job.source.name, channel.source_table), []).append(job)
    return [
        Place(source, table, tuple(job.name for job in some), tuple(job.slot for job in some if job.binlog.binlog))
        for (source, table), some in sorted(found.items(), key=lambda item: item[0])
    ]


def place_rows(places: Iterable[Place], tables: Mapping[tuple[str, str], TableSeen]) -> list[Row]:
    """Return the tables as rows; the number of DNs is known only after slots have been polled."""
    rows = []
    for one in places:
        seen = tables.get((one.source, one.table))
        shards = {each.shard for slot in seen.slots.slots for each in slot.shards} if seen and seen.slots else set()
        cells = {
            "mark": "",
            "table": safe(one.table, 120),
            "source": safe(one.source, 40),
            "job": safe(", ".join(one.jobs), 120),
            "dns": str(len(shards)) if shards else UNKNOWN,
        }
        rows.append(Row(one.key, Level.FINE, cells))
    return rows


def said_of(ask: Ask, page: Page | None, part: str = "DN") -> str:
    """Describe the query: the DN in its source's terms, the range, the row types, and the key."""
    shard = page.shard if page else ask.dn or UNKNOWN
    if page is not None:
        begun = f"{page.begun.shown}.." if page.begun else "the last rows.."
    else:
        begun = f"{ask.after.shown if ask.after else ask.time or ask.slot or 'the last rows'}.."
    end = "latest" if ask.up_to is None else ask.up_to.shown
    said = [f"{part} {safe(shard, 40)}", f"{safe(begun, 60)}{end}", "".join(ask.filter.kinds) or "IdBU"]
    return "  ".join([*said, f"key {key_words(ask.filter.key)}"] if ask.filter.key else said)


def image_lines(rows: Sequence[Row], width: int) -> list[tuple[Level, str]]:
    """Return the values before and after the change as lines, changed columns first; long values end with two dots."""
    if not rows:
        return []
    name = min(24, max(len("COLUMN"), *(len(row.cells["column"]) for row in rows)))
    room = max(8, (width - name - 8) // 2)
    lines = [(Level.REST, f"  {'COLUMN':<{name}}  {'BEFORE':<{room}}  AFTER")]
    for row in sorted(rows, key=lambda one: one.cells["mark"] != "*"):
        cells = [short(row.cells[key], most) for key, most in (("column", name), ("before", room), ("after", room))]
        level = Level.WARNING if row.cells["mark"] else Level.FINE
        lines.append((level, f"{row.cells['mark'] or ' '} {cells[0]:<{name}}  {cells[1]:<{room}}  {cells[2]}".rstrip()))
    return lines
