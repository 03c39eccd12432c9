-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- One row per reset: its plan and its backup as JSON text, so that nothing reorders what is hashed.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_resets (
    id text PRIMARY KEY,
    job text NOT NULL,
    source text NOT NULL,
    source_table text NOT NULL,
    slot text NOT NULL,
    target text NOT NULL,
    plan_id text NOT NULL,
    step text NOT NULL,
    who text NOT NULL,
    reason text NOT NULL,
    plan text NOT NULL,
    backup text NOT NULL,
    outcome text NOT NULL DEFAULT '',
    begun_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz,
    epoch bigint
)
