"""The benchmark: Slotkeeper's throughput as ratios to PostgreSQL's own replication, measured in the same run."""
