"""What a job promises about its target: how often a change takes effect, and what its options leave out. Pure.

`docs/delivery.md` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.starting import start_at


@dataclass(frozen=True, slots=True)
class SinkTraits:
    """What a kind of sink can do: a constant of it, which `slotkeeper.core.sinks.registry` gives by its name.

    `one_transaction`: rows and their progress are committed together. `repeats_change_nothing`: rows are written whole
    and by key, so that a range that is applied again leaves the same rows. `keeps_prepared`: what is prepared unseen
    gets a token, and a commit of it that is repeated changes nothing. `is_store`: it keeps progress rows, in one
    transaction with what it writes; `stores_for_others`: those of sinks that keep none, too. `tries_rows`: it can tell
    which rows it refuses before anything is planned, so that one that is no store may quarantine. `server_keys` names
    its keys of `[sinks.X]` (`slotkeeper.core.config.keys.SERVERS`).
    """

    one_transaction: bool
    repeats_change_nothing: bool
    keeps_prepared: bool = False
    is_store: bool = False
    stores_for_others: bool = False
    tries_rows: bool = False
    server_keys: str = "server"


class Delivery(Enum):
    """How often a committed change of the source takes effect in the target."""

    EXACTLY_ONCE = "each change takes effect exactly once, in order per key"
    ONCE_WHILE_KEPT = (
        "each change takes effect exactly once for as long as the sink remembers what was prepared, beyond that at"
        " least once, and repeats are counted"
    )
    EQUAL_IN_THE_END = "each change takes effect at least once, repeats are counted and change nothing in the end"
    AT_LEAST_ONCE = "each change takes effect at least once, repeats are counted"


def delivery(sink: SinkTraits) -> Delivery:
    """How often a change takes effect at such a sink.

    >>> delivery(SinkTraits(True, True)).name, delivery(SinkTraits(False, True)).name
    ('EXACTLY_ONCE', 'EQUAL_IN_THE_END')
    >>> delivery(SinkTraits(False, False)).name
    'AT_LEAST_ONCE'
    >>> delivery(SinkTraits(False, False, keeps_prepared=True)).name
    'ONCE_WHILE_KEPT'
    """
    if sink.one_transaction:
        return Delivery.EXACTLY_ONCE
    if sink.keeps_prepared:
        return Delivery.ONCE_WHILE_KEPT
    return Delivery.EQUAL_IN_THE_END if sink.repeats_change_nothing else Delivery.AT_LEAST_ONCE


def limits(job: JobSpec) -> Iterator[str]:
    """What the job's options leave out of "the target is the source", each in half a sentence."""
    options = job.sink_options
    if not job.binlog.binlog:
        yield "binlog = false: one copy, no changes"
    if start_at(job.start).partial:
        yield f'start = "{job.start}": the target holds only what changed since'
    if job.on_existing == "merge":
        yield 'on_existing = "merge": rows that the source has not stay'
    if options.ignore_delete:
        yield "ignore_delete: deleted rows stay"
    if options.updates_only:
        yield f'write_mode = "{options.write_mode}": rows that the target lacks are never made'
    if options.conflict_strategy == "ignore":
        yield 'conflict_strategy = "ignore": a row that is there stays as it was first written'
    if options.ignore_null_when_update:
        yield "ignore_null_when_update: a value that has become NULL stays"
    if options.quarantines:
        yield 'on_bad_row = "quarantine": rows in quarantine are not in the target'
    if job.binlog.binlog_ignore_update_before:
        yield "binlog_ignore_update_before: only as long as no primary key is ever changed"


def promise(sink: SinkTraits, job: JobSpec) -> str:
    """The promise in words, what weakens it behind."""
    return "; but ".join([delivery(sink).value, *filter(None, ["; ".join(limits(job))])])
