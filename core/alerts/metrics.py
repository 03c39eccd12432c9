"""Export faults, jobs, lanes and slots as OpenMetrics text. Pure.

All metrics are gauges without timestamps, so that both OpenMetrics 1.0 parsers
(https://prometheus.io/docs/specs/om/open_metrics_spec/) and node_exporter's textfile collector can read the text: the
collector reads the older format and rejects timestamps. docs/alerts.md lists the metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe
from slotkeeper.core.judgement.facts import Facts

MOST = 5_000
"""Maximum number of samples per metric: a job of a thousand DNs has a thousand lanes."""
_LONGEST = 120
Labels = tuple[tuple[str, str], ...]
Samples = Iterable[tuple[Labels, float | None]]


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its name without the prefix, its help text, and its samples. Samples with value None are omitted."""

    name: str
    help: str
    samples: Samples


def exposition(facts: Facts, faults: Iterable[Fault]) -> str:
    """Return the complete OpenMetrics text, which ends with `# EOF`."""
    lines = [line for one in _metrics(facts, list(faults)) for line in _lines(one)]
    return "\n".join([*lines, "# EOF"]) + "\n"


def _metrics(facts: Facts, faults: list[Fault]) -> Iterator[Metric]:
    counted = Counter((one.rule, one.job, one.severity.value) for one in faults)
    names = ("rule", "job", "severity")
    yield Metric("faults", "Currently active faults.", [(_labels(names, key), n) for key, n in sorted(counted.items())])
    yield Metric(
        "evaluation_timestamp_seconds", "Time at which the faults were evaluated.", [((), facts.now.timestamp())]
    )
    yield Metric("state_folder_free_bytes", "Free space on the state folder's disk.", [((), facts.machine.free)])
    yield Metric("job_state", "1 for the job's current state.", [
        (_labels(("job", "state"), (one.view.name, state.value)), one.view.state is state)
        for one in facts.jobs for state in JobState
    ])  # fmt: skip
    jobs = [(_labels(("job",), (one.view.name,)), one) for one in facts.jobs]
    yield Metric(
        "job_up", "1 if a process of the job is running on this host.", [(key, one.view.lives) for key, one in jobs]
    )
    yield Metric("report_age_seconds", "Seconds since the job's driver last reported.", [
        (key, None if (at := one.view.reported_at) is None else elapsed(at, facts.now)) for key, one in jobs
    ])  # fmt: skip
    ages = [(key, [elapsed(at, facts.now) for at in one.crashes]) for key, one in jobs]
    yield Metric("driver_crashes", "Crashes of the job's driver within the time `crashes` in [alerts].", [
        (key, sum(past is not None and past < facts.limits.crashes for past in crashes)) for key, crashes in ages
    ])  # fmt: skip
    yield Metric("quarantined_rows", "Quarantined rows, which are missing from the target.", [
        (key, None if one.view.report is None else one.view.report.quarantined) for key, one in jobs
    ])  # fmt: skip
    yield from _lanes(facts)
    slots = ("source", "table", "slot", "job")
    left = [
        (
            _labels(slots, (slot.source, slot.table, slot.slot, slot.job)),
            None if slot.expires_at is None else max(0.0, (slot.expires_at - facts.now).total_seconds()),
        )
        for slot in facts.slots
    ]
    yield Metric("slot_left_seconds", "Seconds until a slot expires unless it is confirmed.", left)


def _lanes(facts: Facts) -> Iterator[Metric]:
    lags = [
        (_labels(("job", "lane"), (one.view.name, lane)), lag)
        for one in facts.jobs
        if one.view.state.has_process
        for lane, lag in one.lags.items()
    ]
    yield Metric("lane_lag_seconds", "Seconds that a lane lags behind its source; absent if unknown.", lags)
    behind = [
        (_labels(("job", "lane"), (one.view.name, lane.name)), lane.known_behind)
        for one in facts.jobs
        if one.view.report is not None and one.view.reported and one.view.state.has_process
        for lane in one.view.report.lanes
    ]
    yield Metric("lane_behind_commits", "Commits between a lane and the newest one, in the unit of its source.", behind)


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> Labels:
    return tuple(zip(names, (safe(one, _LONGEST) for one in values), strict=True))


def _lines(metric: Metric) -> Iterator[str]:
    """Yield the lines of a metric; none without samples. Of samples with the same labels, the last is used."""
    samples = {labels: value for labels, value in metric.samples if value is not None}
    if not samples:
        return
    name = f"slotkeeper_{metric.name}"
    yield f"# TYPE {name} gauge"
    yield f"# HELP {name} {_escaped(metric.help)}"
    for labels, value in list(samples.items())[:MOST]:
        shown = ",".join(f'{key}="{_escaped(each)}"' for key, each in labels)
        yield f"{name}{{{shown}}} {_number(value)}" if shown else f"{name} {_number(value)}"


def _escaped(text: str) -> str:
    r"""
    >>> print(_escaped('a"b' + chr(92) + chr(10)))
    a\"b\\\n
    """
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """
    >>> _number(True), _number(3), _number(0.25), _number(1.7e9)
    ('1', '3', '0.25', '1700000000')
    """
    return str(int(value)) if float(value).is_integer() else repr(float(value))
