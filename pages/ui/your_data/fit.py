"""Step 2 of "Your data": the plan, the button, progress, and live pictures of the main run."""

from dataclasses import replace
from functools import partial

import streamlit as st

from dgp_core.gp.data import counted
from dgp_core.gp.likelihoods import OF_TASK
from dgp_core.gp.splits import FEWEST_FOLDS, MOST_FOLDS, SplitBy
from dgp_core.live.trial import EXACT_ROWS, MOST_FOLD_CELLS, Trial
from dgp_core.live.workshop import MOST_CELLS, Workshop, WorkshopError
from dgp_core.tables.table import Prepared
from dgp_core.training.plan import Plan, duration, estimate_plan, plan_for
from pages.figures import boards
from pages.ui import session
from pages.ui.sentences import complaint, safe
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import Scene
from pages.ui.theme import page_ink
from pages.ui.your_data.columns import kind_changed
from pages.ui.your_data.commands import fit_command
from pages.ui.your_data.judge_by import split_of_table
from pages.ui.your_data.progress import PATIENCE, progress_bar, stop_button
from pages.ui.your_data.upload_state import (
    HELD_OUT,
    Fitted,
    cached,
    persistent_key,
    reset_controls,
    set_control,
    upload_state,
)

KERNELS = ("rbf", "matern12", "matern32", "matern52", "rational_quadratic")
LONG_SECONDS = 300.0
"""Folds that would take longer are not proposed: they can be added once the main fit is over."""
STEPS = (10, 100, 500, 1000, 2000, 4000, 8000, 15_000, 20_000, 50_000)
LIKELIHOOD_NAMES = {
    "gaussian": "Gaussian",
    "student_t": "Student's t",
    "poisson": "Poisson",
    "negative_binomial": "Negative binomial",
    "robust_max": "Robust max",
    "softmax": "Softmax",
}
TITLES = {"deep": "the deep model", "single": "its single-layer rival"}
"""The names of a fit's models in its progress line."""


def start(workshop: Workshop, plan: Plan, folds: int, by: SplitBy) -> None:
    """Fits the prepared rows; where that fails, `fit_error` says why."""
    state = upload_state()
    assert state.loaded is not None and state.prepared is not None
    state.fit_error = ""
    if state.fitted is not None:  # its rows are freed before others are taken
        state.fitted.scored()
        state.fitted.save()
        state.fitted.trial.close()
    try:
        trial = Trial(
            workshop,
            state.prepared.dataset,
            {"deep": plan.model},
            plan.train,
            folds,
            fraction=1 - HELD_OUT,
            boosting=True,
            by=by,
            refit=lambda train, prepared=state.prepared: prepared.refit(train).dataset,
            titles=TITLES,
            browser=session.browser(),
        )
    except (WorkshopError, ValueError) as error:
        state.fit_error = str(error)
        return
    reading = state.loaded.seconds + state.preparing
    state.fitted = Fitted(trial, state.prepared, state.loaded, plan, folds, reading)
    reset_controls("judged", "explained", "used", "shown", "map_x", "map_y")


def too_many(prepared: Prepared) -> bool:
    """Whether there are more cells than a live run takes."""
    return prepared.dataset.X.size + prepared.dataset.Y.size > MOST_CELLS


def can_fold(prepared: Prepared) -> bool:
    """Whether these rows can be cross-validated here."""
    data = prepared.dataset
    return data.X.size <= MOST_FOLD_CELLS and len(data) >= FEWEST_FOLDS


def choose_split(prepared: Prepared) -> SplitBy:
    """Which rows the models are judged by; the proposal of the columns at first."""
    state = upload_state()
    assert state.loaded is not None
    return split_of_table(prepared, state.loaded.decided, state.controls["target"])


def warn_of_group(prepared: Prepared, by: SplitBy) -> None:
    """Where groups are held out by a column that is an input: a new group's name says nothing."""
    if by.way != "groups" or by.column not in {c.column for c in prepared.recipe.inputs_from}:
        return
    column = safe(by.column)
    with st.container(horizontal=True, vertical_alignment="center", key="group_input"):
        st.caption(
            f"“{column}” is an input too. Of a group that no model has seen it says nothing, and "
            "models that rely on it are too sure of themselves there."
        )
        st.button(
            "Leave it out of the inputs",
            key="drop_group",
            on_click=drop_column,
            args=(by.column,),
            icon=":material/do_not_disturb_on:",
        )


def drop_column(column: str) -> None:
    """Takes a column out of the inputs; it may still say which rows belong together."""
    set_control(f"kind {column}", "dropped")
    kind_changed(column)


def refit(fitted: Fitted, likelihood: str, steps: int) -> None:
    """The same fit with another likelihood or more steps; the plan's controls follow."""
    set_control("likelihood", likelihood)
    set_control("steps", steps)
    model = replace(fitted.plan.model, likelihood=likelihood)
    train = replace(fitted.plan.train, steps=steps, ramp_steps=min(100, steps // 5))
    plan = replace(fitted.plan, model=model, train=train, why="")
    start(session.workshop(), plan, fitted.folds, fitted.trial.by)


def choose_plan(prepared: Prepared) -> tuple[Plan, int]:
    """The plan for these rows, as changed in the expander, and the number of folds."""
    data = prepared.dataset
    plan = cached("plan", prepared, lambda: plan_for(data))
    most = max(1, int((1 - HELD_OUT) * len(data)))
    offered = [0, *(k for k in (3, 5, 10, MOST_FOLDS) if k <= len(data))]
    offered = offered if can_fold(prepared) else [0]
    with st.expander("Change the plan", icon=":material/tune:"):
        one, two, three = st.columns(3, gap="medium")
        with one:
            layers = st.slider(
                "Depth",
                1,
                5,
                key=persistent_key("layers", plan.model.layers),
                help="Layers of the deep model. With one, it is its own rival.",
            )
            kernel = st.selectbox(
                "Kernel",
                KERNELS,
                key=persistent_key("kernel", "rbf", KERNELS),
                help="How smooth a layer's functions are a priori: rbf very smooth, matern12 "
                "rough.",
            )
        with two:
            key = persistent_key("inducing", min(plan.model.inducing_counts[0], most))
            st.session_state[key] = min(st.session_state[key], most, 1000)
            inducing = st.number_input(
                "Inducing points",
                1,
                min(most, 1000),
                key=key,
                help="M: the number of function values that summarise each layer. The cost of a "
                "step grows with its square.",
            )
            steps = st.select_slider(
                "Steps",
                STEPS,
                key=persistent_key("steps", plan.train.steps, STEPS),
                format_func=lambda n: f"{n:,}",
                help="Gradient steps. The learning rates decay towards the last one.",
            )
        with three:
            wait = estimate_plan(plan, plan.folds)
            first = plan.folds if plan.folds in offered and wait < LONG_SECONDS else 0
            folds = (
                st.select_slider(
                    "Folds",
                    offered,
                    key=persistent_key("folds", first, offered),
                    format_func=lambda k: str(k) if k else "one split",
                    help="Cross-validation: every model is fitted once per fold, without that "
                    "fold's rows, and judged by them. More folds give a surer verdict, and take "
                    "longer.",
                )
                if len(offered) > 1
                else 0
            )
            likelihoods = OF_TASK[data.task]
            likelihood = (
                st.selectbox(
                    "Likelihood",
                    likelihoods,
                    key=persistent_key("likelihood", plan.model.likelihood, likelihoods),
                    format_func=LIKELIHOOD_NAMES.__getitem__,
                    help="The distribution of an observation about the function. Student's t bears "
                    "outliers.",
                )
                if plan.model.likelihood in likelihoods and len(likelihoods) > 1
                else plan.model.likelihood
            )
            seed = st.number_input(
                "Seed",
                0,
                9999,
                key=persistent_key("seed", 0),
                help="Of the split, the start values and the minibatches.",
            )
    model = replace(
        plan.model,
        layers=layers,
        inducing=int(inducing),
        kernels=kernel,
        likelihood=likelihood,
    )
    train = replace(plan.train, steps=steps, seed=int(seed), ramp_steps=min(100, steps // 5))
    own = model == plan.model and train.steps == plan.train.steps
    changed = replace(plan, model=model, train=train, why=plan.why if own else "")
    return changed, int(folds)


def show_plan(prepared: Prepared) -> None:
    """The plan and the button that fits it."""
    state = upload_state()
    st.header("2 · Fit", anchor="fit")
    words = st.container()
    by = choose_split(prepared)
    warn_of_group(prepared, by)
    plan, folds = choose_plan(prepared)
    if too_many(prepared):
        st.info(
            "That is more than a live run takes here. In a terminal there is no limit; this "
            "trains the same:",
            icon=":material/terminal:",
        )
        st.code(_command(plan, by), language="bash")
        return
    n_train = int((1 - HELD_OUT) * len(prepared.dataset))
    judged = _judged(by, folds, len(prepared.dataset) - n_train)
    exact = prepared.dataset.task == "regression" and n_train <= EXACT_ROWS
    words.markdown(
        f"**The plan.** {plan.sentence} Its single-layer rival, the straight line"
        + (", the exact GP" if exact else "")
        + " and gradient boosting"
        + f" are fitted beside it. They are judged by {judged}. **Training takes "
        f"{duration(estimate_plan(plan, folds))}** on this machine as it is now; scoring"
        + (" and the exact GP come" if exact else " comes")
        + " on top."
    )
    if why := f"{plan.why} {plan.why_likelihood}".strip():
        words.caption(why)
    other_data = state.fitted is not None and state.fitted.prepared is not prepared
    with st.container(horizontal=True, key="fit_bar"):
        st.button(
            "Fit" if state.fitted is None else "Fit again",
            type="primary" if state.fitted is None or other_data else "secondary",
            icon=":material/play_arrow:",
            key="fit",
            on_click=start,
            args=(session.workshop(), plan, folds, by),
        )
        with st.popover("In a terminal", icon=":material/terminal:"):
            st.markdown("The same fit in a terminal, however long it takes:")
            st.code(_command(plan, by), language="bash")
    if state.fit_error:
        complaint(state.fit_error)
    if other_data:
        st.info(
            "The data have changed since: the results below are of the earlier fit.",
            icon=":material/history:",
        )


def _judged(by: SplitBy, folds: int, n_held: int) -> str:
    """What the models are judged by, in words."""
    column = safe(by.column)
    if by.way == "latest":
        return (
            f"{folds} blocks of later rows by {column}, each predicted by models of all rows before"
            if folds
            else f"the latest rows by {column} (one in ten), which the models do not see"
        )
    if by.way == "groups":
        return (
            f"{folds} folds of whole groups of {column}, so that every group is predicted once by "
            "models that have not seen it"
            if folds
            else f"whole groups of {column} (one in ten), which the models do not see"
        )
    return (
        f"{folds} folds, so that every row is predicted once by models that have not seen it"
        if folds
        else f"one row in ten, which the models do not see ({counted(n_held, 'row')})"
    )


def _command(plan: Plan, by: SplitBy) -> str:
    state = upload_state()
    assert state.loaded is not None
    assert state.prepared is not None
    recipe = state.prepared.recipe
    return fit_command(
        state.loaded,
        recipe.targets[0].column,
        recipe.task,
        recipe.missing,
        recipe.transforms[0],
        plan,
        by,
        recipe.exposure,
    )


def show_progress(fitted: Fitted) -> None:
    """How far the fit is; polled until it is over."""
    trial, before = fitted.trial, (fitted.over, fitted.scored())

    @st.fragment(run_every=None if fitted.over else PATIENCE)
    def poll() -> None:
        trial.watch()
        fitted.save()
        if (fitted.over, fitted.scored()) != before:
            st.rerun()
        if trial.status == "closed":
            left = "Its scores so far are still here" if before[1] else "Nothing was scored yet"
            st.info(
                "This fit was stopped before its end: nobody watched it for half an hour, or "
                f"another was started. {left}; “Fit again” starts over.",
                icon=":material/history:",
            )
            return
        progress_bar(trial, "phases", fitted.reading)
        for sentence in trial.failures():
            st.warning(safe(sentence), icon=":material/warning:")
        if not fitted.over and (so_far := trial.verdict()) is not None:
            st.caption(f"So far: {so_far.sentence}")

    poll()
    if trial.status == "finished" and not fitted.folds and can_fold(fitted.prepared):
        with st.container(horizontal=True, vertical_alignment="center", key="surer"):
            st.button(
                "Cross-validate",
                icon=":material/autorenew:",
                key="cross_validate",
                on_click=cross_validate,
                args=(fitted,),
                help="Fits both models five times more, each time without another fifth of the "
                "rows.",
            )
            takes = duration(estimate_plan(fitted.plan, 5))
            what = {
                "chance": "every row is held out once",
                "latest": "five blocks of later rows are held out",
                "groups": "every group is held out once",
            }[trial.by.way]
            st.caption(f"Five folds make the verdict surer: {what}. They take {takes}.")
    if not fitted.over:
        stop_button(
            [trial],
            "Pauses training; the main model is scored as it is now.",
        )
        st.caption(
            "You may look at other pages: training pauses after 30 s away and resumes when you "
            "return."
        )


def cross_validate(fitted: Fitted) -> None:
    """Adds five folds after the main fit."""
    fitted.folds = min(5, len(fitted.prepared.dataset))
    try:
        fitted.trial.cross_validate(fitted.folds)
    except ValueError as error:
        fitted.folds, upload_state().fit_error = 0, str(error)


def show_live(fitted: Fitted) -> None:
    """Live pictures of the main run."""
    L = fitted.plan.model.layers
    deep, rival, bound = st.columns((5, 5, 4), gap="medium")
    with deep:
        stage.titled(f"**Deep model: {counted(L, 'layer')}**", "fit/deep", 285, seek=True)
    with rival:
        stage.titled("**Its single-layer rival**", "fit/rival", 285)
    with bound:
        stage.titled("**Evidence lower bound**", "fit/bound", 285)
    stage.words("fit/legend", 22)
    stage.words("fit/numbers", 20)


def play(fitted: Fitted | None) -> bool:
    """Connects the live pictures to the main run; False where there is none.

    Called before anything is shown, so that no element below is mounted anew when a fit begins.
    """
    scenes = {}
    if fitted is not None and fitted.run() is not None:
        look = boards.Look(ink=page_ink())
        assert fitted.trial.main_id is not None
        shows = partial(boards.fit, look=look)
        scenes["fit"] = Scene(fitted.trial.main_id, shows, ("fit", look))
    session.play(scenes)
    return bool(scenes)
