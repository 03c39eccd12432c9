"""What a kind of source is, as constants of it: never found out by trying, because asking may make a slot.

`docs/adr/0022-what-each-server-answers.md` has them by server. Next door: each kind of source has its own
(`core.ports.kinds`), `core.domain.promise` has what a kind of sink can do.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import Defect


@dataclass(frozen=True, slots=True)
class SourceTraits:
    """`keeps_positions`: the server keeps what is confirmed, and holds its binlog back for it.

    `slot_unasked`: nothing has to be made before a job can read, so nothing is made or dropped. `one_stream`: one
    stream carries the tables of all channels, and would be acknowledged as one: by the least position of them all,
    which is not built.

    >>> SourceTraits(keeps_positions=True, slot_unasked=False, one_stream=True)
    Traceback (most recent call last):
    core.errors.Defect: one stream for all channels with positions kept at the server is not built
    """

    keeps_positions: bool
    slot_unasked: bool
    one_stream: bool

    def __post_init__(self) -> None:
        if self.keeps_positions and self.one_stream:
            raise Defect("one stream for all channels with positions kept at the server is not built")
