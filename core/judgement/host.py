"""Decide whether this host delays a job: its pressure in the window of the late step, against limits. Pure.

The host is named only where it withheld what the job needed in that window, and then before the faults that follow.
Blaming the sink for a shortage of this host sends people to the wrong server, and vice versa.

Limits. A job that gets half of the CPU time that its threads were ready for (`/proc/<pid>/schedstat`, Linux "Scheduler
Statistics") takes twice as long: from there on the host outweighs all other causes together. PSI ("Pressure Stall
Information") shows that other tasks wait for a CPU, too; on a kernel without PSI, the load does. CPU limit:
kubernetes-mixin calls a container throttled from 25 % of its periods on (CPUThrottlingHigh). Memory: half of the 60 %
of stalled time at which systemd-oomd kills (oomd.conf(5), DefaultMemoryPressureLimit). Waits for a disk do not count:
a driver hardly uses one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Party, Severity, is_worse
from slotkeeper.core.domain.host import SHORT, HostReport, HostShare
from slotkeeper.core.domain.text import many
from slotkeeper.core.judgement.facts import BEHIND_SECONDS, MIB, Facts, JobSeen

HERE = "this host"
FRESH = 30.0
"""Seconds after which a reading is too old: supervisors read every 5 s, and later when starved."""
CONTENDED, LOADED = 0.5, 2.0
"""PSI's share of the time in which a task waits for a CPU; without PSI the load per CPU."""
GOT, WAITED = 0.5, 0.25
"""The largest share of its CPU time that a starved job got, and the fewest threads of it that waited: a step that waits
for a server is ready for little, and waiting for a CPU with that little does not make it late."""
WAITED_BY_LIMIT = 0.5
"""The same of a step that a time limit ended: less than half of the limit does not explain that no answer came."""
THROTTLED, MEMORY = 0.25, 0.3
BUSIEST = 0.7
"""The share of its steps' time from which on a job waits for one side."""
_BY_TIME = re.compile(r"(?:did|does) not (?:end|answer)|no answer|time-?out|timed out|within [\d.]+ s\b", re.IGNORECASE)
"""Matches reports of work that a time limit ended, in a server's wording or Slotkeeper's own."""
_OF_SERVERS = ("source_fails", "dn_fails", "sink_fails", "driver_retries")
_SIDES = {"read": (Party.SOURCE, "source"), "write": (Party.SINK, "sink")}


def by_host(faults: Iterable[Fault], seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    """Yield a job's faults with this host's, and a lag with the side that causes it.

    Under pressure, a time limit of a sink on this host counts as the host's fault. One of another server stays: this
    host cannot judge whether that server answers.
    """
    found, host = list(faults), seen.host
    past = None if host is None else elapsed(datetime.fromtimestamp(host.at, timezone.utc), facts.now)
    runs = seen.view.lives and seen.view.state.has_process
    if host is None or past is None or past > FRESH or not runs or facts.machine.full:
        yield from found
        return
    pressed = {
        one.key: pressure(window(one, seen, facts), host, WAITED_BY_LIMIT if one.rule in _OF_SERVERS else WAITED)
        for one in found
        if _may_be_by_host(one)
    }
    cause = next((one for one in pressed.values() if one), "")
    late = any(lag is not None and lag >= BEHIND_SECONDS for lag in (*seen.lags.values(), *seen.least_lags.values()))
    if late and not pressed and not any(one.rule in _OF_SERVERS for one in found):  # a refusal explains a lag
        cause = pressure(host.short, host)
    for one in found:
        here = bool(pressed.get(one.key))
        if one.rule == "lag":
            yield _with_side(one, window(one, seen, facts), host, here)
        elif not (here and one.party is Party.SINK and host.sink_here):
            yield _with_kills(one, host)
    if cause:
        severities = [one.severity for one in found if pressed.get(one.key)]
        critical = any(is_worse(one, Severity.WARNING) for one in severities)
        yield Fault(
            "host_starved", Party.MACHINE, HERE, Severity.CRITICAL if critical else Severity.WARNING, cause,
            "the job's steps wait for this host; nothing is skipped",
            "End or move other programs on this host, or give the job more CPU or memory; it continues by itself", None,
            seen.view.name, value=_of(None if host.short is None else host.short.got), limit=_of(GOT),
        )  # fmt: skip


def _may_be_by_host(fault: Fault) -> bool:
    """Whether a shortage of this host can cause a fault: it never causes a server's rejection."""
    return fault.rule in ("lag", "driver_silent") or (fault.rule in _OF_SERVERS and bool(_BY_TIME.search(fault.cause)))


def window(fault: Fault, seen: JobSeen, facts: Facts) -> HostShare | None:
    """Return the shares in the late step's time: since its lane's last commit, else the longer window.

    A step that a limit ended started before its fault did, so the longer window covers it.
    """
    view, host = seen.view, seen.host
    assert host is not None
    if fault.rule != "lag" or view.report is None or view.reported_at is None:
        return host.long
    ages = [lane.last_commit_age for lane in view.report.lanes if lane.name == fault.name]
    past = elapsed(view.reported_at, facts.now)
    since = None if past is None or not ages or ages[0] is None else ages[0] + past
    return host.long if since is None or since > 2 * SHORT else host.short


def pressure(share: HostShare | None, host: HostReport, waited: float = WAITED) -> str:
    """Describe what this host withheld in a window; "" where it was below every limit, or is unknown.

    >>> contended = HostShare(10.0, cpu_stalled=0.98, driver_cpu=0.11, ran=0.2, waited=1.9)
    >>> pressure(contended, HostReport(0.0, cpus=2, load=80.2))
    '2 CPUs, load 80; the driver got 11 % of one'
    >>> pressure(HostShare(10.0, cpu_stalled=0.98, driver_cpu=0.9, ran=1.0, waited=0.1), HostReport(0.0, 2, 80.2))
    ''
    """
    if share is None:
        return ""
    if share.memory_stalled is not None and share.memory_stalled >= MEMORY:
        left = "" if host.available is None else f", {host.available // MIB:,} MiB are available"
        return f"tasks waited for memory {_of(share.memory_stalled)} of the time{left}"
    by_load = None if host.load is None or not host.cpus else host.load / host.cpus >= LOADED
    contended = by_load if share.cpu_stalled is None else share.cpu_stalled >= CONTENDED
    throttled = share.throttled is not None and share.throttled >= THROTTLED
    if share.got is not None:
        starved = share.got <= GOT and (share.waited or 0.0) >= waited
    else:  # how long the job was ready is unknown: then both the pressure and the load have to show it
        starved = bool(by_load) or throttled
    if not (starved and (contended or throttled)):
        return ""
    cpus = "" if host.cpus is None else f"{host.cpus} CPU{'s' * (host.cpus != 1)}"
    load = "" if host.load is None else f"load {host.load:.0f}"
    limit = f"its CPU limit stopped the job in {_of(share.throttled)} of its periods" if throttled else ""
    got = "" if share.driver_cpu is None else f"the driver got {_of(share.driver_cpu)} of one"
    return "; ".join(part for part in (", ".join(filter(None, (cpus, load))), limit, got) if part)


def slow_side(share: HostShare | None, host: HostReport, pressed: bool) -> tuple[Party, str] | None:
    """Return the side that takes most of the job's step time, and its description; None where none does or is known.

    Where no step was committed in the window, earlier steps count. On a host under pressure it is the sink only where
    the sink is on another host and the steps slept for most of their time.

    >>> slow_side(HostShare(10.0, read=0.02, write=0.9, register=0.01), HostReport(0.0), False)[1]
    'the sink takes 97 % of the time of its steps'
    """
    if share is not None and not pressed and not _of_steps(share):
        share = host.steps
    every = _of_steps(share)
    if share is None or every is None:
        return None
    part = {name: getattr(share, name) / every for name in _SIDES} if every > 0 else {}
    name = next((one for one, its in part.items() if its > BUSIEST), None)
    if name is None:
        return None
    if pressed:
        here = None if share.ran is None or share.waited is None else share.ran + share.waited
        own = None if here is None or share.write is None else share.write - here
        if name != "write" or host.sink_here is not False or own is None or own < every / 2:
            return None
    party, called = _SIDES[name]
    return party, f"the {called} takes {_of(part[name])} of the time of its steps"


def _with_kills(fault: Fault, host: HostReport) -> Fault:
    """Add out-of-memory kills that the control group counted: Spark's report of a killed worker names no cause."""
    if not host.oom_kills_new or "worker died" not in fault.cause:
        return fault
    kills = many(host.oom_kills_new, "out-of-memory kill")
    return replace(fault, cause=f"{fault.cause}, out of memory: its control group counts {kills} since its start")


def _of_steps(share: HostShare | None) -> float | None:
    """Return how many committed steps were at work at a time; None where unknown."""
    if share is None or share.read is None or share.write is None or share.register is None:
        return None
    return share.read + share.write + share.register


def _with_side(lag: Fault, share: HostShare | None, host: HostReport, pressed: bool) -> Fault:
    side = slow_side(share, host, pressed)
    return lag if side is None else replace(lag, party=side[0], cause=f"{lag.cause}; {side[1]}")


def _of(part: float | None) -> str:
    """Format a share in percent.

    >>> _of(0.113), _of(0.004), _of(None)
    ('11 %', 'less than 1 %', '')
    """
    if part is None:
        return ""
    return f"{100 * part:.0f} %" if part >= 0.01 else "less than 1 %"
