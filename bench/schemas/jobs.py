"""Schemas of the output of `jobs`, `status`, `verify`, `locks` and `alerts`.

They include the notification that the command in `[alerts]` receives on its standard input.
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
from slotkeeper.console.views.sync_jobs import SyncJob
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
from slotkeeper.core.services.upgrade import Part
from slotkeeper.core.state.rows import ErrorRow, EventRow

_SHOWN_BLOCKER = fields_of(
    Blocker,
    *("pid", "user", "application", "state", "since", "statement", "waits"),
    prepared=maybe(text("the name of the prepared transaction"), "it is a session"),
    job=maybe(text("the job in its application name"), "no job"),
    node=maybe(text("the DWS node of the lock"), "not reported"),
    query_id=fields_of(Blocker)["query"],
    began=maybe(text("when the session started, to the microsecond (RFC 3339, UTC)"), "hidden, or not a session"),
)
_SHOWN = fields_of(
    LockWait,
    *("pid", "session", "thing", "mode", "since", "statement", "waits"),
    job=text("the job of the session"),
    seconds=number("time since then, seconds"),
    cause=text("the blocker, in one sentence"),
    do=SAFE,
    blockers=listed("the blockers; those that do not wait themselves come first", thing("a session", _SHOWN_BLOCKER)),
)
_BLOCKER = thing("a session", _SHOWN_BLOCKER)
_SHOWN_AT_SOURCE = fields_of(
    SourceWait,
    *("what", "table", "since", "behind", "fails_at"),
    limit=maybe(text("the server's time limit, after which it fails"), "unknown"),
    waiter=_BLOCKER,
    slots=listed(
        "the slots that it waits for",
        thing(
            "a slot",
            fields_of(SlotBehind, *("slot", "shards"), job=maybe(text("the job that reads it"), "no configured job")),
        ),
    ),
    sessions=listed("the sessions of jobs that it waits for", _BLOCKER),
    seconds=number("time since then, seconds"),
    cause=text("the waiting session and what it waits for, in one sentence"),
    effect=text("the number of sessions queued after it, and when it fails"),
    do=SAFE,
)
_OF_LOCKS: dict[str, Schema] = {
    "locks": thing(
        "the waiting sessions, by server",
        {
            "sources": listed(
                "the queried sources",
                thing(
                    "a source",
                    {
                        "source": text("its name in the configuration"),
                        "place": text("a description of the source"),
                        "error": maybe(text("why its waits are unknown"), "they are known"),
                        "hidden": maybe(text("the sessions that the login cannot see"), "it sees all sessions"),
                        "waits": listed(
                            "sessions that wait for slots or for sessions of jobs", thing("a wait", _SHOWN_AT_SOURCE)
                        ),
                    },
                ),
            ),
            "sinks": listed(
                "the queried sinks",
                thing(
                    "a sink",
                    {
                        "sink": text("its name in the configuration"),
                        "place": text("a description of the sink"),
                        "error": maybe(text("why its waits are unknown"), "they are known"),
                        "waits": listed("sessions of jobs that wait for a lock", thing("a session of a job", _SHOWN)),
                    },
                ),
            ),
        },
    ),
    "locks end": thing(
        "the result of ending a session",
        {
            "server": text("sink or source, and its name in the configuration"),
            "pid": {"type": "integer", "description": "its pid on the server"},
            "began": text("when it started, to the microsecond (RFC 3339, UTC)"),
            "user": maybe(text("its login"), "hidden from this login"),
            "application": maybe(text("its application name"), "hidden from this login"),
            "ended": flag("true if the session has ended"),
            "outcome": text("the result, as text"),
        },
    ),
}

_JOB = text("the job's name")
_STATE = word_of(f"the job's state ({see('states')})", JobState)
_NEVER = "never started on this host"


_VERIFIED = maybe(record(Verified), "never compared, or not recorded")


_SEEN: dict[str, Schema] = {
    "job": _JOB,
    **{name: one for name, one in fields_of(JobStatus).items() if name not in ("name", "report", "reported")},
    "last_known": flag(
        "true if state, lanes and figures are the last known ones: none of its processes was found on this host"
    ),
    "tables": listed("the tables of a running job with several tables", record(TableReport)),
    "queries": listed(
        "the DataFrame queries that read its slots, if the job was never started on this host",
        thing("a query", {"table": text("schema.table in the source"), **fields_of(QuerySeen)}),
    ),
}
_JOB_SEEN = thing("a job, as seen from this host", _SEEN)
_TABLE_SEEN = thing(
    "one table of a job, if --table is given",
    {
        "job": _JOB,
        "table": text("schema.table in the source"),
        "state": _STATE,
        "target": text("schema.table in the sink"),
        "reason": REASON,
        "trouble": TROUBLE,
        "safe": SAFE,
    },
)
_STEERED = either("the job after the wait, or its table if --table is given", _JOB_SEEN, _TABLE_SEEN)

_KNOWN_WHEN_NEVER_STARTED = ("job", "reason", "last_known", "tables", "queries")
_NEVER_STARTED: dict[str, Schema] = {
    n: one if n in _KNOWN_WHEN_NEVER_STARTED else maybe(one, _NEVER) for n, one in _SEEN.items()
}
_LISTED = thing(
    "a job",
    {
        **_NEVER_STARTED,
        "verified": _VERIFIED,
        "refused": maybe(text("why its configuration is rejected"), "it is valid"),
    },
)


_KEYS = thing(
    "the keys with this result",
    {
        "count": whole("the number of keys"),
        "keys": listed("the first keys", listed("a key, one value per column", maybe(text("a value"), "NULL"))),
    },
)
_FIGURES: dict[str, Schema] = {
    "rows_source": whole("rows in the source"),
    "rows_sink": whole("rows in the sink"),
    "ranges": whole("the number of compared key ranges"),
    "missing": _KEYS,
    "extra": _KEYS,
    "different": _KEYS,
    "unsettled": _KEYS,
    "quarantined": _KEYS,
    "differing_columns": listed(
        "by column, the number of rows in which it differs", row("", text("column"), whole("rows", 1))
    ),
    "seconds": number("duration, seconds"),
}
_VERDICT = word("the result of the comparison", "equal", APART, "different", "unsettled")
_COMPARED: dict[str, Schema] = {
    "job": _JOB,
    "verdict": _VERDICT,
    "equal": flag("true if the verdict is equal"),
    "job_runs": flag("true if the job was running during the comparison"),
}
_CHANNEL = thing(
    "one table of the job and its target",
    {
        "from": text("schema.table in the source"),
        "into": text("schema.table in the sink"),
        "verdict": _VERDICT,
        "equal": flag("true if the verdict is equal"),
        **_FIGURES,
    },
)

FAULT = record(Fault)

SEVERITY = word("the severity, as monitoring plugins name it", "ok", "warning", "critical", "unknown")
_STATUS = thing(
    "all jobs, from the state store only",
    {
        "severity": SEVERITY,
        "jobs": listed(
            "the jobs, sorted by name",
            thing(
                "a job",
                {
                    "job": _JOB,
                    "severity": SEVERITY,
                    "state": maybe(_STATE, _NEVER),
                    "alive": flag("true if one of the job's processes runs on this host"),
                    "text": text("the job's problem; empty if there is none"),
                    "behind": maybe(whole("the largest lag among its lanes, in the unit of its source's dialect")),
                    "reported_at": maybe(moment("when its driver last reported"), "never"),
                    "last_known": flag(
                        "true if all values are the last known ones: none of its processes was found on this host"
                    ),
                    "verified": _VERIFIED,
                    "quarantined": maybe(whole("rows in quarantine"), "disabled by its configuration, or unknown"),
                    "only_quarantined": flag("true if rows in quarantine are its only problem"),
                    "host": maybe(record(HostReport), "not measured by its supervisor"),
                },
            ),
        ),
        "faults": listed("the current faults, the most severe first", FAULT),
    },
)

_OF_JOBS: dict[str, Schema] = {
    "jobs list": listed(
        "the jobs that were started on this host, followed by configured jobs that were never started here", _LISTED
    ),
    "jobs show": thing(
        "one job with its driver's last report, or with the reports of the DataFrame queries that read its slots",
        {
            **_NEVER_STARTED,
            "verified": _VERIFIED,
            "report": maybe(record(JobReport), "never reported"),
            "errors": listed("its errors, the newest first", record(ErrorRow)),
            "events": listed("its events, the newest first", record(EventRow)),
        },
    ),
    **{f"jobs {verb}": _STEERED for verb in ("start", "restart", "stop", "pause", "resume")},
    "jobs ensure": listed(
        "the jobs that were started on this host",
        thing("a job", {"job": _JOB, "outcome": word_of("the result", Ensured), "state": _STATE, "why": REASON}),
    ),
    "jobs retry": thing(
        "the result of a requested retry",
        {
            "job": _JOB,
            "table": maybe(text("schema.table in the source"), "the whole job"),
            "answered": flag("true if the command waited for the job, and the job answered"),
            "tried": listed("lanes, or a start, a copy or a driver, that are retried now", text("a lane")),
            "polled": listed("lanes whose source is polled now", text("a lane")),
            "busy": listed("lanes that were already running", text("a lane")),
            "refused": by_name("by lane, why it still waits", text("the reason")),
            "said": text("the result in one line; empty if the command did not wait"),
        },
    ),
    "jobs limit": thing(
        "the limit of a job's copies",
        {
            "job": _JOB,
            "rows_per_second": maybe(whole("rows per second"), "no limit"),
            "bytes_per_second": maybe(whole("bytes per second"), "no limit"),
            "set": flag("true if the command has set it; false if it is the limit of the configuration"),
        },
    ),
    "jobs recopy": thing(
        "the request to copy a table again beside its stream",
        {
            "job": _JOB,
            "table": text("schema.table in the source"),
            "requested": flag("true if the copy is requested; false if the request was withdrawn"),
        },
    ),
    "jobs logs": thing(
        "the last lines of a job's log",
        {
            "job": _JOB,
            "file": text("the path of the log"),
            "lines": listed("its last lines", text("a line, with control characters escaped")),
        },
    ),
    "jobs cancel": thing("a cancelled job; this state is final", {"job": _JOB, "state": _STATE}),
    "jobs drain": thing(
        "whether the job has read all changes",
        {
            "job": _JOB,
            "table": text("its source tables, separated by commas"),
            "drained": flag("true if these tables have no unread changes"),
            "at": moment("when this was checked"),
            "holds": text("how long the result is valid, as text"),
            "quiet_seconds": maybe(number("time since the job last applied a change, seconds")),
            "left": by_name("the unread changes, by DN or by table and DN", text("a description")),
        },
    ),
    "verify": either(
        "the comparison of a job",
        thing("the comparison of one table", {**_COMPARED, **_FIGURES}),
        thing("the comparison of several tables", {**_COMPARED, "channels": listed("the tables", _CHANNEL)}),
    ),
    "status": _STATUS,
    "upgrade": thing("what this version would migrate or reject", {"parts": listed("the parts", record(Part))}),
    "sync show": listed(
        "the jobs that read a binlog as Binlog Load did, in the columns of SHOW SYNC JOB", record(SyncJob)
    ),
}

NOTIFICATION = "alert"

_ACK = thing(
    "the current acknowledgement or silence",
    {
        "by": text("the user"),
        "at": moment("when it was recorded"),
        "until": maybe(moment("the end of the silence"), "acknowledged until the fault ends or gets worse"),
        "reason": maybe(text("the reason, as typed"), "none was given"),
    },
)

_OF_ALERTS: dict[str, Schema] = {
    NOTIFICATION: thing(
        f"one line on the standard input of the command in [alerts] ({see('alerts')})",
        {
            "schema": {
                "const": 1,
                "description": "the version of this schema; it increases when a key is renamed or removed",
            },
            "kind": word_of("the kind of the notification", Kind),
            "at": moment("when the notification was created"),
            "began": moment("when the fault started, or when it was first detected"),
            "id": text("the fault's id, the same in all notifications about it"),
            "host": text("the host that detected it"),
            "state_folder": text("the state folder in which it was detected"),
            "text": text("the fault in one line"),
            "fault": FAULT,
        },
    ),
    "alerts list": thing(
        "the current faults, with their notifications and acknowledgements",
        {
            "alerts": listed(
                "the faults, the most severe first",
                thing(
                    "a fault",
                    {
                        "key": text(
                            "the fault's id, for `alerts ack` and similar commands; the id in its notifications"
                        ),
                        "text": text("the fault in one line"),
                        "fault": FAULT,
                        "began": maybe(moment("when the fault started, or when it was first detected"), "not recorded"),
                        "sent_at": maybe(moment("when the last notification was sent"), "none was sent"),
                        "ack": maybe(_ACK, "neither acknowledged nor silenced"),
                    },
                ),
            )
        },
    ),
    "alerts test": thing(
        "the result of running the command in [alerts]",
        {
            "exit_code": maybe(
                {"type": "integer", "description": "its exit code; negative if a signal ended it"},
                "it was killed, or could not start",
            ),
            "fault": maybe(text("why it did not accept the notification"), "it accepted it"),
            "written": text("the beginning of its output"),
        },
    ),
}

SCHEMAS: dict[str, Schema] = {**_OF_LOCKS, **_OF_JOBS, **_OF_ALERTS}
