"""Plans and backups of resets as texts, read by the dialect that each names. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.reset import Backup, ResetPlan, backup_from, plan_of
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources import registry


def backup_of(text: str) -> Backup:
    """A backup by the dialect that it names; raises Refused where it is damaged."""
    try:
        positions = _positions(json.loads(text))
    except (ValueError, KeyError, TypeError, SlotkeeperError) as error:
        raise Refused(f"the backup is damaged: {error}", "the sink's slotkeeper_resets holds a copy") from error
    return backup_from(text, positions)


def plan_shown(found: Mapping[str, Any]) -> ResetPlan:
    """The plan of a command's JSON; raises ValueError, KeyError or TypeError where it is none."""
    return plan_of(found, _positions(found))


def _positions(found: Mapping[str, Any]) -> Positions:
    return registry.open(str(found["dialect"])).positions
