"""`slotkeeper demo`: everything on this machine, without a warehouse; ends with a verdict.

Next door: `console.demo` does it. Text goes to stderr while it runs, the result to stdout.
"""

from __future__ import annotations

import signal
import sys
import time
from contextlib import nullcontext
from types import FrameType
from typing import Annotated

import typer
from rich.live import Live

from console import demo_view, diagnostics, output
from console.demo import CATCH_UP_SECONDS, JOB, SINK_DATABASE, Demo, DemoOptions
from core.config import values
from core.domain.job import JobState
from core.verify.reader import Comparison

app = typer.Typer(help="Try everything on this machine, without a warehouse.")

_EVERY = 2.0


def _seconds(text: str) -> float:
    try:
        return float(str(values.duration(1_000, 7 * 86_400_000)(text))) / 1000
    except values.BadValue as error:
        raise typer.BadParameter(str(error)) from None


def _rate(text: str) -> float:
    try:
        return float(text.removesuffix("/s"))
    except ValueError:
        raise typer.BadParameter("a number of changes a second, such as 400/s") from None


@app.callback(invoke_without_command=True)
def demo(
    headless: Annotated[bool, typer.Option("--headless", help="print progress, end by itself")] = False,
    duration: Annotated[
        float, typer.Option("--duration", parser=_seconds, metavar="TIME", help="how long writers write (60s)")
    ] = "60s",  # type: ignore[assignment]
    rows: Annotated[int, typer.Option("--rows", min=1, help="rows in the table before the start")] = 120_000,
    dns: Annotated[int, typer.Option("--dns", min=1, max=64, help="data nodes of the warehouse")] = 4,
    rate: Annotated[float, typer.Option("--rate", parser=_rate, metavar="N/s", help="changes a second")] = "400/s",  # type: ignore[assignment]
    seed: Annotated[int, typer.Option("--seed", help="seed of the workload")] = 1,
    keep: Annotated[bool, typer.Option("--keep", help="leave servers and job running")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="end with one JSON object")] = False,
) -> None:
    """Start a stand-in warehouse, a sink and a real job between them; write, follow, verify."""
    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGHUP, _interrupt)
    options = DemoOptions(rows, dns, rate, duration if headless else 7 * 86_400.0, seed)
    began = time.monotonic()
    run = Demo(options, diagnostics.note)
    kept = False
    try:
        verdict = _run(run, options, drawn=not headless and sys.stderr.isatty())
        verdict["duration_s"] = round(time.monotonic() - began, 1)
        if keep:
            kept = True
            _say_how_to_attach(run)
    except KeyboardInterrupt:
        diagnostics.note("stopping")
        raise typer.Exit(130) from None
    finally:
        if kept:
            run.detach()
        else:
            run.close()
    _show(verdict, as_json)
    if not verdict["verified"]:
        raise typer.Exit(1)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run(run: Demo, options: DemoOptions, drawn: bool) -> dict[str, object]:
    run.prepare()
    run.start_job()
    run.start_writers()
    clock = _Clock(run, drawn)
    try:
        clock.follow(options.seconds)
    except KeyboardInterrupt:
        if options.seconds < 7 * 86_400.0:
            raise
        diagnostics.note("writers stopped; catching up and verifying (Ctrl-C again to leave at once)")
    run.stop_writers()
    diagnostics.note("writers stopped; waiting until everything is applied")
    run.wait_for(run.caught_up, CATCH_UP_SECONDS, "the job to catch up")
    diagnostics.note("comparing both tables row by row")
    return _verdict(run, clock, run.verify())


class _Clock:
    """Shows a line now and then while the job works, and measures on the way."""

    def __init__(self, run: Demo, drawn: bool) -> None:
        self._run = run
        self._drawn = drawn
        self._began = time.monotonic()
        self._copied_at: float | None = None
        self._copied_rows = 0
        self.writing_seconds = 0.0

    def follow(self, seconds: float) -> None:
        """Until so many seconds have passed; raises what the job failed with."""
        picture = demo_view.live() if self._drawn else None
        try:
            with picture or nullcontext():
                self._follow(seconds, picture)
        finally:
            self.writing_seconds = time.monotonic() - self._began

    def _follow(self, seconds: float, picture: Live | None) -> None:
        next_line = 0.0
        while (passed := time.monotonic() - self._began) < seconds:
            self._run.wait_for(lambda: True, 1, "")
            view = self._run.view()
            if view.state in (JobState.FAILED, JobState.STOPPED):
                self._run.wait_for(lambda: False, 1, "the job to run")
            self._measure(view.state)
            if view.state is JobState.RUNNING:
                self._run.start_markers()
            if picture is not None:
                picture.update(demo_view.draw(view, self._run.written(), self._run.latency(), passed))
            elif passed >= next_line:
                diagnostics.note(self._line(passed))
                next_line = passed + _EVERY
            time.sleep(0.1)

    def _measure(self, state: JobState) -> None:
        report = self._run.view().report
        if report is not None and report.snapshot_rows:
            self._copied_rows = max(self._copied_rows, report.snapshot_rows)
        if self._copied_at is None and state in (JobState.CATCHING_UP, JobState.RUNNING):
            self._copied_at = time.monotonic()

    @property
    def snapshot_rate(self) -> float | None:
        """Rows a second of the copy, from the writers' start to its end."""
        if self._copied_at is None:
            return None
        return round(self._run.options.rows / max(0.001, self._copied_at - self._began), 1)

    def _line(self, passed: float) -> str:
        view = self._run.view()
        report = view.report
        latency = self._run.latency()
        applied = f"{report.changes:,}" if report else "?"
        p99 = f"{latency.p99:.0f} ms" if latency and latency.p99 is not None else "?"
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
    verified = found.equal and missing == 0 and duplicates == 0 and len(ledger) == run.options.dns
    return {
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
        "spark": {**run.figures.spark, "tasks_started": report.tasks_started if report else None},
        "seed": run.options.seed,
        "source": "stand-in for the DWS binlog surface, not a DWS",
    }


def _show(verdict: dict[str, object], as_json: bool) -> None:
    if as_json:
        output.as_json(verdict)
        return
    output.table(["figure", "value"], [[name, value] for name, value in verdict.items()])


def _say_how_to_attach(run: Demo) -> None:
    warehouse, sink = run.warehouse, run.sink
    assert warehouse is not None and sink is not None
    for server, database in ((warehouse.server, warehouse.database), (sink, SINK_DATABASE)):
        diagnostics.note(
            f"{server.name}: PGPASSWORD=$(cat {server.password_file}) psql -h {server.host} -p {server.port}"
            f" -U {server.superuser} {database}"
        )
    diagnostics.note(f"job: slotkeeper --config {run.config} jobs show {JOB}")
    diagnostics.note(f"end it: slotkeeper --config {run.config} jobs stop {JOB}; then stop the servers by their pids:")
    diagnostics.note(f"kill {warehouse.server.pid} {sink.pid}")
