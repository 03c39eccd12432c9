"""Comparison of a source table with its mirror by bisecting checksums. Imports only ports, domain and errors."""
