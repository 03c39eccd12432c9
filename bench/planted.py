"""`python -m bench.planted`: plants each fault of tests/mutants/faults.toml separately, and runs the test named for it.

A fault is a replacement of a text that occurs once in its file; its test must fail. `--minutes` limits the time: the
remaining faults are reported as not run. Exit code 1: a test did not find its fault.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

from bench.hunt import ROOT, Change, Hunt, Hunted, hunt

FAULTS = ROOT / "tests" / "mutants" / "faults.toml"


@dataclass(frozen=True, slots=True)
class Planted:
    """A hand-written protocol fault. `test` is the id of the test that has to find it."""

    name: str
    file: str
    old: str
    new: str
    test: str

    @property
    def change(self) -> Change:
        """The file with the fault; raises ValueError if the text to replace does not occur exactly once."""
        source = (ROOT / self.file).read_text("utf-8")
        if source.count(self.old) != 1:
            raise ValueError(f"{self.name}: its text occurs {source.count(self.old)} times in {self.file}")
        return Change(self.file, source.replace(self.old, self.new))


def faults() -> list[Planted]:
    """Return the faults of the table."""
    return [Planted(**one) for one in tomllib.loads(FAULTS.read_text("utf-8"))["fault"]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planted", description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only the faults whose name contains one of these texts")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--by", nargs="+", metavar="TEST", help="run these tests instead of the one that is named")
    given = parser.parse_args()
    chosen = [one for one in faults() if not given.names or any(text in one.name for text in given.names)]
    hunted = [Hunted(one.name, one.change, given.by or (one.test,)) for one in chosen]

    def say(one: Hunted) -> None:
        print(f"{'found' if one.by else 'NOT FOUND':9} {one.seconds:4.0f} s  {one.title}  {one.by}", flush=True)

    folder = Path(tempfile.mkdtemp(prefix="planted-"))
    try:
        until = time.monotonic() + 60 * given.minutes
        files = sorted({test.partition("::")[0] for one in hunted for test in one.tests})
        hunt(files, Hunt(hunted, folder, given.processes, until, say), *(() if given.by else ("-m", "not chaos")))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    run = [one for one in hunted if one.by is not None]
    found = sum(bool(one.by) for one in run)
    left = f", {len(hunted) - len(run)} not run" if len(run) < len(hunted) else ""
    by = "these tests" if given.by else "the test named for each"
    print(f"{found} of {len(run)} planted faults found by {by}{left}")
    raise SystemExit(found < len(run))


if __name__ == "__main__":
    main()
