from typing import Any, final

from slotkeeper.core.sources.mysql.kernel import Written

VERSION: int

@final
class Plan:
    def __new__(cls, columns: tuple[Written, ...], places: tuple[int, ...], kept: tuple[bool, ...], /) -> Plan: ...
    def values(self, body: bytes, at: int, stop: int, /) -> list[tuple[Any, ...]] | None: ...
    def lines(
        self, body: bytes, at: int, stop: int, place: str, number: int, kinds: str, /
    ) -> tuple[bytes, int] | None: ...
    def rows(
        self, body: bytes, at: int, stop: int, place: str, number: int, kinds: str, /
    ) -> list[tuple[Any, ...]] | None: ...
