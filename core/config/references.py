"""Secrets and paths as the file writes them: which of the three ways to a secret a table uses, and where a path is.

Next door: `build` and `build_spark` read tables with these; `secrets` resolves what is referred to here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any

from core.config.check import Reading, dotted
from core.config.lines import Path
from core.domain.endpoint import SecretRef

KINDS = ("file", "env", "command")


def secret_ref(reading: Reading, path: Path, given: Mapping[str, Any], word: str = "password") -> SecretRef:
    """The reference of a table's `<word>_file`, `<word>_env` or `<word>_command`; two of them are refused."""
    used = [how for how in KINDS if given[f"{word}_{how}"]]
    if len(used) > 1:
        names = " and ".join(f"{word}_{how}" for how in used)
        raise reading.error((*path, f"{word}_{used[1]}"), f"[{dotted(path)}] sets {names}", "set one of them")
    if not used:
        return SecretRef()
    ref = str(given[f"{word}_{used[0]}"])
    return SecretRef(used[0], str(beside(reading.file, ref)) if used[0] == "file" else ref, word)


def beside(file: FilePath, written: str) -> FilePath:
    """A path of the configuration: `~` is the home, anything relative is relative to the file's folder."""
    path = FilePath(written)
    try:
        path = path.expanduser()
    except RuntimeError:  # no such user: the path stays as written and fails where it is opened
        pass
    return FilePath(file.absolute().parent, path)
