"""What a task of a query does, and what is done with what its tasks did: stage, then one transaction for the batch.

The same two calls serve the streaming writer and `foreachBatch`. An error that leaves here says what failed and what to
do, and nothing else: Spark prints whatever stands behind an error, and a driver's own words may hold a row's values.
"""

from __future__ import annotations

import getpass
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from slotkeeper.core.dataframe.writer.spec import WriterSpec
from slotkeeper.core.errors import ConfigError, SlotkeeperError, classed
from slotkeeper.core.ports.sink import QueryBatch, QuerySink, Staged

if TYPE_CHECKING:
    import pyarrow as pa

TOKEN_BITS = 62
"""A token is a positive bigint; that two attempts draw the same one is as likely as nothing else here."""


class QueryError(Exception):
    """A query of Spark cannot go on: what failed, and what to do next."""


@contextmanager
def spoken() -> Iterator[None]:
    """Errors of ours as one line, without what caused them."""
    try:
        yield
    except SlotkeeperError as error:
        raise QueryError(": ".join(part for part in (str(error), error.hint) if part)) from None


@contextmanager
def opened(spec: WriterSpec, part: str) -> Iterator[QuerySink]:
    """A session for the block, its secret resolved in this process; ConfigError names the host where it cannot be."""
    try:
        made = spec.open(part)
    except ConfigError as error:
        hint = error.hint or "each worker resolves passwords itself: give it the same file, variable or command"
        raise ConfigError(f"on {socket.gethostname()}, as {getpass.getuser()}: {error.message}", hint) from None
    with closing(made) as session, closing(session.query_sink(spec.target)) as sink:
        yield sink


def admit(spec: WriterSpec) -> str:
    """Make and check what a query needs at the sink; the place where its tasks stage."""
    with opened(spec, "admit") as sink:
        return sink.admit()


def stage(spec: WriterSpec, place: str, query: str, batches: Iterable[pa.RecordBatch]) -> Staged:
    """Stage what a task has under a token of this attempt; a task without rows asks the sink nothing."""
    from slotkeeper.core.dataframe.writer.encode import Lines  # a process that only commits needs no Arrow

    token = secrets.randbits(TOKEN_BITS)
    filled = (one for one in batches if one.num_rows)
    first = next(filled, None)
    if first is None:
        return Staged(token, 0)
    key = spec.target.key if spec.target.options.ignore_update_before else ()
    lines = Lines(chain([first], filled), token, spec.columns, key)
    with opened(spec, "stage") as sink:
        try:
            rows = sink.stage(place, query, token, lines)
        except SlotkeeperError:
            if lines.broken is not None:
                raise lines.broken from None  # what its batches come from has failed, not the sink
            raise
    if rows != lines.rows:
        raise classed(AssertionError(f"{lines.rows} rows were sent, {rows} taken"))
    return Staged(token, rows, lines.left_out)


def commit(spec: WriterSpec, batch: QueryBatch, staged: Sequence[Staged]) -> bool:
    """Make a batch the target's; False where it was there already. Staged rows of batches before it are freed."""
    with opened(spec, str(batch.number)) as sink:
        done = sink.commit(batch, staged)
        sink.discard()
    return done


def abort(spec: WriterSpec) -> None:
    """Free what is staged, where nobody can need it; undoes nothing, so that it is harmless behind a COMMIT."""
    try:
        with opened(spec, "abort") as sink:
            sink.discard()
    except SlotkeeperError:
        pass  # the next batch frees it
