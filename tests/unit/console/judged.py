"""A job as the console shows it, judged from one look at it."""

from __future__ import annotations

from datetime import datetime

from console.monitor.health import facts
from console.monitor.snapshot import JobFacts
from core.domain.job_view import JobView
from core.judgement.facts import Facts, JobSeen
from core.judgement.judge import judge


def stands(view: JobView, now: datetime) -> JobFacts:
    """How it stands at that moment, as far as it says itself."""
    return facts(view, judge(Facts(now, (JobSeen(view),))), now)
