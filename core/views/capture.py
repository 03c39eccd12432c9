"""The triggers that capture the changes to a view's tables, and the tables that they fill.

A trigger runs in the transaction of the change, so a delta and its change are committed together or not at all. It is a
statement trigger with transition tables (PostgreSQL, "CREATE TRIGGER": they hold all rows that the statement changed),
after the statement, so it cannot change the mirrored rows.
"""

from __future__ import annotations

import hashlib

from slotkeeper.core.sqltext import dotted, literal, quoted
from slotkeeper.core.views.plan import OWN, Capture, View
from slotkeeper.core.views.statements import Names, captured, distinct
from slotkeeper.core.views.sums import WEIGHT, sums_of

CAPTURE = OWN + "capture_"
"""The prefix of capturing triggers' functions, followed by a hash of the function's body."""
GUARD = OWN + "guard_"


def create_deltas(view: View, names: Names, adds: bool) -> list[str]:
    """Return the statements that create the tables of captured changes.

    They are filled and emptied continuously. Rounds make their space reusable; with a small threshold, so does
    autovacuum after an interruption.
    """
    storage = "WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0)"
    made = []
    for table in view.tables:
        if adds:
            columns = f"{sums_of(view, '1')} WITH NO DATA"
        else:
            listed = ", ".join(map(quoted, captured(view, table))) or "1 AS nothing"
            columns = f"SELECT {listed} FROM {dotted(table)} WITH NO DATA"
        made.append(f"CREATE TABLE {names.delta(table)} {storage} AS {columns}")
    if adds:
        key = ", ".join(map(quoted, view.key))
        index = quoted(f"{OWN}sums_key_{view.digest}")
        made.append(f"CREATE TABLE {names.sums} WITH (fillfactor = 70) AS {sums_of(view, '1')} WITH NO DATA")
        made.append(f"CREATE UNIQUE INDEX {index} ON {names.sums} ({key}) NULLS NOT DISTINCT")
    return made


def capture_body(view: View, names: Names, table: str, adds: bool) -> str:
    """Return the body of the function that captures the changes to a table.

    It never fails: a view must not stop the mirror, so an error becomes a mark, after which the view is rebuilt. No
    setting switches it off, because every login can change the settings of its session.
    """
    mark = f"INSERT INTO {names.marks} (view, cause) VALUES ({literal(view.target)}, "
    branches = (
        ("INSERT", _captured_rows(view, table, adds, new=True)),
        ("DELETE", _captured_rows(view, table, adds, old=True)),
        ("UPDATE", _captured_rows(view, table, adds, new=True, old=True)),
    )
    cases = "\n".join(
        f"    {'ELSIF' if n else 'IF'} TG_OP = '{event}' THEN\n      INSERT INTO {names.delta(table)} {rows};"
        for n, (event, rows) in enumerate(branches)
    )
    trigger = f"{literal(names.trigger(table, ''))} || lower(left(TG_OP, 1))"
    return f"""
#variable_conflict use_column
BEGIN
{_only_for(table, trigger, mark)}
  IF TG_OP = 'TRUNCATE' THEN
    {mark}{literal(f"{table} was truncated")});
    RETURN NULL;
  END IF;
  BEGIN
{cases}
    END IF;
  EXCEPTION WHEN OTHERS THEN
    {mark}{literal(f"changes of {table} could not be captured: ")} || SQLSTATE || ' ' || SQLERRM);
  END;
  RETURN NULL;
END
"""


def _only_for(table: str, trigger: str, mark: str) -> str:
    """Return the first statement of a function that only one table's triggers can call; `trigger`: an expression.

    The function runs with the rights of its owner: a trigger of another table must not write with them. A table that
    was renamed writes a mark, because it can get its name back before the next round.
    """
    schema, _, name = table.partition(".")
    return f"""  IF TG_TABLE_SCHEMA <> {literal(schema)} OR TG_TABLE_NAME <> {literal(name)}
    OR TG_NAME <> {trigger} THEN
    IF to_regclass({literal(dotted(table))}) IS NULL THEN
      {mark}{literal(f"{table} was renamed")});
    END IF;
    RETURN NULL;
  END IF;"""


def _captured_rows(view: View, table: str, adds: bool, new: bool = False, old: bool = False) -> str:
    if adds:
        parts = [("slotkeeper_new", 1)] * new + [("slotkeeper_old", -1)] * old
        rows = " UNION ALL ".join(f"SELECT {sign} AS {quoted(WEIGHT)}, * FROM {name}" for name, sign in parts)
        alias = quoted(view.branches[0].uses[0].alias)
        return sums_of(view, f"{alias}.{quoted(WEIGHT)}", f"({rows})")
    columns = captured(view, table)
    listed = ", ".join(map(quoted, columns)) or "1"
    tables = ["slotkeeper_new"] * new + ["slotkeeper_old"] * old
    rows = " UNION ALL ".join(f"SELECT {listed} FROM {name}" for name in tables)
    return distinct(columns, f"({rows}) c") if view.capture(False) is Capture.KEYS else rows


def function_of(body: str, prefix: str = CAPTURE) -> str:
    """Return the name of a function, which contains a hash of its body: the body cannot change under the name."""
    return prefix + hashlib.sha256(body.encode()).hexdigest()[:20]


_PINNED = (
    *("search_path = pg_catalog, pg_temp", "TimeZone = 'UTC'", "DateStyle = 'ISO, MDY'", "IntervalStyle = 'postgres'"),
    *("standard_conforming_strings = on", "transform_null_equals = off", "array_nulls = on", "lc_monetary = 'C'"),
    *("xmloption = content", "timezone_abbreviations = 'Default'"),
)
"""Settings of the writer's session that decide what a captured expression means."""


def create_function(names: Names, body: str, prefix: str = CAPTURE) -> list[str]:
    """Return the statements that create a trigger function, which runs with the rights of its owner, for every login.

    PostgreSQL, "CREATE FUNCTION": PUBLIC can execute a new function until that is revoked, and "CREATE TRIGGER": who
    creates a trigger needs that right; who fires it does not.
    """
    name = f"{quoted(names.schema)}.{quoted(function_of(body, prefix))}"
    pinned = " ".join(f"SET {one}" for one in _PINNED)
    return [
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER {pinned}"
        f" AS {literal(body)}",
        f"REVOKE ALL ON FUNCTION {name}() FROM PUBLIC",
    ]


_EVENTS = (
    ("i", "INSERT", " REFERENCING NEW TABLE AS slotkeeper_new"),
    ("u", "UPDATE", " REFERENCING OLD TABLE AS slotkeeper_old NEW TABLE AS slotkeeper_new"),
    ("d", "DELETE", " REFERENCING OLD TABLE AS slotkeeper_old"),
    ("t", "TRUNCATE", ""),
)


def create_triggers(view: View, names: Names, table: str, adds: bool) -> list[str]:
    """Return the statements that let a table's changes be captured; they wait for open writers of the table."""
    body = capture_body(view, names, table, adds)
    function = f"{quoted(names.schema)}.{quoted(function_of(body))}"
    made = create_function(names, body)
    for event, verb, tables in _EVENTS:
        trigger = quoted(names.trigger(table, event))
        made.append(
            f"CREATE OR REPLACE TRIGGER {trigger} AFTER {verb} ON {dotted(table)}{tables}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {function}()"
        )
        made.append(f"ALTER TABLE {dotted(table)} ENABLE TRIGGER {trigger}")
    return made


ROUND = OWN + "views.round"
"""The setting of a transaction that writes the tables of views. Every login can set it, so it is not sufficient."""


def guard_body(view: View, names: Names) -> str:
    """Return the body of the function that records changes to the view's own table by other sessions.

    A round's own changes need the setting and a login with the rights of the function's owner, who is current_user in
    the function (PostgreSQL, "System Information Functions"); such a login could drop the trigger, too.
    """
    mark = f"INSERT INTO {names.marks} (view, cause) VALUES ({literal(view.target)}, "
    return f"""
#variable_conflict use_column
BEGIN
{_only_for(view.target, literal(names.trigger(view.target, "g")), mark)}
  IF current_setting({literal(ROUND)}, true) IS DISTINCT FROM '1'
    OR NOT pg_has_role(session_user, current_user, 'MEMBER') THEN
    {mark}{literal(f"{view.target} was changed by the session of ")} || session_user);
  END IF;
  RETURN NULL;
END
"""


def create_guard(view: View, names: Names) -> list[str]:
    """Return the statements that create the guard, which records changes to the view's own table by other sessions."""
    body = guard_body(view, names)
    function = f"{quoted(names.schema)}.{quoted(function_of(body, GUARD))}"
    trigger = quoted(names.trigger(view.target, "g"))
    return [
        *create_function(names, body, GUARD),
        f"CREATE OR REPLACE TRIGGER {trigger} AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON {dotted(view.target)}"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
        f"ALTER TABLE {dotted(view.target)} ENABLE TRIGGER {trigger}",
    ]


def triggers_of(view: View, names: Names, adds: bool) -> list[tuple[str, str, str]]:
    """Return (table, trigger, function) of all triggers that the view needs."""
    found = [
        (table, names.trigger(table, event), function_of(capture_body(view, names, table, adds)))
        for table in view.tables
        for event, _, _ in _EVENTS
    ]
    return [*found, (view.target, names.trigger(view.target, "g"), function_of(guard_body(view, names), GUARD))]


def drop_tables(view: View, names: Names, with_target: bool = False) -> list[str]:
    """Return the statements that remove the view's tables; its triggers must be gone or locked out."""
    gone = [f"DROP TABLE IF EXISTS {names.delta(table)}" for table in view.tables]
    gone.append(f"DROP TABLE IF EXISTS {names.sums}")
    return [*gone, f"DROP TABLE IF EXISTS {dotted(view.target)}"] if with_target else gone
