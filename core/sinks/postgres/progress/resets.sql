-- The statements on slotkeeper_resets, and those of a reset on the progress rows.

-- name: has_epoch
-- Whether the table was made before resets told the epoch that they raised.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'slotkeeper_resets' AND a.attname = 'epoch' AND NOT a.attisdropped

-- name: note_epoch
-- The epoch that a reset has raised: what comes behind it has another, whatever the clock says.
UPDATE {schema}.slotkeeper_resets SET epoch = %(epoch)s WHERE id = %(id)s

-- name: exists
-- Whether any reset was ever made here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_resets'

-- name: insert
-- The reset with its backup, before anything is changed.
INSERT INTO {schema}.slotkeeper_resets
    (id, job, source, source_table, slot, target, plan_id, step, who, reason, plan, backup)
VALUES (%(id)s, %(job)s, %(source)s, %(table)s, %(slot)s, %(target)s, %(plan_id)s, %(step)s, %(who)s, %(reason)s,
        %(plan)s, %(backup)s)

-- name: step
-- How far a reset has come.
UPDATE {schema}.slotkeeper_resets
SET step = %(step)s, outcome = %(outcome)s, ended_at = CASE WHEN %(ended)s THEN now() END
WHERE id = %(id)s

-- name: write
-- A lane's row as the reset wants it, under the epoch; it is locked, and was found as the reset expects it. One that is
-- emptied forgets how its copy went: an undo would go on with chunks whose rows somebody may have emptied out of the
-- target. There it says instead which plan
-- has emptied it, without whose consent no copy replaces rows, and what that wants for the copy, which an undo forgets. What was decided at a separate sink is abandoned; the sink may have it, so it counts as repeated.
-- What is known of the target stays: only a copy renews it, and an undo finds it as it was.
UPDATE {schema}.slotkeeper_progress
SET position = %(position)s, state = %(state)s, noted_start = %(noted_start)s, noted_end = %(noted_end)s,
    registered = %(registered)s, channel = %(channel)s, fingerprint = %(fingerprint)s, updated_at = now(),
    repeats = repeats + coalesce(decided_rows, 0), decided = NULL, decided_token = NULL, decided_rows = NULL,
    copying = CASE WHEN %(state)s = 'creating' THEN %(ordered)s
                   WHEN state <> 'creating' THEN copying END,
    chunks = CASE WHEN %(state)s <> 'creating' THEN chunks END
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(was_position)s AND state = %(was_state)s

-- name: reset
-- One reset.
SELECT id, job, source, source_table, slot, target, plan_id, step, who, reason, plan, backup, outcome,
       to_char(begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       coalesce(to_char(ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
FROM {schema}.slotkeeper_resets WHERE id = %(id)s

-- name: unfinished
-- A slot's reset that a crash left behind.
SELECT id, job, source, source_table, slot, target, plan_id, step, who, reason, plan, backup, outcome,
       to_char(begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       coalesce(to_char(ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND step IN ('begun', 'rows written', 'rolling back')
ORDER BY begun_at LIMIT 1

-- name: history
-- A slot's resets, the newest first.
SELECT id, job, source, source_table, slot, target, plan_id, step, who, reason, plan, backup, outcome,
       to_char(begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       coalesce(to_char(ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY begun_at DESC, id DESC LIMIT %(limit)s

-- name: ended
-- The plans of a slot's ended resets that raised an epoch, and that epoch, the newest first: epochs only grow, a clock
-- may be set back.
SELECT plan, epoch
FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND ended_at IS NOT NULL AND epoch IS NOT NULL
ORDER BY epoch DESC, begun_at DESC, id DESC LIMIT %(limit)s

-- name: writable
-- Whether this session may change the progress rows now.
SELECT has_table_privilege(%(table)s, 'UPDATE') AND NOT pg_is_in_recovery()
       AND current_setting('transaction_read_only') = 'off'

-- name: lease_id
-- The run that the rows name: what --steal has to be given.
SELECT run FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY updated_at DESC LIMIT 1

-- name: end_holder
-- Ends the session that holds the lease, of any owner, as far as the server allows it.
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND ((classid::bigint << 32) | objid::bigint) = %(lease)s
