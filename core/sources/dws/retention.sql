-- Statements of a slot's reset for DWS: how far back its binlog reaches, and a range's contents. All only read.
-- Looks and registrations stand in queries.sql, lists of slots too.

-- name: record_at
-- The first record at or after a sync point, by DN (0: all DNs), and the newest point; nulls where there is none.
SELECT node_name, latest_sync_point, binlog_sync_point, binlog_timestamp_us, binlog_xmin
FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, %(point)s, %(node)s)

-- name: record_at_time
-- The first record at or after a time, by DN. Only for tables with binlog timestamps.
SELECT node_name, binlog_sync_point, binlog_timestamp_us
FROM pgxc_get_binlog_cursor_by_timestamp(%(table)s, %(at)s::timestamptz, 0)

-- name: first_since
-- The smallest point of a range that has a record at or after a time; null where none has.
SELECT min({point}) FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE {point} >= {after_point} AND {point} < {up_to} AND {time} >= {us}

-- name: count
-- The changes of a range by kind, with the oldest point and time; the filter decides, as in `changes` of queries.sql.
SELECT {type}::text, count(*), min({point}), min({time})
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
  AND ({point} < {up_to} OR ({point} = {up_to} AND {sequence} <= {up_to_sequence}))
GROUP BY 1

-- name: count_some
-- At least how many changes a range holds, where counting them all takes too long.
SELECT count(*) FROM (
    SELECT 1 FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
    WHERE ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
      AND ({point} < {up_to} OR ({point} = {up_to} AND {sequence} <= {up_to_sequence}))
    LIMIT 1000) counted

-- name: clock
-- The server's time in seconds since 1970: registration times are its own.
SELECT extract(epoch FROM clock_timestamp())::float8
