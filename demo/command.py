"""`slotkeeper demo`: runs everything on this host, without a warehouse, and ends with a verdict.

While running, it shows the console, or six lines if the terminal is too small for the console, or log lines on stderr
without a terminal. It prints the result to stdout.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from slotkeeper.console.cli import completion, context, diagnostics, output, select
from slotkeeper.console.commands import watch
from slotkeeper.console.tui import startup
from slotkeeper.core.config import handover, values
from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.elapsed import STALLED_SECONDS
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.spec import READ_BY
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.verify.compare import Comparison
from slotkeeper.demo import incident_command, stop_command
from slotkeeper.demo import result as demo_result
from slotkeeper.demo import sinks as demo_sinks
from slotkeeper.demo import sources as demo_sources
from slotkeeper.demo.end import End, ending
from slotkeeper.demo.incidents import registry
from slotkeeper.demo.incidents.record import Incident
from slotkeeper.demo.layers import Layered
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.run import JOB, ROWS, TARGET, Demo, DemoOptions

app = typer.Typer(help="Try Slotkeeper on this host, without a warehouse.", add_completion=False)

SOURCE, SINK = next(iter(demo_sources.KINDS)), next(iter(demo_sinks.KINDS))
"""The default source and sink of the demo's job."""

LEAVES = "q ends the demo: writing stops, both tables are compared, all processes stop"
_EVERY = 2.0
SMALLEST = (60, 15)
"""Columns and rows below which the console only reports that the terminal is too small."""


def _rate(text: str) -> float:
    try:
        return float(text.removesuffix("/s"))
    except ValueError:
        raise typer.BadParameter("must be a number of changes per second, such as 400/s") from None


def _master(text: str) -> str:
    try:
        return str(values.master(text))
    except values.BadValue as error:
        raise typer.BadParameter(str(error)) from None


def _spark(master: str, secret: Path | None) -> dict[str, str]:
    """Return the job's Spark settings; a standalone cluster and a secret file must be given together."""
    standalone = Master.parse(master).kind is MasterKind.STANDALONE
    if standalone != (secret is not None):
        raise typer.BadParameter("--spark-secret-file and --spark-master spark://host:port require each other")
    if secret is None:
        return {"master": master}
    # its workers have to run on this host: the demo's servers listen on loopback only
    here = {f'settings."spark.driver.{name}"': "127.0.0.1" for name in ("host", "bindAddress")}
    return {"master": master, "secret_file": str(secret.absolute()), **here}


def _one_of(known: Collection[str]) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in known:
            raise typer.BadParameter(f"must be one of {', '.join(known)}")
        return text

    return read


def _incidents() -> list[tuple[str, str]]:
    return [(incident_command.LIST, "show all incidents"), *((one.name, one.brief) for one in registry.INCIDENTS)]


SparkMaster = Annotated[
    str, typer.Option(parser=_master, metavar="MASTER", help="local[N], local-cluster[2,1,1024] or spark://host:port")
]
SparkSecretFile = Annotated[
    Path | None, typer.Option(help="file with the secret of a spark:// cluster", autocompletion=completion.files)
]


WhichSource = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="KIND",
        help="source: dws, hologres, hologres_slot (stand-ins) or mysql (MariaDB on this host)",
        parser=_one_of(demo_sources.KINDS),
        autocompletion=lambda: list(demo_sources.KINDS),
    ),
]


WhichWay = Annotated[
    str,
    typer.Option(
        "--read-by",
        metavar="WAY",
        help="how to read a hologres source: sql or stream",
        parser=_one_of(READ_BY),
        autocompletion=lambda: list(READ_BY),
    ),
]


WhichIncident = Annotated[
    str,
    typer.Option(
        "--incident",
        metavar="NAME",
        help="incident to cause; `list` shows all",
        autocompletion=_incidents,
    ),
]


WhichSink = Annotated[
    str,
    typer.Option(
        parser=_one_of(demo_sinks.KINDS),
        metavar="KIND",
        help="sink: postgres, or doris (a stand-in)",
        autocompletion=lambda: list(demo_sinks.KINDS),
    ),
]


app.command()(stop_command.stop)


@app.callback(invoke_without_command=True)
def demo(
    ctx: typer.Context,
    headless: Annotated[
        bool, typer.Option("--headless", help="print progress without a console; end after --duration")
    ] = False,
    duration: Annotated[
        float,
        typer.Option(
            "--duration",
            parser=lambda text: select.seconds(text, 1_000, values.WEEK),
            metavar="TIME",
            help="with --headless: how long to write changes",
        ),
    ] = "60s",  # type: ignore[assignment]
    rows: Annotated[
        int | None, typer.Option("--rows", min=1, help="initial rows (120,000; 20,000 with --incident)")
    ] = None,
    dns: Annotated[int, typer.Option("--dns", min=1, max=64, help="data nodes (or shards) of the source")] = 4,
    rate: Annotated[
        float, typer.Option("--rate", parser=_rate, metavar="N/s", help="changes written per second")
    ] = "400/s",  # type: ignore[assignment]
    seed: Annotated[int, typer.Option("--seed", help="seed of the workload")] = 1,
    spark_master: SparkMaster = "local[4]",
    spark_secret_file: SparkSecretFile = None,
    keep: Annotated[bool, typer.Option("--keep", help="keep servers and job running until `demo stop`")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as one JSON object")] = False,
    incident: WhichIncident = "",
    source: WhichSource = SOURCE,
    read_by: WhichWay = READ_BY[0],
    sink: WhichSink = SINK,
    layers: Annotated[
        bool, typer.Option("--layers", help="add customers, and SQL views: a join, two aggregates")
    ] = False,
) -> None:
    """Start a stand-in warehouse, a sink and a real job between them; write, follow, verify.

    --incident NAME causes an incident and prints what to try. With --headless the demo also detects and fixes it.
    """
    if ctx.invoked_subcommand is not None:
        return
    if incident == incident_command.LIST:
        incident_command.list_all(as_json, select.ascii_only(ctx))
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    with ending(as_json) as end:
        chosen = registry.named(incident) if incident else None
        way = _refuse(source, read_by, sink, keep, chosen, layers)
        seconds = duration if headless else 7 * 86_400.0
        spark = _spark(spark_master, spark_secret_file)
        lanes = 1 if demo_sources.KINDS[source].one_lane else dns
        rows = rows or (incident_command.ROWS if chosen else ROWS)
        options = DemoOptions(rows, lanes, rate, seconds, seed, spark, binlog_options=way, source=source, sink=sink)
        made = Layered if layers else demo_sources.KINDS[source]
        found = _play(end, options, chosen, headless) if chosen else _compare(end, made, options, headless, keep)
    _show(found, as_json)
    if not found["ok"]:
        raise typer.Exit(1)


def _refuse(
    source: str, read_by: str, sink: str, keep: bool, chosen: Incident | None, layers: bool
) -> dict[str, object]:
    """Reject conflicting options; return the binlog options of the source."""
    its = demo_sources.KINDS[source]
    if read_by != READ_BY[0] and not its.has_read_by:
        raise ConfigError(
            f"--read-by {read_by} and --source {source} cannot be used together",
            "--read-by applies only to --source hologres",
        )
    if layers and (chosen or (source, sink) != (SOURCE, SINK)):
        other = "--incident" if chosen else f"--source {source}" if source != SOURCE else f"--sink {sink}"
        raise ConfigError(
            f"--layers and {other} cannot be used together", f"--layers is --source {SOURCE} --sink {SINK}"
        )
    if chosen and keep:
        raise ConfigError(
            "--keep and --incident cannot be used together", "the sessions of an incident end with the demo"
        )
    if chosen and source != chosen.source:
        what = f"--incident {chosen.name} and --source {source} cannot be used together"
        raise ConfigError(what, f"this incident requires --source {chosen.source}")
    if keep and not its.stays:
        raise ConfigError(
            f"--keep and --source {source} cannot be used together", "the stand-in stops when the demo exits"
        )
    if sink != SINK and (keep or chosen):
        option = "--keep" if keep else "--incident"
        hint = "the stand-in stops when the demo exits" if keep else "incidents require a PostgreSQL sink"
        raise ConfigError(f"{option} and --sink {sink} cannot be used together", hint)
    return {"read_by": read_by} if its.has_read_by else {}


def _play(end: End, options: DemoOptions, chosen: Incident, headless: bool) -> dict[str, object]:
    """Run the demo with an incident; `ok` reports whether the incident went as described in the runbook."""
    made = replace(options, sink_options=chosen.options, small_disk=chosen.small_disk)

    def play(run: Demo) -> dict[str, object]:
        run.prepare()
        run.start_job()
        run.start_writers()
        if headless:
            played = incident_command.play_headless(run, chosen)
            return {"ok": played.fine, **played.values()}
        return {"ok": True, **incident_command.play_watched(run, chosen, lambda turn, note: _watch(run, turn, note))}

    return end.carry_out(lambda: demo_sources.KINDS[options.source](made, diagnostics.note), play, keep=False)


def _watch(run: Demo, turn: Callable[[], None], note: Sequence[str]) -> None:
    """Show the job in the console if the terminal is large enough, otherwise in lines."""
    if view_here() is not View.CONSOLE:
        incident_command.follow_in_lines(run, turn)
        return
    pause = threading.Event()
    with _console(run, note) as console:
        while console.poll() is None:
            turn()
            pause.wait(0.1)


def _compare(
    end: End,
    made: Callable[[DemoOptions, Callable[[str], None]], Demo],
    options: DemoOptions,
    headless: bool,
    keep: bool,
) -> dict[str, object]:
    """Run the ordinary demo; `ok` reports whether both tables are equal at the end."""

    def compare(run: Demo) -> dict[str, object]:
        began = time.monotonic()
        verdict = _run(run, options, View.LINES if headless else view_here())
        verdict["duration_s"] = round(time.monotonic() - began, 1)
        if keep:
            _say_how_to_attach(run)
        return verdict

    return end.carry_out(lambda: made(options, diagnostics.note), compare, keep)


def _interrupt(number: int, frame: FrameType | None) -> None:
    for each in (signal.SIGTERM, signal.SIGHUP):  # timeout(1), for example, signals both a process and its group
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


class View(Enum):
    """The display while the job runs."""

    LINES = "lines"
    WATCH = "watch"
    CONSOLE = "console"


def view_here() -> View:
    """Return the view that fits this terminal: the console, six lines, or occasional lines without a terminal."""
    if not startup.on_a_terminal():
        return View.LINES
    columns, rows = shutil.get_terminal_size()
    return View.CONSOLE if columns >= SMALLEST[0] and rows >= SMALLEST[1] else View.WATCH


def _run(run: Demo, options: DemoOptions, view: View) -> dict[str, object]:
    run.prepare()
    run.start_job()
    run.start_writers()
    clock = _Clock(run)
    try:
        if view is View.CONSOLE:
            with _console(run) as console:
                clock.measure_until(lambda: console.poll() is not None)
        elif view is View.WATCH:
            diagnostics.note("the terminal is too small for the console; press Ctrl-C to stop and compare both tables")
            clock.follow(options.seconds, watched=True)
        else:
            clock.follow(options.seconds)
    except KeyboardInterrupt:
        if options.seconds < 7 * 86_400.0:
            raise
    if run.view().state in (JobState.STOPPED, JobState.AWAITS_COPY):
        diagnostics.note("the job was stopped; starting it again to compare both tables")
        run.go_on()
    run.stop_writers()
    diagnostics.note("writers stopped; waiting for the job to apply all changes (Ctrl-C: end immediately)")
    run.wait_caught_up()
    diagnostics.note("comparing both tables row by row")
    return _verdict(run, clock, run.verify())


@contextmanager
def _console(run: Demo, note: Sequence[str] = (LEAVES,)) -> Iterator[subprocess.Popen[bytes]]:
    """Open the console for the job, as a user would, with a note; close it at the end of the block if still open."""
    command = [sys.executable, "-P", "-m", "slotkeeper.console", "--config", str(run.config)]
    console = subprocess.Popen(command, env={**handover.environment(), context.NOTE: "\n".join(note)})
    try:
        yield console
    finally:
        if console.poll() is None:
            console.terminate()
            try:
                console.wait(timeout=STALLED_SECONDS)
            except subprocess.TimeoutExpired:
                console.kill()
                console.wait()


class _Clock:
    """Displays the running job, and measures it."""

    def __init__(self, run: Demo) -> None:
        self._run = run
        self._began = time.monotonic()
        self.writing_seconds = 0.0

    def follow(self, seconds: float, watched: bool = False) -> None:
        """Follow the job for the given seconds; raises the error of a failed job."""
        try:
            if watched:
                assert self._run.store is not None
                watch.follow(self._run.store, JOB, False, lambda view: self._seen(view) >= seconds)
                self._run.refuse_ended()
            else:
                self._tell(seconds)
        finally:
            self.writing_seconds = time.monotonic() - self._began

    def measure_until(self, ended: Callable[[], bool]) -> None:
        """Measure until `ended` returns true, without output: the console shows the job and its failure."""
        pause = threading.Event()
        try:
            while not ended():
                self._seen(self._run.view())
                pause.wait(0.1)
        finally:
            self.writing_seconds = time.monotonic() - self._began

    def _tell(self, seconds: float) -> None:
        next_line = 0.0
        while (passed := self._seen(self._run.view())) < seconds:
            self._run.refuse_ended()
            if passed >= next_line:
                diagnostics.note(self._line(passed))
                next_line = passed + _EVERY
            time.sleep(0.1)

    def _seen(self, view: JobStatus) -> float:
        """Start the markers once the job is running; return the elapsed seconds."""
        if view.state is JobState.RUNNING:
            self._run.start_markers()
        return time.monotonic() - self._began

    @property
    def snapshot_rate(self) -> float | None:
        """Rows copied per second, None if the copy has not ended."""
        store = self._run.store
        return None if store is None else demo_result.copy_rate(store.events(JOB), self._run.options.rows)

    def _line(self, passed: float) -> str:
        view = self._run.view()
        report = view.report
        latency = self._run.latency()
        applied = f"{report.changes:,}" if report else "-"
        p99 = f"{latency.p99:.0f} ms" if latency and latency.p99 is not None else "-"
        copied = f" chunks {report.chunks_done}/{report.chunks_total}" if report and report.chunks_total else ""
        reason = f" ({view.reason})" if view.reason else ""
        return (
            f"{passed:5.0f} s  {view.state.value:<11}{copied}  rows changed {self._run.written():,}"
            f"  events applied {applied}  p99 {p99}{reason}"
        )


def _verdict(run: Demo, clock: _Clock, found: Comparison) -> dict[str, object]:
    ledger, applied = run.ledger(), run.applied()
    missing = sum(max(0, events - applied.get(dn, 0)) for dn, events in ledger.items()) + found.missing.count
    duplicates = sum(max(0, applied.get(dn, 0) - events) for dn, events in ledger.items()) + found.extra.count
    latency = run.latency()
    report = run.view().report
    seconds = max(0.001, clock.writing_seconds)
    views = run.verify_views() if isinstance(run, Layered) else {}
    verified = found.equal and missing == 0 and duplicates == 0 and len(ledger) == run.options.dns
    verified = verified and all(views.values())
    verdict: dict[str, object] = {
        "verified": verified,
        "rows_source": found.rows_source,
        "rows_sink": found.rows_sink,
        "changes_written": sum(ledger.values()),
        "changes_applied": sum(applied.values()),
        "changes_by_kind": run.ledger_kinds(),
        "duplicates": duplicates,
        "missing": missing,
        "different": found.different.count,
        "dns": len(applied),
        "snapshot_rows": run.options.rows,
        "snapshot_rows_per_s": clock.snapshot_rate,
        "stream_rows_per_s": round(sum(applied.values()) / seconds, 1),
        "latency_ms": {"p50": latency.p50 if latency else None, "p99": latency.p99 if latency else None},
        "spark": {**run.spark, "tasks_started": report.tasks_started if report else None},
        "seed": run.options.seed,
        "source": run.note,
        "sink": run.target.note,
        "sink_cannot_prove": list(run.target.cannot_prove),
        "views": [{"view": view, "equal": equal} for view, equal in views.items()],
    }
    return {"ok": verified, "why": None if verified else demo_result.sentence(verdict), **verdict}


def _show(verdict: dict[str, object], as_json: bool) -> None:
    if as_json:
        output.as_json(verdict)
        return
    said = demo_result.sentence(verdict)
    if said:
        output.line(said)
    for words, value in demo_result.rows(verdict):
        output.line(f"{words:<36}  {output.second(value) if isinstance(value, datetime) else value}")


def _say_how_to_attach(run: Demo) -> None:
    for line in run.sessions():
        diagnostics.note(line)
    diagnostics.note(f"show the job: slotkeeper --config {run.config} jobs show {JOB}")
    if run.mirrors:
        diagnostics.note(f"create your own job: {_invitation(run)}")
    diagnostics.note("stop everything: slotkeeper demo stop")


def _invitation(run: Demo) -> str:
    """Return the command that adds another mirror between the same servers."""
    assert run.loaded is not None
    source, sink = run.loaded.sources["dws1"].endpoint, run.loaded.sinks["mart"].endpoint
    words = [
        f"slotkeeper init --{name} {one.user}@{one.host}:{one.port}/{one.database}"
        f" --{name}-password-file {typed(one.password.ref)}"
        for name, one in (("source", source), ("sink", sink))
    ]
    return " ".join(words).replace(" slotkeeper init", "") + f" --dialect dws --table {TABLE} --into {TARGET}_2"
