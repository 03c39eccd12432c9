"""A stand-in for Hologres as a sink: an embedded PostgreSQL whose tables reject what Hologres rejects.

It rejects, according to Alibaba's pages: types that Hologres does not have ("Data types"), keys of other types
("Primary key"), a changed key ("UPDATE with shard keys" is a feature that is not supported), and a second writing
statement in one transaction ("SQL transactions": off unless hg_experimental_enable_transaction, a beta). TIMESTAMPTZ
stores milliseconds, as in Hologres.

What it cannot prove about Hologres:
- that its fixed plan accepts Slotkeeper's statements, how fast it is, and which rows of a failed statement are stored:
  here none;
- which functions of a comparison exist there (md5, bit, float8send), and how a float is written as text;
- its error messages, its connection limits, a change of role, a coordinator that lags;
- shards, storage formats, table groups, partitions, the binlog of the target.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.demo.postgres import Server

SQL, Identifier, Literal = pg.sql.SQL, pg.sql.Identifier, pg.sql.Literal
TYPES = frozenset(
    re.findall(
        r"\w+",
        """
        smallint integer bigint int int2 int4 int8 real double float4 float8 numeric decimal text varchar char character
        boolean bool date time timetz timestamp timestamptz json jsonb bytea oid uuid inet money interval bit varbit
        """,
    )
)
ARRAYS = frozenset(
    re.findall(r"\w+", "int int4 integer int8 bigint float4 real float8 double bool boolean text varchar")
)
NO_KEY = frozenset(re.findall(r"\w+", "real float4 double float8 numeric decimal json jsonb"))
_COLUMN = re.compile(r"\s*(\w+)\s+([a-z0-9]+)([^,(]*)(\([^)]*\))?([^,]*)")

_GUARD = """
CREATE FUNCTION {schema}.{guard}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE said text := txid_current() || ' ' || statement_timestamp();
        before text := coalesce(current_setting('standin.wrote', true), '');
BEGIN
    IF before LIKE txid_current() || ' %' AND before <> said THEN
        RAISE EXCEPTION 'several writing statements in one transaction: hg_experimental_enable_transaction is off'
            USING ERRCODE = '0A000';
    END IF;
    PERFORM set_config('standin.wrote', said, true);
    RETURN NULL;
END $$
"""
_KEEPS = """
CREATE FUNCTION {schema}.{keeps}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND ({changed}) THEN
        RAISE EXCEPTION 'Feature not supported: UPDATE with shard keys' USING ERRCODE = '0A000';
    END IF;
    {rounded}
    RETURN NEW;
END $$
"""


@dataclass(frozen=True, slots=True)
class HologresSinkSide:
    """Tables of one database of an embedded server."""

    server: Server
    database: str

    def create(self, table: str, columns: str, key: Sequence[str]) -> None:
        """Create a table as Hologres would, with triggers as guards; raises Refused, which names a type that
        Hologres lacks.
        """
        schema, name = table.split(".", 1)
        found = [_COLUMN.fullmatch(one) for one in re.split(r",(?![^(]*\))", columns)]
        types = {one[1]: (one[2], "[]" in one[0]) for one in found if one}
        for column, (type_, array) in types.items():
            if type_ not in (ARRAYS if array else TYPES) or (column in key and (array or type_ in NO_KEY)):
                raise Refused(
                    f"Hologres does not support {'key ' if column in key else ''}columns of type {type_}: {column}"
                )
        zoned = [column for column, (type_, _) in types.items() if type_ == "timestamptz"]
        own = {"schema": Identifier(schema), "guard": Identifier(f"guard_{name}"), "keeps": Identifier(f"keeps_{name}")}
        differ = SQL("NEW.{0} IS DISTINCT FROM OLD.{0}")
        cut = SQL("NEW.{0} := date_trunc('milliseconds', NEW.{0});")
        self.run(
            SQL("CREATE SCHEMA IF NOT EXISTS {}").format(own["schema"]),
            SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))").format(
                Identifier(schema, name), SQL(columns), SQL(", ").join(map(Identifier, key))
            ),
            SQL(_GUARD).format(**own),
            SQL(_KEEPS).format(
                **own,
                changed=SQL(" OR ").join(differ.format(Identifier(one)) for one in key),
                rounded=SQL(" ").join(cut.format(Identifier(one)) for one in zoned),
            ),
            SQL(
                "CREATE TRIGGER standin_guard BEFORE INSERT OR UPDATE OR DELETE ON {}"
                " FOR EACH STATEMENT EXECUTE FUNCTION {}.{}()"
            ).format(Identifier(schema, name), own["schema"], own["guard"]),
            SQL(
                "CREATE TRIGGER standin_keeps BEFORE INSERT OR UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION {}.{}()"
            ).format(Identifier(schema, name), own["schema"], own["keeps"]),
        )

    def log_writes(self, table: str, column: str) -> str:
        """Record the `column` of each committed insert or update of a row; return the name of the table with
        these records.
        """
        schema, name = table.split(".", 1)
        log, own = f"{schema}.writes_{name}", Identifier(schema, f"writes_{name}")
        made = Identifier(schema, f"log_{name}")
        body = "BEGIN INSERT INTO {} VALUES (NEW.{}::text); RETURN NULL; END"
        self.run(
            SQL("CREATE TABLE {} (key text)").format(own),
            SQL("CREATE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql AS $$ " + body + " $$").format(
                made, own, Identifier(column)
            ),
            SQL("CREATE TRIGGER standin_log AFTER INSERT OR UPDATE ON {} FOR EACH ROW EXECUTE FUNCTION {}()").format(
                Identifier(schema, name), made
            ),
        )
        return log

    def drop(self, table: str) -> None:
        """Drop a table with its guards."""
        schema, name = table.split(".", 1)
        own = Identifier(schema)
        self.run(
            SQL("DROP TABLE {}").format(Identifier(schema, name)),
            *(SQL("DROP FUNCTION {}.{}()").format(own, Identifier(f"{one}_{name}")) for one in ("guard", "keeps")),
        )

    def run(self, *statements: pg.sql.Composable) -> None:
        """Run statements as the stand-in's owner, each in its own transaction."""
        with closing(self.server.connect(self.database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        with closing(self.server.connect(self.database)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()
