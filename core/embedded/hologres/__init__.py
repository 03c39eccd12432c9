"""Stand-ins for a Hologres, for tests and demonstrations: no Hologres, and each says so."""
