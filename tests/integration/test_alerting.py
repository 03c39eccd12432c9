"""Faults are reported without a console: real supervisors, FAKE drivers and a FAKE pager."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import parser

from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.launch import alerting, control
from slotkeeper.core.launch.alerting import Alerting
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.state import files
from slotkeeper.core.state.alerts import AckFile, AlertFile
from slotkeeper.core.state.faults import NoRoom
from tests.support.jobs import FAST, SOON, Jobs
from tests.support.pager import Pager
from tests.support.waiting import until

parsed: Callable[[str], Iterable[Metric]] = parser.text_string_to_metric_families
OFTEN = replace(FAST, frame_every=0.2, alerts_every=0.2)


@pytest.fixture
def pager(tmp_path: Path) -> Pager:
    return Pager(tmp_path / "pager")


def table(pager: Pager, *lines: str) -> str:
    return "\n".join([f'command = "{pager.command}"', 'command_timeout = "20s"', *lines])


def test_a_dn_held_back_is_reported_once_and_once_that_it_is_over(jobs: Jobs, pager: Pager, tmp_path: Path) -> None:
    holds = tmp_path / "holds"
    alerts = table(pager, 'lag_warning = "2s"', 'gap = "1h"')
    jobs.start("orders", limits=OFTEN, alerts=alerts, lanes=["dn_1", "dn_2"], holds=str(holds))
    holds.touch()
    until(lambda: pager.kinds("lag") == ["fired"], SOON, "the lag is reported")
    (one,) = [each for each in pager.told() if each["fault"]["rule"] == "lag"]
    assert (one["fault"]["job"], one["fault"]["name"], one["fault"]["party"]) == ("orders", "dn_1", "dn")
    before = _evaluations(jobs, "orders")
    until(lambda: _evaluations(jobs, "orders") > before + 20, SOON, "many evaluations more")
    assert pager.kinds("lag") == ["fired"], "no repeated notification within the interval"
    holds.unlink()
    until(lambda: pager.kinds("lag") == ["fired", "cleared"], SOON, "its end is reported")
    before = _evaluations(jobs, "orders")
    until(lambda: _evaluations(jobs, "orders") > before + 20, SOON, "many evaluations more")
    assert pager.kinds("lag") == ["fired", "cleared"]


def _evaluations(jobs: Jobs, job: str) -> int:
    """Frames are recorded as often as alerts are evaluated here."""
    (row,) = jobs.store.read("SELECT max(id) AS n FROM frames WHERE job = ?", job)
    return int(row["n"] or 0)


@pytest.mark.chaos
def test_with_the_default_limits_it_is_reported_within_60_seconds(jobs: Jobs, pager: Pager, tmp_path: Path) -> None:
    holds = tmp_path / "holds"
    limits = replace(FAST, frame_every=5.0, alerts_every=5.0)
    jobs.start("orders", limits=limits, alerts=table(pager, 'gap = "2m"'), lanes=["dn_1"], holds=str(holds))
    holds.touch()
    began = time.monotonic()
    until(lambda: "fired" in pager.kinds("lag"), 60, "the lag is reported within 60 s")
    print(f"told {time.monotonic() - began:.1f} s after the DN was held back")
    assert time.monotonic() - began <= 60
    until(lambda: "again" in pager.kinds("lag"), 150, "it is reported again after the gap")
    fired, again = [one for one in pager.told() if one["fault"]["rule"] == "lag"][:2]
    told = [datetime.fromisoformat(one["at"]) for one in (fired, again)]
    assert 120 <= (told[1] - told[0]).total_seconds() <= 130
    holds.unlink()
    until(lambda: pager.kinds("lag")[-1] == "cleared", 30, "its end is reported")
    assert pager.kinds("lag") == ["fired", "again", "cleared"]


def test_the_reason_of_an_end_is_reported_although_its_supervisor_exits(jobs: Jobs, pager: Pager) -> None:
    jobs.start("orders", limits=OFTEN, alerts=table(pager))
    control.stop(jobs.store, "orders", Patience(SOON))
    until(lambda: pager.kinds("job_stopped") == ["fired"], SOON, "the stop is reported")


def test_supervisors_of_one_state_folder_tell_nothing_twice(jobs: Jobs, pager: Pager, tmp_path: Path) -> None:
    alerts = table(pager, 'disk_free = "16777216MiB"', 'gap = "1h"')
    for name in ("orders", "stock", "returns"):
        jobs.start(name, limits=OFTEN, alerts=alerts)
    until(lambda: "fired" in pager.kinds("disk_nearly_full"), SOON, "the disk is reported")
    before = {name: _evaluations(jobs, name) for name in ("orders", "stock", "returns")}
    until(lambda: all(_evaluations(jobs, name) > n + 15 for name, n in before.items()), SOON, "all have evaluated")
    assert pager.kinds("disk_nearly_full") == ["fired"]


def test_a_job_whose_processes_are_all_killed_is_reported_by_the_supervisor_of_another(
    jobs: Jobs, pager: Pager
) -> None:
    for name in ("orders", "stock"):
        jobs.start(name, limits=OFTEN, alerts=table(pager))
    _kill_all(jobs, "orders")
    until(lambda: pager.kinds("job_dead") == ["fired"], SOON, "its death is reported")
    assert [one["fault"]["job"] for one in pager.told() if one["fault"]["rule"] == "job_dead"] == ["orders"]


def _kill_all(jobs: Jobs, name: str) -> None:
    driver = jobs.view_of_job(name).driver
    assert driver is not None
    os.kill(driver.pid, signal.SIGSTOP)
    jobs.kill_supervisor(name)
    os.kill(driver.pid, signal.SIGKILL)
    until(lambda: not jobs.view_of_job(name).lives, SOON, "all are gone")


def test_a_command_that_hangs_holds_up_neither_the_supervisor_nor_the_end_of_its_job(jobs: Jobs, pager: Pager) -> None:
    pager.does("hang")
    alerts = f'command = "{pager.command}"\ncommand_timeout = "1h"\ndisk_free = "16777216MiB"'
    jobs.start("orders", limits=OFTEN, alerts=alerts)
    until(lambda: len(pager.told()) == 1, SOON, "the pager hangs")
    before = _evaluations(jobs, "orders")
    until(lambda: _evaluations(jobs, "orders") > before + 10, SOON, "the supervisor continues")
    began = time.monotonic()
    control.stop(jobs.store, "orders", Patience(SOON))
    assert time.monotonic() - began < 20
    assert not jobs.view_of_job("orders").lives
    _end_sender(jobs)


def _end_sender(jobs: Jobs) -> None:
    """End the sender of this test's state folder and the pager below it, found by their command lines."""
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if "slotkeeper.core.launch.alert_sender" in words and str(jobs.store.folder.path) in words:
            for each in (*one.children(recursive=True), one):
                each.kill()


def test_a_command_that_fails_is_a_fault_and_is_tried_again(
    jobs: Jobs, pager: Pager, monkeypatch: pytest.MonkeyPatch
) -> None:
    pager.does("fail")
    jobs.start("orders", limits=OFTEN, alerts=table(pager, 'disk_free = "16777216MiB"'))
    file = AlertFile(jobs.store.folder)
    until(lambda: file.read().failure is not None, SOON, "the failure is noted")
    until(lambda: "alert command failed" in jobs.told("orders"), SOON, "it is an event of the job")
    found = file.read()
    assert found.failure is not None and "exited with status 7: no route to the pager" in found.failure.cause
    until(lambda: any(one.fault.rule == "alert_command_fails" for one in file.read().firing.values()), SOON, "a fault")
    pager.does("")
    until(lambda: file.read().failure is None and not file.read().outbox, SOON, "it has been told after a wait")
    assert pager.kinds("disk_nearly_full") == ["fired", "fired"], "the first try failed"
    assert pager.kinds("alert_command_fails") == []


def test_an_acknowledged_fault_is_not_told_and_the_acknowledgement_ends_with_it(
    jobs: Jobs, pager: Pager, tmp_path: Path
) -> None:
    holds = tmp_path / "holds"
    alerts = table(pager, 'lag_warning = "2s"', 'gap = "2s"')
    jobs.start("orders", limits=OFTEN, alerts=alerts, lanes=["dn_1"], holds=str(holds))
    holds.touch()
    until(lambda: pager.kinds("lag") == ["fired"], SOON, "the lag is reported")
    told_of = AlertFile(jobs.store.folder).read().firing.values()  # on a busy host a late report is a fault as well
    (firing,) = (one for one in told_of if one.fault.rule == "lag")
    acks = AckFile(jobs.store.folder)
    acks.put(firing.fault.ack_keys[0], Ack("li.wei", datetime.now(timezone.utc), None, "on it"))
    told = pager.kinds("lag")
    before = _evaluations(jobs, "orders")
    until(lambda: _evaluations(jobs, "orders") > before + 20, SOON, "the gap has passed twice")
    assert len(pager.kinds("lag")) <= len(told) + 1, "at most one was in progress"
    holds.unlink()
    until(lambda: pager.kinds("lag")[-1] == "cleared", SOON, "its end is reported")
    until(lambda: acks.read() == {}, SOON, "the acknowledgement has ended")


def test_options_are_read_again_and_a_broken_file_leaves_the_last_good_ones(jobs: Jobs, pager: Pager) -> None:
    jobs.start("orders", limits=OFTEN, alerts='disk_free = "1MiB"')
    jobs.config("orders", alerts=table(pager, 'disk_free = "16777216MiB"'))
    until(lambda: pager.kinds("disk_nearly_full") == ["fired"], SOON, "the new options hold")
    jobs.config("orders", alerts="disk_free = 'nothing'")
    log = jobs.store.folder.log("orders")
    until(lambda: "[alerts] still uses its last valid settings: " in log.read_text(), SOON, "it is said")
    before = _evaluations(jobs, "orders")
    until(lambda: _evaluations(jobs, "orders") > before + 10, SOON, "evaluations more")
    assert pager.kinds("disk_nearly_full") == ["fired"], "it has neither ended nor been reported twice"


def test_a_supervisor_that_finds_a_broken_file_goes_by_what_its_run_was_started_with(jobs: Jobs) -> None:
    config = jobs.config("orders", alerts="gap = 'broken'")
    said: list[str] = []

    def tick(run: str) -> set[str]:
        Alerting(jobs.store, lambda event, text: said.append(text), "orders", str(config), run=run).tick(0.0)
        return {one.fault.rule for one in AlertFile(jobs.store.folder).read().firing.values()}

    assert tick("r1") == set()
    assert said[-1].startswith("no alerts are sent because [alerts] cannot be read: ")
    assert "alerts.gap must be a dura" in said[-1]
    files.keep_config(jobs.store.folder, "r1", "[alerts]\ndisk_free = '16777216MiB'\n")
    assert tick("r1") == {"disk_nearly_full"}


def test_the_figures_are_openmetrics_and_are_written_again(jobs: Jobs, tmp_path: Path) -> None:
    file = tmp_path / "figures.prom"
    jobs.start("orders", limits=OFTEN, alerts=f'metrics_file = "{file}"', lanes=["dn_1"], holds="/nowhere")

    def figures() -> dict[str, float]:
        families = parsed(file.read_text("utf-8")) if file.exists() else ()
        return {" ".join((one.name, *one.labels.values())): one.value for family in families for one in family.samples}

    until(lambda: figures().get("slotkeeper_job_state orders RUNNING") == 1, SOON, "the job is in the file")
    first = figures()
    assert first["slotkeeper_job_state orders PAUSED"] == 0 and first["slotkeeper_job_up orders"] == 1
    assert first["slotkeeper_driver_crashes orders"] == 0
    assert file.stat().st_mode & 0o777 == 0o644
    until(lambda: "slotkeeper_lane_lag_seconds orders dn_1" in figures(), SOON, "its lane is")
    until(
        lambda: figures()["slotkeeper_evaluation_timestamp_seconds"] > first["slotkeeper_evaluation_timestamp_seconds"],
        SOON, "it is written again",
    )  # fmt: skip
    assert sorted(path.name for path in tmp_path.glob(".figures*")) == []


def test_figures_that_cannot_be_written_are_said_once_and_break_nothing(jobs: Jobs) -> None:
    jobs.start("orders", limits=OFTEN, alerts='metrics_file = "/proc/nowhere/figures.prom"')
    log = jobs.store.folder.log("orders")
    until(lambda: "metrics_file /proc/nowhere/figures.prom cannot be written" in log.read_text(), SOON, "it is said")
    before = _evaluations(jobs, "orders")
    until(lambda: _evaluations(jobs, "orders") > before + 10, SOON, "the supervisor continues")
    assert log.read_text().count("metrics_file") == 1


def test_what_cannot_be_remembered_is_reported_once_by_each_process(
    jobs: Jobs, pager: Pager, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: the reported alerts are kept in memory, and still passed to the command."""
    config = jobs.config("orders", alerts=table(pager, 'disk_free = "16777216MiB"'))
    said: list[str] = []

    def full(self: AlertFile, state: object) -> None:
        raise NoRoom("the disk is full")

    monkeypatch.setattr(AlertFile, "save", full)
    mine = Alerting(jobs.store, lambda event, text: said.append(text), "orders", str(config))
    for _ in range(3):
        mine.tick(0.0)
    until(lambda: pager.kinds("disk_nearly_full") == ["fired"], SOON, "it is reported")
    for _ in range(3):
        mine.tick(0.0)
    assert pager.kinds("disk_nearly_full") == ["fired"]
    assert sum("could not be recorded" in one for one in said) == 1


def test_a_store_that_cannot_be_read_is_a_fault_and_ends_no_other(
    jobs: Jobs, pager: Pager, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = jobs.config("orders", alerts='disk_free = "16777216MiB"')
    mine = Alerting(jobs.store, lambda event, text: None, "orders", str(config))
    mine.tick(0.0)

    def unreadable(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(alerting, "gather", unreadable)
        mine.tick(0.0)
    held = {one.fault.rule: one.over for one in AlertFile(jobs.store.folder).read().firing.values()}
    assert held == {"disk_nearly_full": False, "store_unreadable": False}
    mine.tick(0.0)
    held = {one.fault.rule: one.over for one in AlertFile(jobs.store.folder).read().firing.values()}
    assert held == {"disk_nearly_full": False, "store_unreadable": True}


def test_nothing_that_goes_wrong_in_it_is_the_supervisors_concern(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    config = jobs.config("orders", alerts="gap = '1h'")
    mine = Alerting(jobs.store, lambda event, text: said.append(text), "orders", str(config))

    def wrong(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(alerting, "judge", wrong)
    mine.tick(0.0)
    mine.tick(0.0)
    assert said == ["alerts could not be evaluated: a defect"]


def test_a_killed_supervisor_leaves_a_command_that_ends_by_its_limit(jobs: Jobs, pager: Pager) -> None:
    pager.does("fork")
    alerts = f'command = "{pager.command}"\ncommand_timeout = "3s"\ndisk_free = "16777216MiB"'
    jobs.start("orders", limits=OFTEN, alerts=alerts)
    until((pager.folder / "grandchild").exists, SOON, "the pager hangs")
    jobs.kill_supervisor("orders")
    pid = int((pager.folder / "grandchild").read_text("ascii"))
    until(lambda: not psutil.pid_exists(pid), SOON, "the pager's grandchild is gone")
