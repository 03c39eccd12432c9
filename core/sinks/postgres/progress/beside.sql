-- Quarantine of a sink that is separate from its store: entries are written and closed with a plan, and restored if the
-- plan is withdrawn.

-- name: left_out_row
-- One row that was omitted from a range or chunk; `row` is the lane that names the run. Under a plan, the reason
-- contains the plan's label.
INSERT INTO {schema}.slotkeeper_quarantine
    (source, source_table, slot, shard, target, point, sequence, kind, key, names, texts, damaged, sqlstate, named_column,
     named_constraint, message, tries, job, run, epoch, quarantined_at, state, ended_by, reason, pair)
SELECT p.source, p.source_table, p.slot, %(in_shard)s, p.target, %(point)s, %(sequence)s, %(kind)s, %(key)s::text[],
       %(names)s::text[], %(texts)s::text[], %(damaged)s, %(sqlstate)s, %(column)s, '', %(message)s, 1, p.job, p.run,
       p.epoch, now(), 'quarantined', '', %(mark)s, ''
FROM {schema}.slotkeeper_progress p
WHERE p.source = %(source)s AND p.source_table = %(source_table)s AND p.slot = %(slot)s AND p.shard = %(row)s

-- name: plan_withdrawn
-- Removes the plan's entries, because their rows will be read again.
DELETE FROM {schema}.slotkeeper_quarantine
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND reason = %(mark)s
  AND state = 'quarantined'

-- name: plan_revived
-- Restores the entries that the plan had ended.
UPDATE {schema}.slotkeeper_quarantine SET state = 'quarantined', ended_at = NULL, ended_by = '', reason = ''
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND state = 'superseded'
  AND ended_by = %(mark)s

-- name: plan_settled
-- Removes the markers of a plan that is settled.
UPDATE {schema}.slotkeeper_quarantine
SET reason = CASE WHEN reason = %(mark)s THEN '' ELSE reason END,
    ended_by = CASE WHEN ended_by = %(mark)s THEN %(by)s ELSE ended_by END
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s
  AND (reason = %(mark)s OR ended_by = %(mark)s)

-- name: replay_lanes
-- Locks the lanes to which an entry may belong, so that none of their steps is planned until this transaction ends.
SELECT shard, state, position, decided IS NOT NULL FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND (%(every)s OR shard = %(shard)s)
ORDER BY shard FOR UPDATE

-- name: replay_armed
-- Records the load that may be committed for an entry, as a plan without width: the lane keeps its position.
UPDATE {schema}.slotkeeper_progress
SET decided = position, decided_token = %(token)s, decided_rows = 0, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND (%(every)s OR shard = %(shard)s)
  AND decided IS NULL

-- name: replay_marked
-- Marks the entry with the user and the reason in one string, until the load is known to be committed.
UPDATE {schema}.slotkeeper_quarantine SET ended_by = %(mark)s, reason = %(by)s || E'\x1f' || %(reason)s
WHERE id = %(id)s AND state = 'quarantined'

-- name: replay_waiting
-- Loads of replays that were armed and are not resolved.
SELECT DISTINCT decided_token FROM {schema}.slotkeeper_progress
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND decided = position

-- name: replay_over
-- Removes the load of a replay from the lanes, so that no lane waits for it.
UPDATE {schema}.slotkeeper_progress
SET decided = NULL, decided_token = NULL, decided_rows = NULL, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND decided = position
  AND (decided_token = %(label)s OR left(decided_token, length(%(label)s) + 1) = %(label)s || ' ')

-- name: replay_applied
-- Closes the entry of a replay that was applied.
UPDATE {schema}.slotkeeper_quarantine
SET state = 'replayed', ended_at = now(), tries = tries + 1, ended_by = split_part(reason, E'\x1f', 1),
    reason = split_part(reason, E'\x1f', 2)
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND ended_by = %(mark)s
  AND state = 'quarantined'

-- name: replay_left
-- Leaves the entry of a replay that was not applied in quarantine.
UPDATE {schema}.slotkeeper_quarantine SET tries = tries + 1, ended_by = '', reason = ''
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND ended_by = %(mark)s
  AND state = 'quarantined'
