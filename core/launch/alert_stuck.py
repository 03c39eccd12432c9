"""Tells that alerts are stuck: who evaluates them, or gives them to the command, was stopped or hangs with the lock.

What is told of it is remembered in a file with a lock of its own, and given to a sender of its own: all others wait
for who is stuck.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from slotkeeper.core.alerts.rules import AlertState, Waiting, evaluate
from slotkeeper.core.domain.fault import Ack, Fault
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.judgement.facts import AlertOptions
from slotkeeper.core.judgement.judge import ALERTS_STUCK
from slotkeeper.core.launch import alert_sender
from slotkeeper.core.state.alerts import BESIDE, AlertFile
from slotkeeper.core.state.folder import StateFolder


def is_stuck(fault: Fault) -> bool:
    """Whether it is told here and nowhere else."""
    return fault.rule == ALERTS_STUCK


class StuckAlerts:
    """One process's part in telling it; `say` is told what goes to the log."""

    def __init__(self, folder: StateFolder, by: Identity, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._file = AlertFile(folder, BESIDE, by)

    def tell(self, faults: Iterable[Fault], acks: Mapping[str, Ack], options: AlertOptions, now: datetime) -> None:
        """Tell that it is so, again after the gap, and once that it is over. Raises errors of `slotkeeper.core.state`,
        OSError.
        """
        found = tuple(one for one in faults if is_stuck(one))
        if not found and not self._file.read().firing:
            return
        lock = self._file.try_lock()
        if lock is None:
            return
        try:
            before = self._file.read().firing
            after = evaluate(found, before, acks, options.limits.gap, now, is_stuck)
            if after.firing != before:
                self._file.save(AlertState(after.firing))
        finally:
            lock.release()
        for one in after.notifications:
            self._say(f"alert {one.kind.value}: {one.fault.rule} {one.fault.id} {one.fault.said(one.at)}")
        if after.notifications and options.command:
            alert_sender.spawn(self._folder, options, [Waiting(one) for one in after.notifications])
