"""The traits of a MySQL or MariaDB source."""

from __future__ import annotations

from slotkeeper.core.domain.traits import Newest, OldImages, SourceTraits

TRAITS = SourceTraits(
    keeps_positions=False,
    slot_unasked=True,
    one_stream=True,
    paced=True,
    server_keys="mysql",
    silent_cascades=True,
    many_into_one=True,
    copies_again=True,
    logs_shapes=True,
    speaks="MySQL",
    # MySQL Internals, "Rows_event": columns-present-bitmap1 and bitmap2 mark the columns of each image; with
    # binlog_row_image = full, "all columns are logged in both the before image and the after image" (Reference Manual)
    old_images=OldImages.CHECKED,
    # MySQL Reference Manual, "The Binary Log": one log contains the changes of all tables of the server; "SHOW BINARY
    # LOG STATUS" returns its end
    newest=Newest.COMMON,
)
