"""The demo's live view on a terminal: one table of DNs and a headline, drawn anew twice a second.

Next door: `console.commands.demo` decides when; the full-screen console is another matter. Rich draws: it owns the
cursor and puts the terminal back, and nothing here is parsed as markup.
"""

from __future__ import annotations

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from core.domain.report import LaneReport
from core.domain.text import safe
from core.embedded.markers import Latency
from core.launch.view import JobView

STAND_IN = "source: stand-in for a DWS, not a DWS"


def live() -> Live:
    """A live area on stderr, below what was printed before."""
    return Live(console=Console(stderr=True, markup=False, highlight=False), refresh_per_second=4, transient=False)


def draw(view: JobView, written: int, latency: Latency | None, seconds: float) -> Group:
    """The picture of one moment."""
    report = view.report
    head = Text(f"{view.name}  {view.state.value}", style="bold")
    head.append(f"   {seconds:.0f} s   rows changed {written:,}")
    head.append(f"   events applied {report.changes:,}" if report else "   events applied ?")
    lines: list[Text | Table] = [head, Text(_copy(view)), _table(report.lanes if report else ())]
    lines.append(Text(f"latency {_latency(latency)}   tasks {report.tasks_started if report else '?'}"))
    if view.reason:
        lines.append(Text(safe(view.reason, 160), style="yellow"))
    lines.append(Text(f"{STAND_IN}; Ctrl-C ends and compares both tables", style="dim"))
    return Group(*lines)


def _copy(view: JobView) -> str:
    report = view.report
    if report is None or not report.chunks_total:
        return "copy: ?"
    return f"copy: chunks {report.chunks_done}/{report.chunks_total}, rows {report.snapshot_rows:,}"


def _table(lanes: tuple[LaneReport, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for name in ("DN", "doing", "position", "latest", "registered", "events", "trouble"):
        table.add_column(name, justify="right" if name in ("latest", "registered", "events") else "left")
    for lane in lanes:
        values = (lane.shard, lane.activity, lane.position, lane.latest, lane.registered_durable, lane.changes)
        cells = [Text("?" if value is None else safe(value, 24)) for value in values]
        table.add_row(*cells, Text(safe(lane.retry, 30)))
    return table


def _latency(latency: Latency | None) -> str:
    if latency is None or latency.p50 is None or latency.p99 is None:
        return "?"
    return f"p50 {latency.p50:.0f} ms, p99 {latency.p99:.0f} ms"
