-- The statements of a store for a sink beside it: ranges and chunks that are decided, counted again, and settled.

-- name: decide
-- Which range the sink is to have next. By compare-and-swap on epoch, position and nothing decided: this alone says that
-- the range will be written, and that no other will.
UPDATE {schema}.slotkeeper_progress
SET decided = %(end)s, decided_token = %(token)s, decided_rows = %(rows)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided IS NULL

-- name: repeat
-- Counted before it is written again: a task killed in between has counted too much, never too little.
UPDATE {schema}.slotkeeper_progress SET repeats = repeats + decided_rows, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s

-- name: arm
-- The load of a planned range that can be committed, by the task of this swap; no other load can.
UPDATE {schema}.slotkeeper_progress SET decided_token = %(token)s, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s
  AND decided_token = %(was)s

-- name: send_again
-- A load that the sink knows no more may have been committed: counted, and a plan again.
UPDATE {schema}.slotkeeper_progress SET decided_token = %(token)s, repeats = repeats + decided_rows, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s
  AND decided_token = %(was)s

-- name: withdraw
-- A withdrawn plan, whose loads must not be committed: the range counts as unread.
UPDATE {schema}.slotkeeper_progress
SET decided = NULL, decided_token = NULL, decided_rows = NULL, updated_at = now()
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND shard = %(shard)s
  AND epoch = %(epoch)s AND position = %(after)s AND state IN ('catching up', 'running') AND decided = %(end)s
  AND decided_token = %(token)s

-- name: settle
-- The sink has what was decided: the position follows. Not where another load was armed since: it would be committed
-- behind a later range (model: an older row over a newer one after 21 moves).
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
-- One that somebody has, and may have written.
UPDATE {schema}.slotkeeper_chunks SET rows = %(rows)s, repeats = repeats + %(rows)s
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s
  AND epoch = %(epoch)s AND state = 'writing'

-- name: end_chunk
-- The sink has it.
UPDATE {schema}.slotkeeper_chunks SET state = 'done'
WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s AND number = %(number)s
  AND epoch = %(epoch)s AND state = 'writing'

-- name: repeats
-- Rows that the slot's table may have got once more, by lanes and chunks.
SELECT (SELECT coalesce(sum(repeats), 0) FROM {schema}.slotkeeper_progress
        WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)::bigint,
       (SELECT coalesce(sum(repeats), 0) FROM {schema}.slotkeeper_chunks
        WHERE source = %(source)s AND source_table = %(source_table)s AND slot = %(slot)s)::bigint
