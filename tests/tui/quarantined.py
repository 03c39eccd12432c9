"""Quarantined rows for tests: entries in every state, and a sink that returns them or does not answer."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from slotkeeper.console.monitor.sink_pollers import SinkQuarantines, Whole
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.quarantine import EntryState, QuarantineCount, QuarantineEntry, Wanted
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.domain.spec import JobSpec
from tests.tui.filled import NOW, Filled, console, lane

ROW = (("order_id", "4711"), ("status", "PAID"), ("amount", "12345.60"), ("note", None))


def entry(id: int, key: str = "4711", **more: object) -> QuarantineEntry:
    """A held update of the job orders_rt."""
    made = QuarantineEntry(
        id, "dws1", "ods.orders", "orders_slot", "dn_1", "mart.orders", 88_512_300 + id, 3, "U", (key,), "22003",
        "amount", "", "numeric field overflow", 1, "orders_rt", "run-1", 3, NOW - timedelta(minutes=17 + 60 - id),
        EntryState.QUARANTINED,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def entries() -> list[QuarantineEntry]:
    """A changed key, a copied row, a violated constraint, and closed entries; the newest first."""
    pair = "dn_1 88512305/4"
    over = {"state": EntryState.SUPERSEDED, "ended_at": NOW, "ended_by": "88512329/2", "reason": "a later change"}
    return [
        entry(42, "4712", pair=pair),
        entry(41, "4711", pair=pair, kind="B"),
        entry(40, "4809", sqlstate="23514", column="", constraint="orders_amount_check", message="new row violates it"),
        entry(39, "4810", kind="c", shard="*", sequence=-1, tries=3),
        entry(12, "4713", **over),
    ]


@dataclass
class PlantedQuarantines(SinkQuarantines):
    """Returns the planted answers as a sink would; records the requests."""

    rows: list[QuarantineEntry] = field(default_factory=list)
    fault: Exception | None = None
    masked: bool = False
    asked: list[object] = field(default_factory=list)

    def counts(self, job: JobSpec) -> list[QuarantineCount]:
        self._note("counts")
        found: dict[tuple[str, str, str], list[QuarantineEntry]] = {}
        for one in self.rows:
            if one.state is EntryState.QUARANTINED:
                found.setdefault((one.source, one.source_table, one.slot), []).append(one)
        return [
            QuarantineCount(
                *place,
                some[0].job,
                sum(one.kind != "B" for one in some),
                min(one.quarantined_at for one in some),
                len(some),
            )
            for place, some in sorted(found.items())
        ]

    def page(self, job: JobSpec, wanted: Wanted) -> list[QuarantineEntry]:
        self._note(wanted)
        found = [
            one
            for one in self.rows
            if (not wanted.states or one.state in wanted.states) and (wanted.before is None or one.id < wanted.before)
        ]
        return [replace(one, values=()) for one in found[: wanted.limit]]

    def entry(self, loaded: Loaded, job: JobSpec, id: int, unmask: bool) -> Whole | None:
        self._note((id, unmask))
        found = next((one for one in self.rows if one.id == id), None)
        return Whole(replace(found, values=found.values or ROW), self.masked and not unmask) if found else None

    def _note(self, what: object) -> None:
        self.asked.append(what)
        if self.fault is not None:
            raise self.fault


QUARANTINING = 'on_bad_row = "quarantine"\nquarantine_limit = 100'


def holding(folder: Path, *rows: QuarantineEntry, **more: object) -> tuple[Filled, PlantedQuarantines]:
    """A console whose job orders_rt holds these entries and reports them."""
    made = console(folder, sink_options=QUARANTINING, **more)  # type: ignore[arg-type]
    tell(made, sum(one.state is EntryState.QUARANTINED and one.kind != "B" for one in rows))
    return made, retained(made, *rows)


def tell(made: Filled, number: int | None) -> None:
    """Make the job report `number` rows in quarantine."""
    lanes = tuple(lane(f"dn_{n}", 88_512_330 - n) for n in range(1, 5))
    report = JobReport("orders_rt", "run-orders_rt", "RUNNING", lanes=lanes, changes=12_403_118, epoch=3)
    assert made.store.put_report(replace(report, quarantined=number))


def retained(made: Filled, *rows: QuarantineEntry) -> PlantedQuarantines:
    quarantines = PlantedQuarantines(list(rows))
    made.app.services.quarantines = quarantines
    return quarantines
