"""The access rules: which files contain them, whose rights apply, and what a second account approves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core import codec
from slotkeeper.core.config.load import load, load_access, system_access
from slotkeeper.core.domain.access import AccessRules, Account, Approval, Right, Rule, plan_id
from slotkeeper.core.domain.audit import Actor
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.launch import access
from slotkeeper.core.launch.access import Access
from slotkeeper.core.state import audit
from tests.unit.config.samples import VALID

ANN, BOB = Account(4711, "ann"), Account(4712, "bob")
RULES = '[access]\n{}\n[[access.rules]]\nusers = ["ann", "bob"]\njobs = ["ord*"]\nallow = [{}]\n'
EVERY = ", ".join(f'"{right.value}"' for right in Right)
MOST = ", ".join(f'"{right.value}"' for right in Right if right is not Right.RESET)


@pytest.fixture(autouse=True)
def _ann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(access, "account", lambda: ANN)
    monkeypatch.setattr(access, "SYSTEM", tmp_path / "none")
    yield


def rules_in(tmp_path: Path, name: str, allow: str = EVERY, top: str = "") -> Access:
    """The access of a configuration with these rules; all share a state folder."""
    text = f"{VALID}\n{RULES.format(top, allow) if allow else ''}"
    (file := tmp_path / name).write_text(text, "utf-8")
    rules, _ = load_access(file, {})
    assert rules == load(file, {}).access
    return Access(rules, tmp_path / "state", {}, str(file))


def as_bob(one: Access) -> Access:
    found = replace(one)
    vars(found)["account"] = BOB
    return found


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[access]\nreadonly = true", "read_only"),
        ("[access]\nread_only = 1", "read_only"),
        ("[[access.rules]]\nallow = ['look']", "names no account"),
        ("[[access.rules]]\nusers = ['ann']", "lacks allow"),
        ("[[access.rules]]\nusers = ['ann']\nallow = ['all']", "must be"),
        ("[access]\nrules = []", "must be a list of tables"),
        ("[access]\nrules = 3", "must be a list of tables"),
    ],
)
def test_a_wrong_rule_is_an_error_of_the_whole_file(table: str, message: str, tmp_path: Path) -> None:
    (file := tmp_path / "c.toml").write_text(f"{VALID}\n{table}\n", "utf-8")
    with pytest.raises(ConfigError, match=message):
        load_access(file, {})
    with pytest.raises(ConfigError, match=message):
        load(file, {})


def test_no_variable_of_the_environment_lifts_a_rule(tmp_path: Path) -> None:
    rules_in(tmp_path, "c.toml", top="read_only = true")
    env = {"SLOTKEEPER_ACCESS__READ_ONLY": "false", "LOGNAME": "root", "SUDO_USER": "root"}
    rules, _ = load_access(tmp_path / "c.toml", env)
    assert rules is not None and rules.read_only
    with pytest.raises(ConfigError, match="not a key of the configuration"):
        load(tmp_path / "c.toml", env)


def test_an_escaped_name_of_the_table_is_found(tmp_path: Path) -> None:
    (file := tmp_path / "c.toml").write_text(f'{VALID}\n["\\u0061ccess"]\nread_only = true\n', "utf-8")
    rules, _ = load_access(file, {})
    assert rules is not None and rules.read_only


def test_read_only_leaves_looking(tmp_path: Path) -> None:
    found = rules_in(tmp_path, "c.toml", top="read_only = true")
    allowed = {right for right in Right if not found.missing(right, "orders_rt")[0]}
    assert allowed == {Right.READ, Right.REVEAL}


def test_the_login_uid_is_the_account_and_the_environment_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("SUDO_USER", "root")
    monkeypatch.setenv("LOGNAME", "root")
    by_sudo = Actor("etl", "h", 1, "root", uid=1000, login_uid=59_999, claimed="root")
    monkeypatch.setattr(audit, "actor", lambda: by_sudo)
    assert access.account() == Account(59_999, "59999")
    monkeypatch.setattr(audit, "actor", lambda: replace(by_sudo, login_uid=None))
    assert access.account().name == "etl" and access.account().uid == os.getuid()


def test_another_configuration_does_not_remove_the_rules_of_a_started_job(tmp_path: Path) -> None:
    first = rules_in(tmp_path, "c.toml", MOST)
    first.start("jobs start", "orders_rt")
    other = rules_in(tmp_path, "mine.toml", allow="")
    for one in (other, replace(other, given=None, config="")):
        assert "lacks the right `reset`" in one.missing(Right.RESET, "orders_rt")[0]
        assert one.missing(Right.PAUSE, "orders_rt") == ("", "")
        assert "lacks the right `pause`" in one.missing(Right.PAUSE, "the_same_job")[0]
    with pytest.raises(Refused, match=r"lacks the right `reset`.*another configuration file needs every right"):
        other.start("jobs start", "orders_rt")
    (tmp_path / "c.toml").unlink()  # the rules of the last start apply
    assert "lacks the right `reset`" in other.missing(Right.RESET, "orders_rt")[0]
    rules_in(tmp_path, "c.toml", EVERY)  # its administrator changes them, without a start
    assert other.missing(Right.RESET, "orders_rt") == ("", "")
    other.start("jobs start", "orders_rt")
    assert not other.ruled


def test_another_configuration_does_not_remove_the_second_account(tmp_path: Path) -> None:
    rules_in(tmp_path, "c.toml", top="second_account = true").start("jobs start", "orders_rt")
    with pytest.raises(Refused, match="does not set second_account"):
        rules_in(tmp_path, "mine.toml", allow="").start("jobs start", "orders_rt")


def test_damaged_rules_of_a_job_allow_nothing(tmp_path: Path) -> None:
    found = rules_in(tmp_path, "c.toml")
    found.start("jobs start", "orders_rt")
    (tmp_path / "state" / "access" / "orders_rt.json").write_text("{", "utf-8")
    with pytest.raises(Refused, match="cannot be read"):
        found.missing(Right.READ, "orders_rt")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file that belongs to root")
def test_the_rules_of_the_host_hold_for_every_configuration_and_belong_to_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "access.toml"
    monkeypatch.setattr(access, "SYSTEM", file)
    found = rules_in(tmp_path, "c.toml")
    file.write_text("[access]\nread_only = true\n", "utf-8")
    for one in (found, rules_in(tmp_path, "mine.toml", allow="")):
        assert one.ruled and one.missing(Right.START, "orders_rt")[1] == str(file)
    file.write_text("[jobs.x]\n", "utf-8")
    with pytest.raises(ConfigError, match="unknown key"):
        system_access(file)
    file.write_text("[access]\nread_only = true\n", "utf-8")
    file.chmod(0o666)
    with pytest.raises(ConfigError):
        system_access(file)
    file.chmod(0o644)
    os.chown(file, 4711, 4711)
    with pytest.raises(ConfigError, match="must belong to root"):
        replace(found).missing(Right.READ)


def test_a_plan_that_loses_rows_needs_another_account_s_approval(tmp_path: Path) -> None:
    ann = rules_in(tmp_path, "c.toml", top="second_account = true")
    id, effect = plan_id("drop", "ods.orders", 7), "drop of slot s"
    with pytest.raises(Refused, match="no plan '4f' awaits"):
        ann.approve("4f", "INC-1")
    with pytest.raises(Refused, match=f"{effect} needs the approval of a second account") as refused:
        ann.approved(id, "orders_rt", effect)
    assert f"slotkeeper slots approve {id}" in refused.value.hint
    with pytest.raises(Refused, match="needs a reason"):
        ann.approve(id, " ")
    ann.approve(id, "INC-1")
    with pytest.raises(Refused, match="the same account cannot execute it"):
        ann.approved(id, "orders_rt", effect)
    as_bob(ann).approve(id, "INC-1")
    ann.approved(id, "orders_rt", effect)
    with pytest.raises(Refused, match="the same account"):
        as_bob(ann).approved(id, "orders_rt", effect)
    with pytest.raises(Refused, match="needs the approval"):
        ann.approved(plan_id("drop", "ods.orders", 8), "orders_rt", effect)


def test_an_approval_is_valid_for_a_day_and_needs_the_right_to_reset(tmp_path: Path) -> None:
    one = Approval("4f2c", "orders_rt", "7 rows", "ann", "bob", BOB.uid, "INC-1", 1_000.0)
    one.refuse(ANN, 1_000.0 + 86_400)
    for now in (1_001.0 + 86_400, 900.0):
        with pytest.raises(Refused, match="needs the approval"):
            one.refuse(ANN, now)
    found = rules_in(tmp_path, "c.toml", MOST, "second_account = true")
    with pytest.raises(Refused, match="needs the approval"):
        found.approved("4f2c", "orders_rt", "7 rows")
    with pytest.raises(Refused, match="lacks the right `reset`"):
        as_bob(found).approve("4f2c", "INC-1")


def test_an_approval_by_the_rules_of_another_configuration_does_not_count(tmp_path: Path) -> None:
    ann = rules_in(tmp_path, "c.toml", top="second_account = true")
    with pytest.raises(Refused, match="needs the approval"):
        ann.approved("4f2c", "orders_rt", "7 rows")
    eve = replace(rules_in(tmp_path, "mine.toml", allow=""))
    vars(eve)["account"] = Account(4713, "eve")
    eve.approve("4f2c", "INC-1")
    with pytest.raises(Refused, match="does not count: account eve"):
        ann.approved("4f2c", "orders_rt", "7 rows")


def test_without_second_account_no_approval_is_asked(tmp_path: Path) -> None:
    rules_in(tmp_path, "c.toml").approved("4f2c", "orders_rt", "7 rows")
    assert not (tmp_path / "state").exists()


def test_stored_rules_are_read_as_they_were_written() -> None:
    rules = AccessRules("/a.toml", (Rule(("ann",), ("dba",), ("x*",), ("look",)),), True, True)
    assert codec.record_from(AccessRules, codec.text_of(rules)) == rules
