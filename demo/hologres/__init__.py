"""A stand-in for Alibaba Cloud Hologres, for tests and demonstrations: no Hologres, and it says so where it is asked.

A real PostgreSQL keeps tables and their binlogs; a proxy before it, on the loopback, routes what Hologres routes by the
names of hidden columns. Rows lie on shards by Hologres's own rule (murmur3 of the distribution key); LSNs grow by
shard, with gaps, in the order in which changes show; times grow with them. `START_REPLICATION` is answered from the
same binlog, a shard a stream.

What it cannot prove of a Hologres:
- that a record with a lower LSN never shows after one with a higher: nobody says so; `binlog_visibility_lag` is there
  for servers where it does;
- the name of the cursor functions' first column, what OLDEST answers for a shard without records, and the texts of
  errors that its pages do not quote;
- when records past their TTL really go, and in which order: here by `purge`, by age;
- what happens to a binlog when binlog.level is turned off and on, or the table is made again: here all of it goes;
- that a change of a primary key is a delete and an insert: no page says so;
- which statements its front ends plan well, under load, with columns stored by column: PostgreSQL plans them here;
- which of our catalog statements it knows: it speaks PostgreSQL 11, this is a newer one; `select *` beside a hidden
  column shows hidden columns here;
- rights beyond SELECT, masking, partitions, computing groups;
- that its stream sends what this one sends: the layout is holo-client's and Flink's; the order and size of messages,
  the LSNs in frames and keepalives, when an empty message comes, and the texts of refusals are guesses;
- about slots: the columns of hologres.hg_replication_progress, that it shows at once what was flushed, that a slot may
  be moved back, that two streams may read one shard by one slot, and who may do what.
"""
