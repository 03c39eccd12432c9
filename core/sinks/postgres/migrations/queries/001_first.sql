-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- One row for each slot that a query reads.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_queries (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    epoch bigint NOT NULL,
    query text NOT NULL,
    name text NOT NULL,
    batch bigint,
    checkpoint text NOT NULL,
    newest text NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (source, source_table, slot)
) WITH (fillfactor = 50)

-- name: apply_dws
-- The same on a DWS, as its other tables of ours.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_queries (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    epoch bigint NOT NULL,
    query text NOT NULL,
    name text NOT NULL,
    batch bigint,
    checkpoint text NOT NULL,
    newest text NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (source, source_table, slot)
) WITH (orientation = row, fillfactor = 50) DISTRIBUTE BY HASH (source_table)
