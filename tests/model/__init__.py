"""The binlog protocol as an explicit-state model; see README.md beside this file."""
