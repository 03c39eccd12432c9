"""The report page of chaos runs: one section per runner, and a run leaves the section of the other one as it is."""

from __future__ import annotations

import os
import platform
import re
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from tests.support.report import FOLDER, FOLDER_VARIABLE
from tests.support.storm.rig import Rig

HEAD = """\
# Everything at once

TPC-B, keys deleted and inserted again several times in one transaction, changed keys and bulk changes of up to 40,000
rows, from one seed, mirrored by one job of seven tables on three DNs. One disturbance after another, each followed by
a wait until all that was committed has arrived. After every eighth, and after each that needs a person, the writers
pause: all tables are compared by an ordered hash of their own, by `slotkeeper verify`, and the progress rows with the
writers' ledger (for tables that were not reset, altered or failed over since). What a person has to do is typed as it
is printed. Next to this page: `tests/chaos/test_storm.py`.
"""
TITLES = {"spark": "On Spark", "local": "On the local runner"}


def write(rig: Rig, took: Mapping[str, list[float]], troubles: Mapping[str, Counter[str]], whole: bool) -> None:
    """Put this run's section into the page of the day."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, FOLDER))
    file = folder / f"chaos-run-{datetime.now(timezone.utc):%Y-%m-%d}.md"
    known = _sections(file.read_text(encoding="utf-8")) if file.exists() else {}
    known[TITLES[rig.runner]] = _section(rig, took, troubles, whole)
    text = "\n".join([HEAD, *(f"## {title}\n\n{known[title]}" for title in TITLES.values() if title in known)])
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def _sections(text: str) -> dict[str, str]:
    """Sections by title.

    >>> _sections("# A\\n\\n## On Spark\\n\\nx\\n\\n## B\\n\\ny\\n")
    {'On Spark': 'x\\n', 'B': 'y\\n'}
    """
    found = re.split(r"^## (.*)\n\n", text, flags=re.MULTILINE)[1:]
    return {title: f"{body.strip()}\n" for title, body in zip(found[::2], found[1::2], strict=True)}


def _section(rig: Rig, took: Mapping[str, list[float]], troubles: Mapping[str, Counter[str]], whole: bool) -> str:
    tally, load = rig.tally, rig.load
    now = datetime.now(timezone.utc)
    times = sum(map(len, took.values()))
    lines = [
        f"{now:%Y-%m-%dT%H:%MZ}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores,"
        f" Python {platform.python_version()}; source: stand-in for the DWS binlog surface, not a DWS.",
        "",
        f"Seed {rig.seed}, {(time.monotonic() - rig.began) / 60:.1f} minutes,"
        f" {'to its end' if whole else 'BROKEN OFF, see the log'}: {times} disturbances of {len(took)} kinds,"
        f" {load.committed:,} transactions committed, {tally.looks} looks.",
        "",
        f"- Ledger: {tally.counted:,} events compared, {tally.lost} lost, {tally.doubled} doubled.",
        f"- Tables and sums: {'equal at each look' if not tally.differing else '; '.join(tally.differing)}.",
        f"- `slotkeeper verify`: exit codes {dict(Counter(tally.verified))}.",
        f"- Typed: {rig.cured} printed remedies, {rig.ensured} times `jobs ensure`.",
        f"- Of two at once: {', '.join(f'{name} {count}' for name, count in sorted(rig.paired.items())) or '-'}.",
        "",
        "| disturbance | times | median s until all arrived | most | named trouble |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, each in sorted(took.items()):
        named = ", ".join(f"{trouble} {count}" for trouble, count in troubles[name].items()) or "-"
        lines.append(f"| {name} | {len(each)} | {statistics.median(each):.1f} | {max(each):.1f} | {named} |")
    return "\n".join(lines) + "\n"
