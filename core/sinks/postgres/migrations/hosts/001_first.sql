-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- One row for each job that several hosts share, and one for each host. Both change every few seconds.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_jobs (
    job text NOT NULL PRIMARY KEY,
    desired text NOT NULL,
    version bigint NOT NULL DEFAULT 0,
    answered bigint NOT NULL DEFAULT 0,
    answer text NOT NULL DEFAULT '',
    asked_by text NOT NULL DEFAULT '',
    asked_why text NOT NULL DEFAULT '',
    settings text NOT NULL,
    owner text NOT NULL,
    host text NOT NULL,
    term bigint NOT NULL DEFAULT 1,
    beats bigint NOT NULL DEFAULT 0,
    beaten_at timestamptz NOT NULL,
    state text NOT NULL,
    text text NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_hosts (
    owner text NOT NULL PRIMARY KEY,
    host text NOT NULL,
    beaten_at timestamptz NOT NULL,
    sources json NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0)
