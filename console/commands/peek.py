"""`slotkeeper slots peek`: rows of one DN's binlog, read-only. The command group is defined in `slots`.

The query names no slot in the source, so it creates no slot and moves no point. Values of a PROD source are masked,
except the key, unless --unmask is given, which is recorded in the audit.
"""

from __future__ import annotations

from datetime import timezone
from functools import partial
from typing import Annotated, Any

import typer

from slotkeeper.console.cli import completion, context, output, rights, select
from slotkeeper.console.cli.select import Json, Source, Table
from slotkeeper.console.views import binlog
from slotkeeper.console.views.binlog import Shown
from slotkeeper.core.config.model import Loaded, job_at, owners
from slotkeeper.core.domain.access import Right
from slotkeeper.core.domain.inspection import MOST_ROWS, ROWS, Ask, Filter, Page
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services import binlog_rows, looking

LATEST = "latest"
TYPES = "IdBU"

Slot = Annotated[
    str,
    typer.Option(
        "--slot",
        metavar="SLOT",
        help="from this slot's position; default: the slot of the table's only job",
        autocompletion=completion.slots,
    ),
]
Dn = Annotated[
    str,
    typer.Option(
        "--dn", metavar="NAME", help="default: the DN where the slot is furthest behind", autocompletion=completion.dns
    ),
]
From = Annotated[str, typer.Option("--from", metavar="N", help="from this position on, as shown in the rows")]
To = Annotated[str, typer.Option("--to", metavar="N|latest", help="up to this position")]
Time = Annotated[
    str, typer.Option("--time", metavar="TIME", help="from the first record at or after this time (RFC 3339)")
]
Keys = Annotated[
    list[str] | None, typer.Option("--key", metavar="COLUMN=VALUE", help="only rows with this value; can be repeated")
]
Types = Annotated[str, typer.Option("--types", metavar=TYPES, help="only these row types")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=MOST_ROWS, help="maximum number of rows")]
Newest = Annotated[bool, typer.Option("--newest", help="the last rows, regardless of any slot")]
Unmask = Annotated[bool, typer.Option("--unmask", help="show masked values; recorded in the audit")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="with --unmask: reason, for the audit")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="one JSON object per row")]


def add_to(app: typer.Typer) -> None:
    """Add the command of this module to the group."""
    app.command("peek")(peek)


def peek(
    ctx: typer.Context,
    table: Table,
    slot: Slot = "",
    dn: Dn = "",
    start: From = "",
    to: To = LATEST,
    time: Time = "",
    newest: Newest = False,
    key: Keys = None,
    types: Types = TYPES,
    limit: Limit = ROWS,
    unmask: Unmask = False,
    reason: Reason = "",
    source: Source = "",
    as_json: Json = False,
    as_jsonl: Jsonl = False,
) -> None:
    """Show rows of one DN's binlog: from the job's position, or the last rows. Creates nothing and moves nothing."""
    given = sum([bool(slot), bool(start), bool(time), newest])
    if given > 1:
        raise ConfigError("--slot, --from, --time and --newest are mutually exclusive", "use only one of them")
    loaded = context.of(ctx).load()
    place = select.place(loaded, source, table)
    slot = slot or ("" if given else own_slot(loaded, *place))
    if not types or set(types) - set(TYPES):
        raise ConfigError(f"{types!r} are not row types", f"use any of {TYPES} (d is delete, B before update)")
    kinds = () if set(types) == set(TYPES) else tuple(sorted(set(types)))
    pairs = [text.partition("=") for text in key or ()]
    for name, equals, value in pairs:
        if not name or not equals:
            raise ConfigError(f"{name + equals + value!r} is not a key", "use COLUMN=VALUE, for example --key id=4711")
    only = Filter(kinds, {name: value for name, _, value in pairs})
    after = binlog_rows.place(loaded, place[0], start) if start else None
    up_to = None if to == LATEST else binlog_rows.place(loaded, place[0], to).place
    since = select.moment(time).astimezone(timezone.utc).isoformat() if time else ""
    ask = Ask(dn, after, slot, since, up_to, only, limit)
    looking.passwords([loaded.sources[place[0]].endpoint])
    job = job_at(loaded, place[1], source=place[0])
    hides = bool(rights.access_of(context.of(ctx)).missing(Right.REVEAL, job)[0])
    asked = partial(binlog_rows.rows, loaded, *place, ask, unmask, reason, hides)
    page = looking.answer(f"source {place[0]}", asked)
    if as_json:
        output.as_json(page_values(page))
    elif as_jsonl:
        output.as_jsonl(row_values(page, one) for one in binlog.shown_rows(page))
    else:
        _print(page, select.ascii_only(ctx))


def own_slot(loaded: Loaded, source: str, table: str) -> str:
    """Return the slot of the job that reads the table; "" unless exactly one configured job does."""
    slots = list(owners(loaded, source, table))
    return slots[0] if len(slots) == 1 else ""


def page_values(page: Page) -> dict[str, Any]:
    """Return a page as JSON values; masked values are `***`."""
    key = page.identity.key
    return {
        "source": page.source,
        "table": page.table,
        "dn": page.shard,
        "dns": page.shards,
        "from": page.begun.text if page.begun else None,
        "searched_to": page.searched,
        "latest": page.latest,
        "whole": page.whole,
        "next": page.on.text if page.on else None,
        "masked": page.masked,
        "columns": [{"name": c.name, "type": c.type, "key": c.name in key} for c in page.identity.columns],
        "notes": page.notes,
        "rows": [row_values(page, one) for one in binlog.shown_rows(page)],
    }


def row_values(page: Page, one: Shown) -> dict[str, Any]:
    """Return a row as JSON values: `changed` is null if unknown, and values that an old image lacks are omitted."""
    row, key = one.row, page.identity.key
    named = {column.name: value for column, value in zip(page.identity.columns, row.values, strict=True)}
    hidden = page.masked
    return {
        "dn": page.shard,
        "position": row.position.text,
        "type": row.kind,
        "time": binlog.moment(row.time_us),
        "pair": one.pair.position.text if one.pair else None,
        "key_only": one.key_only,
        "changed": one.changed,
        "values": {
            name: value if name in key or not hidden or not value else binlog.HIDDEN
            for name, value in named.items()
            if name in key or not one.key_only
        },
    }


def _print(page: Page, ascii_only: bool) -> None:
    begun = f"from {page.begun.shown}" if page.begun else "the last rows"
    masked = ", values masked (--unmask shows them)" if page.masked else ""
    latest = "unknown" if page.latest is None else page.latest.shown
    output.line(f"{page.source} {page.table} on {page.shard}: {begun}, latest {latest}{masked}", ascii_only)
    rows = binlog.binlog_rows(page, page.masked)
    columns = binlog.binlog_columns(page, rows, output.WIDTH, gap=2)
    output.table([one.label for one in columns], [[row.cells[one.key] for one in columns] for row in rows], ascii_only)
    left = binlog.left_out(page, columns)
    if left:
        output.line(f"{left} more columns are not shown: --json shows all", ascii_only)
    if not rows:
        output.line("no rows", ascii_only)
    for note in page.notes:
        output.paragraph("note", note, ascii_only)
    if not page.whole and page.begun and page.on:
        output.line(f"more rows may follow: --dn {page.shard} --from {page.on.shown}", ascii_only)
