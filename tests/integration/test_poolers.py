"""Behind a pooler that keeps no session per connection nothing runs, and nothing of Slotkeeper stays there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.config.load import load
from core.config.secrets import resolve
from core.domain.endpoint import Endpoint
from core.domain.finding import Level
from core.drivers import affinity, pg
from core.drivers.session import Dialect, Session
from core.embedded.postgres import Server
from core.embedded.warehouse import Warehouse
from core.errors import Refused, SlotkeeperError
from core.services.doctor import check_sink, check_source
from core.sinks.hologres.kind import DIALECT as HOLOGRES_SINK
from core.sinks.postgres.session import dialect_of
from core.sources.dws.poll import QUIET
from core.sources.dws.session import DWS
from core.sources.hologres.session import HOLOGRES
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.pooler import MakePooler, Pooler
from tests.support.waiting import until

TABLE = "ods.orders"
SHARING = ("transaction", "statement")
DIALECTS = {
    "source dws": DWS,
    "source dws, looking": QUIET,
    "source hologres": HOLOGRES,
    "sink postgres": dialect_of("postgres"),
    "sink dws": dialect_of("dws"),
    "sink hologres": HOLOGRES_SINK,
}
SAID = "keeps no server session"


def session(endpoint: Endpoint, dialect: Dialect) -> Session:
    return Session(endpoint, resolve(endpoint.password), "slotkeeper/test", dialect)


def left_on_server(pooler: Pooler, endpoint: Endpoint) -> list[tuple[Any, ...]]:
    """What a program that comes next finds set in the pooler's server sessions, and locks that nobody of it took."""
    found = []
    with closing(pg.log_in(pooler.before(endpoint), resolve(endpoint.password), "another program")) as other:
        with other.cursor() as cursor:
            cursor.execute("SELECT name, setting FROM pg_catalog.pg_settings WHERE source = 'session'")
            found += [row for row in cursor.fetchall() if row[0] not in ("application_name", "DateStyle")]
            cursor.execute("SELECT 'lock', objid FROM pg_catalog.pg_locks WHERE locktype = 'advisory'")
            found += cursor.fetchall()
    return found


@pytest.mark.parametrize("mode", SHARING)
@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_a_session_through_a_pooler_that_shares_its_server_sessions_is_refused_and_leaves_nothing(
    pg_server: Server, make_pooler: MakePooler, mode: str, dialect: Dialect
) -> None:
    endpoint = pg_server.endpoint("postgres")
    pooler = make_pooler([endpoint], mode)
    refused = session(pooler.before(endpoint), dialect)
    with pytest.raises(Refused, match=SAID) as caught:
        refused.ready()
    refused.close()
    assert "session mode" in caught.value.hint and caught.value.where == dialect.side
    assert left_on_server(pooler, endpoint) == []
