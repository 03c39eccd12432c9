"""The pages of the documentation that an installation has: `docs/*.md` of the checkout, and the example units.

`console/docs` is a link to the checkout's folder, so that a wheel has the pages as data of this package.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable

from slotkeeper.core.domain.text import anchor, see
from slotkeeper.core.errors import ConfigError

_HEADING = re.compile(r"^#{1,6} (.+)$")
_FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Page:
    """One page: `name` as it is typed, `text` from `section` (an anchor) on, or whole where that is empty."""

    name: str
    title: str
    text: str
    section: str = ""

    @property
    def markdown(self) -> bool:
        """Whether it is Markdown; the other pages are files to copy."""
        return "/" not in self.name


def names() -> list[str]:
    """What `slotkeeper docs` opens, in the order of its list."""
    return list(_files())


def titles() -> list[tuple[str, str]]:
    """Each page's name and title."""
    return [(name, _title(name, file.read_text("utf-8"))) for name, file in _files().items()]


def page(typed: str) -> Page:
    """The page that is typed as PAGE or PAGE#SECTION; raises ConfigError that names those there are."""
    name, _, section = typed.partition("#")
    files = _files()
    name = name.removeprefix("docs/").removesuffix(".md").lower() if name not in files else name
    if name not in files:
        near = get_close_matches(name, files, n=1)
        meant = f"did you mean {see(near[0])}? " if near else ""
        raise ConfigError(f"no page {name!r}", f"{meant}`slotkeeper docs` lists the pages")
    text = files[name].read_text("utf-8")
    title = _title(name, text)
    if not section:
        return Page(name, title, text)
    found = _section(text, section.lower())
    if found is None:
        raise ConfigError(f"page {name} has no section {section!r}", f"open the whole page: {see(name)}")
    at, whole = found
    return Page(name, title, "".join(text.splitlines(keepends=True)[at:]), whole)


def _files() -> dict[str, Traversable]:
    folder = resources.files("slotkeeper.console").joinpath("docs")
    found = {file.name.removesuffix(".md"): file for file in folder.iterdir() if file.name.endswith(".md")}
    units = {f"systemd/{file.name}": file for file in folder.joinpath("systemd").iterdir()}
    return dict(sorted(found.items()) + sorted(units.items()))


def _title(name: str, text: str) -> str:
    """The first heading of a page; what a unit is for."""
    found = re.search(r"^Description=(.+)$" if "/" in name else r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def _headings(text: str) -> list[tuple[int, str]]:
    """The line number and the anchor of each heading; what looks like one in a block of code is none."""
    found, fenced = [], False
    for at, line in enumerate(text.splitlines()):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (heading := _HEADING.match(line)):
            found.append((at, anchor(heading[1])))
    return found


def _section(text: str, section: str) -> tuple[int, str] | None:
    """Where a section starts, and its anchor: the one of that name, else the first that starts so."""
    headings = _headings(text)
    for fits in (str.__eq__, str.startswith):
        for at, name in headings:
            if fits(name, section):
                return at, name
    return None
