"""What a kind of source is, as constants of it: never found out by trying, because asking may make a slot.

`docs/adr/0022-what-each-server-answers.md` has them by server.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """`keeps_positions`: the server keeps what is confirmed, and holds its binlog back for it.

    `slot_unasked`: nothing has to be made before a job can read, so nothing is made or dropped. `one_stream`: one
    stream carries the tables of all channels; where positions are kept, it is acknowledged as one, by the least
    position of them all (`slotkeeper.core.domain.one_stream`). `apart`: places of one shard say nothing of another's,
    so that none is the least of all. `by_age`: records go once they are older than their TTL, read or not, so no slot
    expires.

    What follows says how a job of such a source is configured. `earliest`: its binlog is recorded whether anybody reads
    it or not, so that a job may start at its oldest record. `several_by`: a slot is of one table; the kind by which one
    job reads several of such a server, empty where this one does. `adopts_shards`: a job may go on with another set of
    shards. `paced`: steps end at bytes, seconds and rows, as `[jobs.X.sync]` says. `silent_cascades`: a foreign key may
    change rows of which its binlog has nothing. `server_keys` and `binlog_keys` name its keys of `[sources.X]` and
    `[jobs.X.binlog]` (`slotkeeper.core.config.keys.SERVERS`, `slotkeeper.core.config.binlog_sets.SETS`).
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
