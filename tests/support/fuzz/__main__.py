"""Search for inputs at which a parser of `targets` raises an unnamed error or hangs.

`python -m tests.support.fuzz [--seconds 30] [--seed N] [TARGET ...]` searches for them. With
atheris installed, the search follows the coverage, each target in a separate process; without it, it mutates the
examples at random. What it finds is written to `tests/fixtures/fuzz/TARGET`, whose cases a fast test repeats.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from tests.architecture.checkout import ROOT

if TYPE_CHECKING:
    from tests.support.fuzz.targets import Target

FOUND = ROOT / "tests" / "fixtures" / "fuzz"
HANGS = 10.0
"""Seconds after which one input counts as a hang."""
MOST_BYTES = 4096

_PIECES = (
    b"\x00",
    b"\xff",
    b"\xff\xff\xff\xff",
    b"\x00\x00\x00\x80",
    b"'",
    b'"',
    b"(" * 40,
    b"[" * 3_000,
    b"\\",
    b"\n",
)


def mutated(examples: tuple[bytes, ...], chance: random.Random) -> bytes:
    """Return one of the examples with a few random changes."""
    data = bytearray(chance.choice(examples))
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0 if data:
                data[at % len(data)] ^= 1 << chance.randrange(8)
            case 1:
                data[at:at] = chance.choice(_PIECES)
            case 2:
                del data[at : at + chance.choice((1, 2, 4, 16))]
            case 3:
                other = chance.choice(examples)
                data[at:at] = other[chance.randrange(len(other) + 1) :][: chance.randrange(1, 64)]
            case _:
                data[at:at] = chance.randbytes(chance.choice((1, 2, 8)))
    return bytes(data[:MOST_BYTES])


def targets() -> dict[str, Target]:
    """Return the targets; their modules are imported only now, so that atheris can instrument them."""
    from tests.support.fuzz.targets import TARGETS

    return TARGETS


def cases(name: str) -> tuple[bytes, ...]:
    """Return the inputs of a target that once raised another error or hung."""
    return tuple(one.read_bytes() for one in sorted((FOUND / name).glob("*")))


def keep(name: str, data: bytes) -> Path:
    """Write an input to the cases of a target."""
    file = FOUND / name / hashlib.sha256(data).hexdigest()[:16]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


def search_at_random(name: str, seconds: float, seed: int) -> int:
    """Search without coverage; return the number of inputs. Raises the error of an input, which is kept."""
    target, chance, count = targets()[name], random.Random(seed), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated((*target.examples, *cases(name)), chance)
        began = time.monotonic()
        try:
            target.run(data)
            assert time.monotonic() - began < HANGS, "an input took too long"
        except BaseException:
            print(f"kept {keep(name, data)}")
            raise
        count += 1
    return count


def _kept_if_wrong(name: str, target: Target, data: bytes) -> None:
    try:
        target.run(data)
    except BaseException:
        keep(name, data)
        raise


def search(name: str, target: Target, seconds: float, seed: int) -> bool:
    """Search a target by coverage in a forked child, and keep what it finds; return whether it found nothing."""
    import atheris

    with tempfile.TemporaryDirectory() as place:
        corpus, out, log = Path(place, "corpus"), Path(place, "found"), Path(place, "log")
        corpus.mkdir()
        out.mkdir()
        log.touch()
        for number, data in enumerate((*target.examples, *cases(name))):
            (corpus / str(number)).write_bytes(data)
        limits = [f"-max_total_time={seconds:.0f}", f"-timeout={HANGS:.0f}", f"-max_len={MOST_BYTES}", f"-seed={seed}"]
        limits += [f"-artifact_prefix={out}/", "-print_final_stats=1", "-rss_limit_mb=2048", "-verbosity=1"]
        child = os.fork()
        if not child:
            try:
                for stream in (1, 2):
                    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), stream)
                atheris.Setup([f"fuzz-{name}", *limits, str(corpus)], lambda data: _kept_if_wrong(name, target, data))
                atheris.Fuzz()
            except BaseException:
                traceback.print_exc()
                os._exit(3)
            os._exit(0)
        _, code = os.waitpid(child, 0)
        said = log.read_text("utf-8", "replace")
        stats = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
        covered = re.findall(r" cov: (\d+)", said)
        print(f"{name:12} {stats[1] if stats else '?':>9} inputs, {covered[-1] if covered else '?'} places covered")
        for one in out.iterdir():  # hangs
            keep(name, one.read_bytes())
    if code:
        print(f"{said[-3000:]}\n{name}: the input is in {FOUND.relative_to(ROOT)}/{name}")
    sys.stdout.flush()
    return not code


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all if none is named")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each target")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 30))
    given = parser.parse_args()
    try:
        import atheris
    except ImportError:
        print(f"atheris is not installed: random changes without coverage, seed {given.seed}")
        for name in given.targets or targets():
            print(f"{name:12} {search_at_random(name, given.seconds, given.seed):>9} inputs", flush=True)
        return
    print(f"seed {given.seed}, {given.seconds:.0f} s for each target", flush=True)
    with atheris.instrument_imports(include=["slotkeeper.core"]):
        found = targets()
    results = [search(name, found[name], given.seconds, given.seed) for name in given.targets or found]
    print(f"{sum(results)} of {len(results)} targets without a finding")
    raise SystemExit(not all(results))


if __name__ == "__main__":
    main()
