"""A password that a worker cannot read is reported with the worker's name, and no connection is tried."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

from slotkeeper.core import retry
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.tries import NO_HISTORY
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.retry import Failure, RetryRules, Stop
from slotkeeper.core.wiring import worker
from tests.unit.config.samples import VALID


def test_a_missing_password_names_the_worker_and_ends_a_first_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DWS1_PASSWORD", raising=False)
    file = tmp_path / "c.toml"
    file.write_text(VALID, "utf-8")
    job = load(file, {}).jobs["orders_rt"]
    with pytest.raises(ConfigError) as missing:
        worker.open_pair(job, 1)
    assert missing.value.message == (
        f"on the worker {socket.gethostname()}, as {getpass.getuser()}:"
        " the variable DWS1_PASSWORD (password_env) is not set"
    )
    assert "workers resolve passwords themselves" in missing.value.hint
    failure, first_start = Failure.of(missing.value), RetryRules(awaits_secret=False)
    once = retry.after(NO_HISTORY, failure, first_start)
    assert isinstance(retry.decide(failure, once, first_start, 0.0), Stop)
