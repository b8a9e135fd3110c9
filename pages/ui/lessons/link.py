"""A lesson's link: its settings, what was set by hand, the step, or the class to follow.

A value that a lesson does not offer becomes the nearest that it does, and a sentence says so.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import streamlit as st

from datasets.catalogue import entry
from dgp_core.live.run import Run
from dgp_core.live.workshop import WorkshopError
from pages.ui import session
from pages.ui.choices import IN_WORDS, Choices, nearest, read_query
from pages.ui.classroom.room import room
from pages.ui.lessons.parts import Hand, Lesson, Live
from pages.ui.share import address_with
from pages.ui.stage.classroom import Classroom, class_token, same
from pages.ui.stage.server import server

FOLLOW = "follow"
"""The link's word for the class to follow."""


def take_hands(number: int, hands: Sequence[Hand]) -> None:
    """Sets widgets from a link, or as on the teacher's page that is followed, before parts are
    built that depend on them."""
    memory, query = st.session_state, dict(st.query_params)
    _take_class(number)
    taken: dict = memory.setdefault("lesson_hands_link", {})
    if taken.get(number) == query:
        return
    taken[number] = query
    sentences: list[str] = []
    memory.lesson_messages = {number: sentences}
    for hand in hands:
        if hand.key in query:
            memory[hand.key] = _read_hand(hand, query[hand.key], sentences)


def _read_hand(hand: Hand, words: str, sentences: list[str]) -> Any:
    """A widget's value in a link."""
    try:
        if hand.read is not None:
            return hand.read(words)
        text = isinstance(hand.offered[0], str)
        value = nearest(words, hand.offered, "" if text else hand.first)
        if value in hand.offered and value == (words if text else float(words)):
            return value
    except (ValueError, OverflowError):
        value = hand.first
    value = hand.first if value == "" else value
    instead = "is left out" if value in (None, ()) else f"becomes {value}"
    sentences.append(
        f"The link says {hand.key} = {words[:30]!r}, which is not offered here: {instead}."
    )
    return value


def take_lives(lesson: Lesson) -> None:
    """Restarts live parts with the settings of a link."""
    memory, query = st.session_state, dict(st.query_params)
    if memory.get("lesson_link") == (lesson.number, query):
        return
    memory.lesson_link = (lesson.number, query)
    messages = memory.setdefault("lesson_messages", {}).setdefault(lesson.number, [])
    for live in lesson.lives:
        key, start = (lesson.number, live.name), f"{live.name}."
        own = {n.removeprefix(start): words for n, words in query.items() if n.startswith(start)}
        if not own:
            continue
        choices, sentences = read_choices(live, own)
        messages += sentences
        memory.setdefault("lesson_choices", {})[key] = choices
        replace_run(key)


def replace_run(key: tuple[int, str]) -> None:
    """Another run is to begin in the place of this one, which ends once it is there."""
    memory = st.session_state
    old = memory.setdefault("lesson_runs", {}).pop(key, None)
    if old is not None:
        memory.setdefault("lesson_replaced", []).append(old)


def read_choices(live: Live, own: dict[str, str]) -> tuple[Choices, list[str]]:
    """A live part's choices by a link, and a sentence for each value that it does not offer."""
    taken, sentences = read_query(own)
    given = {f.name: getattr(taken, f.name) for f in fields(Choices) if f.name in own}
    for name, value in given.items():
        offered = live.offers.get(name)
        if offered and value not in offered:
            given[name] = nearest(f"{value}", offered, getattr(live.choices, name))
        elif name == "data" and not offered and _kind(value) != _kind(live.choices.data):
            given[name] = live.choices.data
        if given[name] != value:
            sentences.append(
                f"The link asks for the {IN_WORDS[name]} {value!r}, which this lesson does not "
                f"offer: {given[name]} is taken instead."
            )
    return replace(live.choices, **given), sentences


def _kind(data: str) -> tuple[int, str]:
    """What a picture of a data set depends on."""
    return entry(data).D, entry(data).task


def current(lesson_number: int, live: Live) -> Choices:
    """What a live part shows now: its own choices, and what was changed under it."""
    changed = st.session_state.setdefault("lesson_choices", {})
    return changed.setdefault((lesson_number, live.name), live.choices)


def own_class() -> str:
    return class_token(session.browser())


def followed_class() -> str:
    """The class of somebody else that this page follows; nothing where it follows none."""
    token = st.query_params.get(FOLLOW, "")
    return "" if token == own_class() else token


def followed_room() -> Classroom | None:
    """That class, where somebody teaches it."""
    return server().classrooms.get(followed_class())


def stop_following() -> None:
    """What is there stays, and is one's own from now on."""
    st.query_params.pop(FOLLOW, None)


def _take_class(number: int) -> None:
    """Shows what the teacher's page does, where it was changed there since."""
    memory, room = st.session_state, followed_room()
    memory.class_version = room.changes if room is not None else 0
    if room is None or room.lesson != number:
        return
    known = memory.get("class_values", {})
    for key, value in room.values.items():
        if key not in known or not same(known[key], value):
            memory[key] = value
    memory.class_values = dict(room.values)


def take_part(number: int, keys: Sequence[str], free: bool) -> int:
    """Sets what one part of the page shows as on the teacher's, and returns up to which change.

    What students are `free` to choose themselves is set only where the teacher's has changed.
    """
    memory, room = st.session_state, followed_room()
    if room is None or room.lesson != number:
        return room.changes if room is not None else 0
    changes, values = room.changes, room.values
    known = memory.setdefault("class_values", {})
    for key in keys:
        if key in values and not (free and key in known and same(known[key], values[key])):
            memory[key] = known[key] = values[key]
    return changes


def followed(number: int) -> dict[str, str]:
    """The runs of the page that this one follows, which still are, and are not its own."""
    runs = server().classrooms.runs(followed_class(), number)
    return {name: i for name, i in runs.items() if find(i) and not session.is_mine(i)}


def find(run_id: str | None) -> Run | None:
    """The run, where it still is."""
    try:
        return None if run_id is None else session.workshop().watch(run_id)
    except WorkshopError:
        return None


def links(lesson: Lesson) -> tuple[str, str]:
    """The address of this very moment, for runs of one's own; and that of this class."""
    memory, moment = st.session_state, {}
    for hand in lesson.hands:
        value = memory.get(hand.key, hand.first)
        if value != hand.first:
            moment[hand.key] = _write_hand(value)
    for live in lesson.lives:
        choices = current(lesson.number, live)
        for name in (f.name for f in fields(Choices) if f.name != "at"):
            if getattr(choices, name) != getattr(live.choices, name):
                moment[f"{live.name}.{name}"] = f"{getattr(choices, name)}"
        latest = session.workshop().watch(memory.lesson_runs[(lesson.number, live.name)]).latest
        if latest is not None and latest.step:
            moment[f"{live.name}.at"] = f"{latest.step}"
    page = str(st.context.url).partition("?")[0]
    follow = {FOLLOW: followed_class() or own_class()}
    own = room().anywhere(address_with(page, moment))
    return room().invite(own), room().invite(address_with(page, follow))


def _write_hand(value: Any) -> str:
    if isinstance(value, tuple):
        return "~".join("_".join(f"{number:.4g}" for number in point) for point in value)
    return f"{int(value)}" if isinstance(value, bool) else f"{value}"
