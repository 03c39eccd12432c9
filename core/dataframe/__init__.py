"""DataFrames over a binlog, for users' own Spark programs."""
