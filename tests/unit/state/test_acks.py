"""Acknowledgements are shared through the state folder and expire automatically."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from slotkeeper.core.domain.fault import Ack, Fault, Party, Severity, ack_in, is_quiet
from slotkeeper.core.state.alerts import ACKS_KEPT, ACKS_KIND, ACKS_NAME, AckFile, ended
from slotkeeper.core.state.folder import StateFolder

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


def file(tmp_path: Path) -> AckFile:
    return AckFile(StateFolder.open(tmp_path / "state"))


def test_another_console_of_the_folder_sees_what_one_has_acknowledged(tmp_path: Path) -> None:
    one = Ack("li.wei", NOW, NOW + timedelta(hours=1))
    assert file(tmp_path).put("slot_ttl\x1fods.orders", one) == {"slot_ttl\x1fods.orders": one}
    assert file(tmp_path).read() == {"slot_ttl\x1fods.orders": one}
    assert file(tmp_path).remove("slot_ttl\x1fods.orders", NOW) == {} == file(tmp_path).read()


def test_old_ones_go_when_one_is_added(tmp_path: Path) -> None:
    found = file(tmp_path)
    found.put("old", Ack("a", NOW - ACKS_KEPT))
    assert list(found.put("new", Ack("a", NOW))) == ["new"]


def test_a_damaged_file_counts_as_none_and_is_written_again(tmp_path: Path) -> None:
    found = file(tmp_path)
    found.put("a", Ack("a", NOW))
    path = tmp_path / "state" / ACKS_KIND / f"{ACKS_NAME}.json"
    for text in ("{", '["a"]', '{"a": {"by": 1}}', '{"a": 7}'):
        path.write_text(text, encoding="utf-8")
        assert found.read() == {}
    assert list(found.put("b", Ack("b", NOW))) == ["b"]


def test_a_silence_is_over_at_its_time() -> None:
    ack = Ack("a", NOW, NOW + timedelta(minutes=1))
    assert is_quiet(ack, NOW) and not is_quiet(ack, NOW + timedelta(minutes=1)) and not is_quiet(None, NOW)
    assert is_quiet(Ack("a", NOW), NOW + timedelta(days=3))


def test_of_what_has_ended_an_acknowledgement_goes_and_a_silence_stays(tmp_path: Path) -> None:
    found, fault = file(tmp_path), Fault("lag", Party.DN, "dn_1", Severity.WARNING, "late", job="orders")
    other = Fault("lag", Party.DN, "dn_1", Severity.WARNING, "late", job="stock")
    for one in (fault, other):
        found.put(one.ack_keys[0], Ack("a", NOW))
    silent = Fault("slot_ttl", Party.SLOT, "s1", Severity.WARNING, "14 h left", job="orders")
    found.put(silent.ack_keys[0], Ack("a", NOW, NOW + timedelta(hours=2)))
    keys = {fault.key, silent.key}
    assert ended(found.read(), keys) and not ended(found.read(), {silent.key})
    assert found.end(keys, NOW).keys() == {other.ack_keys[0], silent.ack_keys[0]}


def test_who_has_seen_a_warning_has_not_seen_it_critical_and_the_other_way_round_he_has() -> None:
    warning = Fault("lag", Party.DN, "dn_1", Severity.WARNING, "late")
    critical = replace(warning, severity=Severity.CRITICAL)
    seen, ack = {warning.ack_keys[0]: Ack("a", NOW)}, Ack("b", NOW)
    assert ack_in(seen, critical.ack_keys) is None
    assert ack_in({critical.ack_keys[0]: ack}, warning.ack_keys) == ack
    three = Fault("rows_quarantined", Party.TABLE, "the target", Severity.WARNING, "3 rows", value="3")
    assert ack_in({three.ack_keys[0]: ack}, replace(three, value="4").ack_keys) is None
    assert ack_in({warning.ack_keys[0]: ack}, replace(warning, value="41 s").ack_keys) == ack


def test_what_began_after_it_was_acknowledged_is_another_one() -> None:
    assert is_quiet(Ack("a", NOW), NOW, NOW - timedelta(seconds=1))
    assert not is_quiet(Ack("a", NOW), NOW, NOW + timedelta(seconds=1))
