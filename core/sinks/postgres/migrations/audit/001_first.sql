-- Frozen: a file that has landed is never changed (tests/fixtures/upgrade/frozen.sha256). What is new has the next number.

-- name: apply
-- One row per line; `line` is the whole of it.
CREATE TABLE IF NOT EXISTS {schema}.slotkeeper_audit (
    action_id text NOT NULL,
    phase text NOT NULL,
    at timestamptz NOT NULL,
    action text NOT NULL,
    what text NOT NULL,
    who text NOT NULL,
    reason text NOT NULL,
    outcome text NOT NULL,
    line json NOT NULL,
    chain text NOT NULL DEFAULT '',
    head text NOT NULL DEFAULT '',
    written_at timestamptz NOT NULL DEFAULT now()
)
