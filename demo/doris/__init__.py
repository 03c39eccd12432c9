"""A stand-in for Apache Doris, for tests and demonstrations; its version and answers identify it as a stand-in.

It answers Stream Load, its two-phase commit and `get_load_state` with the messages of Doris's own source code, stores
rows in DuckDB, and can be read over MySQL's protocol. It listens only on the loopback interface. `CANNOT_PROVE` lists
what a run over it does not prove.
"""

STANDIN = "a stand-in for Apache Doris over DuckDB, not a Doris"
CANNOT_PROVE = (
    "loads and queries under load, with replicas, tablets, compaction or a lost BE",
    "when a committed transaction becomes visible: at once, or when a test publishes it",
    "keywords of versions: the header `columns` accepts what the grammars of 2.1 and 4.0 both accept",
    "the order of a key's rows within a load: here the last wins, Doris promises none without a sequence column",
    "conversions of values beyond a cast of DuckDB, time zones, and the text of types that DuckDB lacks",
    "the answers of versions: fields and prefixes are those of 2.1; FE and BE are one process",
    "CSV, Parquet, where, columns with expressions, partial columns, group commit: rejected, not imitated",
    "TLS of the query port: only FE and BE have it",
    "rights: the only user has all of them",
)
