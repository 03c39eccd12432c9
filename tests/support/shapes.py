"""A mirror of one table whose columns change, and a job's audit that is kept in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.remedy import new_snapshot
from slotkeeper.core.domain.reset import DONE
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.standin import run

TABLE, TARGET = "ods.t", "mart.t"
COLUMNS = "id bigint NOT NULL, v text, w integer, n integer NOT NULL"
ROWS = "INSERT INTO {table} (id, v, w, n) SELECT n, 'v' || n, n, n FROM generate_series({rows}) n"


@dataclass
class MemoryAudit:
    """The records of a job; implements `slotkeeper.core.engine.driver.context.JobAudit`."""

    lines: list[AuditLine] = field(default_factory=list)

    def intent(self, action: str, what: str, reason: str, result: Mapping[str, str]) -> AuditLine:
        actor = Actor("test", "host", 1, uid=1)
        line = AuditLine(datetime.now(timezone.utc), actor, action, str(len(self.lines)), Phase.INTENT, what, reason)
        self.lines.append(replace(line, result=result))
        return self.lines[-1]

    def outcome(self, line: AuditLine, said: str, result: Mapping[str, str]) -> None:
        self.lines.append(replace(line, phase=Phase.OUTCOME, outcome=said, result=result))


def prepared(warehouse: Warehouse, make_mirror: MakeMirror, policy: str, columns: str = COLUMNS) -> Mirror:
    """A mirror of a table of 50 rows that is not started; a new copy replaces the rows of its target."""
    warehouse.create_table(TABLE, columns, ("id",))
    mirror = make_mirror(warehouse, TABLE, TARGET)
    channel = replace(mirror.job.channel, on_schema_change=policy)
    mirror.job = replace(mirror.job, channels=(channel,), on_existing="replace")
    mirror.audit = MemoryAudit()
    return mirror


def insert(mirror: Mirror, rows: str) -> None:
    """Insert the rows `first` to `last`, with the original columns."""
    run(mirror.warehouse, ROWS.format(table=TABLE, rows=rows))


def statements_of(hint: str) -> list[str]:
    """The statements in a hint that are to be run at the sink."""
    said = hint.partition("run in the sink: ")[2].partition("; then ")[0]
    return [] if said.startswith("no statement") else [one.strip("`") for one in said.split("; ")]


def typed_as_printed(mirror: Mirror, hint: str, folder: Path) -> None:
    """Carry out a hint exactly: the statements, the reset, the start."""
    assert hint.endswith(f"; then {new_snapshot(mirror.job)}"), hint
    mirror.at_sink(*statements_of(hint))
    assert Resetting(mirror, folder / "state").reset(SNAPSHOT).outcome == DONE
    mirror.start()
