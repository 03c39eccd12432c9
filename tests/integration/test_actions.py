"""Actions of the console as real child processes complete even if their starter is killed; other consoles show them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slotkeeper.console.actions.commands import (
    Doing,
    Origin,
    Part,
    Place,
    Target,
    Typed,
    job_words,
    missing,
    slot_words,
)
from slotkeeper.console.actions.outcome import complaint, slot_lines, verdict
from slotkeeper.console.actions.preview import Preview, preview_from
from slotkeeper.console.actions.record import Action, Stage
from slotkeeper.console.actions.runner import Order, Runner
from slotkeeper.console.actions.verbs import JobVerb, SlotVerb
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from tests.integration.test_reset_command import Shell
from tests.integration.test_reset_command import shell as shell
from tests.support.waiting import until

WAIT = 90.0
KILLED_AT_ONCE = """
import os, signal, sys
from pathlib import Path
from slotkeeper.console.actions.runner import Order, Runner
from slotkeeper.core.clock import SystemClock
print(Runner(Path(sys.argv[1]), SystemClock()).start(Order(tuple(sys.argv[2:]), "reset", "slot")), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def ended(runs: Runner, id: str) -> Action:
    """Return the action once it is over."""

    def over() -> Action | None:
        found = runs.find(id)
        return found if found is not None and found.over else None

    return until(over, WAIT, f"{id} to be over")


def begun(runs: Runner, id: str) -> Action:
    """Return the action once its command is running, or is over."""

    def lives() -> Action | None:
        found = runs.find(id)
        return found if found is not None and (found.over or found.record.command is not None) else None

    return until(lives, WAIT, f"the command of {id} to live")


def runner(folder: Path) -> Runner:
    return Runner(folder, SystemClock())


def doing(shell: Shell, target: str) -> Doing:
    return Doing(SlotVerb.RESET, Place(shell.mirror.job.source.name, *shell.place), Target(target))


def planned(shell: Shell, target: str) -> Preview:
    runs, origin = runner(shell.state_dir), Origin(str(shell.config))
    id = runs.start(Order(slot_words(origin, doing(shell, target)), "plan", "slot", listed=False))
    found = ended(runs, id)
    assert found.record.code == 0, runs.said(id).err
    plan = preview_from(runs.said(id).out)
    assert plan is not None and not plan.failed
    return plan


def typed(plan: Preview) -> Typed:
    parts = {want.part: want.answer or "a test" for want in plan.wants}
    assert not missing(plan.wants, parts)
    return Typed(plan.plan, parts)


def test_a_reset_runs_to_its_end_though_the_console_is_killed_and_the_connection_drops(shell: Shell) -> None:
    before, plan = shell.places(), planned(shell, "earliest")
    assert [one.dn for one in plan.lanes] and all("again" in one.number for one in plan.lanes if one.number != "0")
    words = slot_words(Origin(str(shell.config)), doing(shell, "earliest"), typed(plan))
    starter = subprocess.run(
        [sys.executable, "-c", KILLED_AT_ONCE, str(shell.state_dir), *words],
        capture_output=True, text=True, check=False, timeout=WAIT,
    )  # fmt: skip
    assert starter.returncode == -signal.SIGKILL, starter.stderr
    id, runs = starter.stdout.strip(), runner(shell.state_dir)
    seen = begun(runs, id)
    assert seen.record.command is not None and seen.record.command.session_id != os.getsid(0)
    for one in (seen.record.child, seen.record.command):
        if one is not None and processes.alive(one):
            os.kill(one.pid, signal.SIGHUP)
    found = ended(runs, id)
    assert (found.stage, found.record.code) == (Stage.ENDED, 0), runs.said(id).err
    assert shell.places() != before
    level, *_ = [level for level, text in slot_lines(found, runs.said(id), SystemClock().utc())]
    told = [text for _, text in slot_lines(found, runs.said(id), SystemClock().utc())]
    assert level is Level.FINE and told[0].startswith("done: reset to earliest")
    assert any("requested" in text and "observed" in text for text in told[1:])
    lines = Audit(StateFolder.open(shell.state_dir)).read().lines
    assert [line.phase for line in lines] == [Phase.OUTCOME, Phase.INTENT]
    assert {(line.plan, line.reason) for line in lines} == {(plan.plan, "a test")}, "the same plan id as typed"


def test_a_plan_that_skips_asks_for_the_number_and_a_stale_one_says_what_moved(shell: Shell) -> None:
    early = planned(shell, "earliest")
    runs, origin = runner(shell.state_dir), Origin(str(shell.config))
    id = runs.start(Order(slot_words(origin, doing(shell, "earliest"), typed(early)), "reset", "slot"))
    assert ended(runs, id).record.code == 0
    stale = runs.start(Order(slot_words(origin, doing(shell, "earliest"), typed(early)), "reset", "slot"))
    found = ended(runs, stale)
    assert found.record.code == 3
    level, text = verdict(found, runs.said(stale), SystemClock().utc())
    assert level is Level.WARNING and "is stale; changed: " in text
    plan = planned(shell, "latest")
    rows = next(want.answer for want in plan.wants if want.part is Part.ROWS)
    assert int(rows) > 0 and any(one.lost for one in plan.lanes)
    wrong = Typed(plan.plan, {**typed(plan).parts, Part.ROWS: str(int(rows) + 1)})
    before = shell.places()
    refused = runs.start(Order(slot_words(origin, doing(shell, "latest"), wrong), "reset", "slot"))
    assert ended(runs, refused).record.code == 3
    assert f"{rows} changes would be skipped" in complaint(runs.said(refused).err)[0]
    assert shell.places() == before
    id = runs.start(Order(slot_words(origin, doing(shell, "latest"), typed(plan)), "reset", "slot"))
    assert ended(runs, id).record.code == 0, runs.said(id).err
    assert shell.places() != before


@pytest.mark.parametrize(
    ("verb", "code", "words"),
    [(JobVerb.STOP, 3, "unknown job 'orders_rt'"), (JobVerb.START, 2, "unknown job 'orders_rt'")],
)
def test_a_refusal_of_a_command_on_a_job_comes_back_with_its_sentence(
    verb: JobVerb, code: int, words: str, tmp_path: Path
) -> None:
    state, config = tmp_path / "state", tmp_path / "c.toml"
    config.write_text(f'[state]\ndir = "{state}"\n', "utf-8")
    Store.open(state).close()
    runs = runner(state)
    id = runs.start(Order(job_words(Origin(str(config)), verb, "orders_rt"), f"{verb.value} job", "orders_rt"))
    found = ended(runs, id)
    said = complaint(runs.said(id).err)
    assert (found.record.code, words in said[0]) == (code, True), (found, said)


def test_a_slot_is_made_and_dropped_with_what_its_dry_runs_ask_for(shell: Shell) -> None:
    runs, origin = runner(shell.state_dir), Origin(str(shell.config))
    place = Place("dws1", shell.mirror.table, "extra_slot")
    for verb, word in ((SlotVerb.CREATE, "created"), (SlotVerb.REGISTER, "registered"), (SlotVerb.DROP, "dropped")):
        asked = Doing(verb, place)
        dry = runs.start(Order(slot_words(origin, asked), "plan", "slot", listed=False))
        assert ended(runs, dry).record.code == 0, runs.said(dry).err
        plan = preview_from(runs.said(dry).out)
        assert (
            plan is not None
            and plan.title == f"{verb.value.upper()} SLOT extra_slot"
            and plan.owner.startswith("external")
        )
        assert plan.undo and plan.sql and plan.effects
        consent = typed(plan)
        assert consent.parts[Part.NAME] == "extra_slot" and consent.parts[Part.TABLE] == shell.mirror.table
        id = runs.start(Order(slot_words(origin, asked, consent), verb.value, "slot"))
        found = ended(runs, id)
        assert found.record.code == 0, runs.said(id).err
        told = [text for _, text in slot_lines(found, runs.said(id), SystemClock().utc())]
        assert told[0].startswith(word) and any(text.startswith("dn_1  ") for text in told[1:])


def test_what_changes_nothing_is_broken_off_also_where_the_console_was_started_deaf_to_ctrl_c(tmp_path: Path) -> None:
    code = "import time, sys; print('on', flush=True); time.sleep(600)"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does for background processes
    try:
        runs = Runner(tmp_path, SystemClock(), (sys.executable, "-c", code))
        id = runs.start(Order((), "verify job orders", "orders"))
    finally:
        signal.signal(signal.SIGINT, before)
    begun(runs, id)
    until(lambda: "on" in runs.said(id).out, WAIT, "the command to say that it runs")
    assert runs.cancel(id)
    found = ended(runs, id)
    assert found.record.code == -signal.SIGINT and not runs.cancel(id), "gone already"
