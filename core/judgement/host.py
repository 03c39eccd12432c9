"""Whether this host is why a job is late: its pressure in the window of the late step, against limits. Pure.

The host is named only where it kept back what the job needed in that very window, and then before what follows from it.
A sink that is blamed for what this host lacks sends people to the wrong server, and so does the other way round.

Limits. A job that gets half of the CPU time that its threads were ready for (`/proc/<pid>/schedstat`, Linux "Scheduler
Statistics") takes twice as long by that alone: from there on the host outweighs everything else together. PSI
("Pressure Stall Information") shows that others wait for a CPU, too; where a kernel has none, the load does. Of a CPU
limit: kubernetes-mixin calls a container throttled from 25 % of its periods on (CPUThrottlingHigh). Of memory: half of
the 60 % of stalled time at which systemd-oomd kills (oomd.conf(5), DefaultMemoryPressureLimit). That tasks wait for a
disk names no culprit: a driver hardly uses one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Party, Severity, is_worse
from slotkeeper.core.domain.host import SHORT, HostReport, HostShare
from slotkeeper.core.domain.remedy import by_hand
from slotkeeper.core.domain.text import many
from slotkeeper.core.judgement.facts import BEHIND_SECONDS, MIB, Facts, JobSeen

HERE = "this host"
FRESH = 30.0
"""A reading that is older shows nothing of now: supervisors read every five seconds, and later where they starve."""
CONTENDED, LOADED = 0.5, 2.0
"""PSI's part of the time in which a task waits for a CPU; without PSI the load for each CPU."""
GOT, WAITED = 0.5, 0.25
"""What the job got at most of the CPU time that it was ready for, and how many of its threads waited at least: a step
that waits for a server is ready for little, and what that little waits for a CPU does not make it late."""
THROTTLED, MEMORY = 0.25, 0.3
BUSIEST = 0.7
"""The part of its steps' time from which on one side is what a job waits for."""
_BY_TIME = re.compile(r"(?:did|does) not (?:end|answer)|no answer|time-?out|timed out|within [\d.]+ s\b", re.IGNORECASE)
"""What is reported of work that a limit of time has ended, in a server's words or our own."""
_OF_SERVERS = ("source_fails", "dn_fails", "sink_fails", "driver_retries")
_SIDES = {"read": (Party.SOURCE, "source"), "write": (Party.SINK, "sink")}


def by_host(faults: Iterable[Fault], seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    """A job's faults with this host's, and a lag with the side that causes it.

    A time limit of a sink that runs on this host is the host's then. One of another server stays: whether it answers
    cannot be judged from here.
    """
    found, host = list(faults), seen.host
    past = None if host is None else elapsed(datetime.fromtimestamp(host.at, timezone.utc), facts.now)
    runs = seen.view.lives and seen.view.state.has_process
    if host is None or past is None or past > FRESH or not runs or facts.machine.full:
        yield from found
        return
    pressed = {one.key: pressure(window(one, seen, facts), host) for one in found if _may_be_by_host(one)}
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
            by_hand("end or move what else uses this host, or give the job more of it; it continues by itself"), None,
            seen.view.name, value=_of(None if host.short is None else host.short.got), limit=_of(GOT),
        )  # fmt: skip


def _may_be_by_host(fault: Fault) -> bool:
    """Whether a fault may come of what this host lacks: what a server refuses never does."""
    return fault.rule in ("lag", "driver_silent") or (fault.rule in _OF_SERVERS and bool(_BY_TIME.search(fault.cause)))


def window(fault: Fault, seen: JobSeen, facts: Facts) -> HostShare | None:
    """The shares of the late step's own time: since the last commit of its lane, else of the time that a limit took.

    A step that a limit has ended began before its fault did, and so the longer window is its.
    """
    view, host = seen.view, seen.host
    assert host is not None
    if fault.rule != "lag" or view.report is None or view.reported_at is None:
        return host.long
    ages = [lane.last_commit_age for lane in view.report.lanes if lane.name == fault.name]
    past = elapsed(view.reported_at, facts.now)
    since = None if past is None or not ages or ages[0] is None else ages[0] + past
    return host.long if since is None or since > 2 * SHORT else host.short


def pressure(share: HostShare | None, host: HostReport) -> str:
    """What this host kept back in a window, in words; "" where it was below every limit, or is not known.

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
        starved = share.got <= GOT and (share.waited or 0.0) >= WAITED
    else:  # what the job was ready for is not known: then both the pressure and the load have to say so
        starved = bool(by_load) or throttled
    if not (starved and (contended or throttled)):
        return ""
    cpus = "" if host.cpus is None else f"{host.cpus} CPU{'s' * (host.cpus != 1)}"
    load = "" if host.load is None else f"load {host.load:.0f}"
    limit = f"its CPU limit stopped the job in {_of(share.throttled)} of its periods" if throttled else ""
    got = "" if share.driver_cpu is None else f"the driver got {_of(share.driver_cpu)} of one"
    return "; ".join(part for part in (", ".join(filter(None, (cpus, load))), limit, got) if part)


def slow_side(share: HostShare | None, host: HostReport, pressed: bool) -> tuple[Party, str] | None:
    """The side that takes most of the job's steps' time, and that in words; None where none does, or nothing is known.

    Where no step was committed in the window, those before it count. On a host that is short itself it is the sink only
    where that is elsewhere, and the steps slept for most of their time: the rest is this host's.

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
    """What Spark reports of a worker that was killed has no cause: the control group may have counted it."""
    if not host.oom_kills_new or "worker died" not in fault.cause:
        return fault
    kills = many(host.oom_kills_new, "out-of-memory kill")
    return replace(fault, cause=f"{fault.cause}, out of memory: its control group counts {kills} since its start")


def _of_steps(share: HostShare | None) -> float | None:
    """How many steps were at work at a time, as far as they were committed; None where that is unknown."""
    if share is None or share.read is None or share.write is None or share.register is None:
        return None
    return share.read + share.write + share.register


def _with_side(lag: Fault, share: HostShare | None, host: HostReport, pressed: bool) -> Fault:
    side = slow_side(share, host, pressed)
    return lag if side is None else replace(lag, party=side[0], cause=f"{lag.cause}; {side[1]}")


def _of(part: float | None) -> str:
    """A part in percent.

    >>> _of(0.113), _of(0.004), _of(None)
    ('11 %', 'less than 1 %', '')
    """
    if part is None:
        return ""
    return f"{100 * part:.0f} %" if part >= 0.01 else "less than 1 %"
