-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- fillfactor and autovacuum: the progress rows are the sink's hottest, updated in every transaction. Chunks are those of
-- copies; columns are what a source table had when its target was last in line with it, a row for each fingerprint.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_progress (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    shard text NOT NULL,
    node_id integer NOT NULL,
    target text NOT NULL,
    position text NOT NULL,
    epoch bigint NOT NULL,
    changes bigint NOT NULL,
    state text NOT NULL,
    noted_start text,
    noted_end text,
    channel text NOT NULL,
    fingerprint text NOT NULL,
    registered text,
    registered_at timestamptz,
    job text NOT NULL,
    run text NOT NULL,
    host text NOT NULL,
    os_user text NOT NULL,
    pid integer NOT NULL,
    updated_at timestamptz NOT NULL,
    dns integer,
    copying text,
    chunks integer,
    decided text,
    decided_token text,
    decided_rows bigint,
    repeats bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (source, source_table, slot, shard),
    UNIQUE (target, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_chunks (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    number integer NOT NULL,
    lo text[] NOT NULL,
    hi text[] NOT NULL,
    epoch bigint NOT NULL,
    state text NOT NULL,
    rows bigint,
    repeats bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (source, source_table, slot, number)
);
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_columns (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    fingerprint text NOT NULL,
    columns text NOT NULL,
    PRIMARY KEY (source, source_table, slot, fingerprint)
)

-- name: apply_dws
-- The same on a DWS: rows, because each is updated in every transaction; every key holds the column by whose hash it lies.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_progress (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    shard text NOT NULL,
    node_id integer NOT NULL,
    target text NOT NULL,
    position text NOT NULL,
    epoch bigint NOT NULL,
    changes bigint NOT NULL,
    state text NOT NULL,
    noted_start text,
    noted_end text,
    channel text NOT NULL,
    fingerprint text NOT NULL,
    registered text,
    registered_at timestamptz,
    job text NOT NULL,
    run text NOT NULL,
    host text NOT NULL,
    os_user text NOT NULL,
    pid integer NOT NULL,
    updated_at timestamptz NOT NULL,
    dns integer,
    copying text,
    chunks integer,
    decided text,
    decided_token text,
    decided_rows bigint,
    repeats bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (source, source_table, slot, shard),
    UNIQUE (target, shard)
) WITH (orientation = row, fillfactor = 50) DISTRIBUTE BY HASH (shard);
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_chunks (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    number integer NOT NULL,
    lo text[] NOT NULL,
    hi text[] NOT NULL,
    epoch bigint NOT NULL,
    state text NOT NULL,
    rows bigint,
    repeats bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (source, source_table, slot, number)
) WITH (orientation = row) DISTRIBUTE BY HASH (number);
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_columns (
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    fingerprint text NOT NULL,
    columns text NOT NULL,
    PRIMARY KEY (source, source_table, slot, fingerprint)
) WITH (orientation = row) DISTRIBUTE BY HASH (source_table)
