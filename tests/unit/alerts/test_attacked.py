"""Causes that could suppress a notification: damaged memory, old acknowledgements, two faults with one key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.core.alerts.rules import AlertState, Firing, evaluate
from slotkeeper.core.domain.fault import Ack, Fault, Severity, ranked
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.errors import Busy
from slotkeeper.core.judgement.facts import Facts, SlotSeen
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch import alerting
from slotkeeper.core.launch.alerting import Alerting
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.state.alerts import ACKS_KIND, ACKS_NAME, AckFile, AlertFile, left_behind, state_of, text_of
from slotkeeper.core.state.faults import NoRoom
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from tests.unit.alerts.made import GAP, T0, a_fault, at


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"failure": {"since": "2026-01-01T00:00:00+00:00", "at": "2026-01-01T00:00:00+00:00", "tries": Infinity,'
        ' "cause": ""}}',
        '{"firing": ' + "[" * 100_000,
    ],
    ids=["many brackets", "a number without end", "brackets inside"],
)
def test_a_memory_of_many_brackets_or_numbers_without_end_counts_as_none(text: str) -> None:
    assert state_of(text) == AlertState()


def test_a_memory_that_another_version_wrote_is_read_without_what_is_not_known_here() -> None:
    state = AlertState({a_fault().key: Firing(a_fault(), T0, at(5), Severity.WARNING)})
    found = json.loads(text_of(state))
    found["firing"][0]["fault"]["colour"] = "red"
    assert state_of(json.dumps(found)) == state


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": {"by": "b", "at": "2026-01-01T00:00:00", "until": null}}'], ids=["brackets", "naive"]
)
def test_damaged_acknowledgements_count_as_none(tmp_path: Path, text: str) -> None:
    file = AckFile(StateFolder.open(tmp_path / "state"))
    file.put("b", Ack("li.wei", T0))
    (tmp_path / "state" / ACKS_KIND / f"{ACKS_NAME}.json").write_text(text, encoding="utf-8")
    assert file.read() == {}


def test_of_two_faults_with_one_key_the_worse_is_reported() -> None:
    faults = ranked([a_fault(), a_fault(severity=Severity.CRITICAL)])
    found = evaluate(faults, {}, {}, GAP, T0)
    assert [one.fault.severity for one in found.notifications] == [Severity.CRITICAL]


def test_slots_without_a_job_with_one_name_at_two_sources_are_two_faults() -> None:
    one = SlotSeen("dws1", "ods.a", "s", "", T0, True, at(60), 600.0)
    faults = judge(Facts(T0, slots=(one, replace(one, source="dws2"))))
    assert len({fault.key for fault in faults}) == 2 and {fault.thing for fault in faults} == {"s"}


def test_a_clock_that_is_set_back_gives_a_slot_no_time() -> None:
    seen = SlotSeen("dws1", "ods.a", "s", "a", T0, True, at(60), 600.0)
    (fault,) = judge(Facts(at(-3_600), slots=(seen,)))
    assert fault.severity is Severity.CRITICAL and fault.cause.startswith("1m00s")


# -- acknowledgements and the disk, over a real state folder ----------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state") as store:
        yield store


class Judged:
    """Evaluations of faults that a test sets."""

    def __init__(self, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        config = tmp_path / "c.toml"
        config.write_text('[alerts]\ngap = "1h"\n', encoding="ascii")
        self.store = store
        self.said: list[str] = []
        self.faults: tuple[Fault, ...] = ()
        monkeypatch.setattr(alerting, "judge", lambda facts: self.faults)
        self.mine = self.another(config)

    def another(self, config: Path) -> Alerting:
        return Alerting(self.store, lambda event, text: self.said.append(text), "orders", str(config))

    def tick(self, *faults: Fault) -> dict[str, bool]:
        self.faults = faults
        self.mine.tick(0.0)
        return {key: not one.over for key, one in AlertFile(self.store.folder).read().firing.items()}

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.store.now(), timezone.utc)


@pytest.fixture
def judged(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Judged:
    return Judged(store, tmp_path, monkeypatch)


def test_unreadable_acknowledgements_suppress_no_notification(judged: Judged) -> None:
    path = judged.store.folder.path / ACKS_KIND / f"{ACKS_NAME}.json"
    AckFile(judged.store.folder).put("x", Ack("li.wei", judged.now))
    path.write_bytes(b"\xff\xfe")
    judged.tick(a_fault())
    assert any(one.startswith("alert fired: lag") for one in judged.said)
    assert sum("have no effect" in one for one in judged.said) == 1


@pytest.mark.parametrize("error", [NoRoom("the disk is full"), Busy("somebody has the lock")], ids=["full", "busy"])
def test_an_acknowledgement_that_could_not_be_ended_with_its_fault_swallows_no_later_one(
    judged: Judged, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fault, acks = a_fault(), AckFile(judged.store.folder)
    acks.put(fault.ack_keys[0], Ack("li.wei", judged.now - timedelta(seconds=60)))
    judged.tick(fault)
    assert not any("fired" in one for one in judged.said)
    with monkeypatch.context() as broken:

        def refuse(*_: object) -> None:
            raise error

        broken.setattr(AckFile, "end", refuse)
        judged.tick()
        judged.tick(fault)
    assert sum(one.startswith("alert fired: lag") for one in judged.said) == 1
    judged.tick()
    assert acks.read() == {}, "it ends as soon as this can be written"


def test_an_acknowledgement_that_came_after_the_end_is_not_taken_for_an_earlier_one() -> None:
    keys = a_fault().ack_keys
    assert left_behind({keys[0]: Ack("a", at(10))}, {a_fault().key: at(20)}) == {a_fault().key}
    assert left_behind({keys[0]: Ack("a", at(30))}, {a_fault().key: at(20)}) == frozenset()
    assert left_behind({keys[0]: Ack("a", at(10), at(900))}, {a_fault().key: at(20)}) == frozenset()


def test_what_could_not_be_remembered_is_remembered_as_soon_as_the_disk_takes_it(
    judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = a_fault()
    with monkeypatch.context() as broken:

        def full(self: AlertFile, state: object) -> None:
            raise NoRoom("the disk is full")

        broken.setattr(AlertFile, "save", full)
        assert judged.tick(fault) == {}
    assert judged.tick(fault) == {fault.key: True}, "also where nothing has changed since"


def test_a_quarantine_that_is_nearly_full_is_critical_also_to_who_has_read_no_configuration(store: Store) -> None:
    """A supervisor reports the same as `status`: its driver's report contains the limit."""
    store.register_job("orders", "c.toml")
    store.begin_run("orders", "r1", "{}")
    store.put_report(JobReport("orders", "r1", "RUNNING", quarantined=99, quarantine_limit=100))
    (found,) = gather(store, None, datetime.fromtimestamp(store.now(), timezone.utc)).jobs
    assert found.quarantine_limit == 100
    seen = replace(found, view=replace(found.view, state=JobState.RUNNING))
    faults = judge(Facts(T0, (seen,)))
    assert [one.severity for one in faults if one.rule == "rows_quarantined"] == [Severity.CRITICAL]
