"""What `doctor --probe` recorded of a source: `probes/SOURCE.json` in the state folder, and what starts may rest on
it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.resets import ResetFiles

KIND = "probes"
"""The folder of the records in the state folder, one file a source."""
Record = Mapping[str, object]


def record(state_dir: Path, source: str) -> Record | None:
    """The record of a source's last probe; None where there is none, or it cannot be read."""
    try:
        text = ResetFiles(StateFolder.open(state_dir)).load(KIND, source)
        kept = json.loads(text) if text else None
    except (SlotkeeperError, ValueError):
        return None
    return kept if isinstance(kept, dict) and kept.get("format") == 1 else None


def answered(found: Record | None, place: str, name: str) -> str:
    """What a question was answered at that endpoint; "" where it was not told, or another server was asked."""
    answers = found.get("answers") if found and found.get("place") == place else None
    rows = [one for one in answers if isinstance(one, dict)] if isinstance(answers, list) else []
    return next((str(one.get("answer") or "") for one in rows if one.get("name") == name), "")


def points_proven(state_dir: Path, source: str, place: str) -> bool:
    """Whether a probe found one sync point per transaction, in the order of commits, and that under GTM-Lite."""
    found = record(state_dir, source)
    lite = str(found.get("gtm_option", "")).lower() if found else ""
    return lite in ("gtm-lite", "1") and answered(found, place, "one_point") == "yes"
