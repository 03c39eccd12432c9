"""Decide whether this host delays a job: compare the host's pressure during the late step with limits. Pure.

This host is reported only if it withheld resources that the job needed during that step; its fault is then reported
before the faults that it causes. Otherwise, a shortage on this host would be attributed to the sink, or vice versa, and
operators would check the wrong server.

Limits. A job that gets half of the CPU time for which its threads were ready (`/proc/<pid>/schedstat`, Linux "Scheduler
Statistics") takes twice as long: at that point, the host outweighs all other causes together. PSI ("Pressure Stall
Information") shows whether other tasks wait for a CPU, too; on a kernel without PSI, the load average does. CPU limit:
kubernetes-mixin reports throttling once 25 % of the periods are throttled (CPUThrottlingHigh). Memory: half of the 60 %
of stalled time at which systemd-oomd kills (oomd.conf(5), DefaultMemoryPressureLimit). Disk waits do not count: a
driver hardly uses a disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Party, Severity, is_worse
from slotkeeper.core.domain.host import SHORT, HostReport, HostShare
from slotkeeper.core.domain.remedy import OR
from slotkeeper.core.domain.text import many
from slotkeeper.core.judgement.facts import BEHIND_SECONDS, MIB, Facts, JobSeen

HERE = "this host"
FRESH = 30.0
"""Maximum age of a reading in seconds: supervisors read every 5 s, and less often when they lack CPU time."""
CONTENDED, LOADED = 0.5, 2.0
"""Limits of CPU contention: the share of time in which a task waits for a CPU (PSI); without PSI, the load per CPU."""
GOT, WAITED = 0.5, 0.25
"""Limits for a starved job: it got at most this share of the CPU time it needed; at least this many threads waited.

A step that waits for a server needs little CPU time, so a shortage of CPU time does not make it late.
"""
WANTED = 1 / 3
"""Minimum number of threads that wanted a CPU, judged by the CPU time that they got on a loaded host.

A thread that always wants a CPU gets about 1/`load` of the CPU time. A driver that only waits for a lock also
accumulates many short CPU waits, but it uses far less CPU time than that.
"""
WAITED_BY_LIMIT = 0.5
"""Minimum number of waiting threads for a step that a time limit ended.

A CPU wait of less than half of the limit does not explain why no answer arrived in time.
"""
THROTTLED, MEMORY = 0.25, 0.3
BUSIEST = 0.7
"""Share of step time above which the source or the sink is the bottleneck."""
_BY_TIME = re.compile(r"(?:did|does) not (?:end|answer)|no answer|time-?out|timed out|within [\d.]+ s\b", re.IGNORECASE)
"""Matches errors of work that a time limit ended, in a server's wording or Slotkeeper's own."""
_OF_LOCKS = re.compile(r"\block\b", re.IGNORECASE)
"""Matches errors of a server's own limit for lock waits."""
_OF_SERVERS = ("source_fails", "dn_fails", "sink_fails", "driver_retries")
_SIDES = {"read": (Party.SOURCE, "source"), "write": (Party.SINK, "sink")}
_FIX = {
    Party.SOURCE: f"Find what slows the source: a lock, a disk, other load{OR}wait: the job skips nothing",
    Party.SINK: "Find what slows the sink: a trigger, a missing index, an index on a function, a lock, a disk, other"
    f" load{OR}wait: the job skips nothing",
}


def by_host(faults: Iterable[Fault], seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    """Yield a job's faults, and a fault of this host if it delays the job; a lag fault names the side that causes it.

    If this host is under pressure, a time limit hit by a sink on this host counts as the host's fault. A time limit hit
    by another server stays that server's fault: this host cannot judge whether that server answers.
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
    lags = [*seen.lags.items(), *seen.least_lags.items()]
    locked = seen.view.report.locked_lanes if seen.view.report else frozenset()  # a lock also explains a lag
    late = any(lag is not None and lag >= BEHIND_SECONDS for name, lag in lags if name not in locked)
    if late and not pressed and not any(one.rule in _OF_SERVERS for one in found):  # a rejection explains a lag
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
            "this host delays the job's steps; nothing is skipped",
            "Stop or move other programs on this host, or give the job more CPU or memory; it then continues", None,
            seen.view.name, value=_of(None if host.short is None else host.short.got), limit=_of(GOT),
        )  # fmt: skip


def _may_be_by_host(fault: Fault) -> bool:
    """Whether a shortage on this host can cause this fault; it never causes a server's rejection or a lock wait."""
    by_time = bool(_BY_TIME.search(fault.cause)) and not _OF_LOCKS.search(fault.cause)
    return fault.rule in ("lag", "driver_silent") or (fault.rule in _OF_SERVERS and by_time)


def window(fault: Fault, seen: JobSeen, facts: Facts) -> HostShare | None:
    """Return the host's shares for a late step, since its lane's last commit if known, else over the longer window.

    A step that a time limit ended started before its fault did, so the longer window is used for it.
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
    """Describe the resources that this host withheld in a window; "" if none, or if unknown.

    >>> contended = HostShare(10.0, cpu_stalled=0.98, driver_cpu=0.11, ran=0.2, waited=1.9)
    >>> pressure(contended, HostReport(0.0, cpus=2, load=80.2))
    '2 CPUs, load 80; the driver got 11 % of one CPU'
    >>> pressure(HostShare(10.0, cpu_stalled=0.98, driver_cpu=0.9, ran=1.0, waited=0.1), HostReport(0.0, 2, 80.2))
    ''
    """
    if share is None:
        return ""
    if share.memory_stalled is not None and share.memory_stalled >= MEMORY:
        left = "" if host.available is None else f"; {host.available // MIB:,} MiB available"
        return f"tasks waited for memory {_of(share.memory_stalled)} of the time{left}"
    by_load = None if host.load is None or not host.cpus else host.load / host.cpus >= LOADED
    contended = by_load if share.cpu_stalled is None else share.cpu_stalled >= CONTENDED
    throttled = share.throttled is not None and share.throttled >= THROTTLED
    if share.got is not None and share.ran is not None:
        if by_load and host.load and host.cpus and not throttled and share.ran * host.load / host.cpus < WANTED:
            return ""
        starved = share.got <= GOT and (share.waited or 0.0) >= waited
    else:  # if the job's ready time is unknown, both pressure and load must show contention
        starved = bool(by_load) or throttled
    if not (starved and (contended or throttled)):
        return ""
    cpus = "" if host.cpus is None else f"{host.cpus} CPU{'s' * (host.cpus != 1)}"
    load = "" if host.load is None else f"load {host.load:.0f}"
    limit = f"the CPU limit throttled the job in {_of(share.throttled)} of its periods" if throttled else ""
    got = "" if share.driver_cpu is None else f"the driver got {_of(share.driver_cpu)} of one CPU"
    return "; ".join(part for part in (", ".join(filter(None, (cpus, load))), limit, got) if part)


def slow_side(share: HostShare | None, host: HostReport, pressed: bool) -> tuple[Party, str] | None:
    """Return the side that takes most of the job's step time, and its description; None if neither does, or if unknown.

    If no step was committed in the window, earlier steps count. If the host is under pressure, the result is the sink
    only if the sink is on another host and the steps slept for most of their time.

    >>> slow_side(HostShare(10.0, read=0.02, write=0.9, register=0.01), HostReport(0.0), False)[1]
    'the sink takes 97 % of the step time'
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
    return party, f"the {called} takes {_of(part[name])} of the step time"


def _with_kills(fault: Fault, host: HostReport) -> Fault:
    """Add the control group's count of out-of-memory kills, because Spark's report of a killed worker has no cause."""
    if not host.oom_kills_new or "worker exited" not in fault.cause:
        return fault
    kills = many(host.oom_kills_new, "out-of-memory kill")
    return replace(fault, cause=f"{fault.cause}, out of memory: its control group recorded {kills} since its start")


def _of_steps(share: HostShare | None) -> float | None:
    """Return the average number of committed steps in progress at a time; None if unknown."""
    if share is None or share.read is None or share.write is None or share.register is None:
        return None
    return share.read + share.write + share.register


def _with_side(lag: Fault, share: HostShare | None, host: HostReport, pressed: bool) -> Fault:
    side = slow_side(share, host, pressed)
    return lag if side is None else replace(lag, party=side[0], cause=f"{lag.cause}; {side[1]}", do=_FIX[side[0]])


def _of(part: float | None) -> str:
    """Format a share as a percentage.

    >>> _of(0.113), _of(0.004), _of(None)
    ('11 %', 'less than 1 %', '')
    """
    if part is None:
        return ""
    return f"{100 * part:.0f} %" if part >= 0.01 else "less than 1 %"
