"""What `slots reset`, `slots undo` and `slots history` print."""

from __future__ import annotations

from slotkeeper.console.cli.schemas.pieces import (
    POSITION,
    Schema,
    by_name,
    either,
    flag,
    listed,
    maybe,
    moment,
    row,
    text,
    thing,
    whole,
    word,
    word_of,
)
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import DONE, ROLLED_BACK, TargetKind
from slotkeeper.core.domain.row_counts import Fate

_KEPT = text("what is kept for the slot on this DN, as the dialect writes it")

_ROW = thing(
    "a progress row",
    {
        "key": thing(
            "which lane",
            {
                "source": text("the source's name"),
                "source_table": text("schema.table at the source"),
                "slot": text("the slot's name"),
                "shard": text("the DN's name"),
            },
        ),
        "node_id": whole("the DN's number, often negative", None),
        "target": text("schema.table at the sink"),
        "position": POSITION,
        "epoch": whole("its epoch"),
        "changes": whole("events read, ever"),
        "state": word_of("how far the lane has come", LaneState),
        "noted_start": POSITION,
        "noted_end": POSITION,
        "channel": text("a hash of mapping, filter and key"),
        "fingerprint": text("the server, table and columns that it was made for"),
        "registered": maybe(_KEPT, "nothing was registered"),
        "decided": {"type": "null", "description": "what a reset gives up is not decided again"},
        "repeats": whole("rows that the sink may have got once more, ever"),
    },
)

_COUNT = thing(
    "changes of a range",
    {
        "kinds": listed("by kind", row("", word("kind of row", "I", "d", "B", "U"), whole("how many"))),
        "whole": flag("false: at least so many"),
        "oldest": maybe(text("where the first of them lies")),
        "oldest_us": maybe(whole("its time, microseconds since 1970-01-01T00:00:00Z")),
        "oldest_at": maybe(moment("the same")),
    },
)

_MOVE = thing(
    "what is done to one lane",
    {
        "seen": thing(
            "as it is",
            {"row": _ROW, "kept": _KEPT, "first": POSITION, "retained": POSITION, "latest": POSITION},
        ),
        "to": _ROW,
        "points": maybe(_KEPT, "what is kept is left alone"),
        "read_again": _COUNT,
        "skipped": _COUNT,
        "effect": text("in words"),
    },
)

_ROWS_OF = thing(
    "rows of one end",
    {
        "number": maybe(whole("how many"), "it could not be asked"),
        "at_least": flag("whether there may be more"),
        "why": text("why it could not be asked, empty where it could"),
    },
)

_PLAN = thing(
    "a plan; nothing is changed",
    {
        "id": text("its name, a hash of what is in it"),
        "dialect": text("the source's kind"),
        "source": text("the source's name"),
        "table": text("schema.table at the source"),
        "slot": text("the slot's name"),
        "job": text("the job that owns it"),
        "goal": thing(
            "what was asked for",
            {
                "kind": word_of("where to", TargetKind),
                "points": listed("places as typed", row("", text("a DN's name, * for all"), text("a place"))),
                "at": text("the time as typed, or empty"),
                "backup": text("the backup's id, or empty"),
                "dns": listed("only these DNs; empty: all", text("a DN's name")),
                "on_existing": text("what the copy does with the target's rows; empty: as the job says"),
                "text": text("in words"),
            },
        ),
        "fingerprint": text("the server, table and columns that it was made for"),
        "epoch": whole("the epoch of the progress rows"),
        "moves": listed("lane by lane", _MOVE),
        "checks": listed(
            "what must hold",
            thing(
                "a precondition",
                {
                    "name": text("its name"),
                    "ok": maybe(flag("whether it holds"), "it cannot be told, which is no failure"),
                    "sentence": text("why"),
                },
            ),
        ),
        "sql": listed("what is sent to the source", text("a statement")),
        "notes": listed("what else is to be known", text("a sentence")),
        "made": moment("when it was made"),
        "expires": moment("until when it can be carried out"),
        "rows": maybe(
            thing(
                "what a copy makes of the target",
                {
                    "source": _ROWS_OF,
                    "target": _ROWS_OF,
                    "way": text("what it does with the target's rows"),
                    "cleared": flag("whether the slot has no point left while its table is the same"),
                    "fate": word_of("what becomes of the number of its rows", Fate),
                    "truncated": flag("whether the source was likely emptied"),
                    "text": text("in words"),
                },
            ),
            "nothing is copied",
        ),
        "skipped": whole("changes that are passed without being applied"),
        "at_stake": whole("the number that has to be typed, 0: none"),
        "possible": flag("whether every precondition holds"),
        "to_type": thing(
            "what has to be typed to carry it out, beside a reason",
            {
                "confirm": text("the slot's name"),
                "confirm_table": maybe(text("the table's name"), "it is not asked for"),
                "rows": maybe(text("how many are lost"), "it is not asked for"),
            },
        ),
        "undo": text("the way back, in words"),
    },
)

_RESULT = thing(
    "how a reset ended, with --execute or --resume",
    {
        "reset": text("its id, which is the backup's"),
        "outcome": word("how", DONE, ROLLED_BACK),
        "sentence": text("in words"),
        "lanes": by_name("what was seen, by DN", text("in words")),
        "start": maybe(text("the command that starts the table beside the others"), "the job does not live"),
    },
)

_RESET = either("a plan, or how it ended; --resume prints one line for each unfinished reset", _PLAN, _RESULT)

SCHEMAS: dict[str, Schema] = {
    "slots reset": _RESET,
    "slots undo": _RESET,
    "slots history": thing(
        "the resets of a slot",
        {
            "table": text("schema.table at the source"),
            "slot": text("the slot's name"),
            "resets": listed(
                "the newest first",
                thing(
                    "a reset",
                    {
                        "backup": text("its id, which is the backup's"),
                        "job": text("the job"),
                        "target": text("where it went, in words"),
                        "plan": text("the plan that was carried out"),
                        "step": text("how far it came: done, rolled back, or where it was left"),
                        "who": text("who"),
                        "reason": text("why"),
                        "outcome": text("how it ended, in words; empty before that"),
                        "begun_at": moment("when it began"),
                        "ended_at": maybe(moment("when it ended"), "it has not"),
                    },
                ),
            ),
        },
    ),
}
