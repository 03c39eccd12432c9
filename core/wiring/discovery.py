"""Lists the tables of a job's source for its patterns, and stores the answer for commands and screens."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from slotkeeper.core.config.patterns import take_in, with_known
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.inventory import TablesFound, literal_schemas
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError, ErrorKind, SlotkeeperError
from slotkeeper.core.sources import registry
from slotkeeper.core.state import inventory
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder

PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)


class SourceTables:
    """Implements `slotkeeper.core.engine.driver.context.Discovery`; `job` has the channels of the configuration only.

    One session of its own, so that a source that hangs delays nothing else.
    """

    def __init__(self, job: JobSpec, folder: StateFolder) -> None:
        self._job, self._folder = job, folder
        self._session = registry.open(job.source_kind).connect(login(job.source, f"slotkeeper-tables/{job.name}"[:63]))

    def look(self) -> TablesFound:
        job = self._job
        listed = self._session.doctor.list_tables(literal_schemas(job.patterns), job.binlog.binlog)
        before = inventory.known(self._folder.path, job.name)
        found, kept = take_in(job, listed, before)
        if kept != before:
            with suppress(StateError):  # the mirror does not depend on this host's disk
                inventory.keep(self._folder, job.name, kept)
        return found

    def first(self) -> JobSpec:
        """Return the job with its tables for a start: as the source lists them or, if it fails, as last known.

        Raises a SlotkeeperError: of the source if no table is known yet, and ConfigError if no table is left.
        """
        try:
            found = replace(self._job, channels=self.look().channels)
        except ConfigError:
            raise
        except SlotkeeperError:
            found = with_known({self._job.name: self._job}, self._folder.path)[self._job.name]
            if len(found.channels) == len(self._job.channels):
                raise
        if not found.channels:
            what = f"jobs.{self._job.name}: every table of its patterns was dropped at the source"
            raise ConfigError(what, "start the job once a table exists again, or change its patterns")
        return found

    def close(self) -> None:
        self._session.sever()
