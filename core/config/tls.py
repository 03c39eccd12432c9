"""The TLS keys: their combined meaning, the safety of a configured connection, and the keys that PROD jobs must set.

Source: libpq, "SSL Support" and "Database Connection Control Functions" (`sslmode` and the related keys).
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any

from slotkeeper.core import ownership
from slotkeeper.core.config import secrets
from slotkeeper.core.config.check import Reading, beside, dotted, secret_ref, table_at
from slotkeeper.core.config.model import DEFAULT, Path
from slotkeeper.core.domain.endpoint import INSISTING, SAFEST, VERIFYING, Endpoint, default_mode, weakness
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe

PROD = "PROD"
_FILES = ("sslrootcert", "sslcert", "sslkey")


def settled(reading: Reading, path: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `Endpoint` fields for the TLS keys of the table at `path`; raises ConfigError if keys conflict."""
    mode = given["sslmode"] or default_mode(given["host"])
    if not given["sslmode"]:
        key = (*path, "sslmode")  # the effective mode is shown, because the default depends on the host
        reading.noted = [(key, mode, DEFAULT) if noted[0] == key else noted for noted in reading.noted]
    password = secret_ref(reading, path, given, "sslpassword")
    for name in _FILES:  # a certificate does not protect a connection that can continue without TLS
        if given[name] and mode not in INSISTING:
            what = f'{dotted(path)}.{name} has no effect with sslmode = "{mode}"'
            raise reading.error((*path, name), what, f'set sslmode = "{SAFEST}"')
    if mode in VERIFYING and not given["sslrootcert"]:
        what = f'{dotted(path)}.sslmode = "{mode}" needs the certificate of an authority'
        raise reading.error((*path, "sslmode"), what, "set sslrootcert to its file")
    for one, other in (("sslcert", "sslkey"), ("sslkey", "sslcert")):
        if given[one] and not given[other]:
            raise reading.error((*path, one), f"{dotted(path)} sets {one} without {other}", f"also set {other}")
    if password.how and not given["sslkey"]:
        here = f"sslpassword_{password.how}"
        raise reading.error((*path, here), f"{dotted(path)} sets {here} without sslkey", "set sslkey, or remove it")
    files = {name: str(beside(reading.file, given[name])) if given[name] else "" for name in _FILES}
    return {"sslmode": mode, "sslpassword": password, **files}


def verified(reading: Reading, path: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `Endpoint` fields for connections opened by Python; by default, they use the system's authorities."""
    mode, root = given["sslmode"], given["sslrootcert"]
    if root and mode not in VERIFYING:
        what = f'{dotted(path)}.sslrootcert has no effect with sslmode = "{mode}"'
        raise reading.error((*path, "sslrootcert"), what, f'set sslmode = "{SAFEST}"')
    return {"sslmode": mode, "sslrootcert": str(beside(reading.file, root)) if root else ""}


def refuse_unwritten(reading: Reading, path: Path, job: JobSpec) -> None:
    """Reject a PROD job if a server's sslmode is not set and the default is not safe."""
    if job.environment.upper() != PROD:
        return
    for table, endpoint in (("sources", job.source), ("sinks", job.sink), ("sinks", job.store_at[0])):
        place = (table, endpoint.name)
        if weakness(endpoint) and "sslmode" not in table_at(reading, place):
            what = f"[{dotted(path)}] is a PROD job, but [{dotted(place)}] does not set sslmode"
            raise reading.error(
                place, what, f'set sslmode = "{SAFEST}" and sslrootcert, or set a weaker mode explicitly'
            )


def warnings(where: str, endpoint: Endpoint) -> Iterator[str]:
    """Yield sentences about what is unsafe or missing in an endpoint's TLS settings; opens no connection."""
    weak = weakness(endpoint)
    if weak:
        yield f"{where}: {weak}"
    for name in _FILES:
        said = _complaint(name, getattr(endpoint, name))
        if said:
            yield f"{where}: {said}"
    said = secrets.complaint(endpoint.sslpassword)
    if said:
        yield f"{where}: {said}"


def job_warnings(job: JobSpec) -> Iterator[str]:
    """Yield the warnings for each server of a job; called when the job starts."""
    yield from warnings(f"source {job.source.name}", job.source)
    yield from warnings(f"sink {job.sink.name}", job.sink)
    if job.store is not None:
        yield from warnings(f"sink {job.store.name}", job.store)


def _complaint(name: str, path: str) -> str:
    """Return the problem with a TLS file, or which users could change the authority's certificate; "" if none.

    libpq rejects a key that other users can read, unless root owns the key and only its group can read it.
    """
    if not path:
        return ""
    shown = f"{name} {safe(path)}"
    try:
        found = FilePath(path).stat()
        other = ownership.check(FilePath(path), shown) if name == "sslrootcert" else None
    except OSError as error:
        return f"{shown}: {error.strerror or 'cannot be read'}"
    if name == "sslrootcert":
        return f"{other.text}: a user who can change it decides which server is trusted; {other.hint}" if other else ""
    if name != "sslkey":
        return ""
    allowed = stat.S_IRWXG | stat.S_IRWXO if found.st_uid else stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO
    if found.st_mode & allowed:
        return f"{shown} is accessible to other users (mode {stat.S_IMODE(found.st_mode):04o}); set mode 0600"
    return ""
