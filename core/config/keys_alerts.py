"""The keys of `[alerts]`, and from their values to options: every limit of the judgement under its own name."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from slotkeeper.core.config.check import Reading, beside, dotted, read_section
from slotkeeper.core.config.keys import Key, section
from slotkeeper.core.config.model import Path
from slotkeeper.core.config.values import DAY, WEEK, BadValue, Reader, duration, memory, text
from slotkeeper.core.judgement.facts import MIB, AlertOptions, Limits

_EFFECT = "tests/unit/alerts/test_limits.py"
_RULES = "tests/unit/alerts/test_rules.py"
_COMMAND = "tests/integration/test_alert_command.py"
_LONGEST = 52 * WEEK


def command(value: object) -> str:
    """A command as a shell would write its words; no shell runs it."""
    line = str(text(4096)(value))
    try:
        words = shlex.split(line)
    except ValueError:
        raise BadValue("is not a command: a quote is not closed") from None
    if not words:
        raise BadValue("must not be empty")
    return line


def _limit(name: str, meaning: str, default: str | None, read: Reader | None = None, tested: str = _EFFECT) -> Key:
    return Key(name, meaning, read or duration(1_000, _LONGEST), default, "ms", tested=tested)


ALERTS = section(
    _limit("lag_warning", "a job whose furthest DN is so far behind its source is a warning", "30s"),
    _limit("lag_critical", "from so far on it is critical", "5m"),
    _limit("stuck_critical", "what is tried again for so long (a server, a DN, a lock) is critical", "5m"),
    _limit("silent_warning", "a driver that lives and reports nothing for so long is a warning", "30s"),
    _limit("silent_critical", "from so long on it is critical", "5m"),
    _limit("crashes", "for so long a driver's crash is told", "10m"),
    Key(
        "disk_free",
        "less room than this on the state folder's disk is a warning",
        memory(1, 16_777_216),
        "256m",
        "MiB",
        tested=_EFFECT,
    ),
    _limit(
        "verify_age",
        "a running job whose last `verify` is older is a warning; not set: its age is nobody's concern",
        None,
        duration(60_000, _LONGEST),
    ),
    _limit("gap", "least time between two tellings of one alert", "15m", duration(1_000, WEEK), _RULES),
    Key(
        "command",
        "command that gets each alert as JSON on its standard input ([alerts](alerts.md)); run without a shell",
        command,
        tested=_COMMAND,
        private=True,
    ),
    Key(
        "command_timeout",
        "it is killed, with all that it started, after so long",
        duration(1_000, DAY // 24),
        "10s",
        "ms",
        tested=_COMMAND,
    ),
    Key(
        "metrics_file",
        "file that gets the figures as OpenMetrics text ([alerts](alerts.md)); relative to this file's folder",
        text(4096),
        tested="tests/integration/test_alerting.py",
    ),
)


def read_alerts(reading: Reading) -> AlertOptions:
    """`[alerts]`, or its defaults; raises ConfigError."""
    path: Path = ("alerts",)
    given: Mapping[str, Any] = read_section(reading, path, reading.tree.get("alerts", {}), ALERTS)
    for low, high in (("lag_warning", "lag_critical"), ("silent_warning", "silent_critical")):
        if given[high] < given[low]:
            raise reading.error(
                (*path, high), f"{dotted(path)}.{high} is below {low}", "critical is the worse of the two"
            )
    limits = {one.name: _in_seconds(given[one.name]) for one in fields(Limits) if one.name != "disk_free"}
    room = re.sub(r"\D", "", given["disk_free"])
    file = given["metrics_file"]
    return AlertOptions(
        Limits(**limits, disk_free=int(room) * MIB),
        tuple(shlex.split(given["command"] or "")),
        given["command_timeout"] / 1000,
        None if file is None else beside(reading.file, file),
    )


def _in_seconds(milliseconds: int | None) -> Any:
    return None if milliseconds is None else milliseconds / 1000
