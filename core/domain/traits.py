"""What kinds of sources and sinks are, as constants, and what follows for a pair: encoding and delivery. Pure.

Traits are never found out by trying, because asking may make a slot. `docs/adr/0022-what-each-server-answers.md` has
the sources' by server, `docs/delivery.md` says why of the delivery.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from slotkeeper.core.domain.spec import JobSpec, start_at
from slotkeeper.core.errors import Refused


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """`keeps_positions`: the server keeps what is confirmed, and holds its binlog back for it.

    `slot_unasked`: nothing has to be made before a job can read, so nothing is made or dropped. `one_stream`: one
    stream carries the tables of all channels; where positions are kept, it is acknowledged as one, by the least
    position of them all (`slotkeeper.core.domain.position`). `apart`: places of one shard say nothing of another's,
    so that none is the least of all. `by_age`: records go once they are older than their TTL, read or not, so no slot
    expires.

    The fields decide the configuration of such a source's jobs. `earliest`: its binlog is recorded also without a
    reader, so a job can start at its oldest record. `several_by`: a slot covers one table; the kind by which one job
    reads several of such a server, empty where this one does. `adopts_shards`: a job can continue with another set of
    shards. `paced`: steps end at bytes, seconds and rows, by `[jobs.X.sync]`. `silent_cascades`: a foreign key can
    change rows without records in its binlog. `server_keys` and `binlog_keys` name its keys of `[sources.X]` and
    `[jobs.X.binlog]` (`slotkeeper.core.config.keys.SERVERS`, `slotkeeper.core.config.keys_source.SETS`).
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
    speaks: str = "PostgreSQL"
    """Whose protocol its port answers with."""

    @property
    def shares_position(self) -> bool:
        """Whether the server keeps one position for all channels of a job: `Kept.shared` of what it keeps."""
        return self.keeps_positions and self.one_stream


class Encoding(Enum):
    """The encodings, the fastest first; the text is what messages say."""

    COPY_TEXT = "COPY text"
    """PostgreSQL's text format, passed through a pipe that Slotkeeper does not parse."""
    ROWS = "rows"
    """Tuples of text, None for NULL, with the same columns in the same order."""


def chosen(gives: Sequence[Encoding], takes: Sequence[Encoding], pair: str) -> Encoding:
    """In which encoding a batch reaches the sink: the best that both have, else the sink's best, converted on the way.

    `pair` names the two; raises Refused by what they have where one of them has nothing.

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
    raise Refused(f"{pair}: the source gives {given}, the sink takes {taken}", "choose another kind of sink")


@dataclass(frozen=True, slots=True)
class SinkTraits:
    """What a kind of sink can do: a constant of it, which `slotkeeper.core.sinks.registry` gives by its name.

    `one_transaction`: rows and their progress are committed together. `repeats_change_nothing`: rows are written whole
    and by key, so that a range that is applied again leaves the same rows. `keeps_prepared`: what is prepared unseen
    gets a token, and a commit of it that is repeated changes nothing. `is_store`: it keeps progress rows, in one
    transaction with what it writes; `stores_for_others`: those of sinks that keep none, too. `tries_rows`: it can tell
    which rows it refuses before anything is planned, so that a sink without a store can quarantine. `server_keys` names
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
        "each change takes effect exactly once while the sink remembers what was prepared, later at least once, and"
        " repeats are counted"
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


def refuse_shared(traits: SourceTraits, job: str, channels: int) -> None:
    """Raise Refused where a slot is one position for several channels of a job: no verb is about one table of it."""
    if channels > 1 and traits.shares_position:
        what = f"the slot is one position for all {channels} channels of job {job}: it cannot be moved for one of them"
        raise Refused(what, "a job for each channel has a slot of its own", where="source")


def limits(job: JobSpec) -> Iterator[str]:
    """What the job's options leave out of "the target is the source", each in half a sentence."""
    options = job.sink_options
    if not job.binlog.binlog:
        yield "binlog = false: one copy, no changes"
    if start_at(job.start).partial:
        yield f'start = "{job.start}": the target holds only what changed since'
    if job.on_existing == "merge":
        yield 'on_existing = "merge": rows that the source does not have stay'
    if options.ignore_delete:
        yield "ignore_delete: deleted rows stay"
    if options.updates_only:
        yield f'write_mode = "{options.write_mode}": rows that the target lacks are never inserted'
    if options.conflict_strategy == "ignore":
        yield 'conflict_strategy = "ignore": an existing row stays as it was first written'
    if options.ignore_null_when_update:
        yield "ignore_null_when_update: a value that has become NULL stays"
    if options.quarantines:
        yield 'on_bad_row = "quarantine": rows in quarantine are not in the target'
    if job.binlog.binlog_ignore_update_before:
        yield "binlog_ignore_update_before: only as long as no primary key is ever changed"


def promise(sink: SinkTraits, job: JobSpec) -> str:
    """The guarantee as text, followed by what weakens it."""
    return "; but ".join([delivery(sink).value, *filter(None, ["; ".join(limits(job))])])
