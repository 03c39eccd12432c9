"""Who a process is, as a value: enough to recognise it again for certain, so that nothing is ended by its name.

Next door: `core.launch.identity` makes identities, asks whether they live and ends them; `core.state` stores them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """One process of one machine: a reused pid has another `started`, a rebooted machine too.

    `started` names the boot, the pid namespace and the start in clock ticks since that boot, so that it survives a
    changed wall clock; `session_id` is the session that the process leads or belongs to; `run_id` is ours.
    """

    pid: int
    started: str
    session_id: int
    run_id: str
    host: str
