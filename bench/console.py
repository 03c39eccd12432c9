"""`python -m bench.console`: the console's costs, compared with an empty Textual app and other consoles in one run.

The order of the two programs alternates. Exits with 0 even if a limit is exceeded, which the output reports; with
`--check`, exits with 1.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench import console_commands as commands
from bench import console_measure as measure
from bench import console_report as report
from bench.__main__ import say
from bench.console_beside import Beside, all_beside
from bench.console_fill import Writer, names
from bench.console_measure import EMPTY, Floor, Keys, Paint, Seen, together
from bench.console_report import Bar
from bench.report import machine
from tests.support.terminal import Used, console

JOBS, DNS, MANY = 12, 24, 2_000
STARTS = 3
_MB = 1_000_000


@dataclass
class Rounds:
    """All measurements, in the order in which they were taken."""

    paints: dict[str, list[Paint]] = field(default_factory=lambda: {"ours": [], "empty": []})
    seen: list[Seen] = field(default_factory=list)
    floors: list[Floor] = field(default_factory=list)
    moves: list[tuple[Keys, Keys]] = field(default_factory=list)
    many: list[Used] = field(default_factory=list)
    ends: list[dict[str, float]] = field(default_factory=list)
    commands: commands.Commands = field(default_factory=commands.Commands)

    def round(self, folder: Path, number: int, seconds: float, keys: int) -> None:
        """Measure one round: alternating starts, keys and idle time of both programs, many rows, and exits."""
        first = names(JOBS)[0]
        with Writer.start(folder / f"jobs-{number}", JOBS, DNS) as writer:
            if number == 0:
                measure.warm(writer.config, first)
            for start in range(STARTS):
                who = ("ours", "empty") if (number + start) % 2 == 0 else ("empty", "ours")
                for one in who:
                    self.paints[one].append(measure.first_paint(console(writer.config) if one == "ours" else EMPTY))
            say(
                f"round {number + 1}: first paint {self.paints['ours'][-1].seconds:.2f} s,"
                f" empty {self.paints['empty'][-1].seconds:.2f}"
            )
            self.floors.append(measure.floor(keys))
            self.moves.append(measure.moves_in_turns(writer.config, first, keys))
            self.seen.append(measure.measure(writer.config, first, seconds, keys))
            say(f"round {number + 1}: idle {self.seen[-1].idle.percent:.1f} %, {self.seen[-1].idle.rate:,.0f} B/s")
            self.ends.append(measure.ends(writer.config, first))
            self.commands.round(writer.config, folder / f"large-{number}")
        with Writer.start(folder / f"many-{number}", 1, MANY) as writer:
            self.many.append(measure.many_rows(writer.config, max(6.0, seconds / 2)))
            say(f"round {number + 1}: {MANY:,} rows {self.many[-1].percent:.1f} %")


def bars(rounds: Rounds) -> list[Bar]:
    """Return the figures with their limits."""
    moves, empty_moves = (together(one[place] for one in rounds.moves) for place in (0, 1))
    switches, empty_switches = (together(one.switches for one in some) for some in (rounds.seen, rounds.floors))
    return [
        *_start_bars(rounds),
        Bar("idle CPU of a core", _middle([one.idle.percent for one in rounds.seen]), 2.5, "%", _floor(rounds)),
        Bar("idle bytes", _middle([one.idle.rate for one in rounds.seen]) / 1000, 2.5, "KB/s", "12 rows change in 2 s"),
        Bar("paused bytes", max(one.paused.rate for one in rounds.seen), 0.0, "B/s", "key f"),
        Bar(
            "paused CPU of a core",
            _middle([one.paused.percent for one in rounds.seen]),
            0.3,
            "%",
            "collecting continues",
        ),
        *_key_bars("cursor move", moves, empty_moves, 1.4),
        *_key_bars("screen switch", switches, empty_switches, 4.0),
        Bar("bytes of a cursor move", _middle(moves.counts), 1_200, "B", "median"),
        Bar(
            "bytes of a screen switch", _middle(switches.counts), 10_000, "B", f"median; most {max(switches.counts):,}"
        ),
        Bar("RSS after a few screens", max(one.rss_first for one in rounds.seen) / _MB, 80, "MB", _rss(rounds)),
        Bar("RSS after all seven", max(one.rss_all for one in rounds.seen) / _MB, 80, "MB", "most"),
        Bar(
            f"{MANY:,} changing rows, CPU of a core",
            _middle([one.percent for one in rounds.many]),
            5,
            "%",
            "job detail",
        ),
        *commands.bars(rounds.commands),
        *(Bar(f"exited after {how}", max(one[how] for one in rounds.ends), most, "s", "most") for how, most in _ENDS),
    ]


def _start_bars(rounds: Rounds) -> list[Bar]:
    ours, empty = (min(one.seconds for one in rounds.paints[who]) for who in ("ours", "empty"))
    cpu, empty_cpu = (sum(one.cpu for one in rounds.paints[who]) for who in ("ours", "empty"))
    starts = len(rounds.paints["ours"])
    basis = f"minimum of {starts}: {ours:.3f} s to {empty:.3f} s"
    each = f"mean of {starts}: {cpu / starts:.3f} s to {empty_cpu / starts:.3f} s"
    return [
        Bar("first paint, relative to an empty Textual app", ours / empty, 1.6, "x", basis),
        Bar("CPU time until then, relative to an empty app", cpu / empty_cpu, None, "x", each),
        Bar("first rows on the screen", min(one.first_data for one in rounds.seen), None, "s", "from the start"),
    ]


_ENDS = (("SIGTERM", 1.0), ("SIGHUP", 1.0), ("terminal closed", 6.0))


def _key_bars(what: str, keys: Keys, floor: Keys, most: float) -> list[Bar]:
    p50, p95 = keys.percentile(0.5) * 1000, keys.percentile(0.95) * 1000
    ratio = p95 / (floor.percentile(0.95) * 1000)
    basis = f"{p95:.1f} ms to {floor.percentile(0.95) * 1000:.1f} ms, {len(keys.seconds)} keys"
    return [
        Bar(f"{what} to first byte, p50", p50, None, "ms", f"empty app {floor.percentile(0.5) * 1000:.1f} ms"),
        Bar(f"{what} to first byte, p95 to empty app's", ratio, most, "x", basis),
    ]


def _middle(values: list[float] | list[int]) -> float:
    return float(median(values))


def _floor(rounds: Rounds) -> str:
    return f"empty app {_middle([one.idle.percent for one in rounds.floors]):.1f} %"


def _rss(rounds: Rounds) -> str:
    return f"most; empty app {max(one.rss for one in rounds.floors) / _MB:.0f} MB"


def _raw(rounds: Rounds) -> dict[str, Any]:
    return {
        "first_paint_s": {who: [asdict(one) for one in some] for who, some in rounds.paints.items()},
        "idle": [vars_of(one.idle) for one in rounds.seen],
        "paused": [vars_of(one.paused) for one in rounds.seen],
        "many": [vars_of(one) for one in rounds.many],
        "move_ms": [round(one * 1000, 2) for ours, _ in rounds.moves for one in ours.seconds],
        "switch_ms": [round(one * 1000, 2) for seen in rounds.seen for one in seen.switches.seconds],
        "switch_bytes": [one for seen in rounds.seen for one in seen.switches.counts],
        "empty_move_ms": [round(one * 1000, 2) for _, floor in rounds.moves for one in floor.seconds],
        "empty_switch_ms": [round(one * 1000, 2) for floor in rounds.floors for one in floor.switches.seconds],
        "ends_s": rounds.ends,
        "commands_cpu_s": rounds.commands.values(),
    }


def vars_of(used: Used) -> dict[str, float]:
    """Return the usage as values for the JSON file."""
    return {"seconds": round(used.seconds, 2), "cpu": round(used.cpu, 2), "bytes": used.count}


def main() -> int:
    """Run the benchmark, print its results, and write the files."""
    parser = argparse.ArgumentParser(prog="python -m bench.console", description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of the idle measurement in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--keys", type=int, default=100, help="cursor moves per round; there are half as many screen switches"
    )
    parser.add_argument("--alone", action="store_true", help="skip pg_activity and dolphie")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    options = parser.parse_args()
    of_machine = machine()
    rounds, folder = Rounds(), Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
    try:
        for number in range(options.rounds):
            rounds.round(folder, number, options.seconds, options.keys)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    beside: list[Beside] = [] if options.alone else all_beside(min(options.seconds, 15.0), say)
    found = bars(rounds)
    print(report.table(found))
    for line in report.beside_lines(beside):
        print(line)
    missed = [one.name for one in found if one.met is False]
    print(f"NOT MET: {', '.join(missed)}" if missed else "every limit is met")
    for path in report.write(found, beside, of_machine, vars(options), _raw(rounds)):
        print(f"written: {path}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
