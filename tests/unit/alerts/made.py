"""Faults for tests of the alert rules."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from slotkeeper.core.domain.fault import Fault, Party, Severity

T0 = datetime(2026, 1, 31, 8, 0, tzinfo=timezone.utc)
GAP = 900.0


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def a_fault(
    rule: str = "lag",
    severity: Severity = Severity.WARNING,
    since: datetime | None = None,
    value: str = "",
    job: str = "orders",
) -> Fault:
    return Fault(rule, Party.DN, "dn_2", severity, "it is 40 s behind its source", since=since, job=job, value=value)
