"""Acknowledgements are shared through the state folder and end by themselves."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

from core.domain.ack import Ack, is_quiet
from core.state.acks import KEPT, KIND, NAME, AckFile
from core.state.folder import StateFolder

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
    found.put("old", Ack("a", NOW - KEPT))
    assert list(found.put("new", Ack("a", NOW))) == ["new"]


def test_a_damaged_file_counts_as_none_and_is_written_anew(tmp_path: Path) -> None:
    found = file(tmp_path)
    found.put("a", Ack("a", NOW))
    path = tmp_path / "state" / KIND / f"{NAME}.json"
    for text in ("{", '["a"]', '{"a": {"by": 1}}', '{"a": 7}'):
        path.write_text(text, encoding="utf-8")
        assert found.read() == {}
    assert list(found.put("b", Ack("b", NOW))) == ["b"]


def test_a_silence_is_over_at_its_time() -> None:
    ack = Ack("a", NOW, NOW + timedelta(minutes=1))
    assert is_quiet(ack, NOW) and not is_quiet(ack, NOW + timedelta(minutes=1)) and not is_quiet(None, NOW)
    assert is_quiet(Ack("a", NOW), NOW + timedelta(days=3))
