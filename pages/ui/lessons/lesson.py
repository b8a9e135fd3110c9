"""The frame of every lesson: words, equations, live pictures, things to try, questions, a sheet.

A lesson is written as parts in order. The page shows them with live pictures; the sheet prints the
words, the equations and the exercises.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from datasets.catalogue import entry
from datasets.starts import film_of, later_of
from dgp_core.live.run import Run
from dgp_core.live.workshop import WorkshopError
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.choices import HIDEABLE, OFFERED, SPEEDS, Choices, DisplayOptions
from pages.ui.glossary_links import Linker
from pages.ui.lessons.link import (
    current,
    find,
    followed,
    followed_class,
    followed_room,
    links,
    own_class,
    replace_run,
    stop_following,
    take_hands,
    take_lives,
    take_part,
)
from pages.ui.lessons.order import lesson_pages, next_lesson, this_page
from pages.ui.lessons.parts import (
    Equation,
    Hand,
    Lesson,
    Live,
    Part,
    Picture,
    Question,
    Try,
    Words,
    question,
    right,
    wrong,
)
from pages.ui.lessons.printing import print_button, printed
from pages.ui.lessons.worksheet import CITATION, sheet, solutions
from pages.ui.sentences import in_words, notice
from pages.ui.share import address_with, class_options, link_tools, say_only_here
from pages.ui.stage import hosts as stage
from pages.ui.stage.classroom import Ballot, run_key
from pages.ui.stage.server import Elements, Scene, server
from pages.ui.without_rival import without_rival

__all__ = [
    "CITATION",
    "STYLE",
    "Equation",
    "Hand",
    "Lesson",
    "Live",
    "Part",
    "Picture",
    "Question",
    "Try",
    "Words",
    "button",
    "hand",
    "locked",
    "question",
    "redraw",
    "right",
    "sheet",
    "show",
    "take_hands",
    "wrong",
]

STYLE = """<style>
[data-testid=stMainBlockContainer] { max-width: 66rem; padding-top: 4.2rem; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
.stMarkdown > div:has(.katex-display), .stMarkdown > div > div:has(> .katex-display) {
  width: 100%;
}
[data-testid=stMarkdownContainer] .katex-display { overflow: auto hidden; padding: 2px 0; }
[data-testid=stMarkdownContainer]:has(> table) { overflow-x: auto; }
[data-testid=stMarkdownContainer] td:is([align=right], [style*=right]) { white-space: nowrap; }
[class*=st-key-follows_] { display: none; }
@media (max-width: 640px) {
  .katex-display > .katex { font-size: 0.9em; }
  .katex-display .katex-html > .tag { position: static !important; display: block;
    text-align: right; }
  [data-testid=stForm] [data-testid=stElementContainer]:has([data-testid=stTextInput]) {
    min-width: 100%; }
  [data-testid=stMarkdownContainer] :is(th, td) { padding: 0.3rem 0.4rem; font-size: 0.85rem; }
  [data-testid=stMarkdownContainer] td:first-child { min-width: 4.5rem; }
}
@media print { [data-testid=stHeader], [data-testid=stSidebar] { display: none; } }
</style>"""
# Of a picture by hand: everything that sets something in it.
NO_CONTROLS = """<style>
[class*=st-key-by_hand_] :is([data-testid=stElementContainer], [data-testid=stColumn]):has(
  [data-testid=stSlider], [data-testid=stButtonGroup], [data-testid=stCheckbox],
  [data-testid=stButton]):not(:has(.stage-host)),
[class*=st-key-by_hand_] [data-testid=stPopover] { display: none; }
</style>"""
HIDDEN = {
    "rival": re.compile("rival"),
    "bound": re.compile("bound|parts"),
    "layers": re.compile("layer"),
    "mixture": re.compile("mixture"),
}
"""What a link's word leaves out of the live pictures, by their elements' names."""
IN_LESSONS = tuple(name for name in HIDEABLE if name != "history")


def show(lesson: Lesson, on_click: Callable[[dict], None] = lambda where: None) -> None:
    """The lesson's page."""
    session.browser()
    session.arrive_at_lesson()
    display = session.display_options()
    with in_words("This lesson's runs could not be started. Reload the page."):
        session.leave_other_lessons(lesson.number)
        go_along()
        take_hands(lesson.number, lesson.hands)
        take_lives(lesson)
        teacher = followed(lesson.number)
        scenes = {live.name: _scene(lesson, live, teacher) for live in lesson.lives}
        _publish(lesson)
        _drop_replaced()
        of_class = {"follows": followed_class(), "version": st.session_state.class_version}
        if not of_class["follows"]:
            of_class = {"teaches": own_class(), "version": int(teaching())}
        session.play(scenes, (lambda where: None) if locked() else on_click, **of_class)
        st.title(f"{lesson.number} · {lesson.title}", anchor=False)
        st.caption(f"{lesson.summary} About {lesson.minutes} minutes.")
        with st.container(key="messages"):  # a place of its own, as in session.say
            _show_messages(lesson, teacher)
        linker, placed = Linker(), {}
        for i, part in enumerate(lesson.parts):
            # By its key, those who follow find the place.
            with st.container(key=f"part_{i}"):
                make = partial(_note_part, lesson, i, part, display, linker, placed)
                if followed_class() and (shows := _shown_apart(lesson, i, part)):
                    _follow_part(lesson, i, part, shows, make)
                else:
                    make()
        _publish(lesson)  # what a part has measured
        _foot(lesson, placed)
    session.page_made()
    dress(STYLE + NO_CONTROLS * ("controls" in display.hide))


def hand(of: Hand, says: str = "value") -> dict[str, Any]:
    """What makes a widget one that links hold and lock; `says` is its argument for a first value.

    As with `session.control`, its value is that first value too.
    """
    value = st.session_state.setdefault(of.key, of.first)
    return {says: value, "key": of.key, "disabled": locked()}


def button(
    label: str, icon: str, act: Callable, *args: Any, key: str, disabled: bool = False
) -> None:
    """A button of a picture by hand, which links lock."""
    st.button(
        label,
        icon=f":material/{icon}:",
        on_click=act,
        args=args,
        key=key,
        disabled=disabled or locked(),
    )


def redraw(of: Hand) -> None:
    """Another draw: the next seed that is offered."""
    memory = st.session_state
    memory[of.key] = (memory.get(of.key, of.first) + 1) % len(of.offered)


def locked() -> bool:
    """Whether nothing is to be changed: a teacher's link wants it so, or the page follows one."""
    return session.display_options().lock or bool(followed_class())


def teaching() -> bool:
    """Whether somebody follows this page, or has."""
    memory = st.session_state
    if not followed_class() and server().viewers.followers(own_class()):
        memory.teaching = True
    return memory.get("teaching", False)


def go_along() -> None:
    """Goes to the lesson that the teacher's page shows."""
    room, pages = followed_room(), lesson_pages()
    here = this_page()
    if room is not None and here is not None and room.path in pages and room.path != here:
        st.switch_page(room.path, query_params=dict(st.query_params))


def shared_keys(lesson: Lesson) -> list[str]:
    """What those who follow this page see of it, by the session's keys."""
    keys = [hand.key for hand in lesson.hands]
    keys += [_skip_key(lesson, live) for live in lesson.lives]
    for i, part in enumerate(lesson.parts):
        if isinstance(part, Picture):
            keys += part.shares
        elif isinstance(part, Try | Question):
            keys.append(_key(lesson, i))
    return keys


def _key(lesson: Lesson, i: int) -> str:
    """The session's key of a question's answer, or of whether a thing to try is revealed."""
    return f"q_{lesson.number}_{i}"


def _publish(lesson: Lesson) -> None:
    """Shows this page as it is now to those who follow it."""
    if followed_class():
        return
    memory, rooms, token = st.session_state, server().classrooms, own_class()
    asked = room.ballots if (room := rooms.get(token)) is not None else {}
    values = {key: memory.get(key) for key in shared_keys(lesson) if key not in asked}
    runs = {live.name: memory.lesson_runs[lesson.number, live.name] for live in lesson.lives}
    mine = {name: run_id for name, run_id in runs.items() if session.is_mine(run_id)}
    whole = [hand.key for hand in lesson.hands if hand.whole]
    rooms.show(token, this_page() or "", lesson.number, values, mine, whole)


def _drop_replaced() -> None:
    """Ends the runs that others have replaced, now that those who follow know the new ones."""
    for run_id in st.session_state.pop("lesson_replaced", []):
        with suppress(WorkshopError):
            session.workshop().drop(run_id, session.browser())


def _show_messages(lesson: Lesson, teacher: dict[str, str]) -> None:
    """What could not be taken from the link, and who drives."""
    for sentence in st.session_state.get("lesson_messages", {}).get(lesson.number, []):
        notice(sentence)
    if not followed_class():
        if teaching():
            stage.words("class/followers", 20)
        return
    if followed_room() is None:
        st.info(
            "Nobody teaches with this link now: what you see is your own, until somebody does.",
            icon=":material/info:",
        )
    elif lesson.lives and not teacher:
        st.info(
            "Your teacher's page shows no run now: these are your own, until it does.",
            icon=":material/info:",
        )
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(":material/cast_for_education: **You follow your teacher's page.**")
        st.button(
            "Stop following",
            icon=":material/link_off:",
            on_click=_start_my_own,
            args=(lesson,),
            key=f"own_{lesson.number}",
            help="What is on the page stays, and you control it; runs begin again as your own.",
        )


def _start_my_own(lesson: Lesson) -> None:
    """Leaves the teacher's runs, and starts others with the same settings."""
    memory = st.session_state
    for live in lesson.lives:
        key = (lesson.number, live.name)
        run = find(memory.lesson_runs.get(key))
        if run is not None:
            memory.setdefault("lesson_choices", {})[key] = replace(
                session.started_with(run), at=live.choices.at
            )
    stop_following()


def _shown_apart(lesson: Lesson, i: int, part: Part) -> tuple[str, ...]:
    """What a part shows of the teacher's page, by the session's keys, where it can be made anew by
    itself. Pictures by hand may depend on each other."""
    if isinstance(part, Live):
        return run_key(part.name), _skip_key(lesson, part)
    if isinstance(part, Try | Question):
        return (_key(lesson, i),)
    if isinstance(part, Picture):
        pictures = [one for one in lesson.parts if isinstance(one, Picture)]
        hands = [hand.key for hand in lesson.hands if not hand.whole]
        return (*hands, *(key for one in pictures for key in one.shares))
    return ()


@st.fragment
def _follow_part(
    lesson: Lesson,
    i: int,
    part: Part,
    shows: tuple[str, ...],
    make: Callable[[], None],
) -> None:
    """A part of a page that follows a teacher's, which runs again alone when it is shown otherwise
    there: of lesson 3, a browser is sent 7 to 29 messages then, and 118 for the whole page."""
    with in_words("This part of the lesson could not be shown. Reload the page."):
        version = take_part(lesson.number, shows, free=isinstance(part, Try | Question))
        if isinstance(part, Live):
            scene = _scene(lesson, part, followed(lesson.number))
            session.play_another(part.name, scene)
        make()
        stage.part(f"follows_{i}", shows, version)


def _note_part(
    lesson: Lesson,
    i: int,
    part: Part,
    display: DisplayOptions,
    linker: Linker,
    placed: dict[int, list[stage.Placed]],
) -> None:
    """A part, and a note of its pictures for the sheet."""
    with stage.noting() as placed[i]:
        _show_part(lesson, i, part, display, linker)


def _show_part(lesson: Lesson, i: int, part: Part, display: DisplayOptions, linker: Linker) -> None:
    if "words" in display.hide and not isinstance(part, Picture | Live):
        return
    if isinstance(part, Words):
        st.markdown(linker.linked(part.text))
    elif isinstance(part, Equation):
        number = rf" \tag{{{part.number}}}" if part.number else ""
        st.latex(part.tex + number)
        st.caption(linker.linked(part.says))
    elif isinstance(part, Picture):
        with st.container(border=True, key=f"by_hand_{lesson.number}_{i}"):
            part.show()
            st.caption(linker.linked(part.says))
    elif isinstance(part, Live):
        _show_live(lesson, part, display, linker)
    elif isinstance(part, Try):
        _show_try(_key(lesson, i), part, display, linker)
    else:
        _show_question(_key(lesson, i), part, display.solutions)


def _scene(lesson: Lesson, live: Live, teacher: dict[str, str]) -> Scene:
    """The part's run: the teacher's for those who follow, else one of this browser's own."""
    key = (lesson.number, live.name)
    kept: dict = st.session_state.setdefault("lesson_runs", {})
    if live.name in teacher:
        kept[key] = teacher[live.name]
    else:
        kept[key] = _own_run(lesson, live)
    choices = session.started_with(session.workshop().watch(kept[key]))
    own = choices.shape == live.choices.shape
    filmed = live.film if own else film_of(choices.dataset, choices.model)
    style = (lesson.number, live.name, *live.style)
    paint, until = live.paint, current(lesson.number, live).at
    if locked():
        paint, style = partial(_still, paint), (*style, "locked")
    if "rival" in session.display_options().hide:
        paint, style = partial(without_rival, paint), (*style, "no rival")
    stored = _later(live, choices) if st.session_state.get(_skip_key(lesson, live)) else None
    return Scene(kept[key], paint, style, filmed, until=until, stored=stored)


def _skip_key(lesson: Lesson, live: Live) -> str:
    """The session's key of whether a run's stored moment is shown."""
    return f"skip_{lesson.number}_{live.name}"


def _later(live: Live, choices: Choices) -> Any:
    """The stored moment of just this run to which one can skip, if there is one."""
    if live.begin is not session.start_with:
        return None
    return later_of(choices.dataset, choices.model, choices.train)


def _own_run(lesson: Lesson, live: Live) -> str:
    """This browser's run of a part, started where there is none or where another is wanted."""
    memory, key = st.session_state, (lesson.number, live.name)
    known = memory.setdefault("lesson_choices", {})
    run_id = memory.lesson_runs.get(key)
    if key not in known:  # a page that was just opened, perhaps again
        run_id = server().classrooms.runs(own_class(), lesson.number).get(live.name)
        run = find(run_id)
        if run is not None:
            known[key] = session.started_with(run)
    choices = current(lesson.number, live)
    run = find(run_id)
    if run_id is not None and run is not None and session.is_mine(run_id):
        if session.started_with(run).shape == choices.shape:
            session.follow(run, choices)
            return run_id
        memory.setdefault("lesson_replaced", []).append(run_id)
    return live.begin(choices)


def _still(paint: Callable[[Run, Any], Elements], run: Run, moment: Any) -> Elements:
    """Pictures in which nothing can be dragged or clicked."""
    elements = paint(run, moment)
    for element in elements.values():
        if "figure" in element:
            element["figure"]["layout"].pop("meta", None)
    return elements


def _show_live(lesson: Lesson, live: Live, display: DisplayOptions, linker: Linker) -> None:
    run_id = st.session_state.lesson_runs[(lesson.number, live.name)]
    with st.container(border=True):
        mine = session.is_mine(run_id)
        if not mine:
            of = session.choices_in_words(run_id)
            st.caption(f"You are watching your teacher's run. {of}")
        if mine and "bar" not in display.hide:
            keyboard = display.projector and live is lesson.lives[0]
            _bar(lesson, live, run_id, keyboard)
        else:
            stage.words(f"{live.name}/numbers", 20)
        if not any(element == "state" for row in live.hosts for element, _, _ in row):
            stage.words(f"{live.name}/wait")
        if live.controls and mine and not display.lock and "controls" not in display.hide:
            for name, column in zip(
                live.controls, st.columns(len(live.controls), gap="medium"), strict=True
            ):
                with column:
                    _control(lesson, live, name)
        hidden = [HIDDEN[word] for word in display.hide if word in HIDDEN]
        for row in live.hosts:
            _hosts(live, [h for h in row if not any(word.search(h[0]) for word in hidden)])
        st.caption(linker.linked(live.says))


def _hosts(live: Live, row: list[tuple[str, int, str]]) -> None:
    """A row of hosts beside each other."""
    if not row:
        return
    for column, (element, height, words) in zip(
        st.columns(len(row), gap="medium"), row, strict=True
    ):
        with column, st.container(gap="xsmall"):
            if words:
                st.markdown(f"**{words}**")
            if height:
                stage.picture(f"{live.name}/{element}", height)
            elif element.endswith("meter"):
                stage.meter(f"{live.name}/{element}")
            else:
                stage.words(f"{live.name}/{element}", 20)


def _bar(lesson: Lesson, live: Live, run_id: str, keyboard: bool) -> None:
    """A reset ends a run that began in a way of its own, so that the page begins it so again."""
    key = (lesson.number, live.name)
    own_way = live.begin is not session.start_with
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        begin = session.by_hand(lambda word: replace_run(key))
        stage.bar(live.name, begin, ("reset",) if own_way else (), keyboard)
        later = _later(live, session.started_with(session.workshop().watch(run_id)))
        if later is not None:
            memory, skip = st.session_state, _skip_key(lesson, live)
            st.button(
                "Back to the run" if memory.get(skip) else f"Skip to step {later.step:,}",
                icon=":material/undo:" if memory.get(skip) else ":material/fast_forward:",
                key=f"press_{skip}",
                on_click=memory.__setitem__,
                args=(skip, not memory.get(skip)),
                help="A stored moment of this very run, so that nobody has to wait; training goes "
                "on behind it.",
            )
        stage.words(f"{live.name}/numbers", 20)


LABELS = {
    "layers": "Depth",
    "inducing": "Inducing points",
    "mean": "Mean function of inner layers",
    "rate": "Learning rate",
    "natural": "Natural-gradient rate",
    "batch": "Minibatch",
    "samples": "Samples",
    "data": "Data set",
    "speed": "Steps a second",
    "seed": "Seed",
}
MEANS = {"linear": "Linear", "zero": "Zero", "concatenate": "Zero, and x beside it"}


def _control(lesson: Lesson, live: Live, name: str) -> None:
    key = f"lesson_{lesson.number}_{live.name}_{name}"
    choices = current(lesson.number, live)
    st.session_state[key] = getattr(choices, name)

    def changed() -> None:
        st.session_state.pop(_skip_key(lesson, live), None)
        kept = st.session_state.lesson_choices
        kept[(lesson.number, live.name)] = replace(
            kept[(lesson.number, live.name)], **{name: st.session_state[key]}
        )

    options = live.offers.get(name) or tuple(SPEEDS if name == "speed" else OFFERED[name])
    if name in ("data", "mean"):
        st.segmented_control(
            LABELS[name],
            options,
            format_func=lambda word: entry(word).title if name == "data" else MEANS[word],
            key=key,
            on_change=changed,
            required=True,
        )
    else:
        st.select_slider(LABELS[name], options, key=key, on_change=changed)


def _show_try(key: str, part: Try, display: DisplayOptions, linker: Linker) -> None:
    """Something to do; what should happen waits for a guess, or for the teacher."""
    memory, guess = st.session_state, f"guess_{key}"
    do = f"**Try this.** {linker.linked(part.do)}"
    if memory.get(key) or display.reveal == "open" or display.solutions:
        st.info(f"{do}\n\n**What should happen:** {linker.linked(part.then)}")
        if memory.get(f"kept_{guess}"):
            st.text(f"Your guess: {memory[f'kept_{guess}']}")
        return
    st.info(do)

    def guessed() -> None:
        words = memory.get(guess, "").strip()
        memory[f"kept_{guess}"] = words  # a field that has gone says nothing
        memory[key] = bool(words) and not waits
        memory[f"empty_{guess}"] = not words

    waits = bool(followed_class()) or display.reveal == "withheld"
    if teaching() and not waits:
        st.button(
            "Reveal what should happen",
            icon=":material/visibility:",
            key=f"reveal_{key}",
            on_click=memory.__setitem__,
            args=(key, True),
            help="Here, and on every page that follows this one.",
        )
        return
    with (
        st.form(f"form_{key}", border=False),
        st.container(horizontal=True, vertical_alignment="bottom", gap="small"),
    ):
        st.text_input(
            "What do you expect?", key=guess, max_chars=300, placeholder="A guess, in a few words"
        )
        st.form_submit_button(
            "Keep my guess" if waits else "Show what should happen",
            icon=":material/edit:" if waits else ":material/visibility:",
            on_click=guessed,
        )
    if memory.get(f"empty_{guess}"):
        st.caption("A guess first: one word is enough.")
    elif waits and memory.get(f"kept_{guess}"):
        st.caption("Kept, on your page alone. Your teacher will reveal what should happen.")


def _show_question(key: str, question: Question, solved: bool) -> None:
    """A question; where the teacher asks it, a show of hands until the answer is revealed."""
    memory, token = st.session_state, followed_class()
    room = followed_room() if token else server().classrooms.get(own_class())
    ballot: Ballot | None = room.ballots.get(key) if room is not None else None
    votes = bool(token) and ballot is not None and not ballot.revealed
    if token and ballot is not None and memory.get(f"asked_{key}") != ballot.asked:
        memory[f"asked_{key}"], memory[key] = ballot.asked, None
    texts = [text for text, _, _ in question.answers]

    def vote() -> None:
        if votes and memory.get(key) in texts:
            answer = texts.index(memory[key])
            server().classrooms.vote(token, key, session.browser(), answer)

    with st.container(border=True):
        if votes:
            st.markdown(
                ":material/front_hand: **Your teacher asks.** Choose an answer; only how many "
                "chose each is counted."
            )
        chosen = st.radio(
            f"**Question.** {question.ask}",
            texts,
            index=None,
            key=key,
            on_change=vote,
            disabled=bool(token) and ballot is not None and ballot.revealed,
        )
        if ballot is not None:
            stage.tally(f"class/tally_{key}", texts)
        revealed = solved or (ballot is not None and ballot.revealed)
        for text, right, why in question.answers:
            if (text == chosen and not votes) or (right and revealed):
                word = "Yes." if text == chosen else f"{text}"
                (st.success if right else st.warning)(
                    f"**{word if right else 'Not quite.'}** {why}",
                    icon=":material/check:" if right else ":material/undo:",
                )
        if not token and teaching():
            _hands(key, ballot)


def _hands(key: str, ballot: Ballot | None) -> None:
    """The teacher's buttons for a show of hands."""
    rooms, token = server().classrooms, own_class()
    with st.container(horizontal=True, gap="small"):
        st.button(
            "Ask the class" if ballot is None else "Ask again",
            icon=":material/front_hand:",
            key=f"ask_{key}",
            on_click=rooms.ask,
            args=(token, key),
            help="Every page that follows this one may answer once; you see how many chose what.",
        )
        if ballot is not None and not ballot.revealed:
            st.button(
                "Reveal the answer",
                icon=":material/visibility:",
                key=f"answer_{key}",
                on_click=rooms.reveal,
                args=(token, key),
            )


def _for_the_class(lesson: Lesson) -> None:
    """Links that open the lesson as it is when the box is opened."""
    box = st.popover(
        "For a class",
        icon=":material/share:",
        key=f"class_{lesson.number}",
        on_change="rerun",
    )
    with box:
        moment, follow = links(lesson)
        st.markdown("**Follow me:** every page that opens this link shows what yours does.")
        wall = class_options(f"_{lesson.number}", IN_LESSONS, lessons=True)
        moment, follow = address_with(moment, wall), address_with(follow, wall)
        if box.open:  # it takes longer than all the rest of the page
            link_tools(follow, f"tools_{lesson.number}")
        st.code(follow, language=None, wrap_lines=True)
        say_only_here(follow)
        own = "the same settings, seed and step, in runs of one's own."
        st.markdown(f"**This very moment:** {own if lesson.lives else 'all that is set here.'}")
        st.code(moment, language=None, wrap_lines=True)
        if any(_altered(lesson, live) for live in lesson.lives):
            st.caption(
                "Rates were changed or points moved during the run: a run of one's own begins with "
                "the rates as they are now, and so ends elsewhere. Reset first to repeat it."
            )


def _altered(lesson: Lesson, live: Live) -> bool:
    run = find(st.session_state.lesson_runs[lesson.number, live.name])
    return run is not None and run.altered


def _foot(lesson: Lesson, placed: Mapping[int, Sequence[stage.Placed]]) -> None:
    st.divider()
    after = next_lesson()
    if after is not None and not session.alone():
        path, title = after
        st.page_link(path, label=f"Next lesson: {title}", icon=":material/arrow_forward:")
    _for_the_class(lesson)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        file = f"lesson-{lesson.number}"
        make = partial(printed, lesson, placed)
        print_button(f"sheet_{lesson.number}", "Printable sheet", f"{file}.html", make)
        if session.display_options().solutions:
            print_button(
                f"solutions_{lesson.number}",
                "Its solutions",
                f"{file}-solutions.html",
                lambda: (solutions(lesson), {}),
            )
    numbered = any(isinstance(part, Equation) and part.number for part in lesson.parts)
    st.caption(f"The paper: {CITATION}." + " Equation numbers are the paper's." * numbered)
