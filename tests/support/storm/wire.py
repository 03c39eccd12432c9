"""Lines between a job and its servers, as TCP has them: a line that lost bytes once never carries any again."""

from __future__ import annotations

import random
import socket

from tests.support.proxy import Line, Proxy


class Wire(Proxy):
    """A proxy whose silent lines stay silent for good; new ones are carried once it is whole again.

    A stream with a hole in its middle does not exist in TCP, so a line must not carry bytes after it has dropped some.
    """

    def __init__(self, port: int, draw: random.Random | None = None) -> None:
        super().__init__(port, draw)
        self._lost: set[socket.socket] = set()

    def _pass_on(self, one: socket.socket, other: socket.socket, sent: bool) -> bool:
        silent = self._line is Line.BLACK_HOLE or (self._line is Line.HALF_OPEN and not sent)
        if silent:
            self._lost.add(one)
        if one not in self._lost:
            return super()._pass_on(one, other, sent)
        return bool(one.recv(65_536))

    def whole(self, cut: bool) -> None:
        """Carry again; `cut` resets the lines of before, which otherwise stay silent until an end closes them."""
        if cut:
            self.set(Line.CUT)
        self.set(Line.THROUGH)
