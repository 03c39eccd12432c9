"""Two "hosts" of one job: two state folders and configurations on loopback, each with proxies to source and sink, an
agent process, and real supervised drivers whose tasks run in threads. `python -m tests.support.two_hosts ...` is
`slotkeeper` with such drivers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slotkeeper.core.config import handover
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.launch import SUPERVISOR_LOCK, Launch
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from tests.support import polling
from tests.support.local_driver import LOCAL
from tests.support.mirror import Mirror
from tests.support.proxy import Line, Proxy
from tests.support.terminal import ROOT
from tests.support.waiting import until

SOON = 60.0


@dataclass
class Host:
    """One host of the pair."""

    name: str
    folder: Path
    config: Path
    job: str
    to_source: Proxy
    to_store: Proxy
    agent: subprocess.Popen[bytes] | None = None
    stopped: list[int] = field(default_factory=list)
    """Processes that SIGSTOP has stopped."""

    def kill_at(self, step: str, whom: str) -> None:
        """Kill the command, the agent or both at a step of the next command that the agent carries out."""
        (self.folder / "kill").write_text(f"{step}\n{whom}\n")

    def ended(self) -> bool:
        """Whether the agent has ended."""
        return self.agent is None or self.agent.poll() is not None

    def serve(self) -> Host:
        """Start its agent."""
        with (self.folder / "agent.log").open("ab") as log:
            self.agent = self._command("agent", output=log)
        return self

    def _command(self, *words: str, output: Any) -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "tests.support.two_hosts", *words, "--config", str(self.config)]
        env = {**handover.environment(), KILL: str(self.folder / "kill")}
        return subprocess.Popen(program, cwd=ROOT, env=env, stdout=output, stderr=output)

    def call(self, *words: str) -> tuple[int, str]:
        """Run a command of this host's user; its exit code and output."""
        ended = self._command(*words, output=subprocess.PIPE)
        said, _ = ended.communicate(timeout=300)
        return ended.returncode, said.decode()

    def status(self) -> dict[str, Any]:
        """The one object of `status --json`."""
        program = [sys.executable, "-m", "tests.support.two_hosts", "status", "--json", "--config", str(self.config)]
        ended = subprocess.run(program, cwd=ROOT, env=handover.environment(), capture_output=True, check=True)
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def view(self) -> JobStatus | None:
        """The job as this host's screens show it; None if it is unknown here."""
        with Store.open(self.folder / "state") as store:
            return observe(store, self.job) if store.job(self.job) is not None else None

    def shows(self, state: JobState) -> bool:
        view = self.view()
        return view is not None and view.state is state and (view.reported or state is not JobState.RUNNING)

    def runs(self) -> bool:
        """Whether the job is RUNNING in a process of this host."""
        view = self.view()
        return view is not None and view.lives and view.reported and view.state is JobState.RUNNING

    def pids(self) -> list[int]:
        """The processes of the agent and of the job."""
        found = [] if self.agent is None else [self.agent.pid]
        with Store.open(self.folder / "state") as store:
            for run in store.runs(self.job)[:2]:
                for one in (run.supervisor, run.driver):
                    if one is not None and processes.alive(one):
                        found += [one.pid, *processes.members(one)]
        return list(dict.fromkeys(found))

    def signal(self, number: signal.Signals, *pids: int) -> list[int]:
        sent = list(pids) or self.pids()
        for pid in sent:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        return sent

    def kill(self) -> None:
        """All processes of this host end at once: first stopped, so that none can replace another."""
        sent = self.signal(signal.SIGSTOP)
        self.signal(signal.SIGKILL, *sent)
        if self.agent is not None:
            self.agent.wait()
        self.agent = None

    def freeze(self) -> None:
        self.stopped = self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        if self.stopped:
            self.signal(signal.SIGCONT, *self.stopped)
        self.stopped = []

    def cut_off(self, line: Line = Line.CUT) -> None:
        """Cut this host off from the store."""
        self.to_store.set(line)

    def rejoin(self) -> None:
        self.to_store.set(Line.THROUGH)

    def close(self) -> None:
        """End everything that runs here, including processes that another process starts meanwhile."""
        self.thaw()
        if self.agent is not None:
            self.agent.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.agent.wait(15)
            self.agent.kill()
            self.agent.wait()
        with Store.open(self.folder / "state") as store:
            if store.job(self.job) is not None:
                until(lambda: self._ended(store), 30, f"all processes of {self.name} to end")
        self.to_source.close()
        self.to_store.close()

    def _ended(self, store: Store) -> bool:
        for run in store.runs(self.job):
            store.end_run(run.run, None, "end of the test")
            for one in (run.supervisor, run.driver):
                if one is not None:
                    processes.kill_members(one)
        lock = store.folder.try_lock(self.job, SUPERVISOR_LOCK)
        if lock is not None:
            lock.release()
        return lock is not None


@dataclass
class TwoHosts:
    """Hosts a and b over the tables of a mirror, whose own engine is not used."""

    mirror: Mirror
    a: Host
    b: Host
    written: int = 0
    """The number of written rows; each is one event."""

    def write(self, rows: int = 200) -> None:
        """Insert rows, each with a new key."""
        first, last = self.written + 1, self.written + rows
        self.mirror.source(f"INSERT INTO {self.mirror.table} SELECT g, 'x' FROM generate_series({first}, {last}) g")
        self.written = last

    def plan(self, host: Host, *words: str) -> list[str]:
        """Make the plan of a reset or an undo on a host; return the command that executes it."""
        code, said = host.call("slots", *words, "--json")
        assert code == 0, said
        plan = json.loads(said)
        rows = ["--rows", plan["to_type"]["rows"]] if plan["to_type"]["rows"] else []
        named = words[: 2 if words[0] == "undo" else 3]
        confirm = ["--confirm", self.mirror.job.slot, *rows, "--reason", "a check"]
        return ["slots", *named, "--execute", "--plan", plan["id"], *confirm]

    def equal(self, base: int) -> None:
        """Wait until the target has all rows; no change may be counted twice since `base` changes."""
        self.mirror.wait_equal()
        until(lambda: self.applied() == self.written - base, SOON, f"{self.written - base} changes")

    def applied(self) -> int:
        asked = f"SELECT sum(changes) FROM slotkeeper_progress WHERE slot = '{self.mirror.job.slot}'"
        rows = self.mirror.query(self.mirror.sink, asked)
        return int(rows[0][0] or 0)

    def close(self) -> None:
        for host in (self.a, self.b):
            host.close()


def two_hosts(mirror: Mirror, folder: Path, interval: str = "300ms", take_over_after: str = "2s") -> TwoHosts:
    """Make the hosts; neither serves yet."""
    made = []
    for name in ("a", "b"):
        place = folder / name
        place.mkdir()
        source, sink = Proxy(mirror.job.source.port), Proxy(mirror.job.sink.port)
        ends = (
            replace(mirror.job.source, host="127.0.0.1", port=source.port),
            replace(mirror.job.sink, host="127.0.0.1", port=sink.port),
        )
        job = polling.job("orders_rt", mirror.job.slot, mirror.table, mirror.job.channel.target)
        config = polling.config(place, *ends, job)
        with config.open("a", encoding="utf-8") as file:
            file.write(f'\n[hosts]\nname = "{name}"\ninterval = "{interval}"\ntake_over_after = "{take_over_after}"\n')
        made.append(Host(name, place, config, "orders_rt", source, sink))
    first, second = made
    return TwoHosts(mirror, first, second)


class _Local:
    """Replaces the `Launch` that a command creates by default."""

    parse = Launch.parse

    def __new__(cls) -> Launch:  # type: ignore[misc]
        return LOCAL


KILL = "TWO_HOSTS_KILL"
"""The variable with the path of a file: the step at which, and whether the command, the agent or both are killed."""


def kill_at(step: str) -> None:
    """End processes at a step, once: the file names it."""
    file = Path(os.environ.get(KILL, "/nonexistent"))
    with suppress(OSError):
        named, whom = file.read_text().splitlines()
        if named == step:
            file.unlink()
            if whom in ("agent", "both"):
                os.kill(int(os.environ["TWO_HOSTS_AGENT"]), signal.SIGKILL)
            if whom in ("command", "both"):
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> int:
    from slotkeeper.console.__main__ import main as product
    from slotkeeper.console.commands import agent
    from slotkeeper.core.launch import agent as agents
    from slotkeeper.core.launch import control, hosts, orders
    from slotkeeper.core.services import reset

    vars(agent)["LAUNCH"] = LOCAL
    vars(control)["Launch"] = vars(hosts)["Launch"] = _Local
    vars(orders)["PROGRAM"] = (sys.executable, "-m", "tests.support.two_hosts")
    if sys.argv[1] == "agent":
        os.environ["TWO_HOSTS_AGENT"] = str(os.getpid())
    carry_out = orders.carry_out

    def watched(*args: Any) -> tuple[int, str]:
        kill_at("taken")
        answer = carry_out(*args)
        kill_at("carried out")
        return answer

    vars(agents)["carry_out"], reset.probe = watched, kill_at
    return int(product() or 0)


if __name__ == "__main__":
    sys.exit(main())
