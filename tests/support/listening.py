"""The sockets that processes listen on, and the rows of docs/security.md that allow them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

import psutil

from tests.architecture.checkout import ROOT

_ROW = re.compile(r"^\| `([\w ]+)`[^|]*\| (\d+)[^|]*\|", re.MULTILINE)
_JAVA = {
    "org.apache.spark.deploy.master.Master": "master",
    "org.apache.spark.deploy.worker.Worker": "worker",
    "org.apache.spark.executor.CoarseGrainedExecutorBackend": "executor",
}
"""The JVMs by main class; any other JVM is the driver's."""
_PYTHON = {
    "slotkeeper.core.launch.supervisor": "supervisor",
    "slotkeeper.core.spark.job": "driver",
    "slotkeeper.core.spark.daemon": "python worker",
}


@dataclass(frozen=True, slots=True)
class Socket:
    """A socket that listens (TCP) or receives datagrams (UDP)."""

    process: str
    """The page's name of the process."""
    pid: int
    address: str
    port: int

    @property
    def loopback(self) -> bool:
        at = ip_address(self.address)
        mapped = at.ipv4_mapped if isinstance(at, IPv6Address) else None
        return (mapped or at).is_loopback


def allowed() -> dict[str, int]:
    """Return how many ports one process may listen on, by its name in the table "Ports" of docs/security.md."""
    text = (ROOT / "docs" / "security.md").read_text("utf-8")
    return {name: int(most) for name, most in _ROW.findall(text.partition("\n## Ports\n")[2].partition("\n## ")[0])}


def sockets(processes: Iterable[psutil.Process]) -> list[Socket]:
    """The listening sockets of the processes and of everything below them; one that ends meanwhile has none."""
    found = {}
    for top in processes:
        for process in _tree(top):
            try:
                name = named(process.name(), process.cmdline())
                open_now = process.net_connections("inet")
            except psutil.Error:
                continue
            for one in open_now:
                waits = one.status == psutil.CONN_LISTEN or (one.status == psutil.CONN_NONE and not one.raddr)
                if one.laddr and waits:
                    found[(process.pid, one.laddr)] = Socket(name, process.pid, one.laddr.ip, one.laddr.port)
    return list(found.values())


def named(program: str, command: list[str]) -> str:
    """Return the page's name of a process.

    >>> named("java", ["java", "-cp", "x", "org.apache.spark.deploy.master.Master"])
    'master'
    >>> named("python3.11", ["python", "-m", "slotkeeper.console", "demo"])
    'demo'
    """
    if program == "java":
        alone = "local cluster JVM" if any("local-cluster[" in word for word in command) else "driver JVM"
        return next((name for main, name in _JAVA.items() if main in command), alone)
    if program.startswith("python") or program == "slotkeeper":
        return next((name for module, name in _PYTHON.items() if module in command), "demo")
    return program


def unlisted(found: Iterable[Socket], rows: dict[str, int] | None = None) -> list[str]:
    """Return what the page does not allow: a process without a row, too many ports, an address beyond loopback."""
    rows, found = allowed() if rows is None else rows, list(found)
    wrong = [f"{one.process} listens on {one.address}:{one.port}" for one in found if not one.loopback]
    for (process, pid), ports in Counter((one.process, one.pid) for one in found).items():
        if ports > rows.get(process, 0):
            wrong.append(f"{process} (pid {pid}) listens on {ports} ports, its row has {rows.get(process, 0)}")
    return wrong


def _tree(process: psutil.Process) -> list[psutil.Process]:
    try:
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []
