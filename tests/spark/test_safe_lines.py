"""At each start a driver reports weaknesses of its connections, and its workers connect to the given addresses."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.spark import job
from slotkeeper.core.spark.runner import open_runner
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.postgres import Server
from tests.integration.test_environment import HOSTILE
from tests.spark import work
from tests.unit.config.test_tls import read


def test_a_driver_warns_of_what_its_lines_leave_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def enough(*given: object) -> None:
        raise ConfigError("enough")

    monkeypatch.setattr(Store, "set_driver", enough)
    read(tmp_path, source='sslmode = "prefer"')
    options = argparse.Namespace(
        config=str(tmp_path / "config.toml"), job="orders_rt", state_dir=str(tmp_path / "s"), run="r", wait_ms=None
    )
    with pytest.raises(ConfigError, match="enough"):
        job.drive(options)
    (said,) = capsys.readouterr().err.splitlines()
    assert said.startswith('slotkeeper: warning: source dws1: sslmode = "prefer": ')


@pytest.mark.spark
def test_a_worker_connects_to_the_given_address_whatever_its_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pg_server: Server
) -> None:
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value.format(decoy=1))
    runner = open_runner(SparkOptions(master="local[1]"), "a job", tmp_path / "work")
    try:
        answer = runner.submit(work.connected, pg_server.endpoint("postgres"), "login").result(60.0)
    finally:
        runner.close()
    seen, port, user, search_path = answer
    assert (port, user, search_path) == (pg_server.port, "postgres", "pg_catalog, pg_temp")
    assert seen == HOSTILE["PGHOSTADDR"], "the hostile environment did not reach the worker"
