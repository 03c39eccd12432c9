"""A stand-in for Apache Doris, for tests and demonstrations; its version and answers identify it as a stand-in.

It answers Stream Load, its two-phase commit and `get_load_state` with the messages from Doris's own source code, stores
rows in DuckDB, and can be read over MySQL's protocol. It listens only on the loopback interface. `CANNOT_PROVE` lists
what a run against it does not prove.
"""

STANDIN = "stand-in for Apache Doris (on DuckDB), not Apache Doris"
CANNOT_PROVE = (
    "loads and queries at high volume, or with replicas, tablets, compaction or a lost BE",
    "delay until a committed transaction is visible: here none, or until a test publishes it",
    "keywords by version: the `columns` header accepts only what both 2.1 and 4.0 accept",
    "row order of a key within a load: here the last row wins; Doris guarantees none without a sequence column",
    "value conversions beyond DuckDB casts, time zones, and the text format of types that DuckDB lacks",
    "responses by version: fields and prefixes are those of 2.1; FE and BE are one process",
    "CSV, Parquet, where, columns with expressions, partial columns, group commit: not supported",
    "TLS on the query port: only the HTTP ports of FE and BE support it",
    "privileges: the only user has all privileges",
)
