"""A stand-in for Alibaba Cloud Hologres, for tests and demonstrations; its label identifies it as a stand-in.

A real PostgreSQL stores tables and their binlogs. A proxy on the loopback interface routes the statements that Hologres
routes by the names of hidden columns. Rows are assigned to shards by Hologres's own rule (murmur3 of the distribution
key). LSNs ascend per shard, with gaps, in the order in which changes become visible; times ascend with them.
`START_REPLICATION` reads the same binlog, one shard per stream.

What it cannot prove about Hologres:
- that a record with a lower LSN never becomes visible after one with a higher LSN: not documented;
  `binlog_visibility_lag` is for servers where it does;
- the name of the cursor functions' first column, the answer of OLDEST for a shard without records, and error messages
  that Alibaba's pages do not quote;
- when, and in which order, the server removes records past their TTL: here `purge` does, by age;
- what happens to a binlog when binlog.level is turned off and on, or the table is recreated: here all of it is removed;
- that a change of a primary key is a delete and an insert: not documented;
- which statements its front ends plan well under load, with column-oriented tables: here, PostgreSQL plans them;
- which of Slotkeeper's catalog statements it accepts: its dialect is PostgreSQL 11, but the stand-in's is newer;
  `select *` together with a hidden column returns hidden columns here;
- rights beyond SELECT, masking, partitions, computing groups;
- that its stream sends the same messages: the layout is holo-client's and Flink's; the order and size of messages, the
  LSNs in frames and keepalives, when an empty message is sent, and error messages are guesses;
- about slots: the columns of hologres.hg_replication_progress, that it shows a flushed LSN at once, that a slot can
  move back, that two streams can read one shard with one slot, and the rights.
"""
