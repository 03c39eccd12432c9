"""The demo with layers: orders and customers (ODS), their join with a dimension (DWD), and two aggregates (DWS).

The upper layers are SQL views (ADR 94). At the end, each is compared with its SELECT, after the tables.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import closing

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.services import views as service
from slotkeeper.demo import orders
from slotkeeper.demo.run import JOB, SINK_DATABASE, SINK_USER, TARGET, Demo, DemoOptions
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.writers import Connect, Loop, gone

CUSTOMERS, CUSTOMERS_TARGET = "ods.customers", "mart.customers"
REGIONS = 6
_EVERY_S = 0.5
_COUNTRY = "(ARRAY['DE', 'FR', 'CN'])[1 + n % 3]"
_CHANNEL = f"""
[[jobs.{JOB}.channels]]
from = "{CUSTOMERS}"
into = "{CUSTOMERS_TARGET}"
create_target = true
"""
VIEWS = {
    "dwd.orders_wide": f"""
SELECT o.cust, o.order_no, o.status, o.amount, c.region, c.tier, r.country
FROM {TARGET} o
LEFT JOIN {CUSTOMERS_TARGET} c ON c.id = o.cust
LEFT JOIN dim.regions r ON r.region = c.region
""",
    "dws.regions": """
SELECT w.region, count(*) AS orders, count(DISTINCT w.cust) AS customers, max(w.amount) AS highest
FROM dwd.orders_wide w GROUP BY w.region
""",
    "dws.sales": """
SELECT w.country, w.status, count(*) AS orders, sum(w.amount) AS amount
FROM dwd.orders_wide w GROUP BY w.country, w.status
""",
}
"""The SELECT of each view, by its table."""
_OPTIONS = {"dwd.orders_wide": 'key = ["cust", "order_no"]\nlookup = ["dim.regions"]\n'}


class Layered(Demo):
    """A demo with customers beside the orders, a dimension in the sink, and views over them."""

    def __init__(self, options: DemoOptions, say: Callable[[str], None]) -> None:
        super().__init__(options, say)
        self._customers: _Customers | None = None

    def make_source(self) -> None:
        """Create both tables of the source, and the dimension in the sink."""
        super().make_source()
        warehouse, sink = self.incident_source(), self._sink()
        assert isinstance(warehouse, Warehouse)
        warehouse.create_table(CUSTOMERS, "id bigint NOT NULL, region text, tier int", ("id",))
        rows = f"SELECT n, 'r' || n % {REGIONS}, n % 3 FROM generate_series(1, {orders.CUSTS}) n"
        with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"INSERT INTO {CUSTOMERS} {rows}")
        rows = f"SELECT 'r' || n AS region, {_COUNTRY} AS country FROM generate_series(0, {REGIONS - 1}) n"
        with closing(sink.connect(SINK_DATABASE)) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA dim AUTHORIZATION {SINK_USER}; CREATE TABLE dim.regions AS {rows}")
            cursor.execute(
                f"ALTER TABLE dim.regions ADD PRIMARY KEY (region); GRANT SELECT ON dim.regions TO {SINK_USER}"
            )

    def written_down(self, sink: str) -> str:
        """Return the text of the configuration, with the customers and the views."""
        views = (
            f'\n[[jobs.{JOB}.views]]\ninto = "{into}"\n{_OPTIONS.get(into, "")}sql = """{sql}"""\n'
            for into, sql in VIEWS.items()
        )
        return "".join((super().written_down(sink), _CHANNEL, *views))

    def start_writers(self) -> None:
        """Start the writers of the orders, and one that moves customers between regions and tiers."""
        super().start_writers()
        warehouse = self._known()[0]
        self._customers = _Customers(lambda: warehouse.connect(autocommit=False), self.options.seed)
        self._customers.start()

    def stop_writers(self) -> None:
        super().stop_writers()
        if self._customers is not None:
            self._customers.stop()
            self._customers.finish()

    def recording(self) -> int:
        """Return the number of lanes of the orders that have started."""
        return len(self.applied()) if super().recording() == 2 * self.options.dns else 0

    def applied(self) -> dict[str, int]:
        """Return the events of the orders per DN: the ledger contains no others."""
        rows = self._at_sink(f"SELECT shard, changes FROM slotkeeper_progress WHERE source_table = '{orders.TABLE}'")
        return {str(shard): int(str(changes)) for shard, changes in rows}

    def caught_up(self) -> bool:
        """Whether orders and customers are applied, and all views follow."""
        if not super().caught_up():
            return False
        rows = "SELECT id, region, tier FROM {} ORDER BY id"
        with closing(self._known()[0].connect()) as connection, connection.cursor() as cursor:
            cursor.execute(rows.format(CUSTOMERS))
            if cursor.fetchall() != self._at_sink(rows.format(CUSTOMERS_TARGET)):
                return False
        states = self._at_sink("SELECT state FROM slotkeeper_views")
        if (ViewState.FAILED.value,) in states:
            raise Refused("a view has failed", "`slotkeeper views list` shows why")
        return states == [(ViewState.RUNNING.value,)] * len(VIEWS)

    def verify_views(self) -> dict[str, bool]:
        """Compare every view with its SELECT."""
        assert self.loaded is not None
        return {view: not service.verify(self.loaded.jobs[JOB], view) for view in VIEWS}

    def _quiet_threads(self) -> None:
        super()._quiet_threads()
        if self._customers is not None:
            self._customers.stop()


class _Customers(Loop):
    """Moves a few customers to another region and tier, twice a second."""

    def __init__(self, connect: Connect, seed: int) -> None:
        super().__init__(connect, "customers", SystemClock().monotonic)
        self._chance = random.Random(seed)  # noqa: S311  repeatable, not secret

    def work(self) -> None:
        """Change customers until stopped."""
        while not self._stop_asked.wait(_EVERY_S):
            connection = self._line.open()
            if connection is None:
                return
            first = self._chance.randint(1, orders.CUSTS)
            moved = f"r{self._chance.randrange(REGIONS)}", self._chance.randrange(3), first, first + 2
            try:
                with pg.transaction(connection) as cursor:
                    cursor.execute(f"UPDATE {CUSTOMERS} SET region = %s, tier = %s WHERE id BETWEEN %s AND %s", moved)
            except pg.DriverError as error:
                if not gone(error):
                    raise
                self._line.drop()
