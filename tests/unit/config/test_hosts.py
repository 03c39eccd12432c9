"""`[hosts]`: its defaults, what is rejected, and what the hosts of a job must have in common."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load, load_usable
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.placement import HostOptions, settings_of
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.errors import ConfigError
from tests.unit.config.samples import VALID


def _load(folder: Path, text: str, **env: str) -> Loaded:
    file = folder / "config.toml"
    file.write_text(text)
    return load(file, {"XDG_STATE_HOME": "/state", **env})


def test_a_file_without_the_table_shares_no_job_and_an_empty_one_has_the_defaults(tmp_path: Path) -> None:
    assert _load(tmp_path, VALID).hosts is None
    assert _load(tmp_path, VALID + "\n[hosts]\n").hosts == HostOptions(socket.gethostname(), 2.0, 20.0)
    named = _load(tmp_path, VALID + '\n[hosts]\ninterval = "1s"\n', SLOTKEEPER_HOSTS__NAME="etl1").hosts
    assert named == HostOptions("etl1", 1.0, 20.0)


def test_an_owner_can_miss_heartbeats_and_only_postgresql_stores_shared_jobs(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="take_over_after is below five times"):
        _load(tmp_path, VALID + '\n[hosts]\ninterval = "5s"\ntake_over_after = "20s"\n')
    file = tmp_path / "config.toml"
    file.write_text(VALID.replace('kind = "postgres"', 'kind = "dws"') + "\n[hosts]\n")
    (error,) = set(map(str, load_usable(file, {}).refused.values()))
    assert "a store of kind dws cannot record which host runs a job" in error


def test_hosts_can_differ_in_addresses_and_spark_settings_only(tmp_path: Path) -> None:
    job = next(iter(_load(tmp_path, VALID).jobs.values()))
    same = replace(job, source=replace(job.source, host="other", user="u"), spark=SparkOptions(driver_memory="1g"))
    assert settings_of(same) == settings_of(job)
    for other in (replace(job, slot="other"), replace(job, source=replace(job.source, name="other"))):
        assert settings_of(other) != settings_of(job)
