"""Type every command of docs/runbook.md as it is printed there, over a running job.

The commands of the incidents are typed by `test_remedies.py` and `tests/fault/test_incidents.py` from the same records;
this module types the rest, and shows that the two together leave none out. Placeholders are filled as the page says: ID
and N from the output of the dry run before, BACKUP from the history, JOB, TABLE and SLOT from the demo.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.record import JOB, Answer, Command, World
from slotkeeper.demo.incidents.registry import INCIDENTS, named
from tests.architecture.checkout import ROOT
from tests.support.scenes import MakeWorld
from tests.support.waiting import until

PAGE = (ROOT / "docs" / "runbook.md").read_text("utf-8")
PRINTED = re.compile(r"(?:^|`)(slotkeeper [^`\n]+)", re.MULTILINE)
NAMED_ONLY = (
    *("slotkeeper demo --incident NAME", "slotkeeper run", "slotkeeper run JOB", "slotkeeper verify"),
    *("slotkeeper jobs stop JOB", "slotkeeper jobs start JOB"),
    "slotkeeper audit accept --reason TEXT",
    "slotkeeper locks end 4711 --began 2026-11-27T12:00:00.500000Z --sink mart --reason REASON",
    "slotkeeper locks end 4711 ...",
    "slotkeeper docs systemd/slotkeeper-ensure.service",
    'slotkeeper jobs start orders_rt --confirm orders_rt --reason "why"',
)
"""Each incident has its own test of the first; three are part of a sentence about responsibilities or later steps; two
are the steps of an upgrade, which `tests/integration/test_upgrade.py` takes; then one for an audit of an earlier
version, which `tests/unit/console/test_audit_command.py` has; two end a session in front of a job's, which
`tests/integration/test_ended_blockers.py` types as `slotkeeper locks` prints it;
`tests/unit/console/test_docs_command.py` opens pages. The last is for the day after a reset, which
`tests/integration/test_awaits_copy.py` waits for.
"""
WITHIN = 90.0

Act = Callable[[World], None]


def _running(made: World) -> None:
    with Store.open(made.state) as store:
        until(lambda: observe(store, JOB).state is JobState.RUNNING, WITHIN, "the job to be RUNNING")


def _killed(made: World) -> None:
    """Supervisor and driver have exited, as after a restart of the host."""
    with Store.open(made.state) as store:
        view = observe(store, JOB)
        for process in (view.supervisor, view.driver):
            assert process is not None
            os.kill(process.pid, signal.SIGKILL)
        until(lambda: observe(store, JOB).state is JobState.DEAD, WITHIN, "the job to be DEAD")


def _may_probe(made: World) -> None:
    made.at_source("CREATE SCHEMA probe", "GRANT USAGE, CREATE ON SCHEMA probe TO etl")


ONE_TABLE: tuple[Command | Act, ...] = (
    Command("slotkeeper jobs list"),
    Command("slotkeeper status"),
    Command("slotkeeper upgrade --check"),
    Command("slotkeeper jobs show orders_rt"),
    Command("slotkeeper jobs logs orders_rt"),
    Command("slotkeeper slots list ods.orders"),
    Command("slotkeeper slots show ods.orders orders_rt"),
    Command("slotkeeper slots preflight ods.orders", (0, 3)),  # 3 while the job runs: ALTER would clear its slot
    Command("slotkeeper slots peek TABLE --slot SLOT"),
    Command("slotkeeper locks orders_rt"),
    Command("slotkeeper errors list orders_rt"),
    Command("slotkeeper errors show orders_rt 17", (3,)),  # there is no row 17 here; the incidents have one
    Command("slotkeeper errors discard orders_rt 17", (3,)),
    Command("slotkeeper jobs drain orders_rt --wait 1s", (0, 1)),
    Command("slotkeeper jobs pause JOB"),
    Command("slotkeeper jobs resume orders_rt"),
    _running,
    Command("slotkeeper jobs retry JOB"),
    Command("slotkeeper probe live JOB"),
    Command("slotkeeper probe ready JOB"),
    _killed,
    Command('slotkeeper jobs ensure --reason "reboot"'),
    _running,
    Command("slotkeeper jobs stop orders_rt"),
    Command("slotkeeper slots reset ods.orders orders_rt --to earliest"),
    Command('slotkeeper slots reset ods.orders orders_rt --execute --plan ID --reason "why" --confirm orders_rt'),
    Command("slotkeeper jobs start orders_rt && slotkeeper verify orders_rt"),
    Command("slotkeeper slots history ods.orders orders_rt"),
    Command("slotkeeper jobs stop orders_rt"),
    Command("slotkeeper slots undo BACKUP"),
    Command("slotkeeper slots drop ods.orders orders_rt"),
    Command("slotkeeper slots reset ods.orders orders_rt --to snapshot", (3,)),  # this target has rows
    Command("slotkeeper slots reset --resume ods.orders orders_rt", (3,)),  # nothing was interrupted
    Command(
        'slotkeeper slots reset ods.orders orders_rt --execute --plan ID --reason "why" --confirm orders_rt'
        " --rows 130707",
        (3,),  # the number of another incident
    ),
    Command('slotkeeper slots register ods.orders orders_rt --execute --reason "why" --confirm orders_rt'),
    Command("slotkeeper jobs start JOB --take-over"),
    _running,
    Command("slotkeeper doctor"),
    Command("slotkeeper locks"),
    _may_probe,
    Command("slotkeeper doctor --probe dws1"),
    Command("slotkeeper audit list"),
    Command("slotkeeper audit verify"),
)
TWO_TABLES: tuple[Command | Act, ...] = (
    Command("slotkeeper jobs stop orders_rt --table ods.items"),
    Command("slotkeeper jobs show orders_rt"),
    Command("slotkeeper slots reset ods.items orders_rt --to snapshot --on-existing replace"),
    Command(
        'slotkeeper slots reset ods.items orders_rt --execute --plan ID --reason "why" --confirm orders_rt --rows N'
    ),
    Command("slotkeeper jobs start orders_rt --table ods.items"),
    Command("slotkeeper verify orders_rt --table ods.items"),
)


def printed() -> Iterator[str]:
    """The distinct commands of the page."""
    yield from dict.fromkeys(found[1].partition(" #")[0].strip() for found in PRINTED.finditer(PAGE))


def test_each_command_of_the_page_is_typed_here_or_in_an_incident() -> None:
    of_incidents = {step.text for one in INCIDENTS for step in (*one.cure, one.refusal.command, one.signal.command) if
              isinstance(step, Command)}  # fmt: skip
    here = {step.text for step in (*ONE_TABLE, *TWO_TABLES) if isinstance(step, Command)}
    known = {*of_incidents, *here, *NAMED_ONLY}
    assert [command for command in printed() if command not in known] == []
    assert here <= set(printed()), "the commands typed here are those on the page"


def typed(made: World, steps: tuple[Command | Act, ...]) -> None:
    """Type each command, filled from the output before it; all of them end as they should."""
    before, backup = Answer(0, ""), ""
    for step in steps:
        if not isinstance(step, Command):
            step(made)
            continue
        text = step.text.replace("BACKUP", backup).replace(" JOB", f" {JOB}")
        text = text.replace("TABLE", "ods.orders").replace("SLOT", JOB)
        for one in play.filled(Command(text, step.ends), before.text).text.split(" && "):
            if one.startswith("slotkeeper verify"):
                _running(made)
            answer = play.run(made, Command(one))
            assert answer.code in step.ends, f"{one}: {answer.code}: {answer.text}"
            assert "Traceback" not in answer.text
            if "slots history" in one:
                backup = re.findall(r"\d{8}T[\w.-]+", answer.text)[0]
            if "ID" in step.text or "--to" in one:
                before = answer


@pytest.mark.chaos
@pytest.mark.timeout(500)
def test_the_commands_about_a_whole_job_do_what_they_say(make_world: MakeWorld) -> None:
    with make_world(named("lag-grows")) as made:
        typed(made, ONE_TABLE)


@pytest.mark.chaos
@pytest.mark.timeout(300)
def test_the_commands_about_one_table_of_a_job_do_what_they_say(make_world: MakeWorld) -> None:
    with make_world(named("lag-grows"), beside="ods.items") as made:
        typed(made, TWO_TABLES)
