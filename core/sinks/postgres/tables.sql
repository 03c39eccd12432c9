-- Statements on Slotkeeper's own tables in the sink: progress rows, chunks and sessions.

-- name: known_dns
-- The number of lanes of the slot according to each of its rows, which reveals a lost row.
SELECT DISTINCT dns FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: set_dns
-- Also the fence of an adoption: matches no row if another run has taken over.
UPDATE {schema}.slotkeeper_progress SET dns = %(dns)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s

-- name: rename
-- A renamed DN gets its row as a new row, because DWS cannot update a distribution column.
INSERT INTO {schema}.slotkeeper_progress
    (source, source_table, slot, shard, node_id, target, position, epoch, changes, state, noted_start, noted_end,
     channel, fingerprint, registered, registered_at,
     job, run, host, os_user, pid, updated_at, dns, copying, chunks,
     decided, decided_token, decided_rows, repeats, target_seen)
SELECT source, source_table, slot, %(new)s, node_id, target, position, epoch, changes, state, noted_start, noted_end,
       channel, fingerprint, registered, registered_at,
       job, run, host, os_user, pid, updated_at, dns, copying, chunks,
       decided, decided_token, decided_rows, repeats, target_seen
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s

-- name: renamed
-- The row under the old name.
DELETE FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s

-- name: rows
-- All lanes of one source table's slot.
SELECT shard, node_id, target, position, epoch, changes, state, noted_start, noted_end, channel, fingerprint,
       registered, decided, decided_token, decided_rows, repeats
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY shard

-- name: row
-- One lane.
SELECT shard, node_id, target, position, epoch, changes, state, noted_start, noted_end, channel, fingerprint,
       registered, decided, decided_token, decided_rows, repeats
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s

-- name: insert
-- Only the start of a job inserts these rows.
INSERT INTO {schema}.slotkeeper_progress
    (source, source_table, slot, shard, node_id, target, position, epoch, changes, state, noted_start, noted_end,
     channel, fingerprint, registered, registered_at,
     job, run, host, os_user, pid, updated_at, dns)
VALUES (%(source)s, %(source_table)s, %(slot)s, %(shard)s, %(node_id)s, %(target)s, %(position)s, %(epoch)s,
        %(changes)s, %(state)s, %(noted_start)s, %(noted_end)s, %(channel)s, %(fingerprint)s, %(registered)s,
        now(), %(job)s, %(run)s, %(host)s, %(os_user)s, %(pid)s, now(), %(dns)s)

-- name: delete_creating
-- Deletes only the rows of a start that has not progressed beyond state creating.
DELETE FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND epoch = %(epoch)s AND state = 'creating'

-- name: raise_epoch
-- Raises the epoch and records who runs the job, in one transaction with the chunks below. The epoch is never a number
-- that was used before: after the sink was set back to an older state, an old driver may still hold epoch + 1 (model:
-- loss after 22 moves).
UPDATE {schema}.slotkeeper_progress
SET epoch = greatest(epoch + 1, (extract(epoch FROM now()) * 1000)::bigint), job = %(job)s, run = %(run)s, host = %(host)s, os_user = %(os_user)s, pid = %(pid)s,
    updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: level_epoch
-- The channels of a job share one epoch: the highest to which any channel was raised.
UPDATE {schema}.slotkeeper_progress SET epoch = %(epoch)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: epochs
-- The epochs as raised in this transaction.
SELECT epoch FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: raise_chunk_epoch
-- The same epoch for the chunks, so that the chunk of an old copy task is rejected.
UPDATE {schema}.slotkeeper_chunks SET epoch = %(epoch)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: fence
-- The fence of the step: must match exactly one row, and precedes everything else for which other sessions may wait. No
-- step commits before the copy has ended: a row in another state results from a sink that was set back. No step commits
-- either while a range is decided in a separate sink, because the position is then between two of its points.
UPDATE {schema}.slotkeeper_progress SET position = %(new)s, changes = changes + %(rows)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided IS NULL

-- name: switch
-- The same lane at another server of the source: its position and its decided range there, under the epoch of a start
-- that has no task yet. Must match exactly one row.
UPDATE {schema}.slotkeeper_progress
SET position = %(position)s, fingerprint = %(fingerprint)s, noted_start = %(noted_start)s, noted_end = %(noted_end)s,
    decided = CASE WHEN decided IS NULL THEN NULL ELSE %(decided)s END, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state = %(state)s AND coalesce(decided, '') = %(was_decided)s

-- name: fenced_by
-- The transaction or subtransaction that last wrote the row, which is that of the row's fence.
SELECT xmin::text::bigint FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s

-- name: lock
-- The locked row, for a registration.
SELECT shard, node_id, target, position, epoch, changes, state, noted_start, noted_end, channel, fingerprint,
       registered, decided, decided_token, decided_rows, repeats
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
FOR UPDATE

-- name: registered
-- Stores the registration under the lock, with the record of the target check on which it is based. A record of the
-- reason why no start accepts the target is retained, because this registration may have begun before the check that
-- found it.
UPDATE {schema}.slotkeeper_progress
SET registered = %(registered)s, registered_at = now(),
    target_seen = CASE WHEN %(seen)s <> '' AND (target_seen IS NULL OR target_seen LIKE '%%"why":""%%') THEN %(seen)s
                       ELSE target_seen END
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s

-- name: set_state
-- The state of all lanes at once, by compare-and-swap: must match as many rows as there are lanes.
UPDATE {schema}.slotkeeper_progress SET state = %(state)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
  AND state = ANY (%(came_from)s)

-- name: lock_rows
-- All lanes of one source table's slot, locked until the transaction ends.
SELECT shard, node_id, target, position, epoch, changes, state, noted_start, noted_end, channel, fingerprint,
       registered, decided, decided_token, decided_rows, repeats
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY shard FOR UPDATE

-- name: record_copy
-- The mode of a copy and the number of its chunks, written with the plan and read while the copy lasts.
UPDATE {schema}.slotkeeper_progress SET copying = %(copying)s, chunks = %(chunks)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s

-- name: copy_record
-- The mode and the number of chunks according to each of the slot's rows.
SELECT DISTINCT copying, chunks FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: ordered
-- The consent of a reset ('plan ID replace') or of a changed table ('next replace') to the next copy, by each row that
-- waits for the copy; stored in the column of the copy's mode.
SELECT DISTINCT copying FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'creating'

-- name: order
-- The same consent, for the rows with which a start has replaced them.
UPDATE {schema}.slotkeeper_progress SET copying = %(ordered)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
  AND state = 'creating'

-- name: set_noted_end
-- The point that a lane has to pass before its copy counts as caught up.
UPDATE {schema}.slotkeeper_progress SET noted_end = %(noted_end)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s

-- name: plan_chunk
-- One planned chunk.
INSERT INTO {schema}.slotkeeper_chunks (source, source_table, slot, number, lo, hi, epoch, state)
VALUES (%(source)s, %(source_table)s, %(slot)s, %(number)s, %(lo)s, %(hi)s, %(epoch)s, 'planned')

-- name: forget_chunks
-- The chunks of an earlier copy.
DELETE FROM {schema}.slotkeeper_chunks
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: chunks_left
-- The chunks that remain to be copied.
SELECT number, lo, hi FROM {schema}.slotkeeper_chunks
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state <> 'done'
ORDER BY number

-- name: next_chunk
-- The first planned chunk of an epoch: also of a table that is copied again while it streams.
SELECT number, lo, hi FROM {schema}.slotkeeper_chunks
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
  AND state = 'planned'
ORDER BY number LIMIT 1

-- name: chunk_counts
-- (completed chunks, planned chunks, copied rows).
SELECT count(CASE WHEN state = 'done' THEN 1 END), count(*), coalesce(sum(rows), 0) FROM {schema}.slotkeeper_chunks
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: registered_age
-- Seconds since the oldest registration among the lanes of a slot; NULL if no lane was ever registered.
SELECT extract(epoch FROM clock_timestamp() - min(registered_at))::float8 FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: take_chunk
-- The fence of a chunk; chunks never lock progress rows.
UPDATE {schema}.slotkeeper_chunks SET state = 'done'
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s
  AND epoch = %(epoch)s AND state = 'planned'

-- name: chunk_rows
-- The number of rows of a chunk, for progress reports.
UPDATE {schema}.slotkeeper_chunks SET rows = %(rows)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s

-- name: written_again
-- Counts the rows that a chunk of a table that is copied again has written, behind the fence of the same transaction.
UPDATE {schema}.slotkeeper_progress SET repeats = repeats + %(written)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s

-- name: holder
-- Who runs the slot of a source table, for the error that rejects a second start.
SELECT job, run, host, os_user, pid, extract(epoch FROM now() - updated_at)::float8
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY updated_at DESC LIMIT 1

-- name: target_taken
-- Another slot's rows for the same target: for a part, the same part or the whole target; for a whole target, also any
-- part. A part's name is the target's, followed by ' [column=value]'. Parts by different columns cannot exist, because
-- each requires that the target's only unique key consists of its column and the source's key.
SELECT job, source, source_table, slot FROM {schema}.slotkeeper_progress
WHERE (target IN (%(target)s, %(whole)s) OR %(target)s = %(whole)s AND left(target, length(%(whole)s) + 2) = %(whole)s || ' [')
  AND NOT (source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)
LIMIT 1

-- name: lock_owners
-- The sessions in this database that hold a lock, and whether they also hold the lock of these progress rows: if so,
-- they belong to a job whose steps the epoch of these rows fences. The locks are read once, because a subquery that is
-- referenced twice is not inlined. A prepared transaction has no pid.
WITH taken AS (
    SELECT pid, mode, (classid::bigint << 32) | objid::bigint AS number FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
SELECT l.pid, a.usename, a.application_name, extract(epoch FROM a.backend_start)::float8,
       extract(epoch FROM clock_timestamp() - a.backend_start)::float8, a.query,
       EXISTS (SELECT 1 FROM taken o WHERE o.pid = l.pid AND o.number = %(rows)s) AS of_our_rows
FROM taken l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.number = %(lock)s AND %(mode)s IN ('', l.mode) AND (l.pid IS NULL OR l.pid <> pg_backend_pid())
ORDER BY of_our_rows DESC, l.pid

-- name: end_sessions
-- Ends the job's own sessions of an earlier start or an abandoned task by their names, limited to the same login and
-- this database, because a job of the same name may write to another database. PostgreSQL, "System Administration
-- Functions": a member of a session's role can end the session. DWS, "Server Signaling Functions": only system
-- administrators and members of gs_role_signal_backend ("Preset Roles") can.
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name LIKE %(pattern)s

-- name: session_activity
-- Whether such a session is running a statement, by its exact name, and when its state last changed; a login sees its
-- own sessions. PostgreSQL, "The Cumulative Statistics System": with track_activities off, the state is "disabled";
-- then a session counts as running.
SELECT coalesce(bool_or(state IN ('active', 'disabled') OR state IS NULL), false),
       coalesce(max(state_change)::text, '')
FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name = %(name)s

-- name: resets_exist
-- Whether any slot was ever reset here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_resets'

-- name: open_reset
-- A reset that a crash left unfinished: the slot is in between until the reset is finished or rolled back.
SELECT id FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND step IN ('begun', 'rows written', 'rolling back')
LIMIT 1
