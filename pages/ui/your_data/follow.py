"""A fit that runs in a terminal, followed by the files that it writes: how far it is, its bound,
its held-out scores, and what it has learnt so far."""

import ipaddress
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

import numpy as np
import streamlit as st

from dgp_core.archive import Archive
from dgp_core.evaluation import explain
from dgp_core.evaluation.comparison import Estimate
from dgp_core.following import LATE_SECONDS, Followed, Follower, is_over, seconds_left
from dgp_core.gp.data import counted
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import Recipe
from dgp_core.training.plan import duration
from pages.figures.playground import history_figure
from pages.figures.scores import SCORES, score_text
from pages.figures.your_data import scored_figure
from pages.ui.classroom.room import room
from pages.ui.sentences import complaint, in_words, safe
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data.progress import clock
from pages.ui.your_data.understand import PER_ROW, Subject, draw_responses
from pages.ui.your_data.upload_state import (
    cached,
    persistent_key,
    release,
    reset_controls,
    upload_state,
    uploaded_file,
)

PATIENCE = 2.0
"""Seconds between two looks at the files."""
MOST_COMPARED = 12
"""Inputs whose effects are compared at each checkpoint."""
COMMAND = """python -m dgp_core fit YOUR_FILE.csv \\
  --target=COLUMN \\
  --out=model.npz \\
  --log=model.jsonl"""
LOG_HELP = "What `--log` names. It holds the held-out scores of every checkpoint."
PROXIED = ("Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip")
"""Headers that a request has when others passed it on."""


def is_loopback(host: str | None) -> bool:
    """Whether a host's name or address means the machine itself, and nothing else."""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host or "").is_loopback
    return False


def only_this_machine(address: str | None, headers: Mapping[str, str]) -> bool:
    """Whether a server at this address is asked by a browser on its own machine, by its headers:
    then whoever types a path could open that file anyway."""
    host = urlsplit(f"//{headers.get('Host') or ''}").hostname
    origin = urlsplit(headers.get("Origin") or "//localhost").hostname
    passed_on = any(headers.get(name) for name in PROXIED)
    return all(map(is_loopback, (address, host, origin))) and not passed_on


def may_name_paths() -> bool:
    """Whether this visitor may name files of this machine."""
    here = only_this_machine(st.get_option("server.address"), st.context.headers)
    return here and not room().address


def paths_changed() -> None:
    """Follows the files whose paths were typed."""
    typed = (st.session_state[f"your_follow_{name}"] for name in ("path", "log"))
    path, log = (os.path.expanduser(text.strip().strip("\"'")) for text in typed)
    upload_state().followed = Follower(path, log) if path else None
    reset_controls("follow_shown")


def model_changed() -> None:
    if (file := uploaded_file("follow_model")) is not None:
        _uploaded().take(file)
        release(file)


def log_changed() -> None:
    if (file := uploaded_file("follow_log_file")) is not None:
        _uploaded().take_log(file)
        release(file)


def _uploaded() -> Followed:
    state = upload_state()
    state.followed = state.followed or Followed()
    return state.followed


def choose_paths() -> None:
    """Both files by their paths."""
    with st.form("follow", border=False):
        left, right = st.columns(2, gap="medium")
        left.text_input(
            "Path of the model file",
            key=persistent_key("follow_path", ""),
            placeholder="/home/me/model.npz",
            help="What `--out` names.",
        )
        right.text_input(
            "Path of its log (optional)",
            key=persistent_key("follow_log", ""),
            placeholder="/home/me/model.jsonl",
            help=LOG_HELP,
        )
        st.form_submit_button(
            "Follow", on_click=paths_changed, key="follow_it", icon=":material/visibility:"
        )


def choose_uploads() -> None:
    """Both files as they are now."""
    left, right = st.columns(2, gap="medium")
    left.file_uploader("The model file (.npz)", key="follow_model", on_change=model_changed)
    right.file_uploader(
        "Its log (optional)", key="follow_log_file", on_change=log_changed, help=LOG_HELP
    )


def show() -> None:
    """The choice of the files, and what they hold."""
    st.markdown(
        "A fit that runs in a terminal writes its model file every minute. "
        + (
            "Name that file, and watch: it is read again whenever it changes."
            if (named := may_name_paths())
            else "Upload that file to see how far the fit is, and again later: this app is open to "
            "others, so it reads no files by their paths."
        )
    )
    choose_paths() if named else choose_uploads()
    with st.expander("How to start such a fit", icon=":material/terminal:"):
        st.code(COMMAND, language="bash")
    state = upload_state()
    followed, opened = state.followed, state.opened
    if followed is None:
        return
    live = isinstance(followed, Follower)

    @st.fragment(run_every=PATIENCE if live else None)
    def poll() -> None:
        if state.opened is not opened:
            st.rerun()  # a checkpoint was opened: step 5 is outside this fragment
        with in_words("This fit could not be shown. Name its files again."):
            if isinstance(followed, Follower):
                followed.look()
            show_fit(followed)

    poll()


def show_fit(followed: Followed) -> None:
    """How far a fit is, its curves, and its pictures."""
    record = followed.record
    with st.container():  # always there, so that what is below keeps its place
        if followed.problem:
            shown = (
                f" Shown is step {record.progress.steps:,}, the last one read." if record else ""
            )
            complaint(followed.problem + shown)
        if followed.log_problem:
            complaint(followed.log_problem)
    if record is None:
        return
    show_progress(record, followed)
    if not record.progress.fit:
        return
    bound, score = st.columns(2, gap="large")
    with bound:
        st.markdown("**Evidence lower bound** of every step so far")
        parts = np.concatenate(record.progress.fit), np.concatenate(record.progress.kl)
        alt = f"The bound over {counted(record.progress.steps, 'step')}, and each layer's KL."
        stage.figure(history_figure(*parts, page_ink()), alt, "follow_bound")
    with score:
        show_scores(followed)
    show_effects(record)
    name = "its last checkpoint" if not is_over(record) else "it"
    st.button(
        f"Predict with {name}",
        icon=":material/arrow_downward:",
        key="use_followed",
        on_click=use_checkpoint,
        args=(record,),
        help="Opens this checkpoint in step 5; the fit goes on.",
    )


def use_checkpoint(record: Archive) -> None:
    """Opens a checkpoint as a saved model."""
    state = upload_state()
    state.opened = (f"step {record.progress.steps:,} of the fit in progress", record)
    reset_controls("used", *(name for name in state.controls if name.startswith("at ")))


def show_progress(record: Archive, followed: Followed) -> None:
    """Step, time and time left, in a bar; and whether it is over, or seems to be."""
    progress, spec = record.progress, record.training
    age = followed.age if isinstance(followed, Follower) else 0.0
    words = [
        f"Step {progress.steps:,} of {spec.steps:,}",
        f"{clock(progress.seconds)} of training",
    ]
    left = seconds_left(record, followed.scores)
    if not is_over(record) and left is not None and left > age:
        words.append(f"{duration(left - age)} left by its pace so far")
    st.progress(min(1.0, progress.steps / max(1, spec.steps)), text=" · ".join(words))
    target, n = safe(", ".join(record.output_names)), counted(len(record.input_names), "input")
    what = f"{counted(record.model.layers, 'layer')} to predict **{target}** from {n}. "
    if is_over(record):
        st.markdown(f"{what}**Training has ended**: {safe(progress.stopped) or 'all steps taken'}.")
    elif age > LATE_SECONDS:
        st.markdown(what)
        st.warning(
            f"No checkpoint for {clock(age)}, though one is written every minute: the fit may have "
            "ended. `python -m dgp_core resume` with its model file goes on from here.",
            icon=":material/hourglass_disabled:",
        )
    elif not progress.steps:
        st.markdown(f"{what}It has begun: the first checkpoint comes within about a minute.")
    elif isinstance(followed, Follower):
        st.markdown(f"{what}Its last checkpoint is {clock(age, ticking=True)} old.")
    else:
        st.markdown(what)


def show_scores(followed: Followed) -> None:
    """The held-out log-likelihood at each checkpoint, and all scores of the newest."""
    st.markdown("**Held-out log-likelihood** at each checkpoint")
    scored = [one for one in followed.scores if "log_likelihood" in one.scores]
    if not scored:
        st.caption(
            "Its log holds no held-out score yet."
            if followed.scores or (isinstance(followed, Follower) and followed.log)
            else "The command writes it to the file that `--log` names: choose that file above."
        )
        return
    values = [one.scores["log_likelihood"] for one in scored]
    alt = f"The held-out log-likelihood at {counted(len(scored), 'checkpoint')}."
    figure = scored_figure([one.step for one in scored], values, "nats per row ↑", page_ink())
    stage.figure(figure, alt, "follow_score")
    newest = scored[-1]
    shown = [
        f"{SCORES[name]} {score_text(name, Estimate(value, np.nan, 0))}"
        for name, value in newest.scores.items()
        if name in SCORES
    ]
    st.caption(f"At step {newest.step:,}: " + " · ".join(shown))


def show_effects(record: Archive) -> None:
    """What the prediction does as inputs vary, by the centres of the training rows."""
    if record.domain is None:
        return
    recipe = Recipe.from_json(json.dumps(record.recipe))
    data = explain.typical_rows(record.domain, record.scaler, recipe)
    groups = {group.name: group for group in explain.groups_of(data, recipe)}
    compared = list(groups.values())[:MOST_COMPARED]
    model, scaler = record.state.model, record.scaler
    order = cached("follow_order", record, lambda: explain.by_effect(model, scaler, data, compared))
    st.markdown(
        f"**What it has learnt so far.** The mean of {safe(data.output_names[0])} as one input "
        f"varies, over {counted(len(data), 'typical row')} (centres of the training rows, which "
        "are not in the file); thin lines are single ones, and shades show where new observations "
        "fall."
    )
    chosen = st.multiselect(
        "Inputs",
        list(groups),
        key=persistent_key("follow_shown", []),
        format_func=visible,
        max_selections=9,
        placeholder="Those with the largest effect",
    )
    names = [name for name in chosen if name in groups] or order[:PER_ROW]
    subject = Subject(record, model, scaler)
    draw_responses(subject, data, [groups[name] for name in names], "follow_response")
