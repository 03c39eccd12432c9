"""The places that are searched for a canary password: the system's view of a process, and files."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path


def seen_in(pid: int, *canaries: str) -> str:
    """Return the part of a process that shows one of the canaries: "environ", "cmdline", or nothing."""
    for what in ("environ", "cmdline"):
        try:
            shown = Path(f"/proc/{pid}/{what}").read_bytes()
        except OSError:
            continue
        if any(one.encode() in shown for one in canaries):
            return what
    return ""


def files_with(folders: Iterable[Path], *canaries: str, apart_from: Iterable[Path] = ()) -> list[Path]:
    """The files below these folders that contain a canary."""
    left_out = {path.resolve() for path in apart_from}
    found = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            try:
                content = path.read_bytes() if path.is_file() and path.resolve() not in left_out else b""
            except OSError:
                continue
            if any(one.encode() in content for one in canaries):
                found.append(path)
    return found
