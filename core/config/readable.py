"""Which jobs' password files cannot be read: what keeps a job from its next start, told before anybody needs it.

A variable may be set for jobs alone, and a command may ask somebody: neither is tried.
"""

from __future__ import annotations

from slotkeeper.core.config import secrets
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.errors import ConfigError


def unreadable(loaded: Loaded) -> dict[str, ConfigError]:
    """The jobs one of whose password files cannot be read, each with the error of the last of them."""
    found = {}
    for name, job in loaded.jobs.items():
        ends = (job.source, job.sink, job.store_at[0])
        refs = dict.fromkeys([job.spark.secret, *(ref for end in ends for ref in (end.password, end.sslpassword))])
        for ref in (one for one in refs if one.how == "file"):
            try:
                secrets.resolve(ref)
            except ConfigError as error:
                found[name] = error
    return found
