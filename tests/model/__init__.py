"""The binlog protocol as an explicit-state model; see README.md in this folder."""
