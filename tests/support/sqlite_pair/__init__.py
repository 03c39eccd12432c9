"""A second pair over SQLite files, for tests alone: it proves the seams, and stands for no server."""
