"""`python -m bench`: measures Slotkeeper and its peers on the same changes in one run, then the cost of a user's own
job.

`bench/README.md` describes the peers and what the timings include and exclude.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import Any

from bench import chart, compare, live, mysql_feed, mysql_job, report
from bench.ours import job_of, open_runner
from bench.report import Figure
from bench.rig import Rig, Sizes, run
from bench.rounds import Rounds, all_peers
from slotkeeper.core.errors import ConfigError

MYSQL_ROWS = 100_000


def say(text: str) -> None:
    """Report progress on standard error; standard output is for the tables."""
    sys.stderr.write(f"bench: {text}\n")
    sys.stderr.flush()


def _options() -> argparse.Namespace:
    names = [peer.name for peer in all_peers()]
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="rows of the table before the first round")
    parser.add_argument(
        "--changes", type=int, default=350_000, help="changes per round: 4/7 inserts, 2/7 updates, 1/7 deletes"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=("spark", "local"), default="spark")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    parser.add_argument(
        "--peers", default=",".join(names), help=f"peers to run, from {', '.join(names)}; an empty string: none"
    )
    parser.add_argument("--no-live", action="store_true", help="skip freshness, idle costs, starts and memory")
    parser.add_argument(
        "--no-mysql", action="store_true", help="skip the comparison of a job from MariaDB with a replica"
    )
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="duration of each freshness measurement and of the idle one"
    )
    parser.add_argument("--keep", action="store_true", help="store the result for --check and for the README's chart")
    parser.add_argument(
        "--check", action="store_true", help="compare with the stored result; exit with 1 if a ratio fell"
    )
    options = parser.parse_args()
    chosen = options.peers.split(",") if options.peers else []
    if unknown := sorted(set(chosen) - set(names)):
        parser.error(f"--peers: unknown peer {unknown[0]} (known: {', '.join(names)})")
    if options.check and not report.KEPT.exists():
        parser.error(f"--check: no stored result in {report.KEPT}; create one with `make bench ARGS=--keep`")
    options.peers = [peer for peer in all_peers() if peer.name in chosen]
    return options


def main() -> int:
    """Run the benchmark, print its results, and write the result file."""
    options = _options()
    began, machine = time.monotonic(), report.machine()
    say("preparing two servers, their databases and the initial rows")
    rig = Rig(Sizes(options.rows, options.changes, options.repeat, options.seed))
    try:
        runner, start_seconds = open_runner(options.runner, rig)
        try:
            rounds = Rounds(rig, runner, options.peers, say)
            for number in range(options.repeat):
                rounds.run(number)
        finally:
            runner.close()
        values = _values(rounds, options, machine)
    finally:
        rig.close()
    figures = _live(values, options)
    if not options.no_mysql:
        values |= _from_mariadb()
    values |= {"figures": [one.values() for one in figures], "runner_start_seconds": round(start_seconds, 2)}
    values["run_seconds"] = round(time.monotonic() - began)
    return _shown(rounds, figures, values, options)


def _live(values: dict[str, Any], options: argparse.Namespace) -> list[Figure]:
    """Return the figures of a user's own job; if measuring them fails, record why and keep the rounds."""
    try:
        return [] if options.no_live else live.figures(options.seconds, options.seed, say)
    except Exception as why:
        values["not_run"]["a user's own job"] = f"{type(why).__name__}: {why}"
        return []
    except BaseException:
        say(f"the results of the rounds are in {report.write(values | {'figures': []})}")
        raise


def _from_mariadb() -> dict[str, Any]:
    """Compare a job from MariaDB with MariaDB's own replica, and the bytes of a job of many tables with the binlog, if
    MariaDB is installed on this host.
    """
    try:
        say("a job from MariaDB, compared with MariaDB's own replica")
        found = {"mysql_job": mysql_job.compared(MYSQL_ROWS, 1)}
        say("the bytes that a MariaDB sends to a job of many tables")
        return {**found, "mysql_feed": mysql_feed.measured()}
    except ConfigError as error:
        return {"mysql_job": {"not_run": error.message}}


def _shown(rounds: Rounds, figures: list[Figure], values: dict[str, Any], options: argparse.Namespace) -> int:
    print(report.table(rounds.ratios(), rounds.sides.values(), figures, options.repeat))
    print(report.profile_text(rounds.profile))
    if found := values.get("mysql_job"):
        ratio = f"not run: {found.get('not_run')}"
        if "ratio" in found:
            ratio = f"{found['ratio']} x MariaDB's own replica, {found['ratio_cpu']} by CPU"
        print(f"a job from MariaDB into PostgreSQL: {ratio}")
    if feed := values.get("mysql_feed"):
        tables = f"{feed['tables']} tables from MariaDB, {feed['written']} of them written"
        cost = f"{feed['ratio']} x the bytes of the binlog over {feed['dump_connections']} dump connection(s)"
        print(f"{tables}: {cost}; {feed['idle_statements_per_second']} statements/s while idle")
    for name, why in rounds.not_run.items():
        print(f"not run: {name}: {why}")
    file = report.write(values)
    print(f"written: {file}")
    code = compare.against_kept(json.loads(file.read_text(encoding="utf-8"))) if options.check else 0
    if options.keep:
        report.KEPT.write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
        chart.write(values)
        print(f"kept: {report.KEPT}, {chart.FILE}")
    return code


def _values(rounds: Rounds, options: argparse.Namespace, machine: dict[str, Any]) -> dict[str, Any]:
    version = run(rounds.rig.sink, "postgres", "SHOW server_version")[0][0]
    job = job_of(rounds.rig, "any")
    names = [peer.name for peer in options.peers]
    return {
        "options": {**vars(options), "peers": names},
        "machine": {**machine, "postgresql": version, "load_at_end": report.machine()["load"]},
        "ratios": [one.values() for one in rounds.ratios()],
        "sides": {name: side.values() for name, side in rounds.sides.items()},
        "not_run": rounds.not_run,
        "job": {"binlog": asdict(job.binlog), "sink_options": asdict(job.sink_options)},
        "profile": rounds.profile,
    }


if __name__ == "__main__":
    sys.exit(main())
