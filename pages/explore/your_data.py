"""Your data: from a file on your desk to a model that you can trust and take home."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial

import numpy as np
import streamlit as st

from dgp_core.archive import Archive
from dgp_core.evaluation import comparison, diagnostics, explain, forecast
from dgp_core.gp.data import sample_places
from dgp_core.live.trial import EXACT_ROWS, TrialProgress
from dgp_core.outcome import Outcome
from dgp_core.script import Upload, decisions, script
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import UNITS
from dgp_core.tables.table import Prepared, TableError
from dgp_core.training.plan import Plan, duration, estimate_plan
from pages.figures import boards
from pages.figures.collection import rows_figure
from pages.figures.palette import ink_for
from pages.figures.report import fit_report
from pages.figures.your_data import (
    MODELS,
    SCORES,
    agreement_figure,
    calibration_figure,
    importance_figure,
    interval_figure,
    probability_figure,
    relevance_figure,
    residual_figure,
    response_figure,
    said,
    together,
    two_inputs_figure,
)
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import Scene
from pages.ui.your_data import bring, desk
from pages.ui.your_data.desk import Fitted, held, memory, once, safe
from pages.ui.your_data.phases import STYLE as PHASES_STYLE
from pages.ui.your_data.phases import phase_line

essay = Linker()

PATIENCE = 1.0  # seconds between two looks at a trial
MOST_SLIDERS = 30
STYLE = """<style>
[data-testid=stMainBlockContainer] { max-width: 76rem; padding: 4.2rem 2rem 3rem; }
[data-testid=stMainBlockContainer] p, [data-testid=stMainBlockContainer] li { max-width: 46rem; }
.st-key-verdict p { font-size: 1.4rem; line-height: 1.4; font-weight: 600; max-width: 54rem; }
.st-key-verdict { border-left: 4px solid #0072B2; padding-left: 1rem; }
.st-key-scores { overflow-x: auto; font-variant-numeric: tabular-nums; }
.st-key-scores td, .st-key-scores th { white-space: nowrap; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
@media (max-width: 640px) {
  [data-testid=stMainBlockContainer] { padding: 4.4rem 1rem 3rem; }
  .st-key-verdict p { font-size: 1.15rem; }
}
</style>"""


def ink():
    return ink_for(st.context.theme.type)


# 1. Bring.


def show_rows(prepared: Prepared) -> None:
    """What is left of the rows, and what there is to learn from."""
    words, rows = st.columns((5, 7), gap="large")
    with words:
        st.markdown("**What became of the rows.** " + safe(prepared.report[0]))
        st.markdown("\n".join(f"- {safe(line)}" for line in prepared.report[1:6]))
        if len(prepared.report) > 6:
            with st.expander("Every column that was left out"):
                st.text("\n".join(prepared.report[6:]))
    with rows:
        _rows_picture(prepared)


def _rows_picture(prepared: Prepared) -> None:
    data = prepared.dataset
    picture = once(
        "picture", (prepared, ink()), lambda: rows_figure(data, None, ink()).to_plotly_json()
    )
    st.markdown("**What there is to learn from.** " + _shape(prepared))
    picture["layout"] |= {"height": 260, "margin": {"l": 50, "r": 10, "t": 10, "b": 45}}
    picture["layout"]["font"]["size"] = 12
    stage.figure(picture, f"{_shape(prepared)} A picture of the rows.", "your_rows")


def _shape(prepared: Prepared) -> str:
    data = prepared.dataset
    target = safe(data.output_names[0])
    if data.X.shape[1] == 1:
        return f"Every row: {target} over {safe(data.input_names[0])}."
    if data.X.shape[1] == 2:
        return f"Every row by its two inputs, coloured by {target}."
    return f"How {target} is spread, over {len(data):,} rows with {data.X.shape[1]} inputs."


# 2. Fit.


def fit(prepared: Prepared) -> None:
    """One button; and until then, what it will do and how long that takes."""
    kept = memory()
    st.header("2 · Fit", anchor="fit")
    words = st.container()
    plan, folds = bring.chosen_plan(prepared)
    brought = kept.brought
    assert brought is not None
    if desk.too_many(prepared):
        st.info(
            "That is more than a live run takes here. Without the screen there is no limit; this "
            "trains the same:",
            icon=":material/terminal:",
        )
        st.code(_command(plan), language="bash")
        return
    n_train = int((1 - desk.HELD_OUT) * len(prepared.dataset))
    held_out = len(prepared.dataset) - n_train
    rows = "1 row" if held_out == 1 else f"{held_out:,} rows"
    judged = (
        f"{folds} folds, so that every row is predicted once by models that have not seen it"
        if folds
        else f"one row in ten, which the models do not see ({rows})"
    )
    exact = prepared.dataset.task == "regression" and n_train <= EXACT_ROWS
    words.markdown(
        f"**The plan.** {plan.sentence} Beside it train its single-layer rival, the straight line"
        + (" and the exact GP" if exact else "")
        + f". They are judged by {judged}. **Training takes "
        f"{duration(estimate_plan(plan, folds))}** on this machine as it is now; scoring"
        + (" and the exact GP come" if exact else " comes")
        + " on top."
    )
    if plan.why:
        words.caption(plan.why)
    with st.container(horizontal=True, key="fit_bar"):
        st.button(
            "Fit" if kept.fitted is None else "Fit again",
            type="primary"
            if kept.fitted is None or kept.fitted.prepared is not prepared
            else "secondary",
            icon=":material/play_arrow:",
            key="fit",
            on_click=desk.start,
            args=(session.workshop(), plan, folds),
        )
        with st.popover("Without the screen", icon=":material/terminal:"):
            st.markdown("The same fit in a terminal, as long as it may take:")
            st.code(_command(plan), language="bash")
    if kept.unfit:
        st.error(safe(kept.unfit), icon=":material/error:")
    if kept.fitted is not None and kept.fitted.prepared is not prepared:
        st.info(
            "The data have changed since: what follows is of the earlier fit.",
            icon=":material/history:",
        )


def _command(plan: Plan) -> str:
    kept = memory()
    assert kept.brought is not None
    said = kept.held
    transform = said["transform"] if said["task"] == "regression" else "none"
    return desk.command(
        kept.brought, said["target"], said["task"], said["missing"], transform, plan.model,
        plan.train,
    )  # fmt: skip


def progress(fitted: Fitted) -> None:
    """How far the trial is; looked at now and then as long as it is not over."""
    trial, before = fitted.trial, (fitted.over, fitted.scored())

    @st.fragment(run_every=None if fitted.over else PATIENCE)
    def look() -> None:
        trial.watch()
        status = trial.status
        fitted.keep()
        if (fitted.over, fitted.scored()) != before:
            st.rerun()
        if status == "closed":
            left = "What it had scored is still here" if before[1] else "Nothing was scored yet"
            st.info(
                "This fit was let go before its end: nobody watched it for half an hour, or "
                f"another was begun. {left}; “Fit again” begins anew.",
                icon=":material/history:",
            )
            return
        if status in ("finished", "failed"):
            with st.container(gap="xsmall"):
                st.empty()  # where the bar was: the line below it is not shown twice meanwhile
                _phases(fitted, trial.progress())
            for sentence in trial.failures():
                st.warning(safe(sentence), icon=":material/warning:")
            return
        now = trial.progress()
        said = f"Paused. {now.sentence}" if status == "paused" else now.sentence
        with st.container(gap="xsmall"):
            st.progress(min(1.0, max(0.0, now.fraction)), text=said)
            _phases(fitted, now)
        if (so_far := trial.verdict()) is not None:
            st.caption(f"So far: {so_far.sentence}")

    look()
    if trial.status == "finished" and not fitted.folds and bring.can_fold(fitted.prepared):
        with st.container(horizontal=True, vertical_alignment="center", key="surer"):
            st.button(
                "Make the verdict surer",
                icon=":material/autorenew:",
                key="cross_validate",
                on_click=surer,
                args=(fitted,),
                help="Fits both models five times more, each time without another fifth of rows.",
            )
            takes = duration(estimate_plan(fitted.plan, 5))
            st.caption(f"Five folds more, so that every row is held out once: {takes}.")
    if not fitted.over:
        paused = trial.status == "paused"
        st.button(
            "Continue" if paused else "Stop",
            icon=":material/play_arrow:" if paused else ":material/pause:",
            key="continue" if paused else "stop",
            on_click=trial.play if paused else trial.pause,
            help="Goes on from here."
            if paused
            else "Holds the models still; what the main one has learnt so far is judged meanwhile.",
        )
        st.caption(
            "You may look at other pages: the fit pauses after 30 seconds away, and goes on when "
            "you return."
        )


def _phases(fitted: Fitted, now: TrialProgress) -> None:
    """What the time has gone to so far, and goes to now."""
    with st.container(key="phases"):
        line = phase_line(now, fitted.reading)
        st.caption(f"Time spent: {line}." if now.phase == "over" else line)


def surer(fitted: Fitted) -> None:
    """Folds after all, once the main fit is over."""
    fitted.folds = min(5, len(fitted.prepared.dataset))
    fitted.trial.cross_validate(fitted.folds)


def pictures(fitted: Fitted) -> None:
    """The main run, as it trains."""
    L = fitted.plan.model.layers
    deep, rival, bound = st.columns((5, 5, 4), gap="medium")
    with deep, st.container(gap="xsmall"):
        st.markdown(f"**Deep model: {L} layers**" if L > 1 else "**Deep model, of one layer**")
        stage.picture("fit/deep", 285, seek=True)
    with rival, st.container(gap="xsmall"):
        st.markdown("**Its single-layer rival**")
        stage.picture("fit/rival", 285)
    with bound, st.container(gap="xsmall"):
        st.markdown("**The bound that both climb**")
        stage.picture("fit/bound", 285)
    stage.words("fit/legend", 22)
    stage.words("fit/numbers", 20)


def play(fitted: Fitted | None) -> bool:
    """Feeds the live pictures, as long as the main run is there.

    Its place in the page is there before: nothing below is made anew when a fit begins.
    """
    scenes = {}
    if fitted is not None and fitted.run() is not None:
        look = boards.Look(ink=ink())
        assert fitted.trial.main_id is not None
        shows = partial(boards.fit, look=look)
        scenes["fit"] = Scene(fitted.trial.main_id, shows, ("fit", look))
    session.play(scenes)
    return bool(scenes)


# 3. Judge.


def judge_fit(fitted: Fitted) -> None:
    """Which model to believe, by rows that it has not seen."""
    st.header("3 · Judge", anchor="judge")
    cards = fitted.scored()
    if not {"deep", "single"} & {card.model for card in cards}:
        st.markdown("Nothing is scored yet: the verdict comes with the end of the main fit.")
        return
    verdict = comparison.verdict(cards)
    with st.container(key="verdict"):
        st.markdown(("" if fitted.over else "So far: ") + safe(verdict.text))
    st.caption(essay.linked(comparison.RULE))
    with st.container(key="scores"):
        st.markdown(score_table(comparison.table(cards)))
    if unit := _log_unit(fitted):
        st.caption(unit)
    _what_scores_mean(fitted)
    models = [model for model in MODELS if model in {card.model for card in cards}]
    best = models[0] if verdict.word in ("deep", "too_few") or "single" not in models else "single"
    model = st.segmented_control(
        "Look closer at",
        models,
        format_func=MODELS.__getitem__,
        key=held("judged", best, models),
        required=True,
    )
    card = together(_in_file(fitted, cards), model or best)
    assert card is not None
    _closer(fitted, card)


def _in_file(fitted: Fitted, cards: Sequence[comparison.ScoreCard]) -> list[comparison.ScoreCard]:
    """Cards whose rows are those of the file, as a person counts them there."""
    return [replace(card, rows=fitted.prepared.rows[card.rows]) for card in cards]


def score_table(scored) -> str:
    """The scores as a table in Markdown; the best log-likelihood is bold."""
    models = [model for model in MODELS if model in scored]
    names = list(scored[models[0]])
    best = max(models, key=lambda model: scored[model]["log_likelihood"].value)
    lines = ["| model | " + " | ".join(SCORES[n] for n in names) + " |"]
    lines.append("|---|" + "--:|" * len(names))
    for model in models:
        cells = [said(n, scored[model][n]) for n in names]
        if model == best:
            cells[0] = f"**{cells[0]}**"
        lines.append(f"| {MODELS[model]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _log_unit(fitted: Fitted) -> str:
    """In which unit the scores are, where the model learns a logarithm."""
    recipe = fitted.prepared.recipe
    if "log" not in recipe.transforms:
        return ""
    y = safe(recipe.targets[0].column)
    return (
        f"Log-likelihood, RMSE and CRPS are of the natural logarithm of {y}, which is what the "
        f"models learn: an RMSE of 0.1 is a typical error of about 10 % of {y}."
    )


def _what_scores_mean(fitted: Fitted) -> None:
    data = fitted.prepared.dataset
    line = {"counts": "Poisson regression"}.get(data.task, "logistic regression")
    straight = "Bayesian linear regression" if data.task == "regression" else line
    with st.expander("What the scores mean"):
        if data.classes:
            st.markdown(
                "**Log-likelihood:** the logarithm of the probability that was given to the class "
                "that came; 0 is perfect. **Accuracy:** how often the likeliest class was right. "
                "**AUC:** how well rows of one class are ranked before others; ½ is chance. "
                "**Brier:** the squared error of the probabilities; 0 is perfect. "
                f"The straight line is {straight}. ± is a standard error."
            )
        else:
            st.markdown(
                "**Log-likelihood:** the logarithm of the density that was given to what came; "
                "higher is better, and being sure and wrong costs most. **RMSE:** the typical "
                f"error of the mean, in {safe(data.output_names[0])}'s unit. **CRPS:** the same "
                "idea for the whole distribution. **Inside 90 %:** how often an interval that "
                "should hold 90 % did; near 90 % is honest. "
                f"The straight line is {straight}. ± is a standard error."
            )


def _closer(fitted: Fitted, card: comparison.ScoreCard) -> None:
    y, look, model = fitted.prepared.dataset.output_names[0], ink(), MODELS[card.model]
    if card.forecast.probabilities is not None:
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Is it honest?** On the diagonal, probabilities mean what they say.")
            alt = (
                f"{model}: how often held-out rows came true, over the probability that was given "
                "to them; on the diagonal it is honest."
            )
            stage.figure(calibration_figure(card, look), alt, "your_calibration")
        with right:
            st.markdown("**What is taken for what?** Rows of each class, by the likeliest.")
            alt = f"{model}: held-out rows of each class, by the class that was likeliest."
            stage.figure(agreement_figure(card, y, look), alt, "your_agreement")
    else:
        left, middle, right = st.columns(3, gap="medium")
        with left:
            st.markdown("**Is it honest?** Then all bars are level.")
            alt = (
                f"{model}: shares of held-out rows by the quantile of their prediction at which "
                "they fell, ten bars; level bars are honest."
            )
            stage.figure(calibration_figure(card, look), alt, "your_calibration")
            st.caption("A bowl of bars says too sure, a hump too unsure.")
        with middle:
            st.markdown("**How close is it?** On the line, the mean was right.")
            alt = f"{model}: predicted {visible(y)} over observed, held-out rows with 90 % bars."
            stage.figure(agreement_figure(card, y, look), alt, "your_agreement")
        with right:
            st.markdown("**What is left over?** No pattern should be.")
            alt = f"{model}: residuals of held-out rows in their own deviations, over predictions."
            stage.figure(residual_figure(card, y, look), alt, "your_residuals")
    worst = diagnostics.worst_rows(card, 10)
    st.markdown(
        f"**The {len(worst)} held-out rows that surprised it most.** Look here for slips in the "
        "file, or for what no column says."
    )
    in_file = np.array([one.row for one in worst])
    st.dataframe(
        {
            "row": (in_file + 1).tolist(),
            "nats": [round(one.log_likelihood, 2) for one in worst],
            "seen and predicted": [one.surprise for one in worst],
            **{f"{n} ": v for n, v in desk.row_table(fitted.brought.read, in_file).items()},
        },
        hide_index=True,
        alt="The held-out rows with the least log-likelihood.",
    )


# 4. Understand.


def ask(record: Archive) -> None:
    """Somebody wants to know."""
    memory().made["asked"] = (record, True)


def understand(fitted: Fitted, live: bool) -> None:
    """What the model has learnt of its inputs, worked out when asked for."""
    st.header("4 · Understand", anchor="understand")
    which = _which(fitted, "explained", "Explain")
    record = fitted.archive("rival" if which == "single" else "deep")
    if record is None:
        st.markdown(_no_model(fitted, "look inside"))
        return
    kept, data = memory(), fitted.prepared.dataset
    held_out = data.take(fitted.trial.held_rows)
    groups = explain.groups_of(data, fitted.prepared.recipe)
    asked = kept.made.get("asked", (None, None))[0] is record
    if not asked:
        st.markdown(
            "Which inputs matter, and what does each do to the prediction? The answers come from "
            "asking the model many times with changed rows."
        )
        st.button(
            "Work it out", icon=":material/psychology:", key="explain", on_click=ask, args=(record,)
        )
        return
    model, scaler = record.state.model, record.scaler
    with st.spinner("Inputs are shuffled and varied, one after another …", show_time=True):
        found = once(
            "importance",
            record,
            lambda: explain.importance(model, scaler, held_out, groups),
        )
        relevances = once(
            "relevance", record, lambda: explain.relevance(model, scaler, data.input_names)
        )
    left, right = st.columns(2, gap="large")
    with left:
        st.markdown(
            "**Which inputs matter?** Each is shuffled among held-out rows, and the bars show what "
            "that costs. Two inputs that say the same hide each other."
        )
        alt = (
            f"What held-out rows lose as an input is shuffled; {visible(found[0].name)} costs most."
        )
        stage.figure(importance_figure(found, ink()), alt, "your_importance")
        if len(held_out) < comparison.FEWEST_ROWS:
            st.caption(
                f"Only {len(held_out)} rows are held out, so the order of these bars may be "
                "chance: bring more rows to be sure."
            )
    with right:
        essay.write("**By layer.** " + explain.RELEVANCE_MEANS)
        for one in relevances:
            alt = f"Layer {one.layer}: one over the lengthscale along each of its inputs, as bars."
            stage.figure(relevance_figure(one, ink()), alt, f"your_relevance_{one.layer}")
    by_name = {group.name: group for group in groups}
    _responses(fitted, record, by_name, [one.name for one in found])
    if len(groups) > 1:
        _map(fitted, record, by_name, [one.name for one in found])
    if live:
        _layers(fitted)


def _no_model(fitted: Fitted, wish: str) -> str:
    """Why there is no model yet, or none any more."""
    if fitted.learning or not fitted.over:
        return f"The model is still learning: wait for it, or stop it, to {wish}."
    if fitted.trial.status == "failed":
        return "There is no model: its training failed, as is said above."
    return f"The model was let go, since nobody watched it for half an hour: fit again to {wish}."


def _responses(fitted: Fitted, record: Archive, groups: dict, order: list[str]) -> None:
    st.markdown(
        "**One input at a time.** The thick line is the mean over rows as the input goes over its "
        "range, every row's other inputs as they are; thin lines are single rows, and shades show "
        "where new observations fall."
    )
    first = order[:3]
    key = held("shown", first)
    st.session_state[key] = [n for n in st.session_state[key] if n in groups] or first
    shown = st.multiselect("Inputs", order, key=key, format_func=visible, max_selections=9)
    answers = once("responses", record, dict)
    data = fitted.prepared.dataset
    model, scaler = record.state.model, record.scaler
    with st.spinner("One input is varied …", show_time=True):
        for name in shown:
            if name not in answers:
                answers[name] = explain.response(model, scaler, data, groups[name])
    for start in range(0, len(shown), 3):
        for column, name in zip(
            st.columns(3, gap="medium"), shown[start : start + 3], strict=False
        ):
            with column:
                figure = response_figure(answers[name], data.output_names[0], data.classes, ink())
                y = visible(data.output_names[0])
                alt = f"How the prediction of {y} changes as {visible(name)} goes over its range."
                stage.figure(figure, alt, f"your_response_{name}")


def _map(fitted: Fitted, record: Archive, groups: dict, order: list[str]) -> None:
    st.markdown("**Two inputs together.** A map where the effect of one depends on the other.")
    data = fitted.prepared.dataset
    one, two, three, four = st.columns(4, gap="medium")
    with one:
        x = st.selectbox("Across", order, key=held("map_x", order[0], order), format_func=visible)
    others = [name for name in order if name != x]
    with two:
        y = st.selectbox("Up", others, key=held("map_y", others[0], others), format_func=visible)
    with three:
        shade = st.selectbox(
            "Show",
            ["mean", "doubt"],
            key=held("map_shade", "mean"),
            format_func={
                "mean": "Probability" if data.classes else "Mean",
                "doubt": "Spread over rows" if data.classes else "Deviation of new observations",
            }.__getitem__,
        )
    output = 0
    if data.classes:
        codes = list(range(len(data.classes)))
        with four:
            output = st.selectbox(
                "Of class",
                codes,
                key=held("map_class", min(1, len(codes) - 1), codes),
                format_func=lambda c: visible(data.classes[c]),
            )
    with st.spinner("Two inputs are varied together …", show_time=True):
        found = once(
            "map",
            (record, x, y, output),
            lambda: explain.two_inputs(
                record.state.model, record.scaler, data, groups[x], groups[y], output=output
            ),
        )
    name = data.classes[output] if data.classes else data.output_names[0]
    what = f"probability of {name}" if data.classes else f"mean of {name}"
    if shade == "doubt":
        what = f"deviation of {name}"
    figure = two_inputs_figure(found, what, shade == "doubt", ink())
    alt = f"A map of the {visible(what)}, over {visible(x)} across and {visible(y)} up."
    stage.figure(figure, alt, "your_map")


def _layers(fitted: Fitted) -> None:
    L = fitted.plan.model.layers
    essay.write(
        "**The hidden layers** of the deep model: what enters each, and what leaves it. A layer "
        "that is off hands on what it gets."
    )
    for column, l in zip(st.columns(min(L, 3), gap="medium") * 2, range(L), strict=False):
        with column, st.container(gap="xsmall"):
            stage.words(f"fit/layer_{l}_title", 20)
            stage.picture(f"fit/layer_{l}", 176)
            stage.meter(f"fit/layer_{l}_meter")


# 5. Use.


def judged(fitted: Fitted) -> str:
    """The verdict's word; nothing while there is none."""
    cards = fitted.scored()
    return (
        comparison.verdict(cards).word
        if {"deep", "single"} & {card.model for card in cards}
        else ""
    )


def _which(fitted: Fitted, name: str, label: str, more: tuple[str, ...] = ()) -> str:
    """Which model; at first, the one that the verdict speaks for, if it is offered."""
    word = judged(fitted)
    options = ["deep", "single"][: 1 if fitted.plan.model.layers == 1 else 2] + list(more)
    if len(options) == 1 or not word:
        return "deep"
    first = "deep" if word in ("deep", "too_few") or options[1] != "single" else "single"
    first = word if word in more else first
    chosen = st.segmented_control(
        label,
        options,
        format_func=MODELS.__getitem__,
        key=held(name, first, options),
        required=True,
    )
    return chosen or first


def use(fitted: Fitted | None) -> None:
    """Predictions, and what to take home."""
    st.header("5 · Use", anchor="use")
    kept = memory()
    sources = (["fit"] if fitted is not None else []) + (["file"] if kept.opened else [])
    source, opened = sources[0], kept.opened[0] if kept.opened else ""
    if len(sources) > 1:
        source = st.segmented_control(
            "Predict with",
            sources,
            format_func=lambda s: "The fit above" if s == "fit" else safe(opened),
            key=held("source", sources[-1], sources),
            required=True,
        )
    if source == "fit":
        assert fitted is not None
        which = _which(fitted, "used", "Which model?", ("linear",))
        record = fitted.archive("rival" if which == "single" else "deep")
        if record is None:
            st.markdown(_no_model(fitted, "use it as it stands"))
            return
    else:
        assert kept.opened is not None
        which, record = "deep", kept.opened[1]
        fitted = None
    if which == "linear":
        assert fitted is not None
        use_line(fitted, record)
        return
    L, taken = record.model.layers, record.progress.steps
    rows = (
        ""
        if record.source is None or not record.source.rows
        else (
            f" on {round((1 - record.source.held_out) * record.source.rows):,} of "
            f"{record.source.rows:,} rows"
        )
    )
    st.markdown(
        f"A model of {L} layer{'s' if L > 1 else ''} that learnt "
        f"**{safe(', '.join(record.output_names))}** from {len(record.input_names)} inputs, in "
        f"{taken:,} steps{rows}."
    )
    predict(record, once("outcome", record, lambda: Outcome(record)))
    take_home(fitted, record, which)


def use_line(fitted: Fitted, record: Archive) -> None:
    """Predictions of the straight line; its script is that of the fit, which has it too."""
    data = fitted.prepared.dataset
    rows = fitted.trial.train_rows
    st.markdown(
        f"The straight line through {len(rows):,} of {len(data):,} rows: what any spreadsheet "
        f"would fit to **{safe(', '.join(data.output_names))}**. It has no model file; the script "
        "fits it too, under the name “linear”."
    )
    places, made = sample_places(rows, forecast.LINEAR_ROWS), fitted.prepared.recipe
    outcome = once("line", fitted, lambda: Outcome.of_line(made, data.take(places)))
    predict(record, outcome, has_file=False)
    st.subheader("Take it home", anchor=False)
    with st.container(horizontal=True, key="downloads"):
        script_and_report(fitted, record)


def predict(record: Archive, outcome: Outcome, has_file: bool = True) -> None:
    """By controls, and for a file."""
    by_hand, by_file = st.columns(2, gap="large")
    with by_hand:
        predict_values(record, outcome)
    with by_file:
        predict_file(outcome, has_file)


def predict_values(record: Archive, outcome: Outcome) -> None:
    """One row, by a control for each input."""
    st.subheader("Predict one row", anchor=False)
    recipe, scaler = outcome.recipe, record.scaler
    groups = explain.groups_of(None, recipe)  # pyright: ignore[reportArgumentType]
    X = np.zeros((1, len(record.input_names)))
    X[0] = scaler.x_mean
    st.markdown("Move the inputs, and the prediction follows. They begin in the data's middle.")
    panel = st.container(height=340 if len(groups) > 4 else "content", border=len(groups) > 4)
    with panel:
        for group, column in list(zip(groups, recipe.inputs_from, strict=True))[:MOST_SLIDERS]:
            X = group.at(X, _value(group, column, scaler))
    if len(groups) > MOST_SLIDERS:
        st.caption(f"{len(groups) - MOST_SLIDERS} further inputs stay at their mean: bring a file.")
    said = {name: values[0] for name, values in outcome.predictions(X).items()}
    target = recipe.targets[0].column
    if recipe.classes:
        p = np.array([said[f"{target} = {c}"] for c in recipe.classes])
        st.markdown(f"**{safe(target)}: {safe(said[f'{target} predicted'])}**, with {p.max():.1%}.")
        alt = f"The probability of each class of {visible(target)} for this row, as bars."
        stage.figure(probability_figure(recipe.classes, p, ink()), alt, "your_one")
        return
    own = {name.removeprefix(f"{target} "): float(v) for name, v in said.items()}
    middle = own["mean"] if np.isfinite(own["mean"]) else own["50%"]
    st.markdown(
        f"**{safe(target)}: {_number(middle)}**, and with 90 % between {_number(own['5%'])} and "
        f"{_number(own['95%'])}."
    )
    alt = (
        f"{visible(target)} for this row: mean {_number(middle)}, and the middle 50, 90 and 95 % "
        "of what may be observed."
    )
    stage.figure(interval_figure(own, target, ink()), alt, "your_one")


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _value(group, column, scaler) -> float:
    """What a control says of one input, as the model's number or level."""
    title, name = safe(group.name), f"at {group.name}"
    if group.labels:
        places = list(range(len(group.labels)))
        at = st.selectbox(
            title,
            places,
            key=held(name, 0, places),
            format_func=lambda i: visible(group.labels[i]),
        )
        return float(at)
    d = group.columns[0]
    mean, sd = float(scaler.x_mean[d]), float(scaler.x_scale[d])
    low, high = mean - 3 * sd, mean + 3 * sd
    if column.kind == "date":
        origin = np.datetime64(column.origin, "us")
        unit = UNITS[column.unit]
        days = [(origin + np.timedelta64(int(v * unit), "us")).astype("M8[D]").item()
                for v in (low, mean, high)]  # fmt: skip
        key = held(name, days[1])
        st.session_state[key] = min(max(st.session_state[key], days[0]), days[2])
        day: date = st.date_input(
            safe(column.column), key=key, min_value=days[0], max_value=days[2]
        )
        return float(column.since_origin(np.array([np.datetime64(day, "us")]))[0])
    step = float(f"{sd / 20:.1g}") or 1.0
    low, high = step * round(low / step), step * round(high / step)
    key = held(name, float(np.clip(step * round(mean / step), low, high)))
    st.session_state[key] = float(np.clip(st.session_state[key], low, high))
    shown = f"%.{max(0, int(-np.floor(np.log10(step))))}f" if step < 1e6 else "%.3g"
    return st.slider(title, low, high, step=step, key=key, format=shown)


def second_uploaded() -> None:
    if (file := desk.new_file("your_second")) is not None:
        desk.read_second(file, file.name)
        desk.let_go(file)


def predict_file(outcome: Outcome, has_file: bool = True) -> None:
    """Every row of a second file; a model that `has_file` can be asked in a terminal too."""
    st.subheader("Predict a file", anchor=False)
    needed = [column.column for column in outcome.recipe.inputs_from]
    listed = ", ".join(safe(name) for name in needed[:12])
    more = f" and {len(needed) - 12} more" if len(needed) > 12 else ""
    st.markdown(
        f"Rows with the columns {listed}{more}, in any order; others are passed on. What the "
        "model says of each row is put beside it."
    )
    st.file_uploader("A file to predict", key="your_second", on_change=second_uploaded)
    kept = memory()
    if kept.unread:
        st.error(safe(kept.unread), icon=":material/error:")
    if kept.second is None:
        return
    table = kept.second
    if table.rows * len(table.cells) > desk.MOST_PREDICTED_CELLS:
        way = "With the model's file, which is below, a terminal does it:"
        st.info(
            f"{table.rows:,} rows of {len(table.cells)} columns are more than this page writes. "
            + (way if has_file else "Bring them in several files."),
            icon=":material/terminal:",
        )
        if has_file:
            st.code(desk.predict_command(table), language="bash")
        return
    try:
        with st.spinner(f"{table.rows:,} rows are predicted …", show_time=True):
            content = once(
                "predictions", (outcome, table), lambda: desk.predictions_csv(outcome, table)
            )
    except TableError as error:
        st.error(safe(error), icon=":material/error:")
        return
    st.markdown(f"**{table.rows:,} rows of {safe(table.name)} are predicted.**")
    st.download_button(
        "Predictions (CSV)",
        content,
        file_name="predictions.csv",
        mime="text/csv",
        icon=":material/download:",
        key="download_predictions",
        on_click="ignore",
        type="primary",
    )


def take_home(fitted: Fitted | None, record: Archive, which: str) -> None:
    """The model, the script, the report."""
    st.subheader("Take it home", anchor=False)
    st.markdown(
        "The model's file opens again here (step 1, “A model that I saved”) and in a terminal: "
        "`python -m dgp_core predict model.npz NEW.csv --out predictions.csv`. It holds no rows."
    )
    with st.container(horizontal=True, key="downloads"):
        st.download_button(
            "Model (.npz)",
            once("packed", record, lambda: desk.packed(record)),
            file_name="model.npz",
            mime="application/octet-stream",
            icon=":material/deployed_code:",
            key="download_model",
            on_click="ignore",
        )
        if fitted is not None:
            script_and_report(fitted, record)


def script_and_report(fitted: Fitted, record: Archive) -> None:
    """What tells of the whole fit, whichever of its models is used."""
    code = _script(fitted, record)
    st.download_button(
        "Python script",
        code,
        file_name="fit.py",
        mime="text/x-python",
        icon=":material/code:",
        key="download_script",
        on_click="ignore",
    )
    cards = fitted.scored()
    if {"deep", "single"} & {card.model for card in cards}:
        st.download_button(
            "Report (HTML)",
            partial(_report, fitted, record, code, dict(memory().made)),
            file_name="report.html",
            mime="text/html",
            icon=":material/description:",
            key="download_report",
            on_click="ignore",
        )


def _script(fitted: Fitted, record: Archive) -> str:
    recipe = fitted.prepared.recipe
    source = Upload(
        file=fitted.brought.file,
        targets=tuple(target.column for target in recipe.targets),
        task=recipe.task,
        missing=recipe.missing,
        transforms=recipe.transforms,
        decisions=decisions(fitted.brought.read, fitted.brought.decided),
    )
    return script(
        source,
        record.model,
        record.training,
        fraction=1 - desk.HELD_OUT,
        steps=record.progress.steps,
    )


def _report(fitted: Fitted, record: Archive, code: str, made: dict) -> bytes:
    """Everything in one file; runs when it is asked for, apart from the page's script."""
    cards = _in_file(fitted, fitted.scored())
    asked = made.get("importance", (None, ()))
    importance = asked[1] if asked[0] is record else ()
    answers = made.get("responses", (None, {}))
    responses = list(answers[1].values()) if answers[0] is record else []
    about = [*fitted.prepared.report, fitted.plan.sentence, *filter(None, [_log_unit(fitted)])]
    return fit_report(
        fitted.brought.read.name,
        about,
        cards,
        comparison.verdict(cards),
        fitted.prepared.dataset.output_names[0],
        importance,
        responses,
        code,
    ).encode()


session.browser()
st.title("Your data", anchor=False)
st.markdown(
    "From a table on your desk to a model that you can trust and take home, in five steps. No "
    "knowledge of Gaussian processes is needed: each step says what it does, proposes what is "
    "good, and lets you change it."
)
with in_words("This page could not be shown. Reload it, or bring other data."):
    kept = memory()
    fitted = kept.fitted
    live = play(fitted)
    # Each step has a place of its own: what grows in one does not put the next ones, and a file
    # that is just coming in there, in another.
    with st.container():
        bring.bring_data()
    if kept.brought is not None:
        with (
            st.container(),
            in_words("These columns could not be shown. Bring the file again, or another one."),
        ):
            bring.decide_columns()
            prepared = bring.choose_target()
            if prepared is not None:
                show_rows(prepared)
                fit(prepared)
    if fitted is not None:
        with in_words("This fit could not be shown. Fit again, or with fewer inducing points."):
            with st.container():
                progress(fitted)
                if live:
                    pictures(fitted)
                judge_fit(fitted)
            with st.container():
                understand(fitted, live)
    if fitted is not None or kept.opened is not None:
        with (
            st.container(),
            in_words("This model could not be used. Fit it again, or open its file again."),
        ):
            use(fitted)
session.keep_cookie()
dress(STYLE + PHASES_STYLE)
