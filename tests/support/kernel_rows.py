"""Random tables, rows and damage, and the results of the kernel and of Python for them.

`python -m tests.support.kernel_rows --seconds 120 [--seed N]` builds the kernel and the router of steps
(`routed_lines`) with AddressSanitizer and UndefinedBehaviorSanitizer, and compares them with Python on random rows and
steps, whole and damaged.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tests.architecture.checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slotkeeper.core.sources.mysql.events import Rows
    from tests.support.mysql_types import Kind

SANITIZED = "SLOTKEEPER_SANITIZED_KERNEL"
"""The folder of the kernels that this process loads instead of the installed ones."""
KERNELS = {
    "slotkeeper.core.sources.mysql._kernel": "core/sources/mysql/kernel.c",
    "slotkeeper.core.sinks.postgres.write._routing": "core/sinks/postgres/write/routing.c",
}
if folder := os.environ.get(SANITIZED):
    for name in KERNELS:
        spec = importlib.util.spec_from_file_location(name, f"{folder}/{name.rpartition('.')[2]}.so")
        assert spec and spec.loader
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])

from slotkeeper.core.domain.slot import Column, TableIdentity  # noqa: E402
from slotkeeper.core.drivers.pipe import (  # noqa: E402
    SWITCH,
    Fields,
    RowOut,
)
from slotkeeper.core.sources.mysql import kernel  # noqa: E402
from slotkeeper.core.sources.mysql.events import Action, Header  # noqa: E402
from slotkeeper.core.sources.mysql.events import Rows as RowsEvent  # noqa: E402
from slotkeeper.core.sources.mysql.filters import Selection  # noqa: E402
from slotkeeper.core.sources.mysql.rows import Decoder, SchemaColumn  # noqa: E402
from slotkeeper.core.sources.mysql.source import _Writer  # noqa: E402
from slotkeeper.core.sources.mysql.table_map import TableMap  # noqa: E402
from slotkeeper.core.sources.mysql.tables import Image, TableSeen, image_of  # noqa: E402
from slotkeeper.core.sources.mysql.transactions import TableRows  # noqa: E402
from tests.support import mysql_bytes as made  # noqa: E402
from tests.support import routed_lines  # noqa: E402
from tests.support.mysql_types import TABLE, decoder  # noqa: E402

SIZES = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8, 4: 4, 5: 8, 13: 1, 10: 3}
"""Bytes of a value by type, where any bytes are a value."""
TEXTS = ("", "a", "a\tb", "line\nend\r", "back\\slash", "\\N", "é€", "日本語", "😀", "\0\x7f", "0123456789", "x" * 300)
VALUES = 50
LEFT = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)


def image(kind: Kind) -> Image:
    """Return the value of a column of this type that a sink gets."""
    base = re.match(r"[a-z0-9_]+", kind.name)
    assert base is not None
    numbers = [int(one) for one in re.findall(r"\((\d+)(?:,(\d+))?\)", kind.name)[:1] for one in one if one]
    word = {"var_string": "varchar"}.get(base[0], base[0])
    first, second = (*numbers, 0, 0)[:2]
    full = kind.name.partition(" compressed")[0]
    described = SchemaColumn(kind.name, word, full, True, precision=first, scale=second, fraction=first)
    return image_of(described)


def value(kind: Kind, chance: random.Random) -> bytes:
    """Return the bytes of a random value; one in a hundred is a value that no server writes."""
    few = [one for one, _ in kind.vectors if len(one) < 1_000 or chance.random() < 0.02]
    raw = bytes.fromhex(chance.choice(few))
    if chance.random() < 0.3:
        return raw
    if chance.random() < 0.01:
        return chance.randbytes(len(raw))
    if kind.code in SIZES:
        return chance.randbytes(SIZES[kind.code])
    if kind.code == 246:
        return decimal(int(kind.meta[:2], 16), int(kind.meta[2:], 16), chance)
    if kind.code in (17, 18, 19):
        digits = int(kind.meta)
        part = chance.randrange(10**digits) * (10 if digits % 2 else 1)
        whole = chance.randbytes({17: 4, 18: 5, 19: 3}[kind.code])
        # a negative TIME is the complement of all its bytes
        return whole + (part if kind.code != 19 or whole[0] & 0x80 else 0).to_bytes((digits + 1) // 2, "big")
    if kind.code == 16:
        return chance.randrange(1 << int(kind.name[4:-1])).to_bytes(len(raw), "big")
    if kind.is_labelled:
        count = len(kind.labels)
        most = 1 << count if kind.meta.startswith("f8") else count + 1
        return chance.randrange(most).to_bytes(len(raw), "little")
    if kind.code in (245, 140, 141, 255) or kind.native:
        return raw
    return _sized(kind, chance)


def _sized(kind: Kind, chance: random.Random) -> bytes:
    """A length and text in the column's character set, or bytes."""
    length = int(kind.meta) if kind.code == 252 else 2 if _most(kind) > 255 else 1
    room = min(_most(kind), 256**length - 1, 2_000)
    if ("b" in kind.name[:4] and kind.code != 252) or "blob" in kind.name or "varb" in kind.name:
        body = chance.randbytes(chance.randrange(min(room, 60) + 1))
    else:
        codec = {"latin1": "cp1252", "ucs2": "utf-16-be", "sjis": "shift_jis", "cp866": "cp866"}
        charset = codec.get(kind.name.rpartition(" ")[2], "utf-8")
        text = "".join(chance.choices(TEXTS, k=chance.randrange(1, 4)))
        body = text.encode(charset, "ignore")[:room]
        if charset == "utf-8" and chance.random() < 0.99:
            body = body.decode("utf-8", "ignore").encode()
        body = body[: len(body) // 2 * 2] if charset == "utf-16-be" else body
        body = b"" if charset == "shift_jis" and not body.isascii() else body
    return len(body).to_bytes(length, "little") + body


def _most(kind: Kind) -> int:
    first, second = int(kind.meta[:2], 16), int(kind.meta[2:] or "0", 16)
    if kind.code == 15:
        return first | second << 8
    return second | ((first & 0x30) ^ 0x30) << 4 if kind.code in (253, 254) else 1 << 16


def decimal(precision: int, scale: int, chance: random.Random) -> bytes:
    """A random DECIMAL, as decimal2bin writes it."""
    whole, body = precision - scale, b""
    for count in filter(None, (whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9)):
        group = chance.choice((0, chance.randrange(10**count), 10**count - 1))
        body += group.to_bytes(LEFT[count], "big")
    number = int.from_bytes(body, "big") ^ 1 << (len(body) * 8 - 1)
    every = (1 << len(body) * 8) - 1
    return (number if chance.random() < 0.5 else number ^ every).to_bytes(len(body), "big")


@dataclass
class Table:
    """A table, and the writers of its rows by the kernel and by Python."""

    kinds: Sequence[Kind]
    values: Sequence[Sequence[bytes]]
    """Random values of each column, of which each row has one."""
    by_kernel: _Writer
    by_python: _Writer
    decoders: tuple[Decoder, Decoder]
    map: TableMap

    def event(self, images: int, action: Action, chance: random.Random) -> Rows:
        """An event with this number of images."""
        width, parts = len(self.kinds), []
        for _ in range(images):
            few = chance.getrandbits(width) & chance.getrandbits(width)
            nulls = chance.choice((0, 0, few, chance.getrandbits(width)))
            padding = chance.choice(tuple(made.Padding))
            parts.append(made.bitmap(nulls, width, padding))
            parts += [chance.choice(some) for place, some in enumerate(self.values) if not nulls >> place & 1]
        body = b"".join(parts)
        before, after = chance.randbytes(chance.randrange(3)), chance.randbytes(chance.randrange(3))
        every = b"\xff" * ((width + 7) // 8)
        header = Header(made.TIME, 30, 1, 0, 0, 0)
        start, stop = len(before), len(before) + len(body)
        return RowsEvent(header, action, 7, width, every, every, before + body + after, start, stop)


@contextmanager
def switched(way: str) -> Iterator[None]:
    """Decoders that are made meanwhile use the kernel ("on"), or do not ("off")."""
    known = os.environ.get(SWITCH)
    os.environ[SWITCH] = way
    try:
        yield
    finally:
        os.environ.pop(SWITCH)
        if known is not None:
            os.environ[SWITCH] = known


def table(chance: random.Random, kinds: Sequence[Kind] = ()) -> Table:
    """A table of random columns, of which some are the key, and of which a job may leave some out."""
    kinds = kinds or chance.choices(TABLE, k=chance.choice((1, 2, 5, 8, 9, 17)))
    kinds = [replace(kind, name=kind.name) for kind in kinds]
    named = [f"c{place}" for place in range(len(kinds))]
    images = tuple(replace(image(kind), name=one) for kind, one in zip(kinds, named, strict=True))
    columns = tuple(
        Column(one, each.type, False, number=n) for n, (one, each) in enumerate(zip(named, images, strict=True), 1)
    )
    key = tuple(sorted(chance.sample(named, chance.randrange(1, len(named) + 1))))
    left = set(named) - set(key) if chance.random() < 0.3 else set()
    selection = Selection(tuple(one for one in named if one not in left)) if left else Selection()
    seen = TableSeen("s", "t", (), images, TableIdentity(0, columns, key, ""))
    skips = chance.random() < 0.5
    writers, decoders = [], []
    for way in ("on", "off"):
        with switched(way):
            decodes = decoder(kinds)
            decoders.append(decodes)
            writers.append(_Writer(decodes, seen, selection, None, skips))
    mapped = TableMap(7, "s", "t", (), None, b"")
    values = [[value(kind, chance) for _ in range(VALUES)] for kind in kinds]
    return Table(kinds, values, writers[0], writers[1], (decoders[0], decoders[1]), mapped)


def outcome(work: Callable[[], Any]) -> Any:
    """The result, or the error with its message."""
    try:
        return work()
    except Exception as error:
        return type(error).__name__, str(error)


def lines(writer: _Writer, item: TableRows) -> tuple[int, bytes]:
    """The number and the COPY text of an event's images."""
    out = BytesIO()
    return writer.write(item, out), out.getvalue()


class _Rows(RowOut):
    """A batch of rows without a reader."""

    def __init__(self) -> None:
        super().__init__(cast(Any, None))
        self.found: list[Any] = []

    def put(self, row: Fields) -> None:
        self.found.append(row)

    def close(self) -> None: ...


def fields(writer: _Writer, item: TableRows) -> list[Any]:
    """The rows of an event's images, for a sink that takes rows."""
    out = _Rows()
    assert writer.write(item, out) == len(out.found)
    return out.found


def differences(one: Table, event: Rows, chance: random.Random, whole: bool = True) -> str:
    """Return how the kernel and Python differ in an event, or "". `whole` compares more than the lines."""
    item = TableRows(one.map, event, 3, 1234, chance.choice((0, 5, 1 << 40)))
    for made_by in (lines, fields) if whole else (lines,):
        first, second = (outcome(partial(made_by, writer, item)) for writer in (one.by_kernel, one.by_python))
        if first != second:
            return f"{made_by.__name__} of {[kind.name for kind in one.kinds]}:\n{first!r:.2000}\n{second!r:.2000}"
    if not whole:
        return ""
    found = [repr(outcome(partial(decodes.changes, event))) for decodes in one.decoders]
    return "" if found[0] == found[1] else f"values of {[kind.name for kind in one.kinds]}:\n" + "\n".join(found)[:4000]


def damaged(event: Rows, chance: random.Random) -> Rows:
    """The event, cut short or with some bytes changed."""
    body = bytearray(event.body)
    way = chance.randrange(4)
    if way == 0:
        return replace(event, stop=chance.randrange(event.begin, event.stop + 1))
    if way == 1:
        stop = chance.randrange(event.begin, event.stop + 1)
        return replace(event, body=event.body[:stop], stop=stop)
    for _ in range(chance.randrange(1, 4)):
        place = chance.randrange(event.begin, event.stop) if event.stop > event.begin else 0
        if place < len(body):
            body[place] = chance.choice((0, 0xFF, 0x80, chance.randrange(256)))
    return replace(event, body=bytes(body))


def compare(chance: random.Random, rows: int, seconds: float = 1e9, broken: bool = False) -> int:
    """Compare random rows for up to `seconds`; raise AssertionError with the difference. Return the number of rows."""
    count, end = 0, time.monotonic() + seconds
    while count < rows and time.monotonic() < end:
        one = table(chance)
        for _ in range(20):
            images = chance.choice((1, 2, 10, 200))
            event = one.event(images, chance.choice(tuple(Action)), chance)
            event = damaged(event, chance) if broken else event
            found = differences(one, event, chance, images < 200)
            assert not found, found
            count += images
    return count


# -- the sanitized kernel ---------------------------------------------------------------------------------------------

FLAGS = ("-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def build(folder: Path) -> str:
    """Build the kernels with the sanitizers into a folder; return the runtime to preload. Raises OSError or
    CalledProcessError without a compiler that has them.
    """
    for name, source in KERNELS.items():
        target, include = folder / f"{name.rpartition('.')[2]}.so", sysconfig.get_path("include")
        command = ["cc", *FLAGS, "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{include}", str(ROOT / source)]
        subprocess.run([*command, "-o", str(target)], check=True, capture_output=True)
    found = subprocess.run(["cc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def sanitized(seconds: float, seed: int) -> subprocess.CompletedProcess[str]:
    """Run this module's comparison under the sanitizers."""
    with tempfile.TemporaryDirectory() as folder:
        runtime = build(Path(folder))
        options = {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1", "PYTHONMALLOC": "malloc"}
        environment = {**os.environ, **options, SANITIZED: folder, "LD_PRELOAD": runtime}
        command = [sys.executable, "-m", __spec__.name if __spec__ else "tests.support.kernel_rows"]
        command += ["--seconds", str(seconds), "--seed", str(seed)]
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def main() -> int:
    """Compare for some seconds, under the sanitizers; print the seed and what was compared."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.kernel_rows", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    options = parser.parse_args()
    if SANITIZED not in os.environ:
        done = sanitized(options.seconds, options.seed)
        print(done.stdout + done.stderr)
        return done.returncode
    assert kernel.is_used()
    chance = random.Random(options.seed)
    end, counts, lines = time.monotonic() + options.seconds, [0, 0], 0
    while (left := end - time.monotonic()) > 0:
        for broken in (False, True):
            counts[broken] += compare(chance, 2_000, left, broken)
        lines += routed_lines.compare(chance, 10_000, left)
    print(
        f"seed {options.seed}: {counts[0]:,} rows, {counts[1]:,} in damaged events, {lines:,} lines of steps: equal, no"
        " report"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
