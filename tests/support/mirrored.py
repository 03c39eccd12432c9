"""One job on the product path, as tests see it: commands, looking, waiting, and ways to kill its processes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import over
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.sources.dws.position import POSITIONS
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.verify.compare import Comparison, compare, open_pair
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.run import SINK_DATABASE
from tests.support.processes import JobProcesses, killed
from tests.support.waiting import until

if TYPE_CHECKING:
    from tests.support.product import Product

Kind = Literal["driver", "jvm", "worker", "supervisor", "source", "sink"]
KINDS: tuple[Kind, ...] = ("driver", "jvm", "worker", "supervisor", "source", "sink")
RECOVERY = 120.0
"""Seconds that a recovery may take before a test says that there was none."""


@dataclass
class Mirrored(JobProcesses):
    """One job of a `Product`; `base` is the ledger at the moment when its slot began to record."""

    product: Product
    name: str
    config: Path
    base: dict[str, int] = field(default_factory=dict)
    launch: Launch = field(default_factory=Launch)

    @property
    def store(self) -> Store:  # type: ignore[override]
        return self.product.store

    # -- commands

    def start(self) -> Mirrored:
        """Start it and wait until every DN records; nobody may write meanwhile on its first start."""
        self.base = self.base or self.product.ledger()
        self.start_again()
        until(self._recording, 90, f"{self.name} to record on every DN")
        return self

    def start_again(self) -> None:
        """Only `jobs start`."""
        control.start(self.product.store, self.name, str(self.config), self.launch, patience=Patience(0))

    def stop(self, seconds: float = 30) -> float:
        """`jobs stop`; the seconds that it took."""
        return self._timed(control.stop, seconds)

    def pause(self, seconds: float = 30) -> float:
        """`jobs pause`; the seconds that it took."""
        return self._timed(control.pause, seconds)

    def resume(self, seconds: float = 30) -> float:
        """`jobs resume`; the seconds that it took."""
        return self._timed(control.resume, seconds)

    def _timed(self, command: Callable[[Store, str, Patience], JobView], seconds: float) -> float:
        began = time.monotonic()
        command(self.product.store, self.name, Patience(seconds))
        return time.monotonic() - began

    # -- looking

    def applied(self) -> dict[str, int]:
        """Events per DN by the progress rows."""
        rows = self.product.at_sink("SELECT shard, changes FROM slotkeeper_progress WHERE slot = %s", (self.name,))
        return {str(shard): int(changes) for shard, changes in rows}

    def registered(self) -> dict[str, tuple[int, int]]:
        """Both registered points per DN by the progress rows."""
        found = self.product.at_sink("SELECT shard, registered FROM slotkeeper_progress WHERE slot = %s", (self.name,))
        kept = {shard: POSITIONS.kept(text) for shard, text in found}
        return {shard: (points.live or 0, points.durable or 0) for shard, points in kept.items()}

    def expected(self) -> dict[str, int]:
        """Events per DN that this job has to have applied by now."""
        return {dn: events - self.base.get(dn, 0) for dn, events in self.product.ledger().items()}

    def chunks(self) -> tuple[int, int]:
        """Chunks done, and planned in all."""
        statement = "SELECT count(*) FILTER (WHERE state = 'done'), count(*) FROM slotkeeper_chunks WHERE slot = %s"
        with contextlib.suppress(pg.DriverError):  # the job has not made its tables yet, or the sink restarts
            done, planned = self.product.at_sink(statement, (self.name,))[0]
            return done, planned
        return 0, 0

    def compare(self) -> Comparison:
        """Both tables row by row."""
        source, target = self.product.connect(), self.product.sink.connect(SINK_DATABASE, autocommit=False)
        try:
            read = over(source), TABLE, over(target), f"mart.{self.name}"
            return compare(*open_pair(*read))
        finally:
            source.close()
            target.close()

    def _recording(self) -> bool:
        self.refuse_end()
        recording = "position <> '' AND registered ~ '^[1-9]'"
        statement = f"SELECT count(*) FROM slotkeeper_progress WHERE slot = %s AND {recording}"
        with contextlib.suppress(pg.DriverError):
            return bool(self.product.at_sink(statement, (self.name,))[0][0] == self.product.demo.options.dns)
        return False

    # -- waiting

    def refuse_end(self) -> None:
        """AssertionError where the job has ended, with its reason and the end of its log."""
        view = self.view()
        ended = not view.state.has_process or not view.lives
        assert not ended, f"{self.name} is {view.state.value}: {view.reason}; {self.log()[-2000:]}"

    def wait_state(self, state: JobState, seconds: float = RECOVERY) -> None:
        def reached() -> bool:
            self.refuse_end()
            return self.view().state is state

        self._until(reached, seconds, f"{self.name} to be {state.value}")

    def wait_applied(self, least: dict[str, int], seconds: float = RECOVERY) -> None:
        """Until as many events per DN are applied."""

        def reached() -> bool:
            self.refuse_end()
            with contextlib.suppress(pg.DriverError):
                applied = self.applied()
                return all(applied.get(dn, 0) >= events for dn, events in least.items())
            return False

        self._until(reached, seconds, f"{self.name} to apply {least}")

    def wait_copying(self, share: float = 0.2) -> None:
        """Until a part of the chunks is done; AssertionError where none is left then."""

        def reached() -> bool:
            self.refuse_end()
            done, planned = self.chunks()
            return planned > 0 and done >= planned * share

        until(reached, 60, f"{self.name} to copy")
        done, planned = self.chunks()
        assert done < planned, "the copy was over too soon to be disturbed"

    def wait_equal(self, seconds: float = RECOVERY) -> None:
        """With quiet writers: until RUNNING and every event is applied once, and both tables are the same."""
        self.wait_applied(self.expected(), seconds)
        self.wait_state(JobState.RUNNING, seconds)
        applied, expected = self.applied(), self.expected()
        assert applied == expected, f"{applied} applied of {expected}"
        found = self.compare()
        assert found.equal, found

    def _until(self, condition: Callable[[], bool], seconds: float, what: str) -> None:
        try:
            until(condition, seconds, what)
        except AssertionError as error:
            view = self.view()
            raise AssertionError(
                f"{error}; it is {view.state.value} ({view.reason}), {self.applied()} of {self.expected()};"
                f" {self.log()[-2000:]}"
            ) from None

    # -- processes

    def kill(self, kind: Kind) -> None:
        """SIGKILL a process of the job (all its workers: which one is busy is chance), or crash a server."""
        if kind == "source":
            self.product.warehouse.server.restart("immediate")
        elif kind == "sink":
            self.product.sink.restart("immediate")
        elif kind == "supervisor":
            self.kill_supervisor()
        elif kind == "driver":
            killed(self.driver())
        elif kind == "jvm":
            killed(self.jvm())
        else:
            self.kill_workers()

    def drop_slot(self) -> None:
        """Let the source forget the slot, so that it keeps no records for it."""
        with closing(self.product.warehouse.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT pgxc_binlog_clear_target_slot(%s, %s)", (TABLE, self.name))

    # -- the one story of every kill

    def recover_from(self, kind: Kind, idle: bool = False) -> float:
        """Kill, then the seconds until what was committed before and one change more are applied, with no command."""
        before = self.view()
        began = time.monotonic()
        self.kill(kind)
        until(lambda: self._another(kind, before), RECOVERY, f"{self.name}: another {kind}; {self.log()[-1000:]}")
        if idle:
            self.product.insert_one()  # only now: a worker of the killed driver may stay with its lanes for a moment
        known = self.expected()
        self.wait_applied(known)
        return time.monotonic() - began

    def _another(self, kind: Kind, before: JobView) -> bool:
        now = self.view()
        self.refuse_end()
        if kind == "supervisor":
            return now.supervisor_alive
        if kind in ("driver", "jvm"):
            return now.driver_alive and now.driver != before.driver
        return now.driver_alive
