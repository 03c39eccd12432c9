"""`slotkeeper doctor --probe SOURCE`: how a cluster behaves where its vendor documents nothing, told and kept.

At a source whose environment is PROD it is a dry run unless consented to, as the verbs on slots are.
Next door: `core.services.probe` carries it out; `docs/probe.md` lists the questions.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import typer

from console.cli import diagnostics, output
from core.config.model import Loaded
from core.errors import Refused
from core.services import probe as probe_service
from core.services.probe import ProbePlan, Report
from core.sources.dws.probe.questions import Answer


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person typed."""

    source: str
    schema: str = ""
    execute: bool = False
    reason: str = ""
    confirm: str = ""


def probe(loaded: Loaded, wanted: Wanted, as_json: bool, ascii_only: bool) -> None:
    """Plan, ask for consent where the source is PROD, probe, and tell; exit 1 where something is wrong or left."""
    found = probe_service.plan(loaded, wanted.source, wanted.schema)
    for one in found.others:
        diagnostics.warn(f"there is {one.table} ({one.why}); if nobody probes now: {one.cure}")
    if found.prod and not wanted.execute:
        if as_json:
            output.as_json({"executed": False, "plan": found, "to_type": {"confirm": found.source}})
        else:
            _show(found, ascii_only)
        return
    _refuse_without_consent(found, wanted)
    with _ended_by_signals():
        report = probe_service.probe(
            loaded, found, wanted.reason, lambda said: diagnostics.note(f"probe: {said}"), diagnostics.warn
        )
    if as_json:
        output.as_json({"executed": True, "file": report.file, **report.as_json()})
    else:
        _tell(report, ascii_only)
    for left in report.left:
        diagnostics.warn(f"left behind: {left.table} ({left.why}); cure: {left.cure}")
    if report.wrong or report.left:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _refuse_without_consent(found: ProbePlan, wanted: Wanted) -> None:
    if found.prod and not wanted.reason.strip():
        raise Refused(f"a probe of {found.source}, which is PROD, needs a reason", "--reason TEXT")
    if wanted.confirm != found.source and (found.prod or wanted.confirm):
        raise Refused(f"the name typed is not {found.source!r}", f"--confirm {found.source}")


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let a request to end, and a lost terminal, do what Ctrl-C does: end the probe, which drops its tables."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _show(found: ProbePlan, ascii_only: bool) -> None:
    output.paragraph("", f"probe {found.place}, in schema {found.schema}; {found.server}", ascii_only)
    for effect in (
        "two scratch tables and a slot on each are made, written to, altered, emptied and dropped again",
        f"{probe_service.ASKED} questions are asked about them; no other table or slot is touched",
        "each registration may move the cluster's sync point by one, as a job's do",
    ):
        output.paragraph("effect", effect, ascii_only)
    for each in found.statements:
        output.line(f"sql     {each}", ascii_only)
    output.line("dry run: nothing was changed; to do it:", ascii_only)
    schema = f" --probe-schema {found.schema}"
    typed = f"--execute --reason TEXT --confirm {found.source}"
    output.line(f"  slotkeeper doctor --probe {found.source}{schema} {typed}", ascii_only)


def _tell(report: Report, ascii_only: bool) -> None:
    output.paragraph("", f"{report.plan.place}: {report.plan.server}", ascii_only)
    if report.plan.stand_in:
        output.line("a stand-in, not a DWS", ascii_only)
    rows = [
        [one.question.name, one.told.answer, one.question.documented or None, _reader(one)] for one in report.answers
    ]
    output.table(["question", "answer", "documented", "our reader"], rows, ascii_only)
    topic = ""
    for one in report.answers:
        if one.question.topic != topic:
            topic = one.question.topic
            output.line("")
            output.line(topic, ascii_only)
        _detail(one, ascii_only)
    output.line("")
    told = sum(one.told.answer is not None for one in report.answers)
    verdict = f"WRONG under {len(report.wrong)} answers" if report.wrong else "right under all of these"
    text = f"{told} of {len(report.answers)} questions answered in {report.seconds:.1f} s; our reader is {verdict}"
    output.paragraph("", text, ascii_only)
    output.line(f"kept in {report.file or 'no file'}", ascii_only)


def _detail(one: Answer, ascii_only: bool) -> None:
    said = one.told.answer or "not asked" if one.question.topic == "not asked" else one.told.answer or "not told"
    output.paragraph(f"  {one.question.name}: {said}", one.question.asks, ascii_only)
    if one.told.because:
        output.paragraph("    because", one.told.because, ascii_only)
    output.paragraph("    reader ", f"{_reader(one)}: {one.question.rule}", ascii_only)
    for seen in one.evidence:
        output.paragraph("    seen   ", seen, ascii_only)


def _reader(one: Answer) -> str:
    return one.told.reader.value
