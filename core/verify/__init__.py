"""Comparison of a source table with its mirror by bisecting checksums. This package can import only ports, domain and
errors.
"""
