"""When a Spark session is lost although its Java process is still there. Pure.

Spark, "Spark Standalone Mode", High Availability: `spark.deploy.recoveryMode` is NONE unless set, and a master that
restarts without it no longer knows the applications that it had. Its workers end their executors, the application gets
no others, and Spark reports nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

LOST_AFTER = 60.0
"""Seconds. As long as a start waits for its first executor; a lost executor is replaced within seconds. The question
costs the Java process a millisecond, so that one on an overloaded host answers within a few seconds as well."""
NO_EXECUTOR = f"the Spark cluster has had no executor for {LOST_AFTER:.0f} s"


@dataclass(frozen=True, slots=True)
class SessionLife:
    """For how many seconds the Java process has been `silent`, and the cluster `empty`: without an executor."""

    silent: float = 0.0
    empty: float = 0.0

    def after(self, seconds: float, executors: int | None) -> SessionLife:
        """The same so many seconds later; `executors` are those registered by now, None without an answer.

        >>> SessionLife(silent=9.0).after(2.0, 3), SessionLife(empty=9.0).after(2.0, 0)
        (SessionLife(silent=0.0, empty=0.0), SessionLife(silent=0.0, empty=11.0))
        """
        if executors is None:
            return SessionLife(self.silent + seconds, self.empty)
        return SessionLife(0.0, 0.0 if executors else self.empty + seconds)

    @property
    def lost(self) -> str:
        """Why the session is lost; "" while it is not."""
        if self.silent >= LOST_AFTER:
            return f"Spark's Java process has not answered for {LOST_AFTER:.0f} s"
        return NO_EXECUTOR if self.empty >= LOST_AFTER else ""
