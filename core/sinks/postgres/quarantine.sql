-- The statements on slotkeeper_quarantine: rows that the target could not hold, until they are superseded or ended.

-- name: exists
-- Whether any job ever asked for it here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_quarantine'

-- name: create
-- One form for both kinds of server; {layout} is a DWS's. Key and texts are the source's text, names the target's.
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
    held_at timestamptz NOT NULL,
    state text NOT NULL,
    ended_at timestamptz,
    ended_by text NOT NULL,
    reason text NOT NULL,
    pair text NOT NULL,
    PRIMARY KEY (id)
){layout};
CREATE INDEX slotkeeper_quarantine_state ON {schema}.slotkeeper_quarantine (source, source_table, slot, state)

-- name: page
-- Entries without their values, the newest first.
SELECT id, source, source_table, slot, shard, target, point, sequence, kind, key, sqlstate, named_column,
       named_constraint, message, tries, job, run, epoch, held_at, state, ended_at, ended_by, reason, pair
FROM {schema}.slotkeeper_quarantine
WHERE (%(source)s = '' OR source = %(source)s) AND (%(source_table)s = '' OR source_table = %(source_table)s)
  AND (%(slot)s = '' OR slot = %(slot)s) AND (%(job)s = '' OR job = %(job)s) AND (%(shard)s = '' OR shard = %(shard)s)
  AND (%(sqlstate)s = '' OR sqlstate = %(sqlstate)s) AND (%(all)s OR state = ANY (%(states)s))
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s

-- name: entry
-- One entry with its values.
SELECT id, source, source_table, slot, shard, target, point, sequence, kind, key, sqlstate, named_column,
       named_constraint, message, tries, job, run, epoch, held_at, state, ended_at, ended_by, reason, pair,
       names, texts
FROM {schema}.slotkeeper_quarantine WHERE id = %(id)s

-- name: counts
-- How many are held for each slot's table.
SELECT source, source_table, slot, max(job), count(*), min(held_at) FROM {schema}.slotkeeper_quarantine
WHERE state = 'held' GROUP BY source, source_table, slot ORDER BY source, source_table, slot
