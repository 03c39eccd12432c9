-- The statements on our own tables in the sink: progress rows, chunks, sessions.

-- name: known_dns
-- How many lanes the slot has by each of its rows: a row that is lost shows here.
SELECT DISTINCT dns FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: set_dns
-- The fence of an adoption, too: no row is hit where another start has taken over.
UPDATE {schema}.slotkeeper_progress SET dns = %(dns)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s

-- name: rename
-- A renamed DN keeps its row, as a new one: DWS cannot update a distribution column.
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
-- Only a job's start inserts these rows.
INSERT INTO {schema}.slotkeeper_progress
    (source, source_table, slot, shard, node_id, target, position, epoch, changes, state, noted_start, noted_end,
     channel, fingerprint, registered, registered_at,
     job, run, host, os_user, pid, updated_at, dns)
VALUES (%(source)s, %(source_table)s, %(slot)s, %(shard)s, %(node_id)s, %(target)s, %(position)s, %(epoch)s,
        %(changes)s, %(state)s, %(noted_start)s, %(noted_end)s, %(channel)s, %(fingerprint)s, %(registered)s,
        now(), %(job)s, %(run)s, %(host)s, %(os_user)s, %(pid)s, now(), %(dns)s)

-- name: delete_creating
-- Only rows of a start that has not got further than creating.
DELETE FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND epoch = %(epoch)s AND state = 'creating'

-- name: raise_epoch
-- Raises the epoch and writes who runs the job, in one transaction with the chunks below. Never a number that was used
-- before: after a fall back of the sink, epoch + 1 may be one that an old driver still holds (model: loss after 22 moves).
UPDATE {schema}.slotkeeper_progress
SET epoch = greatest(epoch + 1, (extract(epoch FROM now()) * 1000)::bigint), job = %(job)s, run = %(run)s, host = %(host)s, os_user = %(os_user)s, pid = %(pid)s,
    updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: level_epoch
-- The channels of a job have one epoch, the highest that any of them was raised to.
UPDATE {schema}.slotkeeper_progress SET epoch = %(epoch)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: epochs
-- The epochs as this transaction has raised them.
SELECT epoch FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: raise_chunk_epoch
-- The same epoch for the chunks, so that an old copier's chunk is refused.
UPDATE {schema}.slotkeeper_chunks SET epoch = %(epoch)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: fence
-- The step's fence: must hit exactly one row, and comes before anything else that others may wait for. No step commits
-- before its copy has ended: a row in another state is one that the sink fell back to. Nor where a range is decided at
-- a sink beside: the position is then between two points of it.
UPDATE {schema}.slotkeeper_progress SET position = %(new)s, changes = changes + %(rows)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided IS NULL

-- name: fenced_by
-- Which transaction, or part of one, wrote the row last: what its fence was written in.
SELECT xmin::text::bigint FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s

-- name: lock
-- The row under a lock, for a registration.
SELECT shard, node_id, target, position, epoch, changes, state, noted_start, noted_end, channel, fingerprint,
       registered, decided, decided_token, decided_rows, repeats
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
FOR UPDATE

-- name: registered
-- What was registered, written under the lock, with the record of the target's check that it rests on. A record that says
-- why no start passes stays: this registration may have begun before the check that found it.
UPDATE {schema}.slotkeeper_progress
SET registered = %(registered)s, registered_at = now(),
    target_seen = CASE WHEN %(seen)s <> '' AND (target_seen IS NULL OR target_seen LIKE '%%"why":""%%') THEN %(seen)s
                       ELSE target_seen END
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s

-- name: set_state
-- The state of all lanes at once, by compare-and-swap: must hit as many rows as there are lanes.
UPDATE {schema}.slotkeeper_progress SET state = %(state)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s
  AND state = ANY (%(came_from)s)

-- name: lock_rows
-- All lanes of one source table's slot, held until the transaction ends.
SELECT shard, node_id, target, position, epoch, changes, state, noted_start, noted_end, channel, fingerprint,
       registered, decided, decided_token, decided_rows, repeats
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY shard FOR UPDATE

-- name: record_copy
-- How a copy's chunks go in, and how many there are: written with the plan, read for as long as the copy lasts.
UPDATE {schema}.slotkeeper_progress SET copying = %(copying)s, chunks = %(chunks)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND epoch = %(epoch)s

-- name: copy_record
-- Those, by each of the slot's rows.
SELECT DISTINCT copying, chunks FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: ordered
-- What a reset has said for the next copy ('plan ID replace'), or a changed table ('next replace'), by each row that
-- waits for it: it stands where the way of a copy will.
SELECT DISTINCT copying FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'creating'

-- name: order
-- The same, for the rows that a start has put in their place.
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
-- Chunks of an earlier copy.
DELETE FROM {schema}.slotkeeper_chunks
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: chunks_left
-- Chunks still to be copied.
SELECT number, lo, hi FROM {schema}.slotkeeper_chunks
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state <> 'done'
ORDER BY number

-- name: chunk_counts
-- (done, planned in all, rows copied).
SELECT count(CASE WHEN state = 'done' THEN 1 END), count(*), coalesce(sum(rows), 0) FROM {schema}.slotkeeper_chunks
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: registered_age
-- Seconds since the lane of a slot that was registered longest ago was; null where none ever was.
SELECT extract(epoch FROM clock_timestamp() - min(registered_at))::float8 FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: take_chunk
-- The chunk's fence; chunks never lock progress rows.
UPDATE {schema}.slotkeeper_chunks SET state = 'done'
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s
  AND epoch = %(epoch)s AND state = 'planned'

-- name: chunk_rows
-- How many rows a chunk had, for progress.
UPDATE {schema}.slotkeeper_chunks SET rows = %(rows)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s

-- name: holder
-- Who runs a source table's slot, for the refusal of a second start.
SELECT job, run, host, os_user, pid, extract(epoch FROM now() - updated_at)::float8
FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
ORDER BY updated_at DESC LIMIT 1

-- name: target_taken
-- Another slot's rows for the same target.
SELECT job, source, source_table, slot FROM {schema}.slotkeeper_progress
WHERE target = %(target)s AND NOT (source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)
LIMIT 1

-- name: lock_owners
-- Who has a lock of this database, and whether that of our progress rows beside it: a job whose steps our epoch fences.
-- The locks are read once: what is referred to twice is not folded into the query. A prepared transaction has no pid.
WITH taken AS (
    SELECT pid, (classid::bigint << 32) | objid::bigint AS number FROM pg_locks
    WHERE locktype = 'advisory' AND objsubid = 1 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
SELECT l.pid, a.usename, a.application_name, extract(epoch FROM a.backend_start)::float8,
       extract(epoch FROM clock_timestamp() - a.backend_start)::float8, a.query,
       EXISTS (SELECT 1 FROM taken o WHERE o.pid = l.pid AND o.number = %(rows)s) AS of_our_rows
FROM taken l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.number = %(lock)s AND (l.pid IS NULL OR l.pid <> pg_backend_pid())
ORDER BY of_our_rows DESC, l.pid

-- name: end_sessions
-- Ends the job's own sessions, of an earlier start or of an abandoned task, by their names: only the
-- same login's, and only in this database, as a job of the same name may write to another one.
-- PostgreSQL, "System Administration Functions": a member of a session's role can end it. DWS, "Server
-- Signaling Functions": only system administrators may, and those with gs_role_signal_backend ("Preset Roles").
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name LIKE %(pattern)s

-- name: sessions_at_work
--- Whether a statement of such a session runs, by its exact name: a login sees its own. None does where the server tracks
--- no activities.
SELECT 1 FROM pg_stat_activity
WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
  AND application_name = %(name)s AND state = 'active'

-- name: resets_exist
-- Whether any slot was ever reset here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_resets'

-- name: open_reset
-- A reset that a crash left behind: the slot is half moved until it is finished or rolled back.
SELECT id FROM {schema}.slotkeeper_resets
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND step IN ('begun', 'rows written', 'rolling back')
LIMIT 1
