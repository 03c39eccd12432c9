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
from slotkeeper.core.domain.inspection import Left, ProbePlan, Reader
from slotkeeper.core.domain.quarantine import EntryState, QuarantineEntry
from slotkeeper.core.domain.text import see

LOG = "audit.jsonl"

_HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_LINE = fields_of(AuditLine)

_PROBED = thing(
    "what a probe found; the state folder keeps it without executed and file, as probes/SOURCE.json",
    {
        "executed": flag("true"),
        "file": text("where it is kept, or empty"),
        "format": whole("1"),
        "source": text("the source's name"),
        "place": text("the source in words"),
        "server": text("the server's version"),
        "stand_in": flag("whether it is the stand-in of the tests and the demo"),
        "schema": text("where the scratch tables were made"),
        "gtm_option": text("how the server makes sync points, or empty"),
        "at": moment("when"),
        "seconds": number("how long it took, seconds"),
        "reader_right": flag("whether our reader is right under every answer"),
        "switches": by_name("behaviours that were told", maybe(flag("whether it is so"))),
        "answers": listed(
            f"question by question ({see('probe')})",
            thing(
                "a question",
                {
                    "name": text("its name"),
                    "topic": text("its chapter"),
                    "asks": text("the question"),
                    "rule": text("why the reader is right, or what it needs"),
                    "documented": maybe(text("the vendor's answer"), "the vendor's pages give none"),
                    "answer": maybe(text("the answer"), "it was not told"),
                    "reader": word_of("what it says about our reader", Reader),
                    "because": text("why, or empty"),
                    "evidence": listed("what showed it", text("in a few words")),
                },
            ),
        ),
        "left": listed("scratch tables that could not be dropped", record(Left)),
    },
)

_LOG_OF_DEMO = maybe(text("the log that says most, in a folder that stays"), "nothing is left")
_FAILED_DEMO = thing(
    "a demo that failed",
    {
        "ok": {"const": False, "type": "boolean", "description": "false"},
        "why": text("what failed, in one sentence"),
        "log": _LOG_OF_DEMO,
    },
)
_VERDICT = thing(
    "the verdict of the demo",
    {
        "ok": flag("whether the demo ended as it should: the same as verified"),
        "why": maybe(text("what is not equal, in one sentence"), "all is equal"),
        "log": _LOG_OF_DEMO,
        "verified": flag("whether both tables are equal and every change was applied exactly once"),
        "rows_source": whole("rows at the source"),
        "rows_sink": whole("rows at the sink"),
        "changes_written": whole("events by the writers' own account"),
        "changes_applied": whole("events by the sink's progress rows"),
        "changes_by_kind": thing(
            "rows changed at the source", {name: whole("rows") for name in ("insert", "update", "delete", "key_change")}
        ),
        "duplicates": whole("events applied twice, and rows too many"),
        "missing": whole("events not applied, and rows missing"),
        "different": whole("rows with other values"),
        "dns": whole("data nodes"),
        "snapshot_rows": whole("rows in the table before the start"),
        "snapshot_rows_per_s": maybe(number("rows copied a second"), "the copy had not ended"),
        "stream_rows_per_s": number("events applied a second, while writers wrote"),
        "latency_ms": thing(
            "from a commit at the source until it is seen at the sink",
            {name: maybe(number("milliseconds")) for name in ("p50", "p99")},
        ),
        "spark": thing(
            "of Spark",
            {"start_s": number("from the start to the first report, seconds"), "tasks_started": maybe(whole("tasks"))},
        ),
        "seed": whole("the writers' seed", None),
        "source": text("what the source is"),
        "sink": text("what the sink is"),
        "sink_cannot_prove": listed("what a run over a stand-in for the sink says nothing about", text("in words")),
        "duration_s": number("in all, seconds"),
    },
)
_INCIDENT: dict[str, Schema] = {
    "number": whole("its number", 1),
    "brief": text("what happens"),
    "runbook": text("where the runbook tells it"),
    "signal": text("the command by which it shows"),
    "rules": listed("the rules of alerts that fire by it", text(f"a rule ({see('alerts')})")),
    "refused": text("what somebody in a hurry would type, and is refused"),
    "cure": listed("the way out", text("a command, or what somebody does")),
    "stand_in": maybe(text("what is not done as a server of that kind would do it"), "nothing"),
}
_PLAYED = thing(
    "an incident that was played",
    {
        "ok": flag("whether all of it went as the runbook says"),
        "log": _LOG_OF_DEMO,
        "incident": text("its name"),
        "t0": maybe(moment("when it began"), "it did not begin"),
        "shown_at": maybe(moment("when its signal was given"), "it was not"),
        "shown_after_s": maybe(number("that, in seconds after t0"), "it was not"),
        "signal": maybe(text("the words that said so"), "it was not"),
        "refused": flag("whether what is refused was"),
        "cured": flag("whether the way out led out"),
        "why": listed("what was not as it should be", text("in words")),
    },
)

_PAGE: dict[str, Schema] = {
    "page": text("its name, as it is typed"),
    "title": text("its title; empty where it has none"),
}

_OF_LOOKING: dict[str, Schema] = {
    LOG: thing(
        "a line of the audit's files in the state folder: audit.jsonl and, before it, audit-000001.jsonl and on",
        {**_LINE, "before": {**_HASH, "description": "SHA-256 of the line before it, zeros in the very first"}},
    ),
    "audit list": thing(
        "the newest lines",
        {
            "file": text("where the newest are"),
            "damaged": whole("lines that cannot be read"),
            "lines": listed("the newest first", thing("a line", _LINE)),
        },
    ),
    "audit verify": thing(
        "what can be proven of the audit",
        {
            "file": text("where the newest lines are"),
            "lines": whole("lines that can be read"),
            "head": maybe({**_HASH, "description": "the newest line's SHA-256"}, "no line exists"),
            "differs": flag("whether a line was changed, removed or added, or lacks its hash"),
            "broken": listed("lines that do not follow one another", text("a sentence")),
            "unlinked": whole("lines without a hash that `audit accept` has not recorded; any is a difference"),
            "accepted": whole("lines without a hash that it has recorded"),
            "damaged": listed("lines that cannot be read", text("file and number")),
            "sinks": listed(
                "what each sink's hashes say",
                thing(
                    "a sink",
                    {
                        "name": text("its name"),
                        "fault": maybe(text("why it could not be asked"), "it answered"),
                        "hashes": maybe(whole("hashes that it has"), "it could not be asked"),
                        "older": maybe(whole("those of lines in files that were dropped"), "it could not be asked"),
                        "missing": maybe(listed("hashes without a line", text("a sentence")), "it could not be asked"),
                    },
                ),
            ),
            "unproven": listed("what nothing here can tell", text("a sentence")),
        },
    ),
    "docs": either(
        "the pages; with PAGE its text",
        listed("by name", thing("a page", _PAGE)),
        thing(
            "a page",
            {
                **_PAGE,
                "section": maybe(text("the anchor of the section at which the text starts"), "it is the whole page"),
                "text": text("Markdown, or the file as it is"),
            },
        ),
    ),
    "doctor": either(
        "findings; with --probe a plan, or what was found",
        thing(
            "findings",
            {
                "ok": flag("whether nothing fails"),
                "findings": listed("what was looked at", record(Finding)),
                "grants": by_name(
                    "by server, the least rights for the configured jobs", listed("", text("a statement"))
                ),
            },
        ),
        thing(
            "a dry run of a probe",
            {
                "executed": flag("false"),
                "plan": record(ProbePlan),
                "to_type": thing("what has to be typed, beside a reason", {"confirm": text("the source's name")}),
            },
        ),
        _PROBED,
    ),
    "config check": thing(
        "whether the configuration can be used",
        {
            "ok": flag("whether no job is refused"),
            "path": text("the file"),
            "sources": listed("their names", text("a name")),
            "sinks": listed("their names", text("a name")),
            "jobs": listed("the names of those that can be used", text("a name")),
            "refused": by_name("why a job cannot be used, by its name", text("a sentence")),
            "warnings": listed("what works and should not stay so", text("a sentence")),
        },
    ),
    "config show": thing(
        "every effective value",
        {
            "path": text("the file"),
            "settings": by_name(
                "by dotted key; secrets as references",
                thing(
                    "a setting",
                    {
                        "value": {
                            "type": ["string", "integer", "boolean", "null"],
                            "description": "as it was read; null: not set",
                        },
                        "origin": word_of("where it came from", Layer),
                        "place": text("file and line, variable or option; empty for a default"),
                    },
                ),
            ),
        },
    ),
    "demo": either(
        "the verdict of the demo, or why it failed; with --incident that, and of --incident list all of them",
        _VERDICT,
        _FAILED_DEMO,
        listed("the incidents", thing("one", {"incident": text("its name"), **_INCIDENT})),
        _PLAYED,
    ),
}

_ID = whole("the entry's number", 1)
_STATE = word_of("what became of it", EntryState)

_ENTRY: dict[str, Schema] = {
    **{name: one for name, one in fields_of(QuarantineEntry).items() if name != "values"},
    "position": text("where it was read"),
}

_OUTCOMES = thing(
    "what became of the entries",
    {
        "entries": listed(
            "as they were named",
            thing(
                "an entry",
                {
                    "id": _ID,
                    "state": _STATE,
                    "outcome": text("in words"),
                    "sqlstate": text("why it was rejected again"),
                },
            ),
        )
    },
)

_OF_ROWS: dict[str, Schema] = {
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
                "ids": listed("what would be discarded", _ID),
                "how": text("the command that does it"),
            },
        ),
        _OUTCOMES,
    ),
}

SCHEMAS: dict[str, Schema] = {**_OF_LOOKING, **_OF_ROWS}
