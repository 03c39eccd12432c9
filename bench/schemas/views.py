"""Schemas of the output of `views`."""

from __future__ import annotations

from bench.schemas.pieces import Schema, flag, listed, maybe, moment, number, text, thing, whole, word, word_of
from slotkeeper.core.domain.text import see
from slotkeeper.core.domain.views import ViewState

_NOT_YET = "not built yet"
_VIEW: dict[str, Schema] = {
    "view": text("the view's table"),
    "job": text("the job's name"),
    "state": word_of(f"the view's state ({see('views')})", ViewState),
    "cause": maybe(text("why it has this state"), "no particular cause"),
    "since": moment("since when it has this state"),
    "method": maybe(word("how rounds apply changes", "recompute", "delta"), _NOT_YET),
    "waiting": maybe(whole("changes that wait for a round, up to 100,000 of each table"), _NOT_YET),
    "fresh": maybe(number("seconds since it was last known to equal its SELECT; 0 if no change waits"), "not RUNNING"),
    "rounds": whole("rounds and builds that its sink has recorded"),
    "applied": whole("changes that rounds have applied"),
    "round_ms": maybe(whole("milliseconds that its last round took"), "no round yet"),
    "built_at": maybe(moment("when its last build ended"), _NOT_YET),
    "verified_at": maybe(moment("when it was last compared"), "never"),
    "verified": maybe(text("the result of the last comparison"), "never compared"),
    "sql": text("its SELECT"),
}
_DONE = {"view": text("the view's table"), "outcome": text("the result, as text")}
SCHEMAS: dict[str, Schema] = {
    "views list": thing("the views", {"views": listed("the views of the jobs", thing("a view", _VIEW))}),
    "views show": thing("a view", _VIEW),
    "views verify": thing(
        "the comparison of a view with its SELECT",
        {
            "job": text("the job's name"),
            "view": text("the view's table"),
            "equal": flag("true if they are equal"),
            "differences": listed(
                "the first differences",
                thing(
                    "a key",
                    {
                        "key": text("its values, as text"),
                        "what": word("what the view's table has", "missing", "extra", "different"),
                    },
                ),
            ),
        },
    ),
    "views explain": thing(
        "how a view is maintained",
        {
            "view": text("the view's table"),
            "method": word("how rounds apply changes", "recompute", "delta"),
            "captures": listed(
                "what is captured",
                thing(
                    "a table",
                    {
                        "table": text("the table"),
                        "captured": word("what its triggers write", "group keys", "weights", "images"),
                    },
                ),
            ),
            "keys": text("the SQL of the affected keys, if all tables changed"),
            "missing_indexes": listed("the indexes that are missing", text("a CREATE INDEX statement")),
        },
    ),
    "views rebuild": thing("the result of the request", _DONE),
    "views drop": thing("the result of dropping a view", _DONE),
}
