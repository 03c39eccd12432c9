"""Comparison of a source table with its mirror by bisecting checksums; may import ports, domain and errors only."""
