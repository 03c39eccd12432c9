"""Schemas of the output of `slots`, including `slots reset`, `slots undo` and `slots history`."""

from __future__ import annotations

from bench.schemas.pieces import (
    POSITION,
    Schema,
    by_name,
    either,
    flag,
    listed,
    maybe,
    moment,
    number,
    row,
    text,
    thing,
    whole,
    word,
    word_of,
)
from bench.schemas.records import record
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.query_report import QuerySeen
from slotkeeper.core.domain.reset import DONE, ROLLED_BACK, TargetKind
from slotkeeper.core.domain.row_counts import Fate
from slotkeeper.core.domain.text import see
from slotkeeper.core.domain.ttl import Behind, Severity
from slotkeeper.core.slots.preflight import Action, MayBegin
from slotkeeper.core.slots.status import KnownBy

_SOURCE = text("the source's name")
_TABLE = text("schema.table in the source")
_SLOT = text("the slot's name")
_OWNER = maybe(text("the configured job that owns it"), "no configured job")
_EXISTS = maybe(flag("true if the slot exists on the server"))
_UNREAD = maybe(whole("unread rows"), "they cannot be counted")
_SEVERITY = maybe(word_of("how close the slot is to expiry", Severity))
_EXPIRES = maybe(moment("when the slot expires unless it is confirmed"))
_LEFT = maybe(whole("time left, seconds"))
_WHICH = maybe(word_of("which of its two points is older", Behind))

_DN = thing(
    "a slot on one DN",
    {
        "shard": text("the DN's name"),
        "live": POSITION,
        "durable": POSITION,
        "xmin": maybe(whole("the transaction ID registered with it", None)),
        "unread": _UNREAD,
        "registered_at": maybe(moment("when it was last registered")),
        "registered_by": maybe(
            word_of("the origin of that time: the server, or the point that Slotkeeper registered", KnownBy)
        ),
        "our_live": POSITION,
        "our_durable": POSITION,
        "behind": _WHICH,
        "oldest_reader": maybe(flag("true if no other slot is further back on this DN")),
        "expires_at": _EXPIRES,
        "seconds_left": _LEFT,
        "severity": _SEVERITY,
    },
)
QUERY = record(QuerySeen)
_OWN_DN = thing(
    "a slot on one DN of a source that stores no positions; the position is that of the job's progress row",
    {"shard": text("the DN's name"), "position": POSITION, "unread": _UNREAD},
)

_BACK = thing(
    "the DN with the slot's lowest point",
    {"dn": text("the DN's name"), "behind": _WHICH, "point": POSITION},
    optional=["behind"],
)

_PURGE = thing(
    "when the server purges binlog files that the slot still needs",
    {
        "after_seconds": maybe(whole("the age at which a file can be purged, seconds; 0: no limit")),
        "setting": text("the server's variable for that age"),
        "oldest_file": text("the oldest binlog file on the server"),
        "needed_file": maybe(text("the oldest binlog file that the slot needs")),
        "needed_is_there": maybe(flag("true if the server still has that file")),
        "purged_from": maybe(moment("when the server can first purge that file"), "never, or unknown"),
        "seconds_left": _LEFT,
        "gtids": maybe(text("the GTIDs executed at the slot's position"), "the position has none"),
    },
)

_ONE: dict[str, Schema] = {
    "slot": _SLOT,
    "job": _OWNER,
    "external": flag("true if no configured job owns the slot"),
    "exists": _EXISTS,
    "oldest_point": POSITION,
    "registered_at": maybe(moment("the oldest registration among its DNs")),
    "unread": _UNREAD,
    "expires_at": _EXPIRES,
    "seconds_left": _LEFT,
    "severity": _SEVERITY,
    "furthest_back": maybe(_BACK),
    "dns": listed(
        "the slot on each DN", either("the form depends on whether the source stores positions", _DN, _OWN_DN)
    ),
    "purge": maybe(_PURGE, "the source does not purge files by age"),
    "query": maybe(QUERY, "there is none, or the store of its rows does not answer"),
}

_RETAINED = thing(
    "what the server retains of the table's binlog for its slots",
    {
        "ttl_seconds": maybe(whole("the TTL: how long a slot can remain without a registration, seconds")),
        "ttl_is_default": flag("true if the table does not set it: the documented default"),
        "ttl_by_record": flag("true if records, not the slot, expire by age"),
        "consume_timeout_seconds": maybe(whole("how long DDL waits for readers, seconds")),
        "now": maybe(moment("the time by the server's clock")),
        "oldest_readers": by_name("by DN, the slot that is furthest back", maybe(_SLOT)),
        "untold": listed("values that the server does not report", text("a sentence")),
    },
)
_UNTOLD = listed("values that the server does not report", text("a sentence"))

_VIEW = thing(
    "the observed slot",
    {
        "name": _SLOT,
        "job": _OWNER,
        "exists": _EXISTS,
        "shards": listed(
            "the slot on each DN",
            thing(
                "a DN",
                {
                    "shard": text("the DN's name"),
                    "live": POSITION,
                    "durable": POSITION,
                    "registered_at": maybe(moment("when it was last registered")),
                    "xmin": maybe(whole("the transaction ID registered with it", None)),
                    "unread": _UNREAD,
                },
            ),
        ),
    },
)
_TO_TYPE = thing(
    "the confirmations required besides a reason",
    {
        "confirm": text("the slot's name"),
        "confirm_table": maybe(text("the table's name"), "not required"),
        "rows": maybe(text("the number of lost rows to confirm, or the word unknown"), "not required"),
    },
)
_STATE = word_of(f"the job's state ({see('states')})", JobState)
_PLAN = thing(
    "the effects of the command",
    {
        "verb": word(
            "the operation; abandon: leave the slot to expire with its TTL", "create", "register", "drop", "abandon"
        ),
        "source": _SOURCE,
        "table": _TABLE,
        "slot": _SLOT,
        "owner": maybe(
            thing(
                "the configured job that owns it",
                {
                    "job": text("its name"),
                    "state": maybe(_STATE, "never started on this host"),
                    "lives": flag(
                        "true if one of the job's processes runs on this host, or its DataFrame query is running"
                    ),
                    "elsewhere": flag("true if it may be running on another host or in another container"),
                    "positions": maybe(whole("the number of its progress rows"), "the sink does not answer"),
                    "query": text("why a DataFrame query prevents the operation; empty if no query has read the slot"),
                    "query_to_do": text("what to do about that query; empty if there is none"),
                },
            ),
            "no configured job",
        ),
        "highest": flag("true if the user must type the table's name as well"),
        "before": _VIEW,
        "rows": maybe(whole("rows that can no longer be read"), "they cannot be counted"),
        "effects": listed("the effects", text("a sentence")),
        "sql": listed("the statements for the server", text("a statement")),
    },
)
_CHANGED = thing(
    "a dry run, or the result",
    {
        "executed": flag("true if the operation was executed; false: a dry run"),
        "plan": _PLAN,
        "done": maybe(
            thing(
                "the observed result",
                {
                    "outcome": text("the result, as text"),
                    "result": by_name("the result by DN", text("a description")),
                    "missed": listed("the DNs without the requested result", text("a DN's name")),
                    "after": maybe(_VIEW, "not checked"),
                },
            ),
            "a dry run",
        ),
        "to_type": _TO_TYPE,
        "undo": text("how to undo it, as text"),
    },
)

_PEEKED = thing(
    "one row of the binlog",
    {
        "dn": text("the DN's name"),
        "position": text("its position, in the source's format"),
        "type": word("I: insert, d: delete, B: row before an update, U: row after an update", "I", "d", "B", "U"),
        "time": maybe(moment("when it was written"), "the table has no binlog timestamps"),
        "pair": maybe(text("the position of the other half of the same update"), "none on this page"),
        "key_only": flag("true if only the key is known: an old image without values in the other columns"),
        "changed": maybe(listed("the columns that the update changed", text("a column"))),
        "values": by_name(
            "the values by column, as the server writes them; *** if masked", maybe(text("a value"), "NULL")
        ),
    },
)
_PAGE = thing(
    "rows of one DN's binlog",
    {
        "source": _SOURCE,
        "table": _TABLE,
        "dn": text("the queried DN"),
        "dns": listed("all DNs", text("a DN's name")),
        "from": maybe(text("the position after which rows were requested"), "the newest rows were requested"),
        "searched_to": POSITION,
        "latest": POSITION,
        "whole": flag("true if the range was searched to its end"),
        "next": maybe(text("the position at which the next peek continues"), "there are no more rows"),
        "masked": flag("true if all values except those of the key are masked"),
        "columns": listed(
            "the table's columns",
            thing(
                "a column",
                {"name": text("its name"), "type": text("its type"), "key": flag("true if it is part of the key")},
            ),
        ),
        "notes": listed("deviations from the request", text("a sentence")),
        "rows": listed("the rows, in binlog order", _PEEKED),
    },
)

_PREFLIGHT = thing(
    "whether maintenance of the table can start now",
    {
        "source": _SOURCE,
        "table": _TABLE,
        "clear": flag("true if every requested action can start now"),
        "verdicts": thing(
            "the verdicts by action",
            {
                action.value: thing(
                    action.value,
                    {"answer": word_of("whether it can start now", MayBegin), "reason": text("the reason")},
                )
                for action in Action
            },
        ),
        "consumed": maybe(flag("true if the server reports that all records are consumed"), "not reported"),
        "consumed_by_dn": by_name(
            "the same by DN", maybe(flag("true if all records are consumed there"), "not reported")
        ),
        "holders": listed(
            "the slots that retain changes",
            thing(
                "a slot on one DN",
                {
                    "slot": _SLOT,
                    "job": _OWNER,
                    "shard": text("the DN's name"),
                    "point": word_of("which of its two points retains them", Behind),
                    "rows": _UNREAD,
                    "at": POSITION,
                },
            ),
        ),
        "unread": _UNREAD,
        "drain_seconds": maybe(number("the time that the owning jobs need at their present rate, seconds")),
        "drain": text("the same, as text"),
        "notes": listed("notes", text("a sentence")),
    },
)

_OF_SLOTS: dict[str, Schema] = {
    "slots list": thing(
        "the slots by table",
        {
            "taken_out": listed(
                "slots of tables that were removed from their jobs, as long as the source retains them",
                thing("a slot", {"source": _SOURCE, "table": _TABLE, "slot": text("its name"), "job": text("the job")}),
            ),
            "tables": listed(
                "the tables that could be queried",
                thing(
                    "a table",
                    {
                        "source": _SOURCE,
                        "table": _TABLE,
                        "slots": listed("its slots", thing("a slot", _ONE)),
                        "retained": _RETAINED,
                        "untold": _UNTOLD,
                    },
                ),
            ),
            "errors": listed(
                "the tables that could not be queried",
                thing("a table", {"place": text("source and table"), "error": text("the error")}),
            ),
        },
    ),
    "slots show": thing(
        "one slot", {"source": _SOURCE, "table": _TABLE, **_ONE, "retained": _RETAINED, "untold": _UNTOLD}
    ),
    "slots preflight": _PREFLIGHT,
    **{f"slots {verb}": _CHANGED for verb in ("create", "register", "drop")},
    "slots peek": _PAGE,
    "slots peek --jsonl": _PEEKED,
}

_KEPT = text("the points stored for the slot on this DN, in the source's format")

_ROW = thing(
    "a progress row",
    {
        "key": thing(
            "the lane",
            {
                "source": text("the source's name"),
                "source_table": text("schema.table in the source"),
                "slot": text("the slot's name"),
                "shard": text("the DN's name"),
            },
        ),
        "node_id": whole("the DN's number, often negative", None),
        "target": text("schema.table in the sink"),
        "position": POSITION,
        "epoch": whole("the epoch of the row"),
        "changes": whole("total number of events read"),
        "state": word_of("the progress of the lane", LaneState),
        "noted_start": POSITION,
        "noted_end": POSITION,
        "channel": text("a hash of the column mapping, the filter and the key"),
        "fingerprint": text("the server, table and columns for which it was created"),
        "registered": maybe(_KEPT, "not registered yet"),
        "decided": {
            "type": "null",
            "description": "always null: a reset abandons a decided range, and an undo does not restore it",
        },
        "repeats": whole("total number of rows that the sink may have received twice"),
    },
)

_COUNT = thing(
    "the number of changes in a range",
    {
        "kinds": listed(
            "the numbers by kind", row("", word("kind of row", "I", "d", "B", "U"), whole("number of rows"))
        ),
        "whole": flag("false: the numbers are minimums"),
        "oldest": maybe(text("the position of the first change")),
        "oldest_us": maybe(whole("the time of the first change, microseconds since 1970-01-01T00:00:00Z")),
        "reshaped": text(
            "the first statement in the range that can have changed the columns, with its position; empty: none"
        ),
        "stopping": text(
            "the first other statement in the range at which a lane stops, with its position; empty: none"
        ),
        "oldest_at": maybe(moment("the same time")),
    },
)

_MOVE = thing(
    "the effect on one lane",
    {
        "seen": thing(
            "the present state",
            {"row": _ROW, "kept": _KEPT, "first": POSITION, "retained": POSITION, "latest": POSITION},
        ),
        "to": _ROW,
        "points": maybe(_KEPT, "the slot's points do not change"),
        "read_again": _COUNT,
        "skipped": _COUNT,
        "effect": text("the effect, as text"),
    },
)

_ROWS_OF = thing(
    "the row count of one table",
    {
        "number": maybe(whole("the number of rows"), "the table could not be queried"),
        "at_least": flag("true if the number is a minimum"),
        "why": text("why the table could not be queried; empty if it could"),
    },
)

_RESET_PLAN = thing(
    "a plan; nothing has been changed yet",
    {
        "id": text("its ID, a hash of its content"),
        "dialect": text("the source's kind"),
        "source": text("the source's name"),
        "table": text("schema.table in the source"),
        "slot": text("the slot's name"),
        "job": text("the job that owns it"),
        "goal": thing(
            "the requested target",
            {
                "kind": word_of("the kind of target", TargetKind),
                "points": listed("positions as typed", row("", text("a DN's name; *: all DNs"), text("a position"))),
                "at": text("the time as typed, or empty"),
                "backup": text("the ID of the backup, or empty"),
                "dns": listed("the DNs to reset; empty: all", text("a DN's name")),
                "on_existing": text("how the copy treats the target's existing rows; empty: the job's setting"),
                "text": text("a description"),
            },
        ),
        "fingerprint": text("the server, table and columns for which it was created"),
        "epoch": whole("the epoch of the progress rows"),
        "moves": listed("the effects on each lane", _MOVE),
        "checks": listed(
            "the preconditions",
            thing(
                "a precondition",
                {
                    "name": text("its name"),
                    "ok": maybe(flag("true if it holds"), "unknown, which does not count as a failure"),
                    "sentence": text("the reason"),
                },
            ),
        ),
        "sql": listed("the statements for the source", text("a statement")),
        "notes": listed("notes", text("a sentence")),
        "made": moment("when the plan was made"),
        "expires": moment("when the plan expires"),
        "rows": maybe(
            thing(
                "the effect of a new copy on the target's rows",
                {
                    "source": _ROWS_OF,
                    "target": _ROWS_OF,
                    "way": text("how it treats the target's existing rows"),
                    "cleared": flag("true if the slot has no point left although its table is the same"),
                    "fate": word_of("the effect on the number of the target's rows", Fate),
                    "truncated": flag("true if a TRUNCATE in the source is likely"),
                    "text": text("a description"),
                },
            ),
            "no copy",
        ),
        "skipped": whole("changes that are skipped without being applied"),
        "at_stake": whole("the number of skipped changes or lost rows, which the user must type; 0: none"),
        "possible": flag("true if no precondition fails"),
        "to_type": thing(
            "the confirmations required besides a reason",
            {
                "confirm": text("the slot's name"),
                "confirm_table": maybe(text("the table's name"), "not required"),
                "rows": maybe(text("the value of at_stake"), "not required"),
            },
        ),
        "undo": text("how to undo it, as text"),
    },
)

_RESULT = thing(
    "the result of a reset, with --execute or --resume",
    {
        "reset": text("the ID of the reset and of its backup"),
        "outcome": word("the result", DONE, ROLLED_BACK),
        "sentence": text("a description of the result"),
        "lanes": by_name("the observed state by DN", text("a description")),
        "no_undo": text("why a completed reset cannot be undone; empty: nothing known prevents it"),
        "start": maybe(text("the command that starts the table while its job runs"), "the job is not running"),
    },
)

_RESET = either(
    "a plan, or the result of a reset; --resume prints one line for each unfinished reset", _RESET_PLAN, _RESULT
)

_OF_RESETS: dict[str, Schema] = {
    "slots reset": _RESET,
    "slots undo": _RESET,
    "slots history": thing(
        "the resets of a slot",
        {
            "table": text("schema.table in the source"),
            "slot": text("the slot's name"),
            "resets": listed(
                "the resets, the newest first",
                thing(
                    "a reset",
                    {
                        "backup": text("the ID of the reset and of its backup"),
                        "job": text("the job"),
                        "target": text("the target of the reset, as text"),
                        "plan": text("the ID of the executed plan"),
                        "step": text("the last step: done, rolled back, or the step at which it stopped"),
                        "who": text("the user"),
                        "reason": text("the reason, as typed"),
                        "outcome": text("the result, as text; empty until it has ended"),
                        "begun_at": moment("when it started"),
                        "ended_at": maybe(moment("when it ended"), "it has not ended"),
                    },
                ),
            ),
        },
    ),
}

SCHEMAS: dict[str, Schema] = {**_OF_SLOTS, **_OF_RESETS}
