"""Schemas of the output of `audit`, `doctor`, `config`, `docs`, `demo` and `errors`, and of a line of the audit's
files.

The audit's files are the one log in JSON.
"""

from __future__ import annotations

from bench.schemas.pieces import (
    Schema,
    by_name,
    either,
    flag,
    listed,
    maybe,
    moment,
    number,
    text,
    thing,
    whole,
    word_of,
)
from bench.schemas.records import fields_of, record
from slotkeeper.core.config.model import Layer
from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.finding import Finding
from slotkeeper.core.domain.probing import Left, ProbePlan, Reader
from slotkeeper.core.domain.quarantine import EntryState, QuarantineEntry
from slotkeeper.core.domain.text import see

LOG = "audit.jsonl"

_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_LINE = fields_of(AuditLine)

_PROBED = thing(
    "the results of a probe; the state folder stores them in probes/NAME.json, without executed and file",
    {
        "executed": flag("true"),
        "file": text("the file with the results, or empty"),
        "format": whole("1"),
        "source": text("the name of the source or sink"),
        "kind": text("the kind of server"),
        "place": text("a description of the server"),
        "server": text("the server's version"),
        "stand_in": flag("true if the server is the stand-in used in tests and the demo"),
        "schema": text("the schema or database of the scratch tables"),
        "gtm_option": text("the server's method of creating sync points, according to its gtm_option, or empty"),
        "at": moment("when the probe ran"),
        "seconds": number("duration, seconds"),
        "reader_right": flag("true if Slotkeeper is correct for every answer"),
        "switches": by_name("the observed behaviors, by name", maybe(flag("true if the server behaves this way"))),
        "answers": listed(
            f"the questions ({see('probe')})",
            thing(
                "a question",
                {
                    "name": text("its name"),
                    "topic": text("its topic"),
                    "asks": text("the question"),
                    "rule": text("why Slotkeeper is correct for any answer, or what it requires"),
                    "documented": maybe(text("the vendor's answer"), "the vendor's documentation gives none"),
                    "page": text("the vendor's page"),
                    "answer": maybe(text("the answer"), "unknown"),
                    "reader": word_of("whether Slotkeeper is correct, given the answer", Reader),
                    "because": text("why the answer is unknown or Slotkeeper is not correct, a remark, or empty"),
                    "evidence": listed("the evidence for the answer", text("a short description")),
                },
            ),
        ),
        "left": listed("scratch tables that could not be dropped", record(Left)),
    },
)

_LOG_OF_DEMO = maybe(text("the path of the most informative log, in a folder that is retained"), "no log is retained")
_FAILED_DEMO = thing(
    "a demo that failed",
    {
        "ok": {"const": False, "type": "boolean", "description": "false"},
        "why": text("the failure, in one sentence"),
        "log": _LOG_OF_DEMO,
    },
)
_VERDICT = thing(
    "the verdict of the demo",
    {
        "ok": flag("true if the demo succeeded; the same value as verified"),
        "why": maybe(text("the differences, in one sentence"), "the tables are equal"),
        "log": _LOG_OF_DEMO,
        "verified": flag("true if both tables are equal and every change was applied exactly once"),
        "rows_source": whole("rows in the source"),
        "rows_sink": whole("rows in the sink"),
        "changes_written": whole("events that the writers recorded"),
        "changes_applied": whole("events according to the sink's progress rows"),
        "changes_by_kind": thing(
            "rows changed in the source, by kind of change",
            {name: whole("rows") for name in ("insert", "update", "delete", "key_change")},
        ),
        "duplicates": whole("events applied more than once, and extra rows in the sink"),
        "missing": whole("events not applied, and rows missing from the sink"),
        "different": whole("rows with different values"),
        "dns": whole("data nodes"),
        "snapshot_rows": whole("rows in the source table before the job started"),
        "snapshot_rows_per_s": maybe(number("rows copied per second"), "the copy had not finished"),
        "stream_rows_per_s": number("events applied per second while the writers were running"),
        "latency_ms": thing(
            "time from a commit in the source until it is visible in the sink",
            {name: maybe(number("milliseconds")) for name in ("p50", "p99")},
        ),
        "spark": thing(
            "Spark figures",
            {
                "start_s": number("time from the start to the first report, seconds"),
                "tasks_started": maybe(whole("tasks started")),
            },
        ),
        "seed": whole("the seed of the writers' random numbers", None),
        "source": text("a description of the source"),
        "sink": text("a description of the sink"),
        "sink_cannot_prove": listed(
            "properties that a run with a stand-in for the sink cannot prove", text("a description")
        ),
        "views": listed(
            "with --layers: the SQL views",
            thing("a view", {"view": text("its table"), "equal": flag("whether the table equals the view's SELECT")}),
        ),
        "duration_s": number("total duration, seconds"),
    },
)
_INCIDENT: dict[str, Schema] = {
    "number": whole("its number", 1),
    "brief": text("a short description"),
    "runbook": text("the command that opens its section of the runbook"),
    "signal": text("the command that shows it"),
    "rules": listed("the alert rules that fire", text(f"a rule ({see('alerts')})")),
    "refused": text("a command that a user might try, and that Slotkeeper rejects"),
    "cure": listed("the steps that fix it", text("a command, or a manual step")),
    "stand_in": maybe(text("how the simulation differs from a real server"), "no difference"),
}
_PLAYED = thing(
    "the result of a rehearsed incident",
    {
        "ok": flag("true if the whole incident went as described in the runbook"),
        "log": _LOG_OF_DEMO,
        "incident": text("its name"),
        "t0": maybe(moment("when it started"), "it did not start"),
        "shown_at": maybe(moment("when its symptom was detected"), "not detected"),
        "shown_after_s": maybe(number("time from t0 to shown_at, seconds"), "not detected"),
        "signal": maybe(text("the text that showed it"), "not detected"),
        "refused": flag("true if the command was rejected, as expected"),
        "cured": flag("true if the steps fixed it"),
        "why": listed("the errors of the parts that failed", text("an error")),
    },
)

_PAGE: dict[str, Schema] = {
    "page": text("its name, as typed"),
    "title": text("its title; empty if it has none"),
}

_OF_LOOKING: dict[str, Schema] = {
    LOG: thing(
        "one line of the audit log in the state folder: audit.jsonl; older lines are in audit-000001.jsonl and so on",
        {**_LINE, "before": {**_HASH, "description": "SHA-256 of the previous line; zeros in the first line"}},
    ),
    "audit list": thing(
        "the newest lines of the audit log",
        {
            "file": text("the file with the newest lines"),
            "damaged": whole("lines that cannot be parsed"),
            "lines": listed("the lines, the newest first", thing("a line", _LINE)),
        },
    ),
    "audit verify": thing(
        "the verification of the audit log",
        {
            "file": text("the file with the newest lines"),
            "lines": whole("lines that can be parsed"),
            "head": maybe({**_HASH, "description": "the newest line's SHA-256"}, "there are no lines"),
            "differs": flag("true if a line was changed, removed or added, or has no hash"),
            "broken": listed("breaks in the hash chain", text("a sentence")),
            "unlinked": whole("lines without a hash that `audit accept` has not recorded; each counts as a difference"),
            "accepted": whole("lines without a hash that `audit accept` has recorded"),
            "damaged": listed("lines that cannot be parsed", text("file and line number")),
            "sinks": listed(
                "the comparison with the hashes stored in each sink",
                thing(
                    "a sink",
                    {
                        "name": text("its name"),
                        "fault": maybe(text("why it could not be queried"), "it answered"),
                        "hashes": maybe(whole("hashes that were compared"), "it could not be queried"),
                        "older": maybe(
                            whole("hashes of lines in dropped files, which were not compared"),
                            "it could not be queried",
                        ),
                        "missing": maybe(
                            listed("hashes without a matching line", text("a sentence")), "it could not be queried"
                        ),
                    },
                ),
            ),
            "unproven": listed("properties that this verification cannot prove", text("a sentence")),
        },
    ),
    "docs": either(
        "the documentation pages, or the text of PAGE",
        listed("the pages, sorted by name", thing("a page", _PAGE)),
        thing(
            "a page",
            {
                **_PAGE,
                "section": maybe(text("the anchor of the section at which the text starts"), "the whole page"),
                "text": text("the text as Markdown, or the unchanged file"),
            },
        ),
    ),
    "doctor": either(
        "the findings; with --probe, the plan or the results of the probe",
        thing(
            "the findings",
            {
                "ok": flag("true if no check failed"),
                "findings": listed("the findings, one per check", record(Finding)),
                "grants": by_name(
                    "by server, the minimum privileges for the configured jobs", listed("", text("a statement"))
                ),
            },
        ),
        thing(
            "a dry run of a probe",
            {
                "executed": flag("false"),
                "plan": record(ProbePlan),
                "to_type": thing(
                    "the confirmations required besides a reason", {"confirm": text("the name of the source or sink")}
                ),
            },
        ),
        _PROBED,
    ),
    "config check": thing(
        "the result of checking the configuration",
        {
            "ok": flag("true if every job is valid"),
            "path": text("the path of the configuration file"),
            "sources": listed("the names of the sources", text("a name")),
            "sinks": listed("the names of the sinks", text("a name")),
            "jobs": listed("the names of the valid jobs", text("a name")),
            "refused": by_name("by job, why it is rejected", text("a sentence")),
            "warnings": listed("settings that are valid but should be changed", text("a sentence")),
        },
    ),
    "config show": thing(
        "the effective configuration",
        {
            "path": text("the path of the configuration file"),
            "settings": by_name(
                "the settings, by dotted key; secrets appear as references only",
                thing(
                    "a setting",
                    {
                        "value": {
                            "type": ["string", "integer", "boolean", "null"],
                            "description": "the value; null: not set",
                        },
                        "origin": word_of("the origin of the value", Layer),
                        "place": text("the file and line, the variable or the option; empty for a default"),
                    },
                ),
            ),
        },
    ),
    "demo": either(
        "the verdict of the demo, or its failure; with --incident, the result of the incident or the list of all",
        _VERDICT,
        _FAILED_DEMO,
        listed("the incidents", thing("an incident", {"incident": text("its name"), **_INCIDENT})),
        _PLAYED,
    ),
}

_ID = whole("the entry's number", 1)
_STATE = word_of("the state of the entry", EntryState)

_ENTRY: dict[str, Schema] = {
    **{name: one for name, one in fields_of(QuarantineEntry).items() if name != "values"},
    "position": text("the position at which it was read"),
}

_OUTCOMES = thing(
    "the results for the entries",
    {
        "entries": listed(
            "the entries, in the order given",
            thing(
                "an entry",
                {
                    "id": _ID,
                    "state": _STATE,
                    "outcome": text("the result, as text"),
                    "sqlstate": text("the SQLSTATE of the new rejection, or empty"),
                },
            ),
        )
    },
)

_OF_ROWS: dict[str, Schema] = {
    "errors list": thing(
        "quarantined rows without their values",
        {"entries": listed("the entries, the newest first", thing("an entry", _ENTRY))},
    ),
    "errors show": thing(
        "one quarantined row",
        {
            **_ENTRY,
            "values": by_name("the row as the source wrote it, by target column", maybe(text("a value"), "NULL")),
        },
    ),
    "errors replay": _OUTCOMES,
    "errors discard": either(
        "a dry run, or the results",
        thing(
            "a dry run",
            {
                "executed": flag("false"),
                "ids": listed("the entries that would be discarded", _ID),
                "how": text("the command that discards them"),
            },
        ),
        _OUTCOMES,
    ),
}

SCHEMAS: dict[str, Schema] = {**_OF_LOOKING, **_OF_ROWS}
