"""`python -m bench.hosts`: what the agents of many shared jobs cost: CPU of each agent, and statements at the store.

The store is a PostgreSQL server, the agents are processes of `slotkeeper agent` with the times of production. The jobs
of a host are recorded as RUNNING in one sleeping process. Exits with 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil

from bench.__main__ import say
from bench.report import machine
from bench.rig import SETTINGS, run
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.drivers import pg
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo import postgres
from slotkeeper.demo.postgres import Server
from tests.support import polling
from tests.support.waiting import until

CORE_PERCENT, STATEMENTS = 2.0, 100.0
"""The limits: percent of a core for each agent, statements a second for all."""
_CALLS = "SELECT sum(calls)::float8 FROM pg_stat_statements"
_OWNERS = "SELECT count(*) FROM slotkeeper_jobs WHERE state = 'RUNNING'"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--agents", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        server = postgres.start(Path(folder) / "store", "mart", settings=SETTINGS)
        stack.callback(server.stop, "immediate")
        _query(server, "CREATE EXTENSION pg_stat_statements")
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e9)"])
        stack.callback(sleeper.kill)
        agents = []
        for number in range(asked.agents):
            config = _host(Path(folder) / f"host{number}", server, number, asked.jobs, asked.agents, sleeper.pid)
            log = stack.enter_context((config.parent / "agent.log").open("wb"))
            words = [sys.executable, "-m", "slotkeeper.console", "agent", "--config", str(config)]
            agents.append(subprocess.Popen(words, stdout=log, stderr=log))
            stack.callback(agents[-1].kill)
        until(lambda: _shared(server) == asked.jobs, 120, "all jobs to be shared")
        time.sleep(5 * 2.0)  # a few rounds, so that no start is measured
        _query(server, "SELECT pg_stat_statements_reset()")
        before, began = [_seconds(one.pid) for one in agents], time.monotonic()
        time.sleep(asked.seconds)
        took = time.monotonic() - began
        calls = float(_query(server, _CALLS)[0][0]) / took
        used = [100 * (_seconds(one.pid) - was) / took for one, was in zip(agents, before, strict=True)]
    say(str(machine()))
    say(f"{asked.jobs} jobs, {asked.agents} agents, {took:.0f} s")
    say(f"percent of a core: {', '.join(f'{one:.2f}' for one in used)} (at most {CORE_PERCENT:g})")
    say(f"statements a second, transaction control included: {calls:.1f} (at most {STATEMENTS:g})")
    return int(max(used) > CORE_PERCENT or calls > STATEMENTS)


def _host(folder: Path, server: Server, number: int, jobs: int, agents: int, pid: int) -> Path:
    """Write a host's configuration, and record its part of the jobs as running."""
    folder.mkdir()
    secret = SecretRef("file", str(server.password_file))
    sink = Endpoint("mart", server.host, server.port, "postgres", server.superuser, password=secret)
    names = [f"job_{each:03d}" for each in range(jobs)]
    source = Endpoint("dws1", server.host, server.port, "postgres", server.superuser, password=secret)
    texts = [polling.job(name, f"slot_{name}", f"ods.{name}", f"mart.{name}") for name in names]
    config = polling.config(folder, source, sink, *texts)
    with config.open("a", encoding="utf-8") as file:
        file.write(f'\n[hosts]\nname = "host{number}"\n')
    with closing(Store.open(StateFolder.open(folder / "state").path, migrates=True)) as store:
        for name in names[number::agents]:
            store.register_job(name, str(config))
            store.begin_run(name, f"run-{name}", Launch().text)
            store.set_driver(f"run-{name}", processes.of(pid))
            store.set_state(name, JobState.RUNNING)
    return config


def _seconds(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def _shared(server: Server) -> int:
    try:
        return int(_query(server, _OWNERS)[0][0])
    except pg.DriverError:  # no agent has created the table yet
        return 0


def _query(server: Server, text: str) -> list[tuple[Any, ...]]:
    return run(server, "postgres", text)


if __name__ == "__main__":
    sys.exit(main())
