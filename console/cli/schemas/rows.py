"""What `errors` prints: rows in quarantine."""

from __future__ import annotations

from slotkeeper.console.cli.schemas.pieces import (
    SQLSTATE,
    Schema,
    by_name,
    either,
    flag,
    listed,
    maybe,
    moment,
    text,
    thing,
    whole,
    word_of,
)
from slotkeeper.core.domain.quarantine import EntryState

_ID = whole("the entry's number", 1)
_STATE = word_of("what became of it", EntryState)

_ENTRY: dict[str, Schema] = {
    "id": _ID,
    "source": text("the source's name"),
    "source_table": text("schema.table at the source"),
    "slot": text("the slot's name"),
    "shard": text("the DN's name; * where a copy read it"),
    "target": text("schema.table at the sink"),
    "point": whole("the first part of its position", None),
    "sequence": whole("the second part; negative: a copied row has none", None),
    "kind": text("I, U, B for the old half of a changed key, c copied"),
    "key": listed("its key", text("a value")),
    "sqlstate": SQLSTATE,
    "column": text("the column that the server named, or empty"),
    "constraint": text("the constraint that the server named, or empty"),
    "message": text("the server's words"),
    "tries": whole("how often it was tried", 0),
    "job": text("the job that put it here"),
    "run": text("that job's run"),
    "epoch": whole("that run's epoch"),
    "quarantined_at": moment("when it was put here"),
    "state": _STATE,
    "ended_at": maybe(moment("when it ended"), "it has not"),
    "ended_by": text("who or what ended it, or empty"),
    "reason": text("why it was ended, or empty"),
    "pair": text("shared by the two halves of a changed key, or empty"),
    "position": text("where it was read"),
}

_OUTCOMES = thing(
    "what became of the entries",
    {
        "entries": listed(
            "as they were named",
            thing(
                "an entry",
                {"id": _ID, "state": _STATE, "outcome": text("in words"), "sqlstate": text("why it is still bad")},
            ),
        )
    },
)

SCHEMAS: dict[str, Schema] = {
    "errors list": thing("entries without values", {"entries": listed("the newest first", thing("an entry", _ENTRY))}),
    "errors show": thing(
        "one entry",
        {**_ENTRY, "values": by_name("the row as the source wrote it, by column", maybe(text("a value"), "NULL"))},
    ),
    "errors replay": _OUTCOMES,
    "errors discard": either(
        "a dry run, or what was done",
        thing(
            "a dry run",
            {
                "executed": flag("false"),
                "ids": listed("what would be given up", _ID),
                "how": text("the command that does it"),
            },
        ),
        _OUTCOMES,
    ),
}
