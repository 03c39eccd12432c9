"""A stand-in for Alibaba Cloud Hologres, for tests and demonstrations: not a Hologres, and its label says so.

A real PostgreSQL stores tables and their binlogs; a proxy before it, on the loopback, routes the statements that
Hologres routes by the names of hidden columns. Rows are on shards by Hologres's own rule (murmur3 of the distribution
key); LSNs ascend per shard, with gaps, in the order in which changes become visible; times ascend with them.
`START_REPLICATION` reads the same binlog, one shard per stream.

What it cannot prove about Hologres:
- that a record with a lower LSN never becomes visible after one with a higher: not documented; `binlog_visibility_lag`
  is for servers where it does;
- the name of the cursor functions' first column, the answer of OLDEST for a shard without records, and the texts of
  errors that its pages do not quote;
- when, and in which order, the server removes records past their TTL: here `purge` does, by age;
- what happens to a binlog when binlog.level is turned off and on, or the table is recreated: here all of it is removed;
- that a change of a primary key is a delete and an insert: not documented;
- which statements its front ends plan well, under load, with column-oriented tables: PostgreSQL plans them here;
- which of Slotkeeper's catalog statements it knows: its dialect is PostgreSQL 11, this one is newer; `select *` beside
  a hidden column shows hidden columns here;
- rights beyond SELECT, masking, partitions, computing groups;
- that its stream sends what this one sends: the layout is holo-client's and Flink's; the order and size of messages,
  the LSNs in frames and keepalives, when an empty message comes, and the texts of refusals are guesses;
- about slots: the columns of hologres.hg_replication_progress, that it shows a flushed LSN at once, that a slot can
  move back, that two streams can read one shard by one slot, and the rights.
"""
