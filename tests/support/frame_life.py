"""One life of a query in a process of its own: it begins, says so, and waits to be killed; it stops nothing.

Run as a program: `frame_life.py CONFIG`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.frames import Program


def main(config: str) -> None:
    """Begin at the newest place, and live until stdin ends."""
    program = Program(Path(config), start="latest", poll_interval="0ms")
    program.query.initial()
    print("begun", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
