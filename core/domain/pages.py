"""How messages name what an installation can lack or has: an extra to install, a page of the documentation to open."""

from __future__ import annotations

import re


def see(page: str, title: str = "") -> str:
    """The command that opens a page, in backquotes; at the section of that title where one is given.

    >>> see("mysql"), see("runbook", "Slot lost: the slot expired")
    ('`slotkeeper docs mysql`', '`slotkeeper docs runbook#slot-lost-the-slot-expired`')
    """
    return f"`slotkeeper docs {page}{f'#{anchor(title)}' if title else ''}`"


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it.

    >>> anchor("`status` says: a job's driver")
    'status-says-a-jobs-driver'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def install(extra: str) -> str:
    """The command that installs an extra of the distribution, in backquotes.

    >>> install("demo")
    '`pip install "slotkeeper[demo]"`'
    """
    return f'`pip install "slotkeeper[{extra}]"`'
