"""The real parser accepts the command lines of actions, whatever names and texts they contain."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import pytest

from slotkeeper.console.actions.commands import (
    Doing,
    Origin,
    Part,
    Place,
    Target,
    Typed,
    job_wants,
    job_words,
    shell_text,
    slot_wants,
    slot_words,
    with_placeholders,
)
from slotkeeper.console.actions.verbs import JobVerb, SlotVerb
from slotkeeper.console.commands import main

ORIGIN = Origin("/etc/slotkeeper/c.toml", "/var/lib/slotkeeper")
PLACE = Place("dws1", "ods.orders", "orders_rt")
HOSTILE = [
    "--execute",
    "-x",
    "a b",
    "'; rm -rf /'",
    "$(id)",
    "--config=/x",
    "--",
    "*",
    "\u8ba2\u5355",
    "a=b",
    "--ascii",
]
TEXTS = {Part.REASON: "INC-1 because", Part.NAME: "orders_rt", Part.TABLE: "ods.orders", Part.ROWS: "12403118"}


def accepted(words: Sequence[str]) -> tuple[str, dict[str, Any]]:
    """(the command, its parameters) as the real parser reads the words; fails if the parser rejects them."""
    group, args = main.main_command(), main.hoisted(words)
    context = group.make_context("slotkeeper", args)
    path, shared = [], dict(context.params)
    while hasattr(context.command, "resolve_command"):
        name, command, rest = context.command.resolve_command(context, [*context._protected_args, *context.args])
        path.append(name)
        context = command.make_context(name, rest, parent=context)
    return " ".join(path), {**context.params, "config": shared["config"]}


@pytest.mark.parametrize("verb", list(JobVerb))
def test_every_command_on_a_job_is_accepted(verb: JobVerb) -> None:
    parts = {Part.REASON: "no more", Part.NAME: "orders_rt"} if verb is JobVerb.CANCEL else {}
    path, params = accepted(job_words(ORIGIN, verb, "orders_rt", parts))
    assert path == (verb.value if verb is JobVerb.VERIFY else f"jobs {verb.value}")
    assert params["job"] == "orders_rt" and params["as_json"] is True
    assert str(params["config"]) == ORIGIN.config
    if verb is JobVerb.CANCEL:
        assert (params["reason"], params["confirm"]) == ("no more", "orders_rt")


@pytest.mark.parametrize("verb", [JobVerb.STOP, JobVerb.PAUSE, JobVerb.RESUME, JobVerb.CANCEL])
def test_without_a_configuration_the_state_folder_is_named(verb: JobVerb) -> None:
    _, params = accepted(job_words(Origin("", "/var/lib/s k"), verb, "orders_rt"))
    assert str(params["state_dir"]) == "/var/lib/s k" and params["config"] is None


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target("earliest"), {"to": "earliest"}),
        (Target("latest"), {"to": "latest"}),
        (Target("snapshot"), {"to": "snapshot", "on_existing": None}),
        (Target("snapshot", "replace"), {"to": "snapshot", "on_existing": "replace"}),
        (Target("snapshot", "merge"), {"to": "snapshot", "on_existing": "merge"}),
        (Target("point", "dn_1=5 dn_2=7"), {"to": "point", "points": ["dn_1=5", "dn_2=7"]}),
        (Target("time", "2026-01-31T08:30:00+01:00"), {"to": "time", "time": "2026-01-31T08:30:00+01:00"}),
        (Target("backup", "20260101T000000-abcdef"), {"to": "backup", "backup": "20260101T000000-abcdef"}),
    ],
)
def test_the_plan_of_a_reset_is_a_dry_run_to_every_target(target: Target, expected: dict[str, Any]) -> None:
    path, params = accepted(slot_words(ORIGIN, Doing(SlotVerb.RESET, PLACE, target)))
    assert path == "slots reset" and params["execute"] is False and params["plan_id"] == ""
    assert (params["table"], params["slot"]) == ("ods.orders", "orders_rt")
    words = {name: params[name].value for name in ("to", "on_existing") if params[name] is not None}
    found = {name: words.get(name) or params[name] for name in expected}
    assert found == expected


@pytest.mark.parametrize("verb", [SlotVerb.CREATE, SlotVerb.REGISTER, SlotVerb.DROP])
def test_a_verb_on_a_slot_is_a_dry_run_until_something_was_typed(verb: SlotVerb) -> None:
    path, params = accepted(slot_words(ORIGIN, Doing(verb, PLACE)))
    assert path == f"slots {verb.value}" and params["execute"] is False and params["source"] == "dws1"
    parts = {part: text for part, text in TEXTS.items() if part is not Part.ROWS or verb is not SlotVerb.CREATE}
    _, params = accepted(slot_words(ORIGIN, Doing(verb, PLACE), Typed(parts=parts)))
    assert params["execute"] is True
    assert (params["reason"], params["confirm"], params["confirm_table"]) == tuple(TEXTS.values())[:3]
    assert params.get("rows") == (None if verb is SlotVerb.CREATE else "12403118")


def test_a_reset_and_an_undo_are_carried_out_by_their_plan() -> None:
    parts: dict[Part, str] = {part: text for part, text in TEXTS.items() if part is not Part.TABLE}
    for doing, name in (
        (Doing(SlotVerb.RESET, PLACE, Target("latest")), "slots reset"),
        (Doing(SlotVerb.UNDO, PLACE, backup="20260101T000000-abcdef"), "slots undo"),
    ):
        path, params = accepted(slot_words(ORIGIN, doing, Typed("7f3a9c0d1e2f", parts)))
        assert path == name and params["execute"] is True
        assert (params["plan_id"], params["confirm"], params["rows"]) == ("7f3a9c0d1e2f", "orders_rt", 12403118)
        assert "to" not in params or params["to"] is None


def test_preflight_history_and_the_end_of_an_unfinished_reset_are_accepted() -> None:
    assert accepted(slot_words(ORIGIN, Doing(SlotVerb.PREFLIGHT, PLACE)))[1]["table"] == "ods.orders"
    assert accepted(slot_words(ORIGIN, Doing(SlotVerb.HISTORY, PLACE)))[1]["slot"] == "orders_rt"
    _, params = accepted(slot_words(ORIGIN, Doing(SlotVerb.RESET, PLACE, ending=True)))
    assert params["go_on"] is True and params["execute"] is False


@pytest.mark.parametrize("text", HOSTILE)
def test_no_name_and_no_text_is_taken_for_an_option(text: str) -> None:
    place = Place("dws1", text, text)
    typed = Typed("7f3a9c0d1e2f", {Part.REASON: text, Part.NAME: text})
    words = slot_words(ORIGIN, Doing(SlotVerb.RESET, place, Target("latest")), typed)
    _, params = accepted(words)
    assert (params["table"], params["slot"], params["reason"], params["confirm"]) == (text, text, text, text)
    assert str(params["config"]) == ORIGIN.config
    _, params = accepted(job_words(ORIGIN, JobVerb.STOP, text))
    assert params["job"] == text


@pytest.mark.parametrize("text", HOSTILE)
def test_the_text_to_copy_means_the_same_words_to_a_shell(text: str) -> None:
    words = slot_words(ORIGIN, Doing(SlotVerb.DROP, Place("dws1", text, text)), Typed(parts={Part.REASON: text}))
    assert shlex.split(shell_text(words)) == ["slotkeeper", *(word for word in words if word != "--json")]


def test_what_is_not_typed_right_is_a_placeholder_in_the_text_to_copy() -> None:
    wants = slot_wants({"confirm": "orders_rt", "confirm_table": None, "rows": "7"})
    found = with_placeholders(wants, {Part.REASON: "INC-1", Part.NAME: "orders", Part.ROWS: "7"})
    assert found == {Part.REASON: "INC-1", Part.NAME: "NAME", Part.ROWS: "7"}
    assert with_placeholders(job_wants(["a", "b"]), {}) == {}
