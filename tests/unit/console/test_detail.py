"""The detail of the row under the cursor: problem, impact, action with keys, and its DNs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest

from slotkeeper.console.monitor.rates import Sample, Track
from slotkeeper.console.monitor.snapshot import JobFacts, LanePace, Level
from slotkeeper.console.views.detail import (
    apart_lines,
    command_of,
    dn_bars,
    lines_of,
    long_work,
    problem_lines,
    with_keys,
)
from slotkeeper.console.views.jobs import dn_signs, job_rows
from slotkeeper.console.views.rows import Verdict
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport, LaneReport

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)
LANE = LaneReport("dn_1", 1, "running", "idle", "1/0", "1", "1", 9, 1.0, at=1, latest_at=1, behind=0)


def job(*lanes: LaneReport, lags: tuple[float | None, ...] = (), **more: object) -> JobFacts:
    report = JobReport("a", "r", "RUNNING", lanes=lanes, part="DN")
    paces = {lane.name: LanePace(lag) for lane, lag in zip(lanes, lags, strict=False)}
    made = JobFacts(
        "a", Level.FINE, JobState.RUNNING, alive=True, report=report, current=True, throughput=paces,
        lag_seconds=max((lag for lag in lags if lag is not None), default=None),
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


def lanes(number: int) -> list[LaneReport]:
    return [replace(LANE, shard=f"dn_{place:02}") for place in range(1, number + 1)]


def test_a_fault_is_shown_as_problem_impact_and_action() -> None:
    retrying = replace(LANE, shard="dn_2", retry="retrying 2, next in 4 s")
    fault = Fault("dn_fails", Party.DN, "dn_2", Severity.WARNING, "refused", do="wait", job="a", code="SK-1")
    one = job(LANE, retrying, level=Level.WARNING, wrong="dn_2: refused", safe="wait", faults=(fault,))
    said = [words for _, words in lines_of(one, NOW)]
    assert said[0] == "Problem  dn_2: refused"
    assert said[1].startswith("Impact   dn_2 waits; ") and said[1].endswith(" 1 of 2 DNs continue.")
    assert said[2] == "Action   wait (SK-1)"
    assert said[3] == "Target   never verified"


def test_what_the_verdict_says_is_not_repeated() -> None:
    fault = Fault("dn_fails", Party.DN, "dn_2", Severity.WARNING, "refused, by its pooler", job="a", code="SK-1")
    other = replace(fault, rule="lag", name="dn_1", cause="90 s behind")
    one = job(LANE, level=Level.WARNING, wrong="dn_2: refused, by its pooler", faults=(fault,))
    for rest, lines in (("", []), ("by its pooler", ["Detail   by its pooler"])):
        above = Verdict(Level.WARNING, "a: dn_2: refused", "a", fault, rest)
        assert [words for _, words in problem_lines(one, above, NOW)] == lines
        both = replace(one, faults=(fault, other))
        assert [words for _, words in problem_lines(both, above, NOW)] == [*lines, "Problem  dn_1: 90 s behind"]
    elsewhere = Verdict(Level.WARNING, "b: stopped", "b", other)
    assert [words for _, words in problem_lines(one, elsewhere, NOW)] == ["Problem  dn_2: refused, by its pooler"]


def test_of_several_acts_each_has_its_number_and_its_keys() -> None:
    first = Fault("job_failed", Party.PROCESS, "job a", Severity.CRITICAL, "ended", job="a", code="SK-2")
    first = replace(first, do="`slotkeeper jobs start a`")
    second = replace(first, do="`slotkeeper errors list a`", code="SK-3")
    one = job(level=Level.CRITICAL, wrong="ended", safe=first.do, faults=(first, second))
    acts = [words for _, words in lines_of(one, NOW) if words.startswith(("Action", "   "))]
    assert acts == [
        "Action   1. start [a g] (SK-2)",
        "         2. quarantine [4 Enter] (SK-3)",
    ]
    assert command_of(one) == "slotkeeper jobs start a"
    assert with_keys("`slotkeeper --config /srv/c.toml jobs stop a`") == "stop [a s]"


@pytest.mark.parametrize("option", ["--take-over", "--table ods.t"])
def test_a_command_that_no_key_does_stays_typed_and_can_be_copied(option: str) -> None:
    fault = Fault("job_failed", Party.PROCESS, "job a", Severity.CRITICAL, "ended", job="a", code="SK-2")
    command = f"slotkeeper jobs start a {option}"
    one = job(level=Level.CRITICAL, wrong="ended", safe=f"`{command}`", faults=(replace(fault, do=f"`{command}`"),))
    assert f"Action   `{command}` (SK-2)" in [words for _, words in lines_of(one, NOW)]
    assert command_of(one) == command


def test_without_a_problem_it_says_what_the_job_does() -> None:
    one = job(*lanes(2), lags=(0.3, 0.4))
    said = [words for _, words in lines_of(one, NOW)]
    assert said[0] == "Status   Streaming, every change applied within 0.4 s."
    assert not any(words.startswith("Action") for words in said)


def test_what_waits_is_a_bar_once_its_dn_was_level() -> None:
    track = Track()
    for at, point, latest in ((0.0, 100, 100), (5.0, 125, 200)):
        track.see(Sample(at, "r", 0, point, latest))
    assert track.applied() == 0.25
    late = LanePace(12.0, applied=track.applied())
    one = job(*lanes(2), throughput={"dn_01": late, "dn_02": LanePace(0.2, applied=1.0)})
    text = " ".join(words for line in dn_bars(one, 76, 4, True) for words, _ in line)
    assert "dn_01 " in text and "#" in text and "12 s" in text
    assert "dn_02" in text and "0.2 s" in text
    assert text.partition("dn_02")[2].count("#") == 0, "a DN without a backlog shows only its lag"
    unseen = Track()
    unseen.see(Sample(0.0, "r", 0, 125, 200))
    assert unseen.applied() is None


@pytest.mark.parametrize("ascii_only", [False, True])
def test_seventeen_dns_are_a_heat_strip_with_a_cell_each(ascii_only: bool) -> None:
    lags: tuple[float | None, ...] = (*([0.1] * 15), 12.0, 90.0)
    one = job(*lanes(17), lags=lags)
    (line,) = dn_bars(one, 76, 4, ascii_only)
    assert len("".join(words for words, role in line if role != "dim")) == 17
    assert [role for _, role in line][1:] == ["ok", "warn", "crit"]
    shown = dn_signs(one, ascii_only)
    assert shown.endswith(" 15/17") and len(shown.partition(" ")[0]) == 8
    assert dn_signs(job(*lanes(16), lags=lags[:15]), True).startswith("*" * 16)


def test_the_state_has_a_sign_and_a_colour_of_its_own() -> None:
    copying = job(state=JobState.SNAPSHOT)
    assert copying.report is not None
    copying = replace(copying, report=replace(copying.report, chunks_done=31, chunks_total=50))
    gone = job(LANE, state=JobState.STOPPED, last_known=True, alive=False)
    rows = [job_rows([each], NOW, True)[0] for each in (job(LANE, lags=(61.0,)), copying, gone)]
    assert [row.cells["dot"] for row in rows] == ["*", "~", "-"]
    assert [row.tints["state"] for row in rows] == ["ok-word", "busy-word", "rest-word"]
    assert [row.cells["lag"] for row in rows[:2]] == ["x 1 m 1 s", "62 %"]
    assert rows[0].tints["lag"] == "crit" and rows[2].tints["lag"] == "dim"


def test_a_job_that_does_not_stream_yet_shows_how_far_it_is_and_its_steps() -> None:
    report = JobReport("a", "r", "SNAPSHOT", chunks_done=31, chunks_total=50, snapshot_rows=310_000, part="DN")
    copying = job(report=report, state=JobState.SNAPSHOT, rate=19_000.0)
    assert [words for _, words in long_work(copying, True)] == [
        "Progress [#######.....]  62 %  31 of 50 chunks copied, 19.0k rows/s, 10s left",
        "Steps    ok start   ~ copy   - catch up   - stream",
    ]
    limited = replace(copying, report=replace(report, copy_rows_limit=5_000, copy_bytes_limit=10 << 20))
    for rate, left in ((19_000.0, "38s"), (4_900.0, "38s"), (1_000.0, "3m10s"), (None, "38s")):
        assert next(words for _, words in long_work(replace(limited, rate=rate), True)) == (
            "Progress [#######.....]  62 %  31 of 50 chunks copied, limited to 5,000 rows/s and 10 MiB/s, "
            + left
            + " left"
        )
    behind = job(*lanes(4), lags=(0.2, 0.4, 30.0, 12.0), state=JobState.CATCHING_UP, rate=900.0)
    behind = replace(behind, throughput={**behind.throughput, "dn_03": LanePace(30.0, eta=8.0)})
    assert [words for _, words in long_work(behind, True)] == [
        "Progress [######......]  50 %  2 of 4 lanes current, 900 events/s, 8s left",
        "Steps    ok start   ok copy   ~ catch up   - stream",
    ]
    for over in (job(*lanes(4)), replace(copying, last_known=True), replace(copying, current=False)):
        assert long_work(over, True) == []


def test_a_fault_of_no_job_is_told_as_those_of_jobs_are() -> None:
    do = "`slotkeeper slots drop ods.t old` drops it"
    fault = Fault(
        "slot_ttl", Party.SLOT, "slot old", Severity.CRITICAL, "it expires in 4h", "rows are lost", do, code="SK-9"
    )
    assert [words for _, words in apart_lines(fault, Level.CRITICAL)] == [
        "Problem  slot old: it expires in 4h",
        "Impact   Rows are lost.",
        "Action   drop slot [3 a d] drops it (SK-9)",
    ]


def test_a_lane_of_which_nothing_is_known_gives_no_time_left() -> None:
    one = job(LANE, LANE, lags=(20.0, 0.1), state=JobState.CATCHING_UP)
    known = replace(one, throughput={name: replace(pace, eta=0.0) for name, pace in one.throughput.items()})
    assert not [words for _, words in long_work(known, ascii_only=True) if "left" in words]


def test_a_job_that_starts_again_shows_no_progress_of_its_last_run() -> None:
    starting = job(LANE, lags=(0.1,), state=JobState.PENDING)
    assert [words.split()[0] for _, words in long_work(starting, ascii_only=True)] == ["Steps"]
