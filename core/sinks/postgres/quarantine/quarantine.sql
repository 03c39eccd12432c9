-- Statements on slotkeeper_quarantine: rows that the target rejected, until they are superseded or closed.

-- name: exists
-- Whether any job has created a quarantine here.
SELECT 1 FROM pg_tables WHERE schemaname = %(schema)s AND tablename = 'slotkeeper_quarantine'

-- name: page
-- Entries without their values, newest first.
SELECT id, source, source_table, slot, shard, target, point, sequence, kind, key, sqlstate, named_column,
       named_constraint, message, tries, job, run, epoch, quarantined_at, state, ended_at, ended_by, reason, pair
FROM {schema}.slotkeeper_quarantine
WHERE (%(source)s = '' OR source = %(source)s) AND (%(source_table)s = '' OR source_table = %(source_table)s)
  AND (%(slot)s = '' OR slot = %(slot)s) AND (%(job)s = '' OR job = %(job)s) AND (%(shard)s = '' OR shard = %(shard)s)
  AND (%(sqlstate)s = '' OR sqlstate = %(sqlstate)s) AND (%(all)s OR state = ANY (%(states)s))
  AND (%(before)s::bigint IS NULL OR id < %(before)s)
ORDER BY id DESC LIMIT %(limit)s

-- name: entry
-- One entry with its values.
SELECT id, source, source_table, slot, shard, target, point, sequence, kind, key, sqlstate, named_column,
       named_constraint, message, tries, job, run, epoch, quarantined_at, state, ended_at, ended_by, reason, pair,
       names, texts
FROM {schema}.slotkeeper_quarantine WHERE id = %(id)s

-- name: entry_values
-- The quarantined rows of a slot's table, as the source wrote them.
SELECT names, texts FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'quarantined'

-- name: counts
-- The numbers of quarantined rows and entries of each slot's table.
SELECT source, source_table, slot, max(job), sum(CASE WHEN kind <> 'B' THEN 1 ELSE 0 END), min(quarantined_at), count(*)
FROM {schema}.slotkeeper_quarantine
WHERE state = 'quarantined' GROUP BY source, source_table, slot ORDER BY source, source_table, slot

-- name: holds
-- Whether a slot's table has quarantined rows; until then, the quarantine costs steps nothing.
SELECT EXISTS (SELECT 1 FROM {schema}.slotkeeper_quarantine
               WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'quarantined')

-- name: quarantined
-- The number of quarantined rows; the two halves of a changed key count once.
SELECT count(*) FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'quarantined' AND kind <> 'B'

-- name: newest
-- The most recently quarantined row.
SELECT id, key, sqlstate, coalesce(nullif(named_constraint, ''), named_column, '') FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'quarantined' AND kind <> 'B'
ORDER BY id DESC LIMIT 1

-- name: supersede
-- Entries whose key has a later change; {keys} is a SELECT of keys.
UPDATE {schema}.slotkeeper_quarantine SET state = 'superseded', ended_at = now(), ended_by = %(by)s, reason = 'a later change'
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'quarantined'
  AND key IN ({keys})

-- name: old_halves
-- Old halves that take effect in this transaction, because it has superseded the other half of their changed key.
SELECT id FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND kind = 'B'
  AND (state = 'quarantined' OR state = 'superseded' AND ended_at = now())
  AND pair IN (SELECT h.pair FROM {schema}.slotkeeper_quarantine h
               WHERE h.source = %(source)s AND h.source_table = %(source_table)s AND h.slot = %(slot)s
                 AND h.state = 'superseded' AND h.ended_at = now() AND h.pair <> '')
ORDER BY id

-- name: halves_ended
-- Ends these old halves together with their new halves.
UPDATE {schema}.slotkeeper_quarantine
SET state = 'superseded', ended_at = now(), ended_by = %(by)s, reason = 'took effect with a later change of its new key'
WHERE id = ANY (%(ids)s) AND state = 'quarantined'

-- name: hold
-- One unit that could not be applied, in the transaction that continues without it; {columns} are its text values.
INSERT INTO {schema}.slotkeeper_quarantine
    (source, source_table, slot, shard, target, point, sequence, kind, key, names, texts, damaged, sqlstate, named_column,
     named_constraint, message, tries, job, run, epoch, quarantined_at, state, ended_by, reason, pair)
SELECT p.source, p.source_table, p.slot, %(shard)s, p.target, coalesce(%(point)s, u.point), u.sequence,
       CASE WHEN %(point)s IS NOT NULL THEN 'c' ELSE upper(u.kind::text) END, u.key, %(names)s, ARRAY[{columns}],
       u.kind IN ('i', 'u'), %(sqlstate)s, %(column)s, %(constraint)s, %(message)s, 1, p.job, p.run, p.epoch, now(),
       'quarantined', '', '', CASE WHEN u.pair = '' OR %(alone)s THEN '' ELSE %(shard)s || ' ' || u.pair END
FROM {units} u, {schema}.slotkeeper_progress p
WHERE u.unit = %(unit)s AND (u.kind IN ('I', 'U', 'i', 'u') OR NOT %(alone)s AND u.pair <> '')
  AND p.source = %(source)s AND p.source_table = %(source_table)s AND p.slot = %(slot)s AND p.shard = %(row)s

-- name: lanes
-- The lanes of a slot's table, and the point from which the stream contains the changes after a copy.
SELECT shard, noted_start FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s ORDER BY shard

-- name: archive
-- Archives the quarantined rows of a target whose copy starts, because every row will be read again.
UPDATE {schema}.slotkeeper_quarantine SET state = 'archived', ended_at = now(), ended_by = 'copy', reason = 'a copy reads every row again'
WHERE state = 'quarantined' AND (source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s OR target IN (
      SELECT p.target FROM {schema}.slotkeeper_progress p
      WHERE p.source = %(source)s AND p.source_table = %(source_table)s AND p.slot = %(slot)s))

-- name: lock_lanes
-- Locks the rows of all lanes to which an entry may belong: none of their steps runs until this transaction ends.
SELECT shard, state, target FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND (%(every)s OR shard = %(shard)s)
ORDER BY shard FOR UPDATE

-- name: shard_of
-- The DN of an entry.
SELECT shard FROM {schema}.slotkeeper_quarantine
WHERE id = %(id)s AND source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: unit
-- An entry and the other half of its changed key.
SELECT id, state, shard, pair, damaged, names, sqlstate FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND (id = %(id)s OR pair IN (SELECT h.pair FROM {schema}.slotkeeper_quarantine h
                               WHERE h.id = %(id)s AND h.pair <> '' AND h.source = %(source)s
                                 AND h.source_table = %(source_table)s AND h.slot = %(slot)s))
ORDER BY id FOR UPDATE

-- name: end
-- Closes entries on a user's request.
UPDATE {schema}.slotkeeper_quarantine
SET state = %(state)s, ended_at = now(), ended_by = %(by)s, reason = %(reason)s, tries = tries + %(tries)s
WHERE id = ANY (%(ids)s) AND state = 'quarantined'

-- name: outdate
-- Marks the quarantined rows of a table as rows from before a change of columns that removed values.
UPDATE {schema}.slotkeeper_quarantine SET sqlstate = %(sqlstate)s, named_column = '', named_constraint = '', message = %(message)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'quarantined'

-- name: still_bad
-- Retains an entry in quarantine, with the error of this attempt.
UPDATE {schema}.slotkeeper_quarantine
SET tries = tries + 1, sqlstate = %(sqlstate)s, named_column = %(column)s, named_constraint = %(constraint)s,
    message = %(message)s
WHERE id = ANY (%(ids)s) AND state = 'quarantined'

-- name: entry_ids
-- The quarantined entries of a slot's table, in the order in which they were read.
SELECT id FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'quarantined'
ORDER BY point, sequence, id

-- name: renamed
-- A renamed DN keeps its entries.
UPDATE {schema}.slotkeeper_quarantine SET shard = %(new)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s

-- name: positions
-- The positions of the lanes before a reset moves them.
SELECT shard, position FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s

-- name: beyond
-- The number of entries that a reset of a lane to a position would archive. A stream does not read copied rows again.
SELECT count(*) FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND state = 'quarantined' AND kind <> 'c' AND (point > %(point)s OR point = %(point)s AND sequence > %(sequence)s)

-- name: archive_beyond
-- Archives these entries.
UPDATE {schema}.slotkeeper_quarantine
SET state = 'archived', ended_at = now(), ended_by = %(by)s, reason = 'a reset: it will be read again'
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND state = 'quarantined' AND kind <> 'c' AND (point > %(point)s OR point = %(point)s AND sequence > %(sequence)s)

-- name: revive
-- Restores, together with the position, entries that the reset archived and that no step has read again.
UPDATE {schema}.slotkeeper_quarantine SET state = 'quarantined', ended_at = NULL, ended_by = '', reason = ''
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND state = 'archived' AND ended_by = %(by)s
  AND (point > %(old_point)s OR point = %(old_point)s AND sequence > %(old_sequence)s)
  AND (point < %(point)s OR point = %(point)s AND sequence <= %(sequence)s)

-- name: outdone
-- Of two entries with the same key, the later entry stays in quarantine.
UPDATE {schema}.slotkeeper_quarantine q
SET state = 'superseded', ended_at = now(), ended_by = %(by)s, reason = 'a later entry came back'
WHERE q.source = %(source)s AND q.source_table = %(source_table)s AND q.slot = %(slot)s AND q.state = 'quarantined'
  AND EXISTS (SELECT 1 FROM {schema}.slotkeeper_quarantine h
              WHERE h.source = %(source)s AND h.source_table = %(source_table)s AND h.slot = %(slot)s
                AND h.state = 'quarantined' AND h.key = q.key AND h.id <> q.id
                AND (h.point > q.point OR h.point = q.point AND h.sequence > q.sequence))
