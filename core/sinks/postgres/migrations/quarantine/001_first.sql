-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- Key and texts are the source's text, names the target's.
CREATE TABLE {schema}.slotkeeper_quarantine (
    id bigserial NOT NULL,
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    shard text NOT NULL,
    target text NOT NULL,
    point bigint NOT NULL,
    sequence bigint NOT NULL,
    kind text NOT NULL,
    key text[] NOT NULL,
    names text[] NOT NULL,
    texts text[] NOT NULL,
    damaged boolean NOT NULL,
    sqlstate text NOT NULL,
    named_column text NOT NULL,
    named_constraint text NOT NULL,
    message text NOT NULL,
    tries integer NOT NULL,
    job text NOT NULL,
    run text NOT NULL,
    epoch bigint NOT NULL,
    quarantined_at timestamptz NOT NULL,
    state text NOT NULL,
    ended_at timestamptz,
    ended_by text NOT NULL,
    reason text NOT NULL,
    pair text NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX slotkeeper_quarantine_state ON {schema}.slotkeeper_quarantine (source, source_table, slot, state)

-- name: apply_dws
-- The same on a DWS.
CREATE TABLE {schema}.slotkeeper_quarantine (
    id bigserial NOT NULL,
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    shard text NOT NULL,
    target text NOT NULL,
    point bigint NOT NULL,
    sequence bigint NOT NULL,
    kind text NOT NULL,
    key text[] NOT NULL,
    names text[] NOT NULL,
    texts text[] NOT NULL,
    damaged boolean NOT NULL,
    sqlstate text NOT NULL,
    named_column text NOT NULL,
    named_constraint text NOT NULL,
    message text NOT NULL,
    tries integer NOT NULL,
    job text NOT NULL,
    run text NOT NULL,
    epoch bigint NOT NULL,
    quarantined_at timestamptz NOT NULL,
    state text NOT NULL,
    ended_at timestamptz,
    ended_by text NOT NULL,
    reason text NOT NULL,
    pair text NOT NULL,
    PRIMARY KEY (id)
) WITH (orientation = row) DISTRIBUTE BY HASH (id);
CREATE INDEX slotkeeper_quarantine_state ON {schema}.slotkeeper_quarantine (source, source_table, slot, state)
