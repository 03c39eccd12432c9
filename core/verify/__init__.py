"""Comparison of a source table with its mirror by bisecting checksums; can import only ports, domain and errors."""
