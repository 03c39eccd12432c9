-- Statements about slots of a Hologres. CREATE PUBLICATION, hg_create_logical_replication_slot and their order stand in
-- "Technical Principle of Hologres Binlog"; the tables as the published client reads and its tests clear them.

-- name: of_name
-- What a slot reads: its publication, and of that each table. A publication that is left over has none.
SELECT p.property_value::text, t.schemaname::text, t.tablename::text
FROM hologres.hg_replication_slot_properties p LEFT JOIN pg_publication_tables t ON t.pubname = p.property_value
WHERE p.slot_name = %(slot)s

-- name: of_table
-- The slots of a table.
SELECT p.slot_name::text, p.property_value::text
FROM hologres.hg_replication_slot_properties p JOIN pg_publication_tables t ON t.pubname = p.property_value
WHERE t.schemaname = %(schema)s AND t.tablename = %(name)s ORDER BY 1

-- name: progress
-- What is confirmed, by slot and shard. No page names the columns: others than these are refused by name.
SELECT slot_name::text, parallel_index::integer, lsn::text FROM hologres.hg_replication_progress
WHERE slot_name = ANY(%(slots)s)

-- name: publication
-- The publications of a table; one is meant to be there for each.
SELECT pubname::text FROM pg_publication_tables WHERE schemaname = %(schema)s AND tablename = %(name)s ORDER BY 1

-- name: create_slot
CALL hg_create_logical_replication_slot(%(slot)s, 'hgoutput', %(publication)s)

-- name: drop_slot
CALL hg_drop_logical_replication_slot(%(slot)s)

-- name: readers
-- How many slots read by a publication.
SELECT count(*) FROM hologres.hg_replication_slot_properties WHERE property_value = %(publication)s
