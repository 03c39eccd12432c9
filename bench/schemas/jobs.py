"""Schemas of the output of `jobs`, `status`, `verify`, `locks` and `alerts`.

They include the notification that the command of `[alerts]` gets on its standard input.
"""

from __future__ import annotations

from bench.schemas.pieces import (
    REASON,
    SAFE,
    TROUBLE,
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
from bench.schemas.records import fields_of, record
from slotkeeper.core.alerts.rules import Kind
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.host import HostReport
from slotkeeper.core.domain.job import JobState, TableReport
from slotkeeper.core.domain.locks import Blocker, LockWait
from slotkeeper.core.domain.query_report import QuerySeen
from slotkeeper.core.domain.report import JobReport, JobStatus
from slotkeeper.core.domain.row_counts import APART, Verified
from slotkeeper.core.domain.source_waits import SlotBehind, SourceWait
from slotkeeper.core.domain.text import see
from slotkeeper.core.launch.control import Ensured
from slotkeeper.core.state.rows import ErrorRow, EventRow

_SHOWN_BLOCKER = fields_of(
    Blocker,
    *("pid", "user", "application", "state", "since", "statement", "waits"),
    prepared=maybe(text("the name of a prepared transaction"), "it is a session"),
    job=maybe(text("the job that its name says"), "it says none"),
    node=maybe(text("the node whose lock it is"), "the server told none"),
    query_id=fields_of(Blocker)["query"],
    began=maybe(text("when the session began, to the microsecond (RFC 3339, UTC)"), "hidden, or no session"),
)
_SHOWN = fields_of(
    LockWait,
    *("pid", "session", "thing", "mode", "since", "statement", "waits"),
    job=text("whose session it is"),
    seconds=number("how long that is ago"),
    cause=text("who keeps it out, in a sentence"),
    do=SAFE,
    blockers=listed("who is in front, those first that wait for no session", thing("a session", _SHOWN_BLOCKER)),
)
_BLOCKER = thing("a session", _SHOWN_BLOCKER)
_SHOWN_AT_SOURCE = fields_of(
    SourceWait,
    *("what", "table", "since", "behind", "fails_at"),
    limit=maybe(text("the server's limit by which it fails"), "none is known"),
    waiter=_BLOCKER,
    slots=listed(
        "the slots that it waits for",
        thing(
            "a slot",
            fields_of(SlotBehind, *("slot", "shards"), job=maybe(text("the job that follows it"), "no configured job")),
        ),
    ),
    sessions=listed("the sessions of jobs that it waits for", _BLOCKER),
    seconds=number("how long that is ago"),
    cause=text("who waits for whom, in a sentence"),
    effect=text("who waits after it, and when it fails"),
    do=SAFE,
)
_OF_LOCKS: dict[str, Schema] = {
    "locks": thing(
        "sessions that wait, by server",
        {
            "sources": listed(
                "the sources that were asked",
                thing(
                    "a source",
                    {
                        "source": text("its name in the configuration"),
                        "place": text("the source in words"),
                        "error": maybe(text("why it could not tell"), "it told"),
                        "hidden": maybe(text("what its login is not shown"), "it is shown every session"),
                        "waits": listed(
                            "the sessions that wait for slots and sessions of jobs", thing("a wait", _SHOWN_AT_SOURCE)
                        ),
                    },
                ),
            ),
            "sinks": listed(
                "the sinks that were asked",
                thing(
                    "a sink",
                    {
                        "sink": text("its name in the configuration"),
                        "place": text("the sink in words"),
                        "error": maybe(text("why it could not tell"), "it told"),
                        "waits": listed("the sessions", thing("a session of a job", _SHOWN)),
                    },
                ),
            ),
        },
    ),
    "locks end": thing(
        "a session whose end was requested",
        {
            "server": text("the sink or source and its name in the configuration"),
            "pid": {"type": "integer", "description": "its pid at the server"},
            "began": text("when it began, to the microsecond (RFC 3339, UTC)"),
            "user": maybe(text("its login"), "hidden from this login"),
            "application": maybe(text("its name"), "hidden from this login"),
            "ended": flag("whether it is gone"),
            "outcome": text("the same in words"),
        },
    ),
}

_JOB = text("the job's name")
_STATE = word_of(f"what the job is doing ({see('states')})", JobState)
_NEVER = "it was never started here"


_VERIFIED = maybe(record(Verified), "never compared, or not kept")


_SEEN: dict[str, Schema] = {
    "job": _JOB,
    **{name: one for name, one in fields_of(JobStatus).items() if name not in ("name", "report", "reported")},
    "last_known": flag("whether state, lanes and figures are the last known: no process of it is seen here"),
    "tables": listed("the tables of a living job of several", record(TableReport)),
    "queries": listed(
        "the DataFrame queries that read its slots, of a job that was never started here",
        thing("a query", {"table": text("schema.table at the source"), **fields_of(QuerySeen)}),
    ),
}
_JOB_SEEN = thing("a job as it is seen from this machine", _SEEN)
_TABLE_SEEN = thing(
    "one table of a job, with --table",
    {
        "job": _JOB,
        "table": text("schema.table at the source"),
        "state": _STATE,
        "target": text("schema.table at the sink"),
        "reason": REASON,
        "trouble": TROUBLE,
        "safe": SAFE,
    },
)
_STEERED = either("how the job stands after the wait; with --table, how that table does", _JOB_SEEN, _TABLE_SEEN)

_KNOWN_WHEN_NEVER_STARTED = ("job", "reason", "last_known", "tables", "queries")
_NEVER_STARTED: dict[str, Schema] = {
    n: one if n in _KNOWN_WHEN_NEVER_STARTED else maybe(one, _NEVER) for n, one in _SEEN.items()
}
_LISTED = thing(
    "a job",
    {
        **_NEVER_STARTED,
        "verified": _VERIFIED,
        "refused": maybe(text("why the configuration refuses it"), "it does not"),
    },
)


_KEYS = thing(
    "keys of one kind",
    {
        "count": whole("how many"),
        "keys": listed("the first of them", listed("a key, column by column", maybe(text("a value"), "NULL"))),
    },
)
_FIGURES: dict[str, Schema] = {
    "rows_source": whole("rows at the source"),
    "rows_sink": whole("rows at the sink"),
    "ranges": whole("ranges of keys that were compared"),
    "missing": _KEYS,
    "extra": _KEYS,
    "different": _KEYS,
    "unsettled": _KEYS,
    "quarantined": _KEYS,
    "differing_columns": listed("per column, the rows in which it differs", row("", text("column"), whole("rows", 1))),
    "seconds": number("how long it took, seconds"),
}
_VERDICT = word("what was found", "equal", APART, "different", "unsettled")
_COMPARED: dict[str, Schema] = {
    "job": _JOB,
    "verdict": _VERDICT,
    "equal": flag("whether the verdict is equal"),
    "job_runs": flag("whether the job ran meanwhile"),
}
_CHANNEL = thing(
    "one table of the job",
    {
        "from": text("schema.table at the source"),
        "into": text("schema.table at the sink"),
        "verdict": _VERDICT,
        "equal": flag("whether the verdict is equal"),
        **_FIGURES,
    },
)

FAULT = record(Fault)

SEVERITY = word("as monitoring plugins say it", "ok", "warning", "critical", "unknown")
_STATUS = thing(
    "all jobs, from the state store alone",
    {
        "severity": SEVERITY,
        "jobs": listed(
            "by name",
            thing(
                "a job",
                {
                    "job": _JOB,
                    "severity": SEVERITY,
                    "state": maybe(_STATE, _NEVER),
                    "alive": flag("whether a process of it lives here"),
                    "text": text("what is wrong with it; empty where nothing is"),
                    "behind": maybe(whole("how far its lane that is furthest behind is, in its dialect's unit")),
                    "reported_at": maybe(moment("when its driver reported last"), "never"),
                    "last_known": flag("whether all of it is the last known: no process of it is seen here"),
                    "verified": _VERIFIED,
                    "quarantined": maybe(whole("rows in quarantine"), "it holds none by its configuration"),
                    "only_quarantined": flag("whether nothing but rows in quarantine is wrong with it"),
                    "host": maybe(record(HostReport), "its supervisor has measured nothing"),
                },
            ),
        ),
        "faults": listed("what is wrong, the worst first", FAULT),
    },
)

_OF_JOBS: dict[str, Schema] = {
    "jobs list": listed("jobs that were started here, then configured ones that never were", _LISTED),
    "jobs show": thing(
        "one job with what its driver told; of one whose slots a DataFrame query reads, what that tells",
        {
            **_NEVER_STARTED,
            "verified": _VERIFIED,
            "report": maybe(record(JobReport), "its driver has never reported"),
            "errors": listed("its errors, the latest first", record(ErrorRow)),
            "events": listed("what happened to it, the newest first", record(EventRow)),
        },
    ),
    **{f"jobs {verb}": _STEERED for verb in ("start", "restart", "stop", "pause", "resume")},
    "jobs ensure": listed(
        "every job that was started here",
        thing("a job", {"job": _JOB, "outcome": word_of("what was done", Ensured), "state": _STATE, "why": REASON}),
    ),
    "jobs retry": thing(
        "what was tried before its time",
        {
            "job": _JOB,
            "table": maybe(text("schema.table at the source"), "the whole job"),
            "answered": flag("whether the job was waited for, and answered"),
            "tried": listed("lanes, or a start, a copy or a driver, that are tried now", text("a lane")),
            "polled": listed("lanes whose source is asked now whether something came", text("a lane")),
            "busy": listed("lanes that were under way", text("a lane")),
            "refused": by_name("why a lane waits on: in words, by lane", text("in words")),
            "said": text("the same in one line; empty where nothing was waited for"),
        },
    ),
    "jobs logs": thing(
        "the end of a job's log, which is text",
        {"job": _JOB, "file": text("the log"), "lines": listed("its last lines", text("a line, made visible"))},
    ),
    "jobs cancel": thing("a job that is over for good", {"job": _JOB, "state": _STATE}),
    "jobs drain": thing(
        "whether nothing is unread",
        {
            "job": _JOB,
            "table": text("its source tables, with commas between"),
            "drained": flag("whether nothing of them is unread"),
            "at": moment("when that was so"),
            "holds": text("until when it holds"),
            "quiet_seconds": maybe(number("how long ago the job applied its last change, seconds")),
            "left": by_name("what is unread: in words, by DN or by table and DN", text("in words")),
        },
    ),
    "verify": either(
        "the comparison of a job",
        thing("of one table", {**_COMPARED, **_FIGURES}),
        thing("of several tables", {**_COMPARED, "channels": listed("table by table", _CHANNEL)}),
    ),
    "status": _STATUS,
}

NOTIFICATION = "alert"

_ACK = thing(
    "what holds of what somebody said of it",
    {
        "by": text("who"),
        "at": moment("when"),
        "until": maybe(moment("until when it is silent"), "it is acknowledged until it ends or grows worse"),
        "reason": maybe(text("why, as typed"), "nothing was typed"),
    },
)

_OF_ALERTS: dict[str, Schema] = {
    NOTIFICATION: thing(
        f"what the command of [alerts] gets on its standard input, one line ({see('alerts')})",
        {
            "schema": {"const": 1, "description": "raised where a key is renamed or taken away"},
            "kind": word_of("the form of the report", Kind),
            "at": moment("when it was decided to tell"),
            "began": moment("since when it holds, or when it was judged first"),
            "id": text("the same for all notifications about one fault"),
            "host": text("where it was judged"),
            "state_folder": text("where it was judged"),
            "text": text("the fault in one line"),
            "fault": FAULT,
        },
    ),
    "alerts list": thing(
        "what is wrong now, and what was told and said of it",
        {
            "alerts": listed(
                "the worst first",
                thing(
                    "a fault",
                    {
                        "key": text("what `alerts ack` and the others know it by; the id of its notifications"),
                        "text": text("the fault in one line"),
                        "fault": FAULT,
                        "began": maybe(moment("since when it holds, or when it was judged first"), "not recorded"),
                        "sent_at": maybe(moment("when it was told last"), "it was not told"),
                        "ack": maybe(_ACK, "no acknowledgement or silence holds"),
                    },
                ),
            )
        },
    ),
    "alerts test": thing(
        "what the command answered",
        {
            "exit_code": maybe(
                {"type": "integer", "description": "its exit code, of a signal the negative"},
                "it was killed, or could not be started",
            ),
            "fault": maybe(text("why it did not take the notification"), "it took it"),
            "written": text("the beginning of what it wrote"),
        },
    ),
}

SCHEMAS: dict[str, Schema] = {**_OF_LOCKS, **_OF_JOBS, **_OF_ALERTS}
