"""Shall this be done to the job? One key for one job; for several their number is typed, for the final one its name.

Next door: `act_confirm` asks, `act_progress` shows what was observed afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

from console.actions.commands import JobVerb, job_words
from console.actions.rules import Part, job_wants
from console.actions.runner import Order
from console.monitor.snapshot import Level
from console.tui.screens.actions.confirm import Confirm
from console.tui.screens.actions.progress import JobProgress
from console.tui.screens.base import Lines
from console.views.jobs import what_is_safe, what_is_wrong
from core.domain.text import safe

_MEANS = {
    JobVerb.START: "goes on where the sink's progress rows stand; a job that never ran begins with its copy",
    JobVerb.STOP: "its processes end; started again it goes on where it was, while the slot's TTL lasts",
    JobVerb.RESTART: "its processes end, then it starts with the configuration as it is now",
    JobVerb.PAUSE: "its process lives and applies nothing; the slot's TTL may run on",
    JobVerb.RESUME: "it applies again from where it is",
    JobVerb.CANCEL: "FINAL: it can never be started again under this name; slot and rows stay as they are",
}


class JobConfirm(Confirm):
    """The last question before jobs are acted upon; the names are those of the key press."""

    def __init__(self, verb: JobVerb, names: Sequence[str]) -> None:
        super().__init__(job_wants(names, final=verb is JobVerb.CANCEL))
        self._verb = verb
        self.names = tuple(names)

    def verb(self) -> str:
        """What is done."""
        return self._verb.value

    def what(self) -> str:
        """The job, or how many."""
        return f"JOB {safe(self.names[0], 60)}" if len(self.names) == 1 else f"{len(self.names)} JOBS"

    def does(self) -> str:
        """The words of the button."""
        return f"{self.verb().capitalize()} {len(self.names)} job{'s' if len(self.names) > 1 else ''}"

    def told(self) -> Lines:
        """The jobs as they are now, and what the verb means."""
        for name in self.names:
            job = self.console.shown.job(name)
            state = job.state.value if job and job.state else "never started"
            yield (job.level if job else Level.UNKNOWN), f"{safe(name, 60)}   {state}"
            if job is not None and len(self.names) == 1:
                yield Level.FINE, f"wrong   {what_is_wrong(job)}"
                yield Level.FINE, f"safe    {what_is_safe(job)}"
        yield Level.FINE, f"means   {_MEANS[self._verb]}"
        if self._verb is JobVerb.RESTART and self.console.services.loaded:
            yield Level.FINE, f"config  {safe(self.console.services.loaded.path, 200)}"

    def begin(self, typed: dict[Part, str]) -> None:
        """Do it to each of the jobs, each in a command of its own."""
        ids = [id for name in self.names if (id := self._begin(name, typed)) is not None]
        if ids:
            self.app.switch_screen(JobProgress(self._verb, ids))

    def command(self, typed: dict[Part, str]) -> tuple[str, ...]:
        """That of the first job."""
        return job_words(self.origin, self._verb, self.names[0], typed)

    def _begin(self, name: str, typed: dict[Part, str]) -> str | None:
        parts: dict[Part, str] = {part: text for part, text in typed.items() if part is not Part.NUMBER}
        words = job_words(self.origin, self._verb, name, parts)
        return self.set_going(Order(words, f"{self.verb()} job {name}", name))
