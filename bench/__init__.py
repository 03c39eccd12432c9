"""The benchmark: what Slotkeeper does in a second, as ratios to PostgreSQL's own means beside it in the same run."""
