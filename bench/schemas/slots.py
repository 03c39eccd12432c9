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
_TABLE = text("schema.table at the source")
_SLOT = text("the slot's name")
_OWNER = maybe(text("the configured job that owns it"), "no job of this configuration")
_EXISTS = maybe(flag("whether the server has it"), "it cannot be told")
_UNREAD = maybe(whole("rows that it has not read"), "they cannot be counted")
_SEVERITY = maybe(word_of("how near it is to being cleared", Severity))
_EXPIRES = maybe(moment("when its TTL clears it, unless confirmed"))
_LEFT = maybe(whole("until then, seconds"))
_WHICH = maybe(word_of("which of its two points lies further back", Behind))

_DN = thing(
    "a slot on one DN",
    {
        "shard": text("the DN's name"),
        "live": POSITION,
        "durable": POSITION,
        "xmin": maybe(whole("the transaction id registered with it", None)),
        "unread": _UNREAD,
        "registered_at": maybe(moment("when it was registered last")),
        "registered_by": maybe(word_of("whose time that is", KnownBy)),
        "our_live": POSITION,
        "our_durable": POSITION,
        "behind": _WHICH,
        "oldest_reader": maybe(flag("whether no other slot lies further back here"), "it cannot be told"),
        "expires_at": _EXPIRES,
        "seconds_left": _LEFT,
        "severity": _SEVERITY,
    },
)
QUERY = record(QuerySeen)
_OWN_DN = thing(
    "a DN of a source that keeps no positions: ours",
    {"shard": text("the DN's name"), "position": POSITION, "unread": _UNREAD},
)

_BACK = thing(
    "where it lies furthest back",
    {"dn": text("the DN's name"), "behind": _WHICH, "point": POSITION},
    optional=["behind"],
)

_PURGE = thing(
    "when a server that purges its binlog files by their age purges what the slot needs",
    {
        "after_seconds": maybe(whole("the age at which a file can be purged, 0 where none is")),
        "setting": text("the server's variable that says so"),
        "oldest_file": text("the oldest binlog file that the server has"),
        "needed_file": maybe(text("the oldest binlog file that the slot needs")),
        "needed_is_there": maybe(flag("whether the server still has it")),
        "purged_from": maybe(moment("from when on its age lets the server purge it"), "it is not purged, or unknown"),
        "seconds_left": _LEFT,
        "gtids": maybe(text("the GTIDs that are done at the slot's position"), "the position names none"),
    },
)

_ONE: dict[str, Schema] = {
    "slot": _SLOT,
    "job": _OWNER,
    "external": flag("whether no job of this configuration owns it"),
    "exists": _EXISTS,
    "oldest_point": POSITION,
    "registered_at": maybe(moment("the registration that is longest ago among its DNs")),
    "unread": _UNREAD,
    "expires_at": _EXPIRES,
    "seconds_left": _LEFT,
    "severity": _SEVERITY,
    "furthest_back": maybe(_BACK),
    "dns": listed("DN by DN", either("by what the source keeps", _DN, _OWN_DN)),
    "purge": maybe(_PURGE, "its source does not purge by age"),
    "query": maybe(QUERY, "none, or its store does not answer"),
}

_RETAINED = thing(
    "what the table keeps for its slots",
    {
        "ttl_seconds": maybe(whole("how long a slot may stay silent, seconds")),
        "ttl_is_default": flag("whether that is the documented default"),
        "ttl_by_record": flag("whether single records expire, not the slot"),
        "consume_timeout_seconds": maybe(whole("how long DDL waits for readers, seconds")),
        "now": maybe(moment("the server's clock")),
        "oldest_readers": by_name("by DN, the slot that lies furthest back", maybe(_SLOT)),
        "untold": listed("what the server cannot tell", text("a sentence")),
    },
)
_UNTOLD = listed("what the server cannot tell", text("a sentence"))

_VIEW = thing(
    "a slot as it was seen",
    {
        "name": _SLOT,
        "job": _OWNER,
        "exists": _EXISTS,
        "shards": listed(
            "DN by DN",
            thing(
                "a DN",
                {
                    "shard": text("the DN's name"),
                    "live": POSITION,
                    "durable": POSITION,
                    "registered_at": maybe(moment("when it was registered last")),
                    "xmin": maybe(whole("the transaction id registered with it", None)),
                    "unread": _UNREAD,
                },
            ),
        ),
    },
)
_TO_TYPE = thing(
    "what has to be typed to do it, beside a reason",
    {
        "confirm": text("the slot's name"),
        "confirm_table": maybe(text("the table's name"), "it is not asked for"),
        "rows": maybe(text("how many rows are lost, or unknown"), "it is not asked for"),
    },
)
_STATE = word_of(f"what the job is doing ({see('states')})", JobState)
_PLAN = thing(
    "what it does",
    {
        "verb": word("what is done; abandon is a drop that waits for the TTL", "create", "register", "drop", "abandon"),
        "source": _SOURCE,
        "table": _TABLE,
        "slot": _SLOT,
        "owner": maybe(
            thing(
                "the configured job that owns it",
                {
                    "job": text("its name"),
                    "state": maybe(_STATE, "it was never started here"),
                    "lives": flag("whether a process of it lives here"),
                    "elsewhere": flag("whether it may live elsewhere"),
                    "positions": maybe(whole("its progress rows"), "its sink does not answer"),
                    "query": text("the DataFrame query that has read it, and whether it lives; empty where none has"),
                    "query_to_do": text("where one acts on that query; empty where there is none"),
                },
            ),
            "no job of this configuration",
        ),
        "highest": flag("whether the table's name has to be typed as well"),
        "before": _VIEW,
        "rows": maybe(whole("rows that can no longer be read"), "they cannot be counted"),
        "effects": listed("what it means", text("a sentence")),
        "sql": listed("what is sent", text("a statement")),
    },
)
_CHANGED = thing(
    "a dry run, or what was done",
    {
        "executed": flag("whether anything was sent"),
        "plan": _PLAN,
        "done": maybe(
            thing(
                "what was seen afterwards",
                {
                    "outcome": text("in words"),
                    "result": by_name("by DN", text("in words")),
                    "missed": listed("the DNs where it is not what was asked for", text("a DN's name")),
                    "after": maybe(_VIEW, "not looked at"),
                },
            ),
            "it was a dry run",
        ),
        "to_type": _TO_TYPE,
        "undo": text("the way back, in words"),
    },
)

_PEEKED = thing(
    "one row of the binlog",
    {
        "dn": text("the DN's name"),
        "position": text("its place, as the dialect writes it"),
        "type": word("I insert, d delete, B before an update, U after it", "I", "d", "B", "U"),
        "time": maybe(moment("when it was written"), "the table keeps no time"),
        "pair": maybe(text("the place of the other half of the same change"), "it has none on this page"),
        "key_only": flag("whether only the key is known, as in an old image without the other columns"),
        "changed": maybe(listed("the columns whose values differ from the other half", text("a column"))),
        "values": by_name("by column, as the server writes them; *** where masked", maybe(text("a value"), "NULL")),
    },
)
_PAGE = thing(
    "rows of one DN's binlog",
    {
        "source": _SOURCE,
        "table": _TABLE,
        "dn": text("the DN that was asked"),
        "dns": listed("all DNs", text("a DN's name")),
        "from": maybe(text("the place after which rows were asked for"), "the newest ones"),
        "searched_to": POSITION,
        "latest": POSITION,
        "whole": flag("whether the range was searched to its end"),
        "next": maybe(text("where the next peek continues"), "there is nothing more"),
        "masked": flag("whether values apart from the key are masked"),
        "columns": listed(
            "the table's columns",
            thing("a column", {"name": text("its name"), "type": text("its type"), "key": flag("part of the key")}),
        ),
        "notes": listed("what is not as asked for", text("a sentence")),
        "rows": listed("in the order of the stream", _PEEKED),
    },
)

_PREFLIGHT = thing(
    "whether the table may be worked on now",
    {
        "source": _SOURCE,
        "table": _TABLE,
        "clear": flag("whether every action that was asked about may begin"),
        "verdicts": thing(
            "action by action",
            {
                action.value: thing(action.value, {"answer": word_of("may it begin", MayBegin), "reason": text("why")})
                for action in Action
            },
        ),
        "consumed": maybe(flag("whether all is read, by the server's word"), "it does not tell"),
        "consumed_by_dn": by_name("the same by DN", maybe(flag("whether all is read there"), "it does not tell")),
        "holders": listed(
            "slots that hold something back",
            thing(
                "a slot on one DN",
                {
                    "slot": _SLOT,
                    "job": _OWNER,
                    "shard": text("the DN's name"),
                    "point": word_of("which of its two points", Behind),
                    "rows": _UNREAD,
                    "at": POSITION,
                },
            ),
        ),
        "unread": _UNREAD,
        "drain_seconds": maybe(number("how long the owning jobs need at their rate now, seconds")),
        "drain": text("the same in words"),
        "notes": listed("what else holds", text("a sentence")),
    },
)

_OF_SLOTS: dict[str, Schema] = {
    "slots list": thing(
        "the slots of tables",
        {
            "taken_out": listed(
                "slots of tables that a job had and has no more, as long as the source keeps them",
                thing("a slot", {"source": _SOURCE, "table": _TABLE, "slot": text("its name"), "job": text("the job")}),
            ),
            "tables": listed(
                "each table that answered",
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
                "each table that did not",
                thing("a table", {"place": text("source and table"), "error": text("why, in the server's words")}),
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
        "whole": flag("false: at least this number"),
        "oldest": maybe(text("where the first of them lies")),
        "oldest_us": maybe(whole("its time, microseconds since 1970-01-01T00:00:00Z")),
        "oldest_at": maybe(moment("the same")),
    },
)

_MOVE = thing(
    "what is done to one lane",
    {
        "seen": thing(
            "as it is", {"row": _ROW, "kept": _KEPT, "first": POSITION, "retained": POSITION, "latest": POSITION}
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

_RESET_PLAN = thing(
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
                    "ok": maybe(flag("whether it holds"), "it is unknown, which is not a failure"),
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

_RESET = either("a plan, or how it ended; --resume prints one line for each unfinished reset", _RESET_PLAN, _RESULT)

_OF_RESETS: dict[str, Schema] = {
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

SCHEMAS: dict[str, Schema] = {**_OF_SLOTS, **_OF_RESETS}
