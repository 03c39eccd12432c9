-- The statements about slots of Hologres. CREATE PUBLICATION, hg_create_logical_replication_slot and their order are
-- documented in "Technical Principle of Hologres Binlog"; the tables are used as the published client reads them and
-- its tests clear them.

-- name: of_name
-- Return what a slot reads: its publication and each table of that publication. A left-over publication has no table.
SELECT p.property_value::text, t.schemaname::text, t.tablename::text
FROM hologres.hg_replication_slot_properties p LEFT JOIN pg_publication_tables t ON t.pubname = p.property_value
WHERE p.slot_name = %(slot)s

-- name: of_table
-- Return the slots of a table.
SELECT p.slot_name::text, p.property_value::text
FROM hologres.hg_replication_slot_properties p JOIN pg_publication_tables t ON t.pubname = p.property_value
WHERE t.schemaname = %(schema)s AND t.tablename = %(name)s ORDER BY 1

-- name: progress
-- Return the confirmed LSNs by slot and shard. The columns are not documented: if the table has other columns, the
-- query fails and the job reports the columns that it expects.
SELECT slot_name::text, parallel_index::integer, lsn::text FROM hologres.hg_replication_progress
WHERE slot_name = ANY(%(slots)s)

-- name: publication
-- Return the publications of a table; a table normally has one.
SELECT pubname::text FROM pg_publication_tables WHERE schemaname = %(schema)s AND tablename = %(name)s ORDER BY 1

-- name: create_slot
CALL hg_create_logical_replication_slot(%(slot)s, 'hgoutput', %(publication)s)

-- name: drop_slot
CALL hg_drop_logical_replication_slot(%(slot)s)

-- name: readers
-- Return how many slots read through a publication.
SELECT count(*) FROM hologres.hg_replication_slot_properties WHERE property_value = %(publication)s
