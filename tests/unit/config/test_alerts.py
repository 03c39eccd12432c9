"""`[alerts]`: the resulting values, the rejected ones, and that it is read even if the rest of the file is invalid."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from slotkeeper.core.config.keys import ALERTS
from slotkeeper.core.config.load import load, load_alerts
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.judgement.facts import MIB, AlertOptions, Limits
from tests.unit.config.samples import VALID

FULL = """
[alerts]
lag_warning = "1m"
lag_critical = "10m"
stuck_critical = "2m"
silent_warning = "15s"
silent_critical = "1h"
crashes = "1h"
disk_free = "1GiB"
verify_age = "1d"
gap = "1h"
command = "/usr/bin/page --team 'dba on call'"
command_timeout = "3s"
metrics_file = "figures.prom"
"""


def _load(folder: Path, text: str = "", **env: str) -> Loaded:
    file = folder / "config.toml"
    file.write_text(VALID + text)
    return load(file, {"XDG_STATE_HOME": "/state", **env})


def test_every_limit_has_its_key_and_its_default_is_the_judgements(tmp_path: Path) -> None:
    assert {one.name for one in fields(Limits)} <= set(ALERTS)
    assert _load(tmp_path).alerts == AlertOptions() == _load(tmp_path, "[alerts]\n").alerts


def test_values_are_read_with_their_units(tmp_path: Path) -> None:
    limits = Limits(60, 600, 120, 15, 3_600, 3_600, 1_024 * MIB, 86_400, 3_600)
    words = ("/usr/bin/page", "--team", "dba on call")
    assert _load(tmp_path, FULL).alerts == AlertOptions(limits, words, 3.0, tmp_path / "figures.prom")


def test_variables_of_the_environment_stand_above_the_file(tmp_path: Path) -> None:
    found = _load(tmp_path, FULL, SLOTKEEPER_ALERTS__GAP="30m")
    assert found.alerts.limits.gap == 1_800
    shown = {one.key: one for one in found.settings()}
    assert shown["alerts.gap"].origin.place == "SLOTKEEPER_ALERTS__GAP"
    assert shown["alerts.command"].value == "***", "its arguments may be secret"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("lag = '30s'", "unknown key lag in [alerts]"),
        ("lag_warning = '30 furlongs'", "unknown unit"),
        ("lag_warning = '10m'", "lag_critical is below lag_warning"),
        ("silent_critical = '5s'", "silent_critical is below silent_warning"),
        ("disk_free = 'much'", "must be a size"),
        ("verify_age = '5s'", "must be from 1m"),
        ("verify_age = 'off'", "must be a duration"),
        ("gap = '0s'", "must be from 1s"),
        ("command = ''", "must not be empty"),
        ('command = "page \'dba"', "a quote is not closed"),
        ("command = ['page']", "must be text in quotes"),
        ("command_timeout = '2h'", "must be from 1s to 1h"),
        ("metrics_file = 5", "must be text in quotes"),
        ("webhook_token = 'x'", "unknown key webhook_token"),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(line: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, f"[alerts]\n{line}\n")
    assert says in caught.value.message and "config.toml:" in caught.value.message


def test_a_supervisor_reads_its_table_where_the_others_are_broken(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(FULL + '[sources.dws1]\ndialect = "nothing"\n')
    found = load_alerts(file, {"SLOTKEEPER_ALERTS__GAP": "2h", "SLOTKEEPER_SOURCES__NOWHERE__HOST": "x"})
    assert (found.limits.gap, found.command_timeout) == (7_200, 3.0)
    file.write_text("[alerts]\ngap = 'x'\n")
    with pytest.raises(ConfigError, match=r"config\.toml:2: alerts\.gap must be a duration"):
        load_alerts(file, {})
