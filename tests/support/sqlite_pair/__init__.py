"""A second pair over SQLite files, only for tests: it tests the interfaces, and models no server.

`kind` is the source with its binlog, one stream for all tables and no slot; `sink` shares no transaction with its
store; `pair` is a job from one to the other.
"""
