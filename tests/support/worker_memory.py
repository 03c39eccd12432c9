"""The memory of Spark's Python processes during a block: proportional shares, so that shared pages count once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

MIB = 1 << 20


class WorkerMemory:
    """The most memory (PSS) that one Python below this process had during the blocks, in MiB."""

    def __init__(self, every: float = 1.0) -> None:
        """`every` is the number of seconds between two samples; each sample adds up all pages, which uses CPU time."""
        self.most = 0.0
        self._every = every

    @contextmanager
    def watched(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,), daemon=True, name="memory")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(self._every):
            for one in psutil.Process().children(recursive=True):
                try:
                    if "python" in one.name():
                        self.most = max(self.most, one.memory_full_info().pss / MIB)
                except psutil.Error:
                    continue  # it has ended meanwhile
