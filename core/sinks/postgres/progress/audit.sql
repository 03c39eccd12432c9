-- Statements on slotkeeper_audit, a copy of the audit's lines next to the data, for users who cannot read the audit
-- file.

-- name: has_heads
-- Whether a version that supports hashes has written lines here.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'slotkeeper_audit' AND a.attname = 'head' AND NOT a.attisdropped

-- name: heads
-- The hashes of the lines of some audits, in the order in which they arrived.
SELECT head, at, action || ' ' || phase || ' ' || action_id FROM {schema}.slotkeeper_audit
WHERE chain = ANY(%(chains)s) AND head <> '' ORDER BY written_at, at

-- name: append
-- Appends one line; lines are never changed.
INSERT INTO {schema}.slotkeeper_audit (action_id, phase, at, action, what, who, reason, outcome, line, chain, head)
VALUES (%(action_id)s, %(phase)s, %(at)s, %(action)s, %(what)s, %(who)s, %(reason)s, %(outcome)s, %(line)s,
    %(chain)s, %(head)s)
