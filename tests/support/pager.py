"""A FAKE pager for tests: the command of `[alerts]`, which records its notifications and behaves as a file says.

`python pager.py FOLDER`: appends its standard input to `FOLDER/told`, then does what `FOLDER/do` says: nothing
(exit 0), `fail`, `hang`, `flood`, or `fork` (start a deaf grandchild that notes its pid, then hang).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Pager:
    """Its folder, and its recorded notifications."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder

    @property
    def command(self) -> str:
        """The command as in `[alerts]`."""
        return f"{sys.executable} {Path(__file__)} {self.folder}"

    def does(self, what: str) -> None:
        (self.folder / "do").write_text(what, encoding="ascii")

    def told(self) -> list[Mapping[str, Any]]:
        noted = self.folder / "told"
        return [json.loads(line) for line in noted.read_text("utf-8").splitlines()] if noted.exists() else []

    def kinds(self, rule: str) -> list[str]:
        """The kinds of the notifications of one rule."""
        return [one["kind"] for one in self.told() if one["fault"]["rule"] == rule]


def main() -> None:
    folder = Path(sys.argv[1])
    text = sys.stdin.read()
    with (folder / "told").open("a", encoding="utf-8") as file:
        file.write(text)
    (folder / "environment").write_text(json.dumps(dict(os.environ)), encoding="utf-8")
    does = (folder / "do").read_text("ascii") if (folder / "do").exists() else ""
    if does == "fail":
        print("no route to the pager")
        raise SystemExit(7)
    if does == "flood":
        while True:
            os.write(1, b"x" * 65_536)
    if does == "fork" and os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (folder / "grandchild").write_text(str(os.getpid()), encoding="ascii")
        time.sleep(600)
    if does in ("hang", "fork"):
        time.sleep(600)
    print("paged")


if __name__ == "__main__":
    main()
