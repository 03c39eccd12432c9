"""What `slotkeeper jobs retry` does: a job, or one table of it, tries and polls at once; and how that is told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import typer

from slotkeeper.console.cli import output, select
from slotkeeper.console.cli.job_audit import noted_try
from slotkeeper.core.domain.tries import TryAnswer, in_words
from slotkeeper.core.launch import tries
from slotkeeper.core.state.sqlite import Store


def retried(ctx: typer.Context, store: Store, job: str, table: str, wait: float, reason: str, as_json: bool) -> None:
    """Ask, wait for the answer, tell it; audited. Raises what `slotkeeper.core.launch.tries.ask` does."""
    found = noted_try(store, job, table, reason, partial(tries.ask, store, job, table, wait))
    if as_json:
        output.as_json(_values(job, table, found))
    else:
        said = in_words(found) if found else "asked for; nothing is waited for"
        output.line(f"{' '.join(filter(None, (job, table)))}: {said}", select.ascii_only(ctx))


def _values(job: str, table: str, found: Sequence[TryAnswer]) -> dict[str, object]:
    lanes = {name: [lane for one in found for lane in getattr(one, name)] for name in ("tried", "polled", "busy")}
    refused = {lane: why for one in found for lane, why in one.refused.items()}
    said = in_words(found) if found else ""
    return {"job": job, "table": table or None, "answered": bool(found), **lanes, "refused": refused, "said": said}
