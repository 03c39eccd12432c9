"""Runs the import contracts of `.importlinter` over a checkout, without the lines that name absent modules."""

from __future__ import annotations

import configparser
from pathlib import Path

from tests.architecture.checkout import python

_LISTS = ("modules", "source_modules", "forbidden_modules")
_RUN = "from importlinter.cli import lint_imports; raise SystemExit(lint_imports(config_filename={!r}, no_cache=True))"


def exists(root: Path, module: str) -> bool:
    """Whether a module exists; modules outside Slotkeeper always count as existing."""
    if module.split(".")[0] != "slotkeeper":
        return True
    path = root.joinpath(*module.split("."))
    return path.with_suffix(".py").is_file() or any(path.rglob("*.py"))


def contracts(root: Path, config: Path) -> list[str]:
    """Write to `config` the contracts that can be run in this checkout; returns the modules left out."""
    parsed = configparser.ConfigParser(interpolation=None)
    parsed.read(root / ".importlinter", "utf-8")
    absent: list[str] = []
    for section in parsed.sections():
        for option in _LISTS:
            listed = parsed.get(section, option, fallback="").split()
            absent += [m for m in listed if not exists(root, m)]
            if listed:
                kept = [m for m in listed if exists(root, m)]
                parsed.set(section, option, "\n" + "\n".join(kept) if kept else "")
        lists = [parsed.get(section, o) for o in _LISTS if parsed.has_option(section, o)]
        if any(not text.strip() for text in lists) or (
            parsed.get(section, "type", fallback="") == "independence" and len(lists[0].split()) < 2
        ):
            parsed.remove_section(section)
    with config.open("w", encoding="utf-8") as file:
        parsed.write(file)
    return sorted(set(absent))


def broken(root: Path, config: Path) -> str:
    """Return import-linter's report about the checkout; empty if every contract is met."""
    contracts(root, config)
    ran = python(_RUN.format(str(config)), root)
    return "" if ran.returncode == 0 else ran.stdout + ran.stderr
