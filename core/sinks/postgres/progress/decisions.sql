-- Statements of a store for a separate sink: ranges and chunks that are decided, counted again and settled.

-- name: decide
-- Decides the next range for the sink, by compare-and-swap on the epoch, the position and the absence of a decided
-- range. Only this statement determines that the range will be written and that no other range will.
UPDATE {schema}.slotkeeper_progress
SET decided = %(end)s, decided_token = %(token)s, decided_rows = %(rows)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided IS NULL

-- name: repeat
-- Counts a range before it is written again: a task that is killed in between has counted too many rows, never too few.
UPDATE {schema}.slotkeeper_progress SET repeats = repeats + decided_rows, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s

-- name: arm
-- Records the load of a planned range that the task of this swap can commit; no other load can be committed.
UPDATE {schema}.slotkeeper_progress SET decided_token = %(token)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s
  AND decided_token = %(was)s

-- name: send_again
-- Counts the rows of a load that the sink no longer knows but may have committed, and makes the range a plan again.
UPDATE {schema}.slotkeeper_progress SET decided_token = %(token)s, repeats = repeats + decided_rows, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s
  AND decided_token = %(was)s

-- name: withdraw
-- Withdraws a plan whose loads must not be committed; the range counts as unread.
UPDATE {schema}.slotkeeper_progress
SET decided = NULL, decided_token = NULL, decided_rows = NULL, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s
  AND decided_token = %(token)s

-- name: settle
-- Advances the position, because the sink has the decided range; not if another load was armed since, because that load
-- would be committed after a later range (model: an older row over a newer one after 21 moves).
UPDATE {schema}.slotkeeper_progress
SET position = decided, changes = changes + decided_rows, decided = NULL, decided_token = NULL, decided_rows = NULL,
    updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s
  AND decided_token = %(token)s

-- name: begin_chunk
-- A chunk that no task has started to write.
UPDATE {schema}.slotkeeper_chunks SET state = 'writing', rows = %(rows)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s
  AND epoch = %(epoch)s AND state = 'planned'

-- name: repeat_chunk
-- A chunk that a task has taken and may have written.
UPDATE {schema}.slotkeeper_chunks SET rows = %(rows)s, repeats = repeats + %(rows)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s
  AND epoch = %(epoch)s AND state = 'writing'

-- name: end_chunk
-- Marks a chunk that the sink has stored.
UPDATE {schema}.slotkeeper_chunks SET state = 'done'
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s
  AND epoch = %(epoch)s AND state = 'writing'

-- name: repeats
-- The rows that the slot's table may have received twice, by lanes and chunks.
SELECT (SELECT coalesce(sum(repeats), 0) FROM {schema}.slotkeeper_progress
        WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)::bigint,
       (SELECT coalesce(sum(repeats), 0) FROM {schema}.slotkeeper_chunks
        WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)::bigint
