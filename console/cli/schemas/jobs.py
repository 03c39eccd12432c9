"""What `jobs`, `status` and `verify` print."""

from __future__ import annotations

from slotkeeper.console.cli.schemas.locks import LOCK_WAIT
from slotkeeper.console.cli.schemas.pieces import (
    POSITION,
    QUERY_SEEN,
    REASON,
    SAFE,
    SQLSTATE,
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
from slotkeeper.core.domain.fault import Party, Severity
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.row_counts import APART, VOID
from slotkeeper.core.domain.text import see
from slotkeeper.core.launch.control import Ensured

_JOB = text("the job's name")
_STATE = word_of(f"what the job is doing ({see('states')})", JobState)
_NEVER = "it was never started here"

_IDENTITY = thing(
    "one process of one machine",
    {
        "pid": whole("its process id", 1),
        "started": text("boot, pid namespace and start in clock ticks: another process with this pid has another"),
        "session_id": whole("the session that it leads or belongs to"),
        "run_id": text("the run that it is of"),
        "host": text("the machine"),
    },
)

_TABLE = thing(
    "one table of a job of several",
    {
        "source_table": text("schema.table at the source"),
        "target": text("schema.table at the sink"),
        "state": _STATE,
        "reason": REASON,
        "trouble": TROUBLE,
        "safe": SAFE,
        "since": maybe(moment("since when it is in this state"), "nobody noted it"),
    },
)

_VERIFIED = maybe(
    thing(
        "the last comparison of source and target",
        {
            "job": _JOB,
            "at": moment("when it ended; of a void one, when a reset ended older ones"),
            "verdict": word("what it found", "equal", APART, "different", "unsettled", VOID),
            "differences": whole("keys that are missing, extra or have other values"),
            "unsettled": whole("keys that kept changing while they were compared"),
            "quarantined": whole("keys that are held in quarantine"),
            "rows_source": whole("rows at the source"),
            "rows_sink": whole("rows at the sink"),
            "seconds": number("how long it took, seconds"),
            "by_whom": text("who compared, or the reset"),
        },
    ),
    "never compared, or not kept",
)

_LANE = thing(
    "one lane: a source table on one DN",
    {
        "shard": text("the DN's name"),
        "node_id": whole("the DN's number, often negative", None),
        "state": text("creating, copying, catching up or running"),
        "activity": text("idle, due, applying, registering, waiting or stopped"),
        "position": POSITION,
        "latest": maybe(text("the newest place of the source, as this DN told it last")),
        "registered": maybe(text("the place up to which the source was told that all is done"), "nothing yet"),
        "changes": whole("events read, ever"),
        "last_commit_age": maybe(number("how long ago its last step was committed, seconds"), "none in this run"),
        "retry": text("retrying n, next in s; empty where nothing is retried"),
        "error": text("the newest error that is not over, empty without one"),
        "side": text("whose error: source, sink, spark, or empty"),
        "polled_age": maybe(number("how long ago the source said what is latest, seconds")),
        "read_s": maybe(number("spent reading from the source in this run, seconds")),
        "write_s": maybe(number("spent writing to the sink in this run, seconds")),
        "register_s": maybe(number("spent registering in this run, seconds")),
        "waited": number("the longest time that it was due before a step began, seconds"),
        "source_table": text("schema.table at the source"),
        "target": text("schema.table at the sink"),
        "label": text("what it is called where the job has several tables, else empty"),
        "at": maybe(whole("a number that grows with position", None)),
        "latest_at": maybe(whole("a number that grows with latest", None)),
        "registered_to": maybe(whole("a number that grows with registered", None)),
        "empty_to": maybe(whole("a number that grows with the place up to which no row was found", None)),
        "behind": maybe(whole("what lies between position and latest, in the report's unit")),
        "shown": maybe(text("position as people see it")),
        "gtids": text("GTIDs that are done at position, empty where its source has none"),
        "delay": maybe(number("behind the source's clock, seconds"), "positions of this kind do not tell"),
    },
)

_CONDITION = thing(
    "something that the driver knows to be wrong now",
    {
        "party": word_of("whose it is", Party),
        "name": text("the party in words"),
        "cause": text("in its own words"),
        "since": moment("since when"),
        "lanes": listed("the lanes that wait by it", text("a lane")),
        "of": whole("out of so many"),
        "tries": whole("how often it was tried again"),
    },
)

_REPORT = thing(
    "what the driver told of itself last",
    {
        "job": _JOB,
        "run": text("the run that told it"),
        "state": _STATE,
        "reason": REASON,
        "trouble": TROUBLE,
        "safe": SAFE,
        "epoch": maybe(whole("the epoch of its progress rows")),
        "lanes": listed("its lanes", _LANE),
        "chunks_done": maybe(whole("chunks of the copy that are done"), "no copy is under way"),
        "chunks_total": maybe(whole("chunks of the copy"), "no copy is under way"),
        "snapshot_rows": whole("rows that this run has copied"),
        "changes": whole("events read, ever, over all lanes"),
        "tasks_started": whole("Spark tasks started in this run"),
        "registrations": whole("registrations at the source in this run"),
        "environment": text("the source's environment, as configured"),
        "quarantined": maybe(whole("rows in quarantine"), "it holds none by its configuration, or not known"),
        "repeats": whole("rows that a sink beside its progress store may have got once more, ever"),
        "unit": text("what behind counts, by the source's dialect"),
        "place": text("what a position is called, by the source's dialect"),
        "part": text("what a lane reads, by the source's dialect: DN, shard, stream"),
        "keeps_positions": flag("whether the source keeps positions of slots"),
        "tables": listed("the tables of a job of several, each by itself", _TABLE),
        "conditions": listed("what is wrong by the driver's word, the oldest first", _CONDITION),
        "lock_waits": listed("its sessions at the sink that wait for a lock, as last measured", LOCK_WAIT),
        "locks_untold": text("why the sink could not tell of locks, empty where it could"),
        "clock_apart": maybe(
            number("by how many seconds the source's clock was ahead of this machine's at least", None), "not measured"
        ),
        "quarantine_limit": maybe(whole("with more rows of a table quarantined it stops"), "it holds none"),
    },
    optional=["conditions", "lock_waits", "locks_untold", "clock_apart", "quarantine_limit"],
)

_SEEN: dict[str, Schema] = {
    "job": _JOB,
    "state": _STATE,
    "wanted": word_of("what a person wants of it", WantedState),
    "reason": REASON,
    "trouble": TROUBLE,
    "safe": SAFE,
    "config": text("the configuration file that it was started with"),
    "run": text("its newest run, empty where there was none"),
    "supervisor": maybe(_IDENTITY, "none was seen"),
    "supervisor_alive": flag("whether its supervisor lives here"),
    "supervisor_stopped": flag("whether a signal or a debugger keeps its supervisor from running"),
    "driver_stopped": flag("whether one keeps its driver from running"),
    "driver": maybe(_IDENTITY, "none was seen"),
    "driver_alive": flag("whether its driver lives here"),
    "elsewhere": flag("whether it was started on another machine and has not been seen to end"),
    "changed_at": maybe(moment("since when it is in this state")),
    "started_at": maybe(moment("when its newest run began"), "none began"),
    "ended_at": maybe(moment("when its newest run ended"), "it has not ended"),
    "exit_code": maybe(whole("the driver's exit code in its newest run, negative: ended by that signal", None), "none"),
    "reported_at": maybe(moment("when its driver reported last"), "never"),
    "starting": flag("whether it was started a moment ago, and its supervisor has not said yet who it is"),
    "tables": listed("the tables of a living job of several", _TABLE),
    "queries": listed(
        "the DataFrame queries that read its slots, of a job that was never started here",
        thing("a query", {"table": text("schema.table at the source"), **QUERY_SEEN}),
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

_KNOWN_WHEN_NEVER_STARTED = ("job", "reason", "tables", "queries")
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

_ERROR = thing(
    "one kind of error: equal side, code and message, numbers apart, count as one",
    {
        "job": _JOB,
        "signature": text("what is equal"),
        "count": whole("how often it was seen", 1),
        "first_at": moment("the first time"),
        "last_at": moment("the last time"),
        "side": text("whose it is: source, sink, spark, or empty"),
        "code": SQLSTATE,
        "message": text("the newest one's words"),
    },
)

_EVENT = thing(
    "something that happened to the job",
    {
        "id": whole("its number; a later one has a higher"),
        "at": moment("when"),
        "job": _JOB,
        "event": text(f"a word of {see('states')}, or what was asked"),
        "text": text("more of it, for people"),
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

_OF_NOTHING = "it is of nothing of that kind"
FAULT = thing(
    "something that is wrong now",
    {
        "rule": text(f"a key of a fixed list ({see('alerts')})"),
        "party": word_of("whose it is", Party),
        "name": text("the party in words"),
        "severity": word_of("how bad; unknown prevents a judgement", Severity),
        "cause": text("the server's own words where there are any"),
        "effect": text("what it delays or loses, and when; empty where nothing is said"),
        "do": SAFE,
        "since": maybe(moment("since when"), "nobody noted it"),
        "job": maybe(_JOB, "it is of the machine, or of a source as a whole"),
        "table": maybe(text("schema.table at the source"), _OF_NOTHING),
        "thing": maybe(text("a DN, a slot or another thing that tells faults of one rule apart"), _OF_NOTHING),
        "value": maybe(text("what was measured"), "nothing was"),
        "limit": maybe(text("what it was held against"), "it has no limit"),
        "source": maybe(text("the source of a slot that is no job's"), _OF_NOTHING),
    },
)

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
                    "verified": _VERIFIED,
                    "quarantined": maybe(whole("rows in quarantine"), "it holds none by its configuration"),
                    "only_quarantined": flag("whether nothing but rows in quarantine is wrong with it"),
                },
            ),
        ),
        "faults": listed("what is wrong, the worst first", FAULT),
    },
)

SCHEMAS: dict[str, Schema] = {
    "jobs list": listed("jobs that were started here, then configured ones that never were", _LISTED),
    "jobs show": thing(
        "one job with what its driver told; of one whose slots a DataFrame query reads, what that tells",
        {
            **_NEVER_STARTED,
            "verified": _VERIFIED,
            "report": maybe(_REPORT, "its driver has never reported"),
            "errors": listed("its errors, the latest first", _ERROR),
            "events": listed("what happened to it, the newest first", _EVENT),
        },
    ),
    **{f"jobs {verb}": _STEERED for verb in ("start", "restart", "stop", "pause", "resume")},
    "jobs ensure": listed(
        "every job that was started here",
        thing(
            "a job",
            {"job": _JOB, "outcome": word_of("what was done", Ensured), "state": _STATE, "why": REASON},
        ),
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
