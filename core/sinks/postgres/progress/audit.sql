-- The statements on slotkeeper_audit: a copy of the audit's lines beside the data, for those who cannot see the file.

-- name: exists
-- Whether it was ever written here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_audit'

-- name: create
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
    written_at timestamptz NOT NULL DEFAULT now()
)

-- name: append
-- One line more; none is ever changed.
INSERT INTO {schema}.slotkeeper_audit (action_id, phase, at, action, what, who, reason, outcome, line)
VALUES (%(action_id)s, %(phase)s, %(at)s, %(action)s, %(what)s, %(who)s, %(reason)s, %(outcome)s, %(line)s)
