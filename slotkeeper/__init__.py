"""Slotkeeper: a change-data pipeline for warehouse binlogs and its console.

Programs import `slotkeeper.dataframe` (formats for Spark) and `slotkeeper.library` (read a slot batch by batch).
`core`, `console` and `demo` in this folder are symbolic links, so that every module has one name: `slotkeeper.core...`.
"""

__version__ = "0.1.0"
