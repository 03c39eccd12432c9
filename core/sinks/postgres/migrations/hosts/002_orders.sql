-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- One row for each command that the owner of a job carries out for a user of another host.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_orders (
    id text NOT NULL PRIMARY KEY,
    job text NOT NULL,
    verb text NOT NULL,
    options json NOT NULL,
    plan text NOT NULL DEFAULT '',
    asked_by text NOT NULL,
    asked_why text NOT NULL,
    asked_at timestamptz NOT NULL,
    taken_by text NOT NULL DEFAULT '',
    code integer,
    said text NOT NULL DEFAULT ''
)
