"""Traits of each kind of source and sink, as constants, and the encoding and delivery of a source-sink pair. Pure.

Traits are never determined by queries, because a query can create a slot. `docs/adr/0022-what-each-server-answers.md`
lists the sources' traits by server; `docs/delivery.md` explains the delivery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.domain.spec import JobSpec, start_at
from slotkeeper.core.errors import Refused


class Newest(Enum):
    """Whether the newest position that a table's status shows also advances with changes to other tables."""

    OWN = "own"
    """No, or positions of different tables cannot be compared."""
    OBSERVED = "observed"
    """Not documented by the vendor; a job relies on it only after it has observed it."""
    COMMON = "common"
    """Yes: all tables of the server have one newest position."""


class OldImages(Enum):
    """Which values of a row before a change its log certainly contains."""

    KEY = "key"
    """Only those of the key."""
    PROBED = "probed"
    """All columns, once a probe of the server has found it."""
    CHECKED = "checked"
    """All columns: each event reports which columns it has, and the reader rejects an event that lacks one."""


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """Traits of a kind of source. `keeps_positions`: the server stores confirmed positions and retains binlog for them.

    `slot_unasked`: a job can read without a slot being created first, so nothing is created or dropped. `one_stream`:
    one stream carries the tables of all channels; if positions are stored, the whole stream is acknowledged at the
    lowest position of all channels (`slotkeeper.core.domain.position`). `apart`: positions of different shards cannot
    be compared, so there is no lowest position. `by_age`: records are deleted once they are older than their TTL, even
    if unread, so no slot expires.

    The other fields determine how jobs of such a source can be configured. `earliest`: the binlog is recorded even
    without a reader, so a job can start at its oldest record. `several_by`: if a slot covers only one table, the kind
    of source through which a single job can read several tables of the same server; empty if this kind can do so.
    `adopts_shards`: a job can continue with another set of shards. `paced`: `[jobs.X.sync]` limits steps by bytes,
    seconds and rows. `silent_cascades`: a foreign key can change rows without binlog records. `server_keys` and
    `binlog_keys` name the keys in `[sources.X]` and `[jobs.X.binlog]` (`slotkeeper.core.config.keys.SERVERS`,
    `slotkeeper.core.config.keys_source.SETS`).
    """

    keeps_positions: bool
    slot_unasked: bool
    one_stream: bool
    apart: bool = False
    by_age: bool = False
    earliest: bool = False
    several_by: str = ""
    adopts_shards: bool = True
    paced: bool = False
    silent_cascades: bool = False
    server_keys: str = "server"
    binlog_keys: str = "dws"
    old_images: OldImages = OldImages.KEY
    """Which values of a row before a change a changelog contains."""
    newest: Newest = Newest.OWN
    logs_shapes: bool = False
    """Whether its log contains the statements that change a table's columns, at their positions between the rows."""
    speaks: str = "PostgreSQL"
    """The protocol of the server's port."""
    shares_jobs: bool = False
    """Whether it can store which of several hosts runs a job (ADR 99)."""
    times_changes: bool = False
    """Whether it reads a change with its time, for change_time() in a computed column."""
    many_into_one: bool = False
    """Whether several of its tables can be written to one target, each with its own constant."""
    copies_again: bool = False
    """Whether a table can be copied again while its stream continues (ADR 98)."""

    @property
    def shares_position(self) -> bool:
        """Whether the server stores one position for all channels of a job; `Kept.shared` marks such a position."""
        return self.keeps_positions and self.one_stream


class Encoding(Enum):
    """Encodings of a batch, fastest first; messages show the values."""

    COPY_TEXT = "COPY text"
    """PostgreSQL's text format, passed through a pipe that Slotkeeper does not parse."""
    ROWS = "rows"
    """Tuples of text, None for NULL, with the same columns in the same order."""


def chosen(gives: Sequence[Encoding], takes: Sequence[Encoding], pair: str) -> Encoding:
    """Return the encoding of a batch in the sink: the best common encoding, or else the sink's best (converted).

    `pair` names source and sink for the message; raises Refused if either has no encoding.

    >>> chosen((Encoding.COPY_TEXT, Encoding.ROWS), (Encoding.ROWS,), "a to b").value
    'rows'
    >>> chosen((Encoding.ROWS,), (Encoding.COPY_TEXT,), "a to b").value
    'COPY text'
    """
    for both in (gives, takes):
        for encoding in Encoding:
            if gives and encoding in both and encoding in takes:
                return encoding
    given, taken = (" or ".join(one.value for one in few) or "nothing" for few in (gives, takes))
    raise Refused(f"{pair}: the source provides {given}, but the sink accepts {taken}", "choose another kind of sink")


@dataclass(frozen=True, slots=True)
class SinkTraits:
    """Traits of a kind of sink; `slotkeeper.core.sinks.registry` returns them by the name of the kind.

    `one_transaction`: rows and their progress are committed together. `repeats_change_nothing`: rows are written whole
    and by key, so that applying a range again results in the same rows. `keeps_prepared`: data that is prepared but not
    yet visible gets a token, and committing the token again changes nothing. `is_store`: the sink stores progress rows,
    in one transaction with its writes; `stores_for_others`: it also stores those of sinks without a store.
    `tries_rows`: the sink can report which rows it rejects before anything is planned, so that a sink without a store
    can quarantine rows. `server_keys` names its keys in `[sinks.X]` (`slotkeeper.core.config.keys.SERVERS`).
    """

    one_transaction: bool
    repeats_change_nothing: bool
    keeps_prepared: bool = False
    is_store: bool = False
    stores_for_others: bool = False
    tries_rows: bool = False
    no_views: str = "use a sink of kind postgres, with PostgreSQL 15 or later"
    """What to do instead of views (ADR 94); "" if the sink can keep them."""
    server_keys: str = "server"
    shares_jobs: bool = False
    """Whether it can store which of several hosts runs a job (ADR 99)."""
    many_into_one: bool = False
    """Whether several channels can write to one target, each with its own constant."""
    adds: frozenset[str] = frozenset()
    """The options that add columns and that its channels can have: compute, synced_at, soft_delete (ADR 101)."""
    copies_again: bool = False
    """Whether a step can write a chunk of a table together with the changes that follow it (ADR 98)."""


class Delivery(Enum):
    """How often a committed change of the source takes effect in the target."""

    EXACTLY_ONCE = "each change takes effect exactly once, in order per key"
    ONCE_WHILE_KEPT = (
        "each change takes effect exactly once while the sink remembers prepared data, and at least once later;"
        " repeats are counted"
    )
    EQUAL_IN_THE_END = "each change takes effect at least once; repeats are counted and do not change the final rows"
    AT_LEAST_ONCE = "each change takes effect at least once; repeats are counted"


def delivery(sink: SinkTraits) -> Delivery:
    """Return how often a change takes effect in a sink with these traits.

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


def refuse_shared(traits: SourceTraits, job: str, channels: int) -> None:
    """Raise Refused if a slot has one position for several channels, because it cannot be moved for a single table."""
    if channels > 1 and traits.shares_position:
        what = f"the slot has one position for all {channels} channels of job {job}: it cannot be moved for one of them"
        raise Refused(what, "create one job per channel, each with its own slot", where="source")


def limits(job: JobSpec) -> Iterator[str]:
    """Yield a phrase for each option of the job that makes the target differ from the source."""
    options = job.sink_options
    if not job.binlog.binlog:
        yield "binlog = false: one copy, no changes"
    if start_at(job.start).partial:
        yield f'start = "{job.start}": the target contains only later changes'
    if job.on_existing == "merge":
        yield 'on_existing = "merge": rows that the source does not have remain'
    if options.ignore_delete:
        yield "ignore_delete: deleted rows remain"
    if any(one.soft_delete for one in (*job.channels, *(it.channel for it in job.patterns))):
        yield "soft_delete: deleted rows are kept and marked as deleted"
    if options.updates_only:
        yield f'write_mode = "{options.write_mode}": rows that the target lacks are never inserted'
    if options.conflict_strategy == "ignore":
        yield 'conflict_strategy = "ignore": an existing row is never updated'
    if options.ignore_null_when_update:
        yield "ignore_null_when_update: a new NULL does not replace the old value"
    if options.quarantines:
        yield 'on_bad_row = "quarantine": rows in quarantine are not in the target'
    if job.binlog.binlog_ignore_update_before:
        yield "binlog_ignore_update_before: correct only if no primary key is ever changed"


def promise(sink: SinkTraits, job: JobSpec) -> str:
    """Return the delivery guarantee as text, followed by the options that weaken it."""
    return "; but ".join([delivery(sink).value, *filter(None, ["; ".join(limits(job))])])


def copy_again_objection(job: JobSpec, source: SourceTraits, sink: SinkTraits) -> str:
    """Return why a job's tables cannot be copied again while they stream; "" if they can.

    With the options that are named here, a step does not make the target equal to the source.
    """
    options = job.sink_options
    if not source.copies_again or not sink.copies_again:
        return f"not possible from a source of kind {job.source_kind} into a sink of kind {job.sink_kind}"
    if not job.binlog.binlog:
        return "the job has no stream (binlog = false)"
    if options.updates_only:
        return f"write_mode = {options.write_mode} never inserts the rows that the target lacks"
    if options.ignore_delete:
        return "ignore_delete = true retains the rows that the source does not have"
    if options.conflict_strategy == "ignore":
        return "conflict_strategy = ignore does not change existing rows"
    if options.ignore_null_when_update:
        return "ignore_null_when_update = true retains values that are NULL in the source"
    if any(one.soft_delete or one.compute or one.synced_at for one in job.channels):
        return "a channel has soft_delete, synced_at or compute, whose values a copied row does not have"
    return ""
