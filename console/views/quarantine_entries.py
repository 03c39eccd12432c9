"""Pure functions from entries of the quarantine to rows of text: the list of one job, one entry whole, what was chosen.

Next door: `console.views.quarantine` says what is held job by job; `console.tui.screens.quarantine` and `held_row`
draw.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from console.monitor.snapshot import Level
from console.views.binlog import WORDS, worded
from console.views.quarantine import Choice, HeldOf
from console.views.rows import NARROW, UNKNOWN, WIDE, Column, Row, age, clock, count
from core.domain.quarantine import COPIED, EVERYWHERE, Held, HeldState
from core.domain.text import safe

_KINDS = {**WORDS, "B": "old half of a changed key", "U": "update", COPIED: "copied row"}
_STATE = Column("state", "STATE", 10)
_COLUMNS = (
    Column("mark", "", 1),
    Column("id", "ID", 5, right=True),
    Column("since", "HELD UTC", 11),
    Column("table", "TABLE", 14, least=WIDE),
    Column("dn", "DN", 8, least=NARROW),
    Column("position", "POSITION", 12, right=True, least=NARROW),
    Column("kind", "T", 1),
    Column("key", "KEY", 0),
    Column("code", "CODE", 5),
    Column("where", "COLUMN", 12),
    Column("tries", "TRY", 3, right=True),
    Column("pair", "PAIR", 5, right=True, least=WIDE),
)


def entry_columns(every: bool) -> tuple[Column, ...]:
    """The columns of the list; what became of an entry is one of them where others than held ones are listed."""
    return (*_COLUMNS[:3], _STATE, *_COLUMNS[3:]) if every else _COLUMNS


def entry_rows(entries: Sequence[Held]) -> list[Row]:
    """The entries, the newest first as they are read."""
    by_pair = {_half(one): one for one in entries if one.pair}
    return [_entry(one, by_pair.get(_half(one, other=True))) for one in entries]


def _entry(one: Held, other: Held | None) -> Row:
    level = Level.WARNING if one.state is HeldState.HELD else Level.REST
    cells = {
        "mark": level.value,
        "id": str(one.id),
        "since": f"{one.held_at:%m-%d %H:%M}",
        "table": safe(one.source_table, 60),
        "dn": dn_words(one),
        "position": safe(one.position, 40),
        "kind": safe(one.kind, 4),
        "key": key_words(one),
        "code": safe(one.sqlstate, 10) or UNKNOWN,
        "where": safe(one.where, 60) or "-",
        "tries": count(one.tries),
        "pair": f"#{other.id}" if other else UNKNOWN if one.pair else "",
        "state": one.state.value,
    }
    order: dict[str, float | None] = {"id": one.id, "since": one.held_at.timestamp(), "tries": one.tries}
    return Row(str(one.id), level, cells, order | {"position": one.point + max(0, one.sequence) / 1e6})


def dn_words(one: Held) -> str:
    """The DN, or `all` where a copy has read the table and not its DNs."""
    return "all" if one.shard == EVERYWHERE else safe(one.shard, 40)


def key_words(one: Held) -> str:
    """The key as text; always shown."""
    return safe(", ".join(worded(value, False) for value in one.key), 300)


def other_half(one: Held, entries: Iterable[Held]) -> Held | None:
    """The other half of a changed key, where it is among these."""
    wanted = _half(one, other=True)
    return next((each for each in entries if _half(each) == wanted), None) if one.pair else None


def _half(one: Held, other: bool = False) -> tuple[str, ...]:
    """What tells a half of a changed key from all others; of the other half where that is wanted."""
    old = (one.kind == "B") is not other
    return one.source, one.source_table, one.slot, one.pair, "old" if old else "new"


def entry_lines(one: Held, other: Held | None, now: datetime) -> list[tuple[Level, str]]:
    """What is wrong with a row, what a replay would do, what moves with it, where it comes from."""
    level = Level.WARNING if one.state is HeldState.HELD else Level.REST
    where = f"   {'constraint' if one.constraint else 'column'} {safe(one.where, 60)}" if one.where else ""
    lines = [(level, f"{safe(one.sqlstate, 10) or UNKNOWN}{where}   {safe(one.message, 500)}")]
    lines.append((Level.FINE, f"replay  {replay_words(one)}"))
    if one.pair:
        half = "the other half of the changed key is not listed here"
        if other is not None:
            half = f"#{other.id}, the {'old' if other.kind == 'B' else 'new'} key {key_words(other)}"
        lines.append((Level.FINE, f"pair    {half}: both move together"))
    lines.append((Level.FINE, f"key     {key_words(one)}   {_kind(one)} of {safe(one.source_table, 60)}"))
    lines.append((Level.FINE, f"read    {dn_words(one)} {safe(one.position, 40)}   into {safe(one.target, 60)}"))
    held = f"held    since {clock(one.held_at)} UTC ({age(one.held_at, now)}), tries {one.tries}"
    lines.append((Level.FINE, f"{held}; run {safe(one.run, 40) or UNKNOWN}, epoch {one.epoch}"))
    return [*lines, *_ended(one)]


def _ended(one: Held) -> list[tuple[Level, str]]:
    if one.state is HeldState.HELD:
        return []
    by = f" by {safe(one.ended_by, 80)}" if one.ended_by else ""
    why = f": {safe(one.reason, 200)}" if one.reason else ""
    return [(Level.FINE, f"ended   {one.state.value} {clock(one.ended_at)} UTC{by}{why}")]


def _kind(one: Held) -> str:
    return _KINDS.get(one.kind, f"kind {safe(one.kind, 4)}")


def replay_words(one: Held) -> str:
    """What a replay would do to an entry."""
    if one.state is not HeldState.HELD:
        return f"does nothing: it is {one.state.value}"
    target = safe(one.target, 60)
    if one.kind == "B":
        return f"ends the row of the old key in {target}, together with the new half"
    return f"writes the row into {target} as the job does; a row that is still refused stays here"


# -- one entry whole -------------------------------------------------------------------------------------------------

VALUE_COLUMNS = (Column("mark", "", 1), Column("column", "COLUMN", 20), Column("value", "SOURCE TEXT", 0))


def value_rows(one: Held, hidden: bool) -> list[Row]:
    """The row by column, the column that the server named marked."""
    found = []
    for number, (name, value) in enumerate(one.values):
        is_it = name == one.column
        level = Level.WARNING if is_it else Level.FINE
        cells = {"mark": "*" if is_it else "", "column": safe(name, 60), "value": worded(value, hidden)}
        found.append(Row(f"{number}", level, cells))
    return found


# -- what was chosen -------------------------------------------------------------------------------------------------


def choice_of(of: HeldOf, entries: Sequence[Held], ids: Collection[int]) -> Choice:
    """What these entries of a job are."""
    chosen = [one for one in entries if one.id in ids]
    held = [one.id for one in chosen if one.state is HeldState.HELD]
    return Choice(of.job, tuple(sorted(held)), len(held), of.entries, len(chosen) - len(held))


def as_it_is(choice: Choice, entry: Held) -> Choice:
    """The same choice of one entry, which may be over by now."""
    held = entry.state is HeldState.HELD
    return replace(choice, ids=(entry.id,) if held else (), number=int(held), over=int(not held))
