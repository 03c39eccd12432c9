-- The statements of a slot's reset for DWS: how far back the binlog reaches, and what a range contains. They only read.
-- Status queries, registrations and lists of slots are in queries.sql.

-- name: record_at
-- Return the first record at or after a sync point for each DN (0: all DNs), and the newest point; nulls without a
-- record.
SELECT node_name, latest_sync_point, binlog_sync_point, binlog_timestamp_us, binlog_xmin
FROM pgxc_get_binlog_cursor_by_syncpoint(%(table)s, %(point)s, %(node)s)

-- name: record_at_time
-- Return the first record at or after a time for each DN. Only for tables with binlog timestamps.
SELECT node_name, binlog_sync_point, binlog_timestamp_us
FROM pgxc_get_binlog_cursor_by_timestamp(%(table)s, %(at)s::timestamptz, 0)

-- name: first_since
-- Return the smallest point of a range that has a record at or after a time; null if there is none.
SELECT min({point}) FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE {point} >= {after_point} AND {point} < {up_to} AND {time} >= {us}

-- name: count
-- Return the number of changes in a range by kind, with the oldest point and time; the condition selects the rows, as
-- in `changes` of queries.sql.
SELECT {type}::text, count(*), min({point}), min({time})
FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
WHERE ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
  AND ({point} < {up_to} OR ({point} = {up_to} AND {sequence} <= {up_to_sequence}))
GROUP BY 1

-- name: count_some
-- Return a lower bound for the number of changes in a range, for ranges whose full count takes too long.
SELECT count(*) FROM (
    SELECT 1 FROM pgxc_get_binlog_changes({table}, {node}, {start}, {end})
    WHERE ({point} > {after_point} OR ({point} = {after_point} AND {sequence} > {after_sequence}))
      AND ({point} < {up_to} OR ({point} = {up_to} AND {sequence} <= {up_to_sequence}))
    LIMIT 1000) counted

-- name: clock
-- Return the server's time in seconds since 1970, the clock of the registration times.
SELECT extract(epoch FROM clock_timestamp())::float8
