"""Copying from a screen that may be behind SSH and tmux: into tmux's buffer, or by OSC 52, and always into a file.

Inside tmux plain OSC 52 reaches nobody by default, and `tmux load-buffer -w` does with every setting that was tried.
Terminals cut long OSC 52 off, so more than they take is refused and stays in the file.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from slotkeeper.console.tui.export import Result, put
from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError

FILE = "clip.txt"
MOST = 74_994
"""Bytes of base64 that terminals take at least."""
_TMUX_SECONDS = 2.0


def copied(text: str, folder: Path, env: Mapping[str, str], to_terminal: Callable[[], object]) -> Result:
    """Copy the text to wherever it can be pasted from; `to_terminal` writes OSC 52."""
    where, refused = _pasteable(text, env, to_terminal)
    try:
        put(folder, FILE, text)
    except (OSError, SlotkeeperError) as error:
        refused.append(f"{FILE} was not written: {safe(error, 100)}")
    else:
        where.append(FILE)
    number = f"{len(text)} character" + ("s" if len(text) != 1 else "")
    said = f"copied {number}: {', '.join(where)}" if where else "not copied"
    return Result(not refused, "; ".join([said, *refused]))


def _pasteable(text: str, env: Mapping[str, str], to_terminal: Callable[[], object]) -> tuple[list[str], list[str]]:
    refused = []
    if env.get("TMUX"):
        if _to_tmux(text, env):
            return ["tmux buffer"], []
        refused.append("tmux did not take it")
    encoded = (len(text.encode("utf-8", "backslashreplace")) + 2) // 3 * 4
    if encoded > MOST:
        return [], [*refused, f"too long for the terminal ({encoded} bytes of at most {MOST})"]
    to_terminal()
    return ["OSC 52"], refused


def _to_tmux(text: str, env: Mapping[str, str]) -> bool:
    try:
        ran = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=text.encode("utf-8", "backslashreplace"),
            env=handover.environment(env),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TMUX_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0
