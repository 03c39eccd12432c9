"""Comparison of a source table with its mirror by bisecting checksums; may import drivers, domain and errors only."""
