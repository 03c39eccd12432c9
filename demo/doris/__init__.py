"""A stand-in for Apache Doris, for tests and demonstrations: no Doris, and it says so wherever it is asked.

It answers Stream Load, its two-phase commit and `get_load_state` with the words of Doris's own sources, keeps rows in
DuckDB, and can be read over MySQL's protocol. It listens on the loopback only. `CANNOT_PROVE` has what a run over it
says nothing about.
"""

STANDIN = "a stand-in for Apache Doris over DuckDB, no Doris"
CANNOT_PROVE = (
    "how loads and queries behave under load, with replicas, tablets, compaction or a BE that is really lost",
    "when a committed transaction becomes visible: at once, or when a test publishes it",
    "keywords of versions: the header `columns` takes what the grammars of 2.1 and 4.0 both take",
    "the order of rows of one key within a load: here the last wins, a Doris promises none without a sequence column",
    "conversions of values beyond a cast of DuckDB, time zones, and the text of types that DuckDB lacks",
    "the answers of versions: their fields and prefixes differ, those of 2.1 are given; FE and BE are one process",
    "CSV, Parquet, where, columns with expressions, partial columns, group commit: refused, not imitated",
    "TLS of the port for queries: only FE and BE have it",
    "rights: there is one user, who may do everything",
)
