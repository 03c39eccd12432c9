"""`slotkeeper doctor`: check that this host and each server meet the needs of the configured jobs. Changes nothing.

The checks on this host cover Java, Spark, memory, the state folder and logind. A separate process checks the Python
interpreter that runs Spark.
"""

from __future__ import annotations

import configparser
import getpass
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import Annotated

import psutil
import typer

from slotkeeper.console.cli import completion, context, diagnostics, output, select
from slotkeeper.console.cli.select import OneJson, Reason
from slotkeeper.console.commands import configured
from slotkeeper.core.bounded import TooLong, output_of, text_of
from slotkeeper.core.config import handover
from slotkeeper.core.config.model import Loaded, SinkEntry, SourceEntry
from slotkeeper.core.domain.cluster import REST_OFF, REST_PORT, WORKERS_NEED, Master, MasterKind
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.probing import Answer, ProbePlan, Report
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers.login import takes_submissions
from slotkeeper.core.errors import ConfigError, Refused, SlotkeeperError
from slotkeeper.core.services import doctor as doctor_service
from slotkeeper.core.services import doctor as probe_service
from slotkeeper.core.services import looking
from slotkeeper.core.slots.change import Consent
from slotkeeper.core.state.faults import FREE_IT, REMOUNT, NoRoom, full, read_only
from slotkeeper.core.state.folder import StateFolder

app = typer.Typer(help="Check the requirements of jobs on this host and the servers.", add_completion=False)

_ASK_JAVA = (
    "import json\n"
    "from slotkeeper.core.errors import SlotkeeperError\n"
    "from slotkeeper.core.spark.java import find_java\n"
    "try:\n"
    "    java = find_java()\n"
    "    print(json.dumps({'home': str(java.home), 'version': java.version, 'origin': java.origin}))\n"
    "except SlotkeeperError as error:\n"
    "    print(json.dumps({'error': f'{error}. {error.hint}'}))\n"
)
_JAVA_SECONDS = 60.0
_HOST = "this host"
_MOST_BYTES = 1024 * 1024
"""The size limit for Java's answer and for a logind file, each of which is usually a few hundred bytes."""
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_BESIDE_HEAP = 300 << 20
"""Memory of a JVM outside its heap, including one worker; 250 to 320 MB were measured in total with a small heap."""
_PER_TASK = 80 << 20
_MASTER_SECONDS = 5.0
_WORKERS = f"its workers need Python with {WORKERS_NEED}, and each password_file, password_env or password_command"
_LOGIND = ("etc/systemd/logind.conf", *(f"{base}/systemd/logind.conf.d" for base in ("usr/lib", "run", "etc")))


Probed = Annotated[
    str,
    typer.Option(
        "--probe",
        metavar="NAME",
        help="test how this source or sink behaves, and store the result",
        autocompletion=completion.probed,
    ),
]
Schema = Annotated[str, typer.Option("--probe-schema", metavar="SCHEMA", help="schema for the scratch tables")]
Execute = Annotated[bool, typer.Option("--execute", help="execute the probe on a PROD server")]
Confirm = Annotated[str, typer.Option("--confirm", metavar="NAME", help="the probe's name, typed again")]


_WAIT = f"{looking.SECONDS:g}s"
_WAIT_FOR = f"time limit for all servers together ({_WAIT})"
Wait = Annotated[float, typer.Option("--wait", parser=select.seconds, metavar="TIME", help=_WAIT_FOR)]


@app.command()
def doctor(
    ctx: typer.Context,
    probe: Probed = "",
    schema: Schema = "",
    execute: Execute = False,
    reason: Reason = "",
    confirm: Confirm = "",
    wait: Wait = _WAIT,  # type: ignore[assignment]
    as_json: OneJson = False,
) -> None:
    """Check this host, the sources and the sinks; prints the GRANT script.

    Exit code 1: a check failed; 5: no check failed, but a server did not answer.

    With --probe NAME: test that source's or sink's behavior on scratch tables, which are created and dropped.
    If it is PROD, a dry run unless --execute --reason TEXT --confirm NAME.
    """
    loaded = context.of(ctx).load()
    if probe:
        plan = probe_service.plan(loaded, probe, schema)
        _probe(loaded, plan, Consent(execute, reason, confirm), as_json, select.ascii_only(ctx))
        return
    if schema or execute or reason or confirm:
        raise ConfigError("--probe-schema, --execute, --reason and --confirm belong to --probe NAME")
    found = [*everywhere(loaded, wait), *doctor_service.promises(loaded)]
    scripts = doctor_service.grants(loaded)
    if as_json:
        output.as_json({"ok": not _failed(found), "findings": found, "grants": dict(scripts)})
    else:
        _print(ctx, found, scripts)
    failed = _failed(found)
    if failed:
        only_silence = all(one.unreachable for one in failed)
        raise typer.Exit(int(diagnostics.ExitCode.UNREACHABLE if only_silence else diagnostics.ExitCode.FAILED))


def everywhere(loaded: Loaded, seconds: float = looking.SECONDS) -> Iterator[Finding]:
    """Return the findings for this host and each server, checked concurrently. A late answer is also a finding."""
    looking.passwords([one.endpoint for one in loaded.sources.values()])
    looking.passwords([one.endpoint for one in loaded.sinks.values()])
    lists: dict[str, list[Finding]] = {}
    lanes: dict[str, list[tuple[str, Callable[[], list[Finding]]]]] = {}

    def lane(place: str, find: Callable[[list[Finding]], list[Finding]]) -> None:
        lists[place] = []
        lanes[place] = [(place, partial(find, lists[place]))]

    def host(seen: list[Finding]) -> list[Finding]:
        seen.extend(here(loaded))
        return seen

    lane(_HOST, host)
    for source in loaded.sources.values():
        lane(f"source {source.name}", partial(_check_source, loaded, source))
    for sink in loaded.sinks.values():
        lane(f"sink {sink.name}", partial(_check_sink, loaded, sink))
    for place, found in looking.asked(lanes, seconds).items():
        if not isinstance(found, SlotkeeperError):
            yield from found
            continue
        yield from list(lists[place])
        level = Level.UNKNOWN if place == _HOST else Level.FAIL
        text = f"{found}; other checks there were not completed: `slotkeeper doctor --wait 60s` waits longer"
        yield Finding(place, level, text, place != _HOST)


def _check_source(loaded: Loaded, source: SourceEntry, seen: list[Finding]) -> list[Finding]:
    found = doctor_service.check_source(loaded, source, seen=seen)
    return [*found, *last_probe(f"source {source.name}", probe_service.remembered(loaded, source.name))]


def _check_sink(loaded: Loaded, sink: SinkEntry, seen: list[Finding]) -> list[Finding]:
    found, kept = doctor_service.check_sink(loaded, sink, seen=seen), probe_service.remembered(loaded, sink.name)
    of_sink = kept is not None and kept.get("kind") == sink.kind
    return [*found, *last_probe(f"sink {sink.name}", kept if of_sink else None)]


def last_probe(place: str, kept: Mapping[str, object] | None) -> Iterator[Finding]:
    """Return the finding of the last probe of a source or sink, if it was probed."""
    if kept is None:
        return
    right = kept.get("reader_right") is True
    verdict = "Slotkeeper is correct for all answers" if right else "Slotkeeper is WRONG for an answer"
    text = f"probed {safe(kept.get('at'), 40)} on {safe(kept.get('server'), 80)}: {verdict}"
    yield Finding(place, Level.OK if right else Level.FAIL, text)


def _failed(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.level is Level.FAIL]


def _print(ctx: typer.Context, found: list[Finding], scripts: list[tuple[str, list[str]]]) -> None:
    ascii_only = select.ascii_only(ctx)
    for one in found:
        output.line(f"{one.level.value:<7}  {one.place}: {one.text}", ascii_only)
    for server, statements in scripts:
        output.line("")
        output.line(
            f"-- {server}: minimum privileges for the configured jobs, to be granted by an administrator", ascii_only
        )
        for statement in statements:
            output.line(statement, ascii_only)


# -- this host ------------------------------------------------------------------------------------------------------


def here(loaded: Loaded, root: Path = Path("/")) -> Iterator[Finding]:
    """Return the findings about this host. `root` is the root of the file system with the system settings."""
    yield from memory(loaded.jobs, psutil.virtual_memory().available)
    yield state_folder(loaded.state_dir)
    for warning in loaded.warnings:
        yield Finding("configuration", Level.WARN, warning)
    for name, sentence in configured.refused(loaded).items():
        yield Finding(f"job {name}", Level.FAIL, f"refused: {sentence}")
    if kills_left_processes(root):
        yield Finding("logind", Level.WARN, logind_text())
    yield from masters(loaded.jobs)
    try:
        yield Finding("spark", Level.OK, f"pyspark {version('pyspark')}")
    except PackageNotFoundError:
        yield Finding("spark", Level.FAIL, "pyspark is not installed")
    yield java_finding(_ask_java())


def _ask_java() -> Mapping[str, str]:
    command = [sys.executable, "-P", "-c", _ASK_JAVA]
    try:
        answer = output_of(command, _JAVA_SECONDS, _MOST_BYTES, env=handover.environment())
        found: Mapping[str, str] = json.loads(answer[1])
    except (OSError, subprocess.SubprocessError, ValueError):
        return {"error": "cannot determine the Java version"}
    return found


def java_finding(answer: Mapping[str, str]) -> Finding:
    """Report the Java that Spark would use, or the reason why there is none."""
    if "error" in answer:
        return Finding("java", Level.FAIL, answer["error"])
    return Finding("java", Level.OK, f"{answer['version']} in {answer['home']} (found by {answer['origin']})")


def memory(jobs: Mapping[str, JobSpec], available: int) -> Iterator[Finding]:
    """Report the memory that each job's driver needs, and whether all jobs together fit into the available memory."""
    needs = {name: needed_bytes(job) for name, job in jobs.items()}
    for name, job in jobs.items():
        text = f"driver heap {job.spark.driver_memory}, {job.spark.master}: about {needs[name] >> 20} MiB in total"
        yield Finding(f"job {name}", Level.OK, text)
    total = sum(needs.values())
    free = f"{available >> 20} MiB are available"
    if total > available:
        yield Finding("memory", Level.WARN, f"all jobs together may need {total >> 20} MiB; {free}")
    else:
        yield Finding("memory", Level.OK, f"all jobs together need about {total >> 20} MiB; {free}")


def masters(jobs: Mapping[str, JobSpec]) -> Iterator[Finding]:
    """Check whether a standalone cluster's master accepts connections, and submissions without the secret.

    Only the start of a job checks whether the master accepts the secret, and whether a REST server uses another port.
    """
    asked: dict[str, list[str]] = {}
    for name, job in jobs.items():
        if Master.parse(job.spark.master).places:
            asked.setdefault(job.spark.master, []).append(name)
    for text, names in asked.items():
        silent = [said for place in Master.parse(text).places if (said := _no_answer(*place))]
        which = f"{text}, for {', '.join(names)}"
        opened = [host for host, _ in Master.parse(text).places if takes_submissions(host, REST_PORT)]
        if opened:
            what = f"{', '.join(opened)}: port {REST_PORT} accepts submissions without the secret; {REST_OFF}"
            yield Finding("spark master", Level.FAIL, f"{which}: {what}")
        elif len(silent) == len(Master.parse(text).places):
            yield Finding("spark master", Level.FAIL, f"{which}: {'; '.join(silent)}", unreachable=True)
        else:
            yield Finding("spark master", Level.OK, f"{which}: it answers; {_WORKERS}")


def _no_answer(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), _MASTER_SECONDS).close()
    except OSError as error:
        return f"{host}:{port} does not answer ({error.strerror or error})"
    return ""


def needed_bytes(job: JobSpec) -> int:
    """Estimate a job's memory: heap, JVM memory outside it, and a Python worker per task slot on this host.

    The workers of a local cluster are separate JVMs.
    """
    spelled = re.fullmatch(r"(\d+)([kmgt]?)b?", job.spark.driver_memory.lower())
    heap = int(spelled[1]) * _UNITS.get(spelled[2], 1) if spelled else 1 << 30
    master = Master.parse(job.spark.master)
    beside = _PER_TASK * (master.capacity or 0)
    if master.kind is MasterKind.LOCAL_CLUSTER:
        beside += master.workers * ((512 << 20) + _BESIDE_HEAP)
    return heap + _BESIDE_HEAP + beside


def state_folder(path: Path) -> Finding:
    """Check whether the state folder is usable. A missing folder is created, as by any other command."""
    try:
        folder = StateFolder.open(path)
    except SlotkeeperError as refused:
        return Finding("state folder", Level.FAIL, diagnostics.with_hint(refused))
    if place := read_only(folder.path):
        return Finding("state folder", Level.FAIL, f"{folder.path} cannot be written: {place} ({REMOUNT})")
    if place := full(folder.path):
        error = NoRoom(f"{folder.path} cannot be written: {place}", FREE_IT)
        return Finding("state folder", Level.FAIL, diagnostics.with_hint(error))
    mode = folder.path.stat().st_mode & 0o7777
    return Finding("state folder", Level.OK, f"{folder.path}, mode {mode:04o}{', shared' if folder.shared else ''}")


def kills_left_processes(root: Path) -> bool:
    """Return whether logind kills a user's processes at logout (KillUserProcesses; the last setting wins)."""
    files: list[Path] = []
    for place in _LOGIND:
        path = root / place
        files += sorted(path.glob("*.conf")) if path.is_dir() else [path] if path.is_file() else []
    found = False
    for file in files:
        parsed = configparser.ConfigParser(interpolation=None, strict=False)
        try:
            parsed.read_string(text_of(file, _MOST_BYTES, "replace"))
        except (OSError, TooLong, configparser.Error):
            continue
        text = parsed.get("Login", "KillUserProcesses", fallback="").strip().lower()
        found = text in ("yes", "true", "on", "1") if text else found
    return found


def logind_text() -> str:
    """Describe the effect of KillUserProcesses on jobs, and the two ways to avoid it."""
    return (
        "KillUserProcesses=yes: logging out ends running jobs;"
        f" `loginctl enable-linger {getpass.getuser()}` keeps them running,"
        " or run them as a service with `slotkeeper run JOB`"
    )


# -- behavior of a server on which the promise rests -----------------------------------------------------------------


def _probe(loaded: Loaded, found: ProbePlan, given: Consent, as_json: bool, ascii_only: bool) -> None:
    """Ask for consent if the server is PROD, probe, and print the result. Exit 1: wrong answer or leftover table."""
    for one in found.others:
        diagnostics.warn(f"found {one.table} ({one.why}); if no other probe is running: {one.cure}")
    if found.prod and not given.execute:
        if as_json:
            output.as_json({"executed": False, "plan": found, "to_type": {"confirm": found.source}})
        else:
            _show_plan(found, probe_service.asked(loaded, found.source), ascii_only)
        return
    if found.prod and not given.reason.strip():
        raise Refused(f"a probe of {found.source}, which is PROD, needs a reason", "--reason TEXT")
    if given.confirm != found.source and (found.prod or given.confirm):
        raise Refused(f"the name typed is not {found.source!r}", f"--confirm {found.source}")
    with _ended_by_signals():
        report = probe_service.probe(
            loaded, found, given.reason, lambda said: diagnostics.note(f"probe: {said}"), diagnostics.warn
        )
    if as_json:
        output.as_json({"executed": True, "file": report.file, **report.as_json()})
    else:
        _tell(report, ascii_only)
    for left in report.left:
        diagnostics.warn(f"not dropped: {left.table} ({left.why}); fix: {left.cure}")
    if report.wrong or report.left:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP act like Ctrl-C: they end the probe, which drops its tables."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _show_plan(found: ProbePlan, asked: int, ascii_only: bool) -> None:
    output.paragraph("", f"probe {found.place}, in schema {found.schema}; {found.server}", ascii_only)
    for effect in (*found.effects, f"runs {asked} checks; no other table or slot is changed"):
        output.paragraph("effect", effect, ascii_only)
    for each in found.statements:
        output.line(f"sql     {each}", ascii_only)
    output.line("dry run: nothing was changed; to execute:", ascii_only)
    schema = f" --probe-schema {found.schema}"
    typed = f"--execute --reason TEXT --confirm {found.source}"
    output.line(f"  slotkeeper doctor --probe {found.source}{schema} {typed}", ascii_only)


def _tell(report: Report, ascii_only: bool) -> None:
    output.paragraph("", f"{report.plan.place}: {report.plan.server}", ascii_only)
    if report.plan.stand_in:
        output.line("a stand-in, not the real server", ascii_only)
    rows = [
        [one.question.name, one.finding.answer, one.question.documented or None, one.finding.reader.value]
        for one in report.answers
    ]
    output.table(["question", "answer", "documented", "Slotkeeper"], rows, ascii_only)
    topic = ""
    for one in report.answers:
        if one.question.topic != topic:
            topic = one.question.topic
            output.line("")
            output.line(topic, ascii_only)
        _detail(one, ascii_only)
    output.line("")
    answered = sum(one.finding.answer is not None for one in report.answers)
    verdict = f"WRONG for {len(report.wrong)} of them" if report.wrong else "correct for all of them"
    text = f"{answered} of {len(report.answers)} questions answered in {report.seconds:.1f} s; Slotkeeper is {verdict}"
    output.paragraph("", text, ascii_only)
    output.line(f"stored in {report.file or 'no file'}", ascii_only)


def _detail(one: Answer, ascii_only: bool) -> None:
    said = one.finding.answer or "not asked" if one.question.topic == "not asked" else one.finding.answer or "unknown"
    output.paragraph(f"  {one.question.name}: {said}", one.question.asks, ascii_only)
    if one.finding.because:
        output.paragraph("    because", one.finding.because, ascii_only)
    output.paragraph("    Slotkeeper", f"{one.finding.reader.value}: {one.question.rule}", ascii_only)
    for seen in one.evidence:
        output.paragraph("    seen   ", seen, ascii_only)
