-- The statements on slotkeeper_audit: a copy of the audit's lines beside the data, for those who cannot see the file.

-- name: has_heads
-- Whether it was ever written here, by a version that knows hashes.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'slotkeeper_audit' AND a.attname = 'head' AND NOT a.attisdropped

-- name: heads
-- The hashes of some audits' lines, in the order in which they came.
SELECT head, at, action || ' ' || phase || ' ' || action_id FROM {schema}.slotkeeper_audit
WHERE chain = ANY(%(chains)s) AND head <> '' ORDER BY written_at, at

-- name: append
-- One line more; none is ever changed.
INSERT INTO {schema}.slotkeeper_audit (action_id, phase, at, action, what, who, reason, outcome, line, chain, head)
VALUES (%(action_id)s, %(phase)s, %(at)s, %(action)s, %(what)s, %(who)s, %(reason)s, %(outcome)s, %(line)s,
    %(chain)s, %(head)s)
