"""Whether a table can serve a row filter: its columns are the row's own, and no type of theirs makes it say otherwise.

Only the driver and `doctor` ask, because workers need no parser.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slotkeeper.core import row_filter
from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.slot import TableIdentity

_TEXTS = ("text", "character", "varchar", "bpchar", "nvarchar2", "clob", "name", '"char"')
"""Types whose values may say now: cast to a time they would be another one at each reading."""


def objections(where: str, identity: TableIdentity, casts: Iterable[tuple[str, str]]) -> Iterator[Objection]:
    """What this table has against a filter; `where` is what `row_filter.read` gave as text.

    `casts` are columns whose type has a cast by somebody's function, with its name: whoever owns a type may make one.
    """
    try:
        found = row_filter.read(where)
    except row_filter.WrongFilter as error:
        yield Objection(f"where cannot be read: it {error}", "correct the channel's row filter")
        return
    if found.text != where:
        yield Objection(
            "where is not what a row filter is read as", "give the job the text of slotkeeper.core.row_filter.read"
        )
        return
    types = {column.name: identity.plain(column.type) for column in identity.columns}
    absent = sorted(found.columns - set(types))
    if absent:
        known = ", ".join(types)
        yield Objection(f"where names column {absent[0]!r}, which the source table has not", f"it has {known}")
        return
    for name, function in casts:
        if name in found.columns:  # also one without a cast behind it: a function of text casts it by itself
            what = f"where uses column {name!r}, and a cast of its type {types[name]} runs {function} as our login"
            yield Objection(what, "filter by another column, or drop the cast (DROP CAST)")
    for name in sorted(found.bare):
        own = identity.user_type(types[name])
        if own and own.kind != "e":
            what = f"where uses column {name!r} as it is, whose type {types[name]} has operators of its own"
            yield Objection(what, "write a cast behind the column, such as ::text")
    for name in sorted(found.timed):
        if types[name].startswith(_TEXTS) or identity.user_type(types[name]):
            what = f"where casts column {name!r} from {types[name]} to a time: a row that says now would move"
            yield Objection(what, "compare it as text, or keep the time in a column of its own")
