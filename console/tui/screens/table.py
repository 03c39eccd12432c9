"""A screen with a live table that has a filter, a faults-only view, sorting, marks, and a panel on the selected row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.boxes import AROUND, Box, lower, padded, rows_of_boxes, shares, stacked, upper
from slotkeeper.console.tui.screens.base import Filtered, Line, Lines, rows_of, share
from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.widgets.live_table import SIDES, LiveTable
from slotkeeper.console.views.fitting import Chosen, fitted, needs
from slotkeeper.console.views.overview import event_lines
from slotkeeper.console.views.rows import (
    CALM_SECONDS,
    FAULTS,
    Column,
    Order,
    Row,
    Verdict,
    calmly,
    clause,
    columns_for,
    following,
    kept,
    ordered,
    plain,
    rank,
    turned,
)
from slotkeeper.console.views.signs import ROLES, verdict_sign
from slotkeeper.console.views.verdict import MOST_VERDICT
from slotkeeper.core.domain.text import safe

LEAST_EVENTS = 1
BESIDE, THREE = 140, 200
"""The widths from which the panel has a second column for events, and a third column, in the middle, for DNs."""
EVENTS_BESIDE = 10
"""The minimum number of event lines, which have priority over graphs."""
BETWEEN = 2
"""The number of rows between a panel's own lines and the lines below them."""
DOT = (" \u00b7 ", "   ")
"""The separator in a frame's edge, and its form in ASCII."""
_HEAD = -1
"""The rank of a row that precedes all severities."""
_AROUND_TITLE = 6
"""The number of cells in a title's rule in addition to its text."""


class TableScreen(Filtered):
    """Rows, and a panel that explains them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "slash", "filter", "filter", id="filter", key_display="/", tooltip="text or pattern; a leading ! inverts it"
        ),
        Binding("z", "fault", "next fault", id="fault", tooltip="go to the next row with a fault"),
        Binding("Z", "faults", "faults", id="faults", tooltip="show only rows with a fault, or all rows"),
        Binding("s", "sort", "sort", id="sort", tooltip="by the next column; after the last, in the default order"),
        Binding("S", "turn", "turn", id="turn", tooltip="reverse the order"),
        Binding("w", "wide", "wide", id="wide", tooltip="show the columns that do not fit this width"),
        Binding("c", "columns", "columns", id="columns", tooltip="choose the visible columns; the choice is stored"),
        Binding("space", "mark", "mark", id="mark", key_display="space", tooltip="mark or unmark the row"),
        Binding("u", "unmark", "unmark", id="unmark", tooltip="all rows"),
        Binding("y", "copy", "copy", id="copy", tooltip="the command of the action, or the row"),
        Binding("Y", "copy_json", "copy JSON", id="copy-json", tooltip="the marked rows, or this row"),
        Binding("e", "export", "export", id="export", tooltip="the listed rows as CSV and JSON"),
        Binding("a", "act", "actions", id="act", tooltip="for the marked rows, or this row"),
    ]
    keys_shown: ClassVar[tuple[str, ...]] = ("help", "open", "filter", "sort", "fault", "act", "freeze", "palette")
    keys_work = "table"
    its_name = ""
    columns: ClassVar[Sequence[Column]] = ()
    tells_events = False
    """Whether the panel ends with the latest events if there is room."""
    has_actions = False
    """Whether `act` has an effect; otherwise its key is not shown."""
    panel_height = 4
    usual_order = "worst first"

    def __init__(self) -> None:
        super().__init__()
        self.faults_only = False
        self.order = Order()
        self.wide = False
        self._marks: set[str] = set()
        self._moved_on = True
        self._late = False
        self._above = (0, 0)
        self._sized = -1
        self.worst_is_whole = True
        """Whether the most severe part above the table is completely visible."""
        self._title = ""
        self._needs: dict[str, int] = {}
        self._needs_at = 0
        self._every = 0
        self.every_row: list[Row] = []
        """All rows at the last drawing; the texts above the table describe the same rows."""

    # Overridden by each screen

    def rows(self) -> list[Row]:
        """Return all rows in their default order."""
        raise NotImplementedError

    def heading(self) -> str:
        """Return the table's name."""
        return self.its_name

    def about(self) -> str:
        """Return the additional text for the table's title."""
        return ""

    def panel(self, key: str | None) -> tuple[str, Lines]:
        """Return the panel's title and lines for the selected row. Lines that do not fit can be scrolled to."""
        raise NotImplementedError

    def subject_of(self, key: str | None) -> str:
        """Return the panel's topic in addition to its row. If it changes, the panel scrolls back to its beginning."""
        return ""

    def more(self, key: str | None, room: int) -> list[Text]:
        """Return the lines to show below the panel's own lines if `room` rows are left."""
        return self.last_events(room) if self.tells_events else []

    def last_events(self, room: int) -> list[Text]:
        """Return the latest events of all jobs, as many as fit; none if there is hardly any room."""
        found = event_lines(self.console.shown.local, room - BETWEEN) if room >= LEAST_EVENTS + BETWEEN else []
        if not found:
            return []
        blank = " " * (not self.framed)
        heading = [self.text(""), self.text(f"{blank}last events (UTC)", Level.REST)]
        return [*heading, *(self.text(self.cut(f"{blank}{one}", self.inner)) for one in found)]

    def verdict(self) -> Verdict | None:
        """Return a summary of all rows in one line; None if the screen has no summary."""
        return None

    def head(self) -> list[Text]:
        """Return the rows at the top: the verdict, and figures."""
        one = self.verdict()
        return [] if one is None else [self.verdict_line(one)]

    def verdict_line(self, one: Verdict) -> Text:
        """Return the row of a verdict: its symbol and its text, without the clauses that do not fit."""
        shown, block, role = verdict_sign(one.level, self.console.ascii_only)
        text = Text("", no_wrap=True, end="").append(f" {shown} ", self.style(block))
        words = plain(f" {one.words}", self.console.ascii_only)
        room = self.verdict_room + 1
        while cell_len(words) > room and (comma := words.rfind(", ")) > room // 2:
            words = words[:comma]  # the panel has the rest
        return text.append(clause(words, room) or self.cut(words, room), self.style(f"{role}-word"))

    @property
    def verdict_room(self) -> int:
        """The number of cells for a verdict's text."""
        sign = verdict_sign(Level.FINE, self.console.ascii_only)[0]
        return min(self.app.size.width - 3 - len(sign), MOST_VERDICT)

    @property
    def apart(self) -> str:
        """The separator between two texts in a line."""
        return DOT[self.console.ascii_only]

    def strip(self) -> Lines:
        """Lines above the table."""
        return ()

    def opened(self, key: str) -> None:
        """Open the row on which Enter was pressed."""

    def act(self, keys: list[str]) -> None:
        """Act on the marked rows; if none is marked, on the selected row (key `a`)."""

    def copied(self, row: Row) -> str:
        """Return the row's text, which `y` copies."""
        return "  ".join(text for key, text in row.cells.items() if key != "mark" and text.strip())

    # Drawing

    @property
    def panel_rows(self) -> int:
        """The height of the panel in rows."""
        size = self.app.size
        return share(size.width, size.height, self._every, self._above, self.panel_height).panel

    @property
    def table(self) -> LiveTable:
        """The table."""
        return self.query_one(LiveTable)

    @property
    def marked(self) -> list[str]:
        """The keys of the marked rows, including those hidden by a filter."""
        return [row.key for row in self.rows() if row.key in self._marks]

    def listed(self) -> list[Row]:
        """Return the rows that match the filter, in the chosen order."""
        return self._listed(self.rows())

    def _listed(self, rows: Sequence[Row]) -> list[Row]:
        return ordered(kept(rows, self.wanted, self.faults_only), self.order)

    def panes(self) -> list[Widget]:
        return [self.table, self.query_one(Panel)]

    def body(self) -> Iterator[Widget]:
        self.order = self.console.services.settings.now.orders.get(type(self).__name__, self.order)
        yield Line("strip")
        yield Line("title")
        yield LiveTable(self.console.ascii_only, id="table")
        yield Line("foot")
        yield Line("subtitle")
        yield Panel("panel", self.panel_rows)
        yield Line("end")
        yield Input(id="filter", placeholder="filter: text or pattern, ! inverts", select_on_focus=False)

    def on_mount(self) -> None:
        """Set up the screen. The cursor does not blink, because blinking causes traffic."""
        self.query_one(Input).cursor_blink = False
        self.query_one(Input).display = False
        self._size_panel()
        self.table.focus()
        super().on_mount()

    def on_resize(self, event: events.Resize) -> None:
        self._size_panel()
        super().on_resize(event)

    def _size_panel(self) -> None:
        panel, rows = self.query_one("#panel", Panel), self.panel_rows
        if self._sized != rows:
            self._sized = panel.room = rows
            panel.styles.height = rows
            panel.display = self.query_one("#subtitle").display = rows > 0
        self.table.frame(self.framed)
        self.query_one("#foot").display = self.framed
        self.query_one("#end").display = self.framed and rows > 0

    def draw(self) -> None:
        self.every_row = every = self.rows()
        parts = [(_HEAD, [line]) for line in self.head()]
        parts += [(rank(level), self.wrapped([(level, words)])) for level, words in self.strip()]
        above = len(parts), sum(len(rows) for _, rows in parts)
        if (above, len(every)) != (self._above, self._every):
            self._above, self._every = above, len(every)
            self._size_panel()
        self._draw_strip(parts)
        listed = self._listed(every)
        # rows do not move shortly after a key press, unless the key changed their order
        moved_on, self._moved_on = self._moved_on, False
        calm = calmly(listed, self.table.keys()) if not moved_on and self._is_calm() else listed
        self._late = calm != listed
        self.table.show(calm, self._fitted(calm), self._marks)
        number = str(len(every)) if len(listed) == len(every) else f"{len(listed)} of {len(every)}"
        how = [f"filter {safe(self.wanted, 60)}"] if self.wanted else []
        how += ["faults only"] if self.faults_only else []
        known = {row.key for row in every} & self._marks
        hidden = len(known - {row.key for row in listed})
        marked = f"{len(known)}" + (f" ({hidden} not shown)" if hidden else "")
        how += [f"marked {marked}"] if self._marks else []
        how += ["wide"] if self.wide else []
        about = [self.about()] if self.about() else []
        self._title = "   ".join([f"{self.heading()} {number}", *about, *how])
        self._draw_title()
        self.draw_panel()

    def _draw_strip(self, parts: Sequence[tuple[int, Sequence[Text]]]) -> None:
        """Draw the texts above the table: at least one row of each part if there is room, truncated with two dots."""
        size = self.app.size
        most = share(size.width, size.height, self._every, self._above, self.panel_height).above
        shown: list[Text] = []
        worst = min((rank for rank, _ in parts if rank != _HEAD), default=0)
        self.worst_is_whole = True
        for (level, rows), number in zip(parts, rows_of(parts, most), strict=True):
            self.worst_is_whole &= level > worst or number >= len(rows)
            shown += rows[:number]
            if 0 < number < len(rows):
                whole = " ".join([rows[number - 1].plain, *(row.plain.strip() for row in rows[number:])])
                shown[-1] = Text(self.cut(whole), rows[0].style, no_wrap=True, end="")
        self.query_one("#strip").display = bool(shown)
        self.say("strip", Text("\n", no_wrap=True, end="").join(shown), layout=True)

    def _draw_title(self) -> None:
        """Draw the table's title and the position of the cursor."""
        table = self.table
        row = f"{table.cursor_row + 1} of {table.row_count}" if table.show_cursor else ""
        order = self.order.title(self.columns, self.usual_order)
        if self.framed:
            box = Box(self._title, hint=DOT[self.console.ascii_only].join(filter(None, (order, row))))
            edges = [self.app.size.width], self.style, self.console.ascii_only
            self.say("title", upper([box], *edges))
            self.say("foot", lower([box], *edges))
            return
        whole = "   ".join(filter(None, (order, row)))
        room = self.app.size.width - cell_len(self._title) - _AROUND_TITLE
        self.say("title", self.rule(self._title, whole if len(whole) <= room else row))

    def every_column(self) -> Sequence[Column]:
        """Return all available columns, with the sources' terms."""
        return self.columns

    def columns_now(self, in_full: bool = True) -> tuple[Column, ...]:
        """Return the chosen columns that fit this width, with full labels if there is room."""
        chosen = self.console.services.settings.now.columns.get(type(self).__name__, Chosen())
        return columns_for(chosen.of(self.every_column()), self.app.size.width, self.wide, in_full, self._sides)

    @property
    def _sides(self) -> int:
        return SIDES if self.framed else 0

    def _fitted(self, rows: Sequence[Row]) -> tuple[Column, ...]:
        """Return the columns for these rows, each as wide as its contents if there is room."""
        columns, width = self.columns_now(), self.app.size.width
        if self._needs_at != width:
            self._needs_at, self._needs = width, {}
        self._needs = needs(rows, columns, self._needs, self.console.ascii_only)
        shown = fitted(columns, self._needs, width - self._sides)
        if all(one.width >= self._needs[one.key] for one in shown):
            return shown
        columns = self.columns_now(in_full=False)  # full values are more important than full labels
        self._needs = needs(rows, columns, self._needs, self.console.ascii_only)
        return fitted(columns, self._needs, width - self._sides)

    def draw_panel(self) -> None:
        """Draw the panel of the selected row."""
        key = self.table.cursor_key
        self.put_panel((key, self.subject_of(key)), self.boxes(key, self.query_one(Panel).room))

    def edge(self, key: str | None) -> tuple[str, str]:
        """Return the text in the panel's lower edge, and its color role, which is that of the row's fault."""
        level = next((row.level for row in self.every_row if row.key == key), Level.FINE)
        return "", ROLES[level] if level in FAULTS else "frame"

    def drawn(self, key: str | None, width: int, rows: int) -> list[Text]:
        """Return the drawing below the panel's lines, at most `rows` rows."""
        return []

    def aside(self, key: str | None, width: int) -> Box | None:
        """Return a third column if there is room for one."""
        return None

    def lower(self, key: str | None, room: int) -> list[list[Box]]:
        """Return further rows of boxes in `room` rows, including the edges between them."""
        return []

    def boxes(self, key: str | None, room: int) -> list[list[Box]]:
        """Return the panel's boxes in `room` rows: the row's explanation, events next to it, and graphs below.

        On a narrow terminal, the panel is a single column.
        """
        title, lines = self.panel(key)
        hint, role = self.edge(key)
        wide = self.app.size.width
        if wide < BESIDE or not self.framed or not self.tells_events:
            texts = self.wrapped(lines, boxed=True)
            texts += self.drawn(key, self.inner, room - len(texts))
            return [[Box(title, [*texts, *self.more(key, room - len(texts))], hint, role)]]
        aside = self.aside(key, shares(wide, 3)[0] - AROUND) if wide >= THREE else None
        cells = shares(wide, 2 + (aside is not None))[0] - AROUND
        texts = self.wrapped(lines, boxed=True, width=cells)
        texts += self.drawn(key, cells, room - len(texts))
        local = self.console.shown.local
        least = max(len(texts), min(len(local.events), EVENTS_BESIDE), len(aside.lines) if aside is not None else 0)
        below = self.lower(key, room - least)
        least = max(least, room - rows_of_boxes(below)) if below else room
        events = [self.text(self.cut(one, cells)) for one in event_lines(local, least)]
        row = [Box(title, texts, hint, role), Box("Events", padded(events, least), "all jobs, UTC")]
        if aside is not None:
            row.insert(1, aside)
        return [row, *below]

    def put_panel(self, about: object, rows: list[list[Box]]) -> None:
        """Show boxes in the panel, next to and below each other. If the topic changes, scroll to the beginning."""
        panel, ascii_only, width = self.query_one(Panel), self.console.ascii_only, self.app.size.width
        lines = list(rows[0][0].lines)
        if self.framed:
            lines = stacked(rows, width, panel.room, self.style, ascii_only)
        panel.fill(about, lines)
        if self.focused is panel and not panel.too_long:
            self.table.focus()
        here = self.focused is panel
        if not self.framed:
            self.say("subtitle", self.rule(rows[0][0].title, panel.where, self.style("here") if here else ""))
            return
        first = [replace(box, role="accent") for box in rows[0]] if here else rows[0]
        last = [*rows[-1][:-1], replace(rows[-1][-1], hint=panel.where or rows[-1][-1].hint)]
        self.say("subtitle", upper(first, shares(width, len(first)), self.style, ascii_only))
        self.say("end", lower(last, shares(width, len(last)), self.style, ascii_only))

    def panel_moved(self) -> None:
        """Show which lines are visible after the panel was scrolled."""
        self.draw_panel()

    def tick(self) -> None:
        """Move the rows whose move was deferred during a key press."""
        super().tick()
        if self._late and not self._is_calm():
            self.redraw()

    def on_live_table_moved(self) -> None:
        if self.is_current:
            self._draw_title()
            self.draw_panel()

    def on_live_table_opened(self, message: LiveTable.Opened) -> None:
        """Open the row that was selected when the key was pressed."""
        self.opened(message.key)

    def on_descendant_focus(self) -> None:
        if self.is_mounted and self.is_current:
            self.draw_panel()

    def _is_calm(self) -> bool:
        return self.console.instant().since(self.console.touched) < CALM_SECONDS

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.has_actions if action == "act" else super().check_action(action, parameters)

    def rearranged(self) -> None:
        """Move rows to their new positions immediately, because the user requested the change."""
        self._moved_on = True
        self.redraw()

    def action_fault(self) -> None:
        """Move the cursor to the next row with a fault; after the last one, to the first."""
        rows, here = self.listed(), self.table.cursor_key
        keys = [row.key for row in rows]
        start = keys.index(here) + 1 if here in keys else 0
        found = next((row.key for row in [*rows[start:], *rows[:start]] if row.level in FAULTS), None)
        if found is None:
            self.console.say("no row has a fault")
        else:
            self.table.move_to(found)

    def action_faults(self) -> None:
        self.faults_only = not self.faults_only
        self.rearranged()

    def action_sort(self) -> None:
        self._reorder(following(self.order, self.columns_now()))

    def action_turn(self) -> None:
        self._reorder(turned(self.order))

    def _reorder(self, order: Order) -> None:
        self.order = order
        self.console.services.settings.change(order, "orders", type(self).__name__)
        self.rearranged()

    def action_wide(self) -> None:
        self.wide = not self.wide
        self.redraw()

    def action_columns(self) -> None:
        from slotkeeper.console.tui.screens.columns import ColumnsScreen

        def changed() -> Sequence[Column]:
            self.draw()
            return self.columns_now()

        self.app.push_screen(ColumnsScreen(type(self).__name__, self.every_column(), changed))

    def action_mark(self) -> None:
        key = self.table.cursor_key
        if key is not None:
            self._marks ^= {key}
            self.redraw()
            self.table.action_move(1)

    def action_unmark(self) -> None:
        self._marks.clear()
        self.redraw()

    def action_act(self) -> None:
        if self.console.in_history:
            self.console.say("actions are not available in history; press R to leave it", Level.WARNING)
            return
        keys = self._meant()
        if keys:
            self.act(keys)

    def action_copy(self) -> None:
        row = next((row for row in self.rows() if row.key == self.table.cursor_key), None)
        if row is None:
            self.console.say("no row is selected", Level.WARNING)
        else:
            self.app.copy_to_clipboard(self.copied(row))

    def action_copy_json(self) -> None:
        from slotkeeper.console.cli.output import json_text

        keys = self._meant()
        found = [
            {"severity": row.level.name.lower()} | {key: text for key, text in row.cells.items() if key != "mark"}
            for row in self.rows()
            if row.key in keys
        ]
        if found:
            self.app.copy_to_clipboard(json_text(found[0] if len(found) == 1 else found))

    def action_export(self) -> None:
        from slotkeeper.console.tui.export import exported

        name, folder, at = self.heading(), self.console.services.folder, self.console.now_real()
        result = exported(folder, name, self.columns, self.listed(), at)
        self.console.say(result.text, Level.FINE if result.ok else Level.WARNING)

    def _meant(self) -> list[str]:
        key = self.table.cursor_key
        if not self.marked and key is None:
            self.console.say("no row is selected", Level.WARNING)
        return self.marked or ([key] if key is not None else [])

    def neighbours(self) -> list[str]:
        """Return the rows of the table from which this screen was opened."""
        below = self._below()
        return below.table.keys() if below is not None else []

    def action_sibling(self, step: int) -> None:
        """Open the next row of the table from which this screen was opened, with the current filter and order."""
        below, keys = self._below(), self.neighbours()
        here = below.table.cursor_key if below is not None else None
        if below is None or len(keys) < 2 or here not in keys:
            self.console.say("there is no other row", Level.REST)
            return
        key = keys[(keys.index(here) + step) % len(keys)]
        if not self.close_screen():
            return
        below.table.move_to(key)
        below.opened(key)
        opened = self.app.screen
        if isinstance(opened, TableScreen) and type(opened) is type(self):
            opened.wanted, opened.faults_only = self.wanted, self.faults_only
            opened.order, opened.wide = self.order, self.wide

    def _below(self) -> TableScreen | None:
        stack = self.app.screen_stack
        below = stack[stack.index(self) - 1] if self in stack[1:] else None
        return below if isinstance(below, TableScreen) else None

    def action_pane(self, step: int) -> None:
        if self.query_one(Input).display:
            self.end_filter()
        else:
            super().action_pane(step)

    def on_input_submitted(self) -> None:
        """Keep the filter and move the cursor to the first match. A second Enter opens it, even if typed ahead."""
        if not self.query_one(Input).display:
            self.table.action_open()
            return
        self.end_filter()
        self.table.move_to_first()

    def unfiltered(self) -> Widget:
        return self.table
