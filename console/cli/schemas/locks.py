"""What `locks` prints, and the waits that a driver's report carries."""

from __future__ import annotations

from slotkeeper.console.cli.schemas.pieces import SAFE, Schema, flag, listed, maybe, moment, number, text, thing, whole

_HIDDEN = "not shown to our login"
_BLOCKER: dict[str, Schema] = {
    "pid": maybe(whole("its pid at the server", 1), "a prepared transaction"),
    "user": maybe(text("its login, empty for a process of the server's own"), _HIDDEN),
    "application": maybe(text("its name"), _HIDDEN),
    "state": maybe(text("what it does, as the server says"), _HIDDEN),
    "since": maybe(moment("when its transaction began"), _HIDDEN),
    "statement": maybe(text("its statement"), _HIDDEN),
    "waits": flag("whether it waits for a lock itself"),
    "transaction": text("what tells it from a later one of its session"),
    "gid": text("the name of a prepared transaction, or empty"),
    "node": text("the node whose lock it is, or empty"),
    "query": maybe(whole("the number of its query, where the server numbers them", None), "none was told"),
}
_WAIT: dict[str, Schema] = {
    "pid": whole("our session's pid at the server", 1),
    "session": text("our session's name"),
    "thing": text("what it waits for"),
    "mode": text("the lock that it wants"),
    "since": moment("when it was first seen waiting"),
    "statement": maybe(text("its statement"), _HIDDEN),
    "blockers": listed("who is in front, those first that wait for nobody", thing("a session", _BLOCKER)),
    "waits": flag("whether it waits at this moment, and not between two attempts"),
}
LOCK_WAIT = thing("a session of ours that waits for a lock", _WAIT)

_SHOWN_BLOCKER: dict[str, Schema] = {
    name: _BLOCKER[name] for name in ("pid", "user", "application", "state", "since", "statement", "waits")
} | {
    "prepared": maybe(text("the name of a prepared transaction"), "it is a session"),
    "job": maybe(text("the job that its name says"), "it says none"),
    "node": maybe(text("the node whose lock it is"), "the server told none"),
    "query_id": _BLOCKER["query"],
}
_SHOWN: dict[str, Schema] = {
    name: _WAIT[name] for name in ("pid", "session", "thing", "mode", "since", "statement", "waits")
} | {
    "job": text("whose session it is"),
    "seconds": number("how long that is ago"),
    "cause": text("who keeps it out, in a sentence"),
    "do": SAFE,
    "blockers": listed("who is in front, those first that wait for nobody", thing("a session", _SHOWN_BLOCKER)),
}
SCHEMAS: dict[str, Schema] = {
    "locks": thing(
        "sessions of ours that wait for a lock, by sink",
        {
            "sinks": listed(
                "the sinks that were asked",
                thing(
                    "a sink",
                    {
                        "sink": text("its name in the configuration"),
                        "place": text("the sink in words"),
                        "error": maybe(text("why it could not tell"), "it told"),
                        "waits": listed("the sessions", thing("a session of ours", _SHOWN)),
                    },
                ),
            )
        },
    )
}
