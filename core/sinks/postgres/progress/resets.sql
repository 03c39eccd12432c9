-- Statements on slotkeeper_resets, and the statements of a reset on the progress rows.

-- name: has_epoch
-- Whether the table has the epoch that each reset raised; older tables lack it.
SELECT 1 FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relname = 'slotkeeper_resets' AND a.attname = 'epoch' AND NOT a.attisdropped

-- name: note_epoch
-- The epoch that a reset has raised: all later starts have another epoch, regardless of the clock.
UPDATE {schema}.slotkeeper_resets SET epoch = %(epoch)s WHERE id = %(id)s

-- name: exists
-- Whether any reset was ever made here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_resets'

-- name: insert
-- Inserts the reset with its backup, before anything is changed.
INSERT INTO {schema}.slotkeeper_resets
    (id, job, source, source_table, slot, target, plan_id, step, who, reason, plan, backup)
VALUES (%(id)s, %(job)s, %(source)s, %(table)s, %(slot)s, %(target)s, %(plan_id)s, %(step)s, %(who)s, %(reason)s,
        %(plan)s, %(backup)s)

-- name: step
-- Records the step that a reset has reached.
UPDATE {schema}.slotkeeper_resets
SET step = %(step)s, outcome = %(outcome)s, ended_at = CASE WHEN %(ended)s THEN now() END
WHERE id = %(id)s

-- name: write
-- Writes the row of a lane for a reset, under the epoch; the row is locked and has its expected values. A cleared row
-- loses the state of its copy, because an undo would otherwise continue with chunks whose rows may have been removed
-- from the target. Instead it names the plan that cleared it, without whose consent no copy replaces rows, and the mode
-- requested for that copy; an undo removes both. A range decided for a separate sink is abandoned; because the sink may
-- have it, its rows count as repeats. The record of the target is retained: only a copy renews it, and an undo needs it
-- unchanged.
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
-- A reset of a slot that a crash left unfinished.
SELECT id, job, source, source_table, slot, target, plan_id, step, who, reason, plan, backup, outcome,
       to_char(begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       coalesce(to_char(ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND step IN ('begun', 'rows written', 'rolling back')
ORDER BY begun_at LIMIT 1

-- name: history
-- The resets of a slot, newest first.
SELECT id, job, source, source_table, slot, target, plan_id, step, who, reason, plan, backup, outcome,
       to_char(begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       coalesce(to_char(ended_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), '')
FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY begun_at DESC, id DESC LIMIT %(limit)s

-- name: ended
-- The plan and the epoch of a slot's ended resets that raised an epoch, newest first by epoch, because epochs only
-- increase while a clock can be set back.
SELECT plan, epoch
FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND ended_at IS NOT NULL AND epoch IS NOT NULL
ORDER BY epoch DESC, begun_at DESC, id DESC LIMIT %(limit)s

-- name: writable
-- Whether this session can change the progress rows now.
SELECT has_table_privilege(%(table)s, 'UPDATE') AND NOT pg_is_in_recovery()
       AND current_setting('transaction_read_only') = 'off'

-- name: lease_id
-- The run that the rows name, which --steal requires as its argument.
SELECT run FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY updated_at DESC LIMIT 1

-- name: end_holder
-- Ends the session that holds the lease, regardless of its owner, as far as the server allows it.
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND pid <> pg_backend_pid()
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND ((classid::bigint << 32) | objid::bigint) = %(lease)s
