"""A password inside a text is on no screen of a console that knows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from slotkeeper.core import redaction
from slotkeeper.core.config import masking
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.state.audit import Audit
from tests.tui.filled import NOW, Filled, begin, console, drive, lane, polled, press, screen, slot

CANARY = "cAnary-5e1a/screen"
SAID = f"RAW no route: password={CANARY}"


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", [redaction.Known()])
    monkeypatch.setattr(masking, "_secrets", {})


def _plant(made: Filled) -> None:
    """Put it in every field that can come from outside, as an author who does not know that it is a password would."""
    begin(made.store, "orders_rt", lane("dn_1", 10, retry=SAID, error=SAID), reason=SAID, safe=SAID)
    begin(made.store, "stock_rt", lane("dn_1", 10), reason=SAID)
    made.store.set_state("stock_rt", JobState.FAILED, SAID, "SLOT LOST", SAID)
    made.store.record_event("stock_rt", "failed", SAID)
    made.store.record_error("stock_rt", "sink", "XX000", SAID)
    made.store.folder.log("stock_rt").write_text(f"{SAID}\n", encoding="utf-8")
    actor = Actor("li.wei", "h", 1, uid=1000)
    audit = Audit(made.store.folder)
    audit.append(AuditLine(NOW, actor, "a", "a1", Phase.OUTCOME, SAID, SAID, "", SAID, {"dn_1": SAID}))
    made.polled["dws1", "ods.orders"] = polled("ods.orders", slot("orders_slot", 1, 5, SAID))


def test_no_screen_shows_it(tmp_path: Path) -> None:
    made = console(tmp_path, filled=False)
    _plant(made)
    assert CANARY in (made.store.folder.path / "audit.jsonl").read_text("utf-8"), "it is planted"
    masking.remember(CANARY)
    shown: dict[str, str] = {}

    async def do(pilot: Pilot[int]) -> None:
        walk = {"overview": "1", "jobs": "2", "job": "enter", "log": "l", "back": "escape escape", "slots": "3 r"}
        walk |= {"slot": "enter", "errors": "4", "error": "enter", "alerts": "6", "audit": "7", "line": "enter"}
        for name, keys in walk.items():
            await press(pilot, *keys.split())
            shown[name] = screen(made.app)
        made.polled["dws1", "ods.orders"] = Unreachable(SAID)
        await press(pilot, "3", "r")
        shown["fault"] = screen(made.app)

    drive(made, do, (160, 50))
    assert not [name for name, text in shown.items() if "cAnary" in text]
    assert {name for name, text in shown.items() if "password=***" in text} >= {"errors", "audit", "line", "fault"}
