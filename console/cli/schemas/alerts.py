"""What `alerts` prints, and the notification that the command of `[alerts]` gets on its standard input."""

from __future__ import annotations

from slotkeeper.console.cli.schemas.jobs import FAULT
from slotkeeper.console.cli.schemas.pieces import Schema, listed, maybe, moment, text, thing, word_of
from slotkeeper.core.alerts.rules import Kind
from slotkeeper.core.domain.text import see

NOTIFICATION = "alert"

_ACK = thing(
    "what holds of what somebody said of it",
    {
        "by": text("who"),
        "at": moment("when"),
        "until": maybe(moment("until when it is silent"), "it is acknowledged until it ends or grows worse"),
        "reason": maybe(text("why, as typed"), "nothing was typed"),
    },
)

SCHEMAS: dict[str, Schema] = {
    NOTIFICATION: thing(
        f"what the command of [alerts] gets on its standard input, one line ({see('alerts')})",
        {
            "schema": {"const": 1, "description": "raised where a key is renamed or taken away"},
            "kind": word_of("what is told of the fault", Kind),
            "at": moment("when it was decided to tell"),
            "began": moment("since when it holds, or when it was judged first"),
            "id": text("the same for all notifications about one fault"),
            "host": text("where it was judged"),
            "state_folder": text("where it was judged"),
            "text": text("the fault in one line"),
            "fault": FAULT,
        },
    ),
    "alerts list": thing(
        "what is wrong now, and what was told and said of it",
        {
            "alerts": listed(
                "the worst first",
                thing(
                    "a fault",
                    {
                        "key": text("what `alerts ack` and the others know it by; the id of its notifications"),
                        "text": text("the fault in one line"),
                        "fault": FAULT,
                        "began": maybe(moment("since when it holds, or when it was judged first"), "nobody noted it"),
                        "sent_at": maybe(moment("when it was told last"), "it was not told"),
                        "ack": maybe(_ACK, "nobody has said anything that holds"),
                    },
                ),
            )
        },
    ),
    "alerts test": thing(
        "what the command answered",
        {
            "exit_code": maybe(
                {"type": "integer", "description": "its exit code, of a signal the negative"},
                "it was killed, or could not be started",
            ),
            "fault": maybe(text("why it did not take the notification"), "it took it"),
            "written": text("the beginning of what it wrote"),
        },
    ),
}
