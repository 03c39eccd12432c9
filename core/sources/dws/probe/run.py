"""Runs the probe of DWS: creates scratch tables, asks all questions in order, and drops the tables at the end."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.probing import PREFIX, Answer, Group, ProbePlan, Questionnaire, dropped
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import Probe, ProbeAsked
from slotkeeper.core.sources.dws import eligibility
from slotkeeper.core.sources.dws.probe import slots, tables
from slotkeeper.core.sources.dws.probe.questions import NEVER_ASKED, QUESTIONS, switches
from slotkeeper.core.sources.dws.probe.scratch import (
    ProbeContext,
    Scratch,
    leftovers,
    place_for,
    probe_statement,
)
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.viewer import DwsViewer

GROUPS: tuple[Group[ProbeContext], ...] = (
    ("slots", tables.HISTORY[0], tables.unknown_slot),
    ("reading", tables.HISTORY[1], tables.history),
    ("ranges", tables.HISTORY[2], tables.ranges),
    ("table", ("xc_node_id", "distribution_key_fixed", "empty_is_null"), tables.columns),
    ("cursors", ("cursor_syncpoint_inclusive",), tables.by_syncpoint),
    ("newest point", ("latest_inclusive", "latest_same", "dn_order_fixed", "negative_node_ids"), slots.newest),
    ("registering", ("two_points", "register_counts", "register_moves_point", "refresh_same_point"), slots.registering),
    ("xmin", ("xmin_includes_slots",), slots.retaining),
    ("coordinators", ("cluster_wide_snapshot",), slots.elsewhere),
    ("consuming", ("consumed_at_point",), slots.consuming),
    ("purging", ("purge_at_once", "registered_point_kept"), slots.purging),
    ("backward", ("backward_allowed",), slots.backwards),
    ("timestamps", ("timestamp_table", "cursor_timestamp_inclusive"), tables.timed),
    ("recording", ("generate_binlog_off",), tables.without_binlog),
    ("ddl", ("vacuum_full_keeps", "add_column_clears", "truncate_clears"), tables.ddl),
    ("partitions", tuple(name for name, _, _ in tables.PARTITIONS), tables.partitions),
    ("clearing", ("clear_clears",), slots.clearing),
    ("old snapshots", ("old_snapshot_recorded",), slots.old_snapshot),
    ("errors", ("missing_table_code",), tables.errors),
)
"""The groups, each with its topic, its questions and the function that asks them; each prepares the next group."""

EFFECTS = (
    "creates scratch tables with a slot each, writes to them, and alters, empties and drops them",
    "each confirmation may move the cluster's sync point by one, like a job's confirmations",
)


def ask_all(session: DwsSession, scratch: Scratch, progress: Callable[[str], None]) -> list[Answer]:
    """Create the scratch table and ask all questions; the caller drops the tables of `scratch` in every case."""
    scratch.create(session, scratch.plain)
    ctx = ProbeContext(session, scratch, scratch.plain)
    return Questionnaire(QUESTIONS, NEVER_ASKED, GROUPS).run(ctx, progress, time.monotonic, ctx.lacks)


class DwsProbe:
    """The probe of DWS."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def plan(self, source: str, schema: str, prod: bool) -> ProbePlan:
        at = self._login.endpoint.place
        with closing(self._session()) as session:
            facts = DwsViewer(session).server_facts()
            if not facts.functions:
                hint = "name a GaussDB(DWS) source"
                what = f"source {at} is not a GaussDB(DWS) cluster: it has no binlog functions"
                raise Refused(what, hint, where="source")
            # under GTM-Lite, the start of a job requires the result of this probe
            found = list(eligibility.server_objections(facts, points_proven=True))
            refuse([*found, *eligibility.creation_objections(facts.settings)], "source")
            place = place_for(session, schema)
            stand_in = bool(session.composed_rows(pg.sql.SQL(probe_statement("stand_in")), None)[0][0])
            scratch = Scratch(place, f"{PREFIX}{uuid.uuid4().hex[:12]}", stand_in)
            names = (scratch.plain, scratch.timed, scratch.parts)
            return ProbePlan(
                source=source,
                place=at,
                server=safe(facts.version, 200),
                stand_in=stand_in,
                schema=place,
                table=scratch.name,
                prod=prod,
                statements=tuple(scratch.statement(name, name == scratch.timed) for name in names),
                others=tuple(leftovers(session)),
                points=facts.settings.get("gtm_option", ""),
                effects=EFFECTS,
            )

    def ask(self, asked: ProbeAsked) -> tuple[list[Answer], dict[str, bool | None]]:
        scratch = Scratch(asked.plan.schema, asked.plan.table, asked.plan.stand_in)
        with (
            dropped(lambda: scratch.drop_all(self._session), asked.left, asked.ending),
            closing(self._session()) as session,
        ):
            found = ask_all(session, scratch, asked.progress)
        answers = list(_for_jobs(asked.jobs, found))
        return answers, switches(answers)

    def _session(self) -> DwsSession:
        return DwsSession(self._login.endpoint, self._login.password, self._login.name)


def probe(login: Login) -> Probe:
    made = DwsProbe(login)
    return Probe(Questionnaire(QUESTIONS, NEVER_ASKED, GROUPS).asked, made.plan, made.ask)


def _for_jobs(jobs: Sequence[JobSpec], answers: Iterable[Answer]) -> Iterator[Answer]:
    for one in answers:
        if one.question.name == "new_system_names" and one.finding.answer:
            new = one.finding.answer == "yes"
            other = sorted(job.name for job in jobs if job.binlog.new_system_value != new)
            if other:
                because = f"set new_system_value = {str(new).lower()} for {', '.join(other)}"
                one = replace(one, finding=replace(one.finding, right=False, because=because))  # noqa: PLW2901
        yield one
