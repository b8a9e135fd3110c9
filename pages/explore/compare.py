"""Compare: models on one data set, with the same splits and the same seed."""

from dataclasses import replace
from functools import partial

import numpy as np
import streamlit as st

from datasets import catalogue
from datasets.measured import regression
from datasets.printed import printed
from dgp_core.evaluation import comparison as compared
from dgp_core.evaluation import forecast
from dgp_core.evaluation.boosting import boosting_predictor
from dgp_core.gp.data import Dataset, counted
from dgp_core.gp.model import ModelSpec
from dgp_core.gp.splits import BY_CHANCE, FIRST_SHARE, SplitBy
from dgp_core.live.trial import EXACT_ROWS, MOST_FOLD_CELLS
from dgp_core.live.workshop import MOST_CELLS, WorkshopError
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import Prepared
from dgp_core.training.plan import Plan, duration, estimate, plan_for
from dgp_core.training.train import TrainSpec
from pages.figures.compare import has_surface, ladder_figure, surface, surface_figure
from pages.figures.depth_table import MODELS as SYSTEMS
from pages.figures.depth_table import SHOW, beside, number, summary
from pages.figures.scores import best_model, markdown, score_table, score_text, together
from pages.figures.your_data import agreement_figure
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.comparison import Comparison
from pages.ui.glossary_links import Linker
from pages.ui.sentences import complaint, in_words, safe
from pages.ui.session_end import at_end
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data import progress
from pages.ui.your_data.fit import too_many
from pages.ui.your_data.judge_by import split_of_inputs, split_of_table
from pages.ui.your_data.upload_state import HELD_OUT, cached, persistent_key, upload_state

essay = Linker()

OWN = "your data"
DATA = tuple(n for n in (*catalogue.names("toy"), *catalogue.names("shipped")) if n != "drawn")
STEPS = (10, 100, 500, 1000, 2000, 5000, 10_000, 20_000)
INDUCING = (5, 10, 25, 50, 100, 200)
FOLDS = (0, 3, 5, 10, 20)
FIRST = ["linear", "sgp", "dgp2"]
ACTIVE = ("training", "scoring", "paused")
"""The states of a trial that is not over."""
STYLE = """<style>
[data-testid=stMainBlockContainer] { max-width: 76rem; padding: 4.2rem 2rem 3rem; }
[data-testid=stMainBlockContainer] p { max-width: 46rem; }
.st-key-comparison { overflow-x: auto; font-variant-numeric: tabular-nums; }
.st-key-comparison td, .st-key-comparison th { white-space: nowrap; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
@media (max-width: 640px) {
  [data-testid=stMainBlockContainer] { padding: 4.4rem 1rem 3rem; }
}
</style>"""


def training_rows(N: int, folds: int, by: SplitBy) -> int:
    """How many of N rows each model is trained on; of blocks in time, the first one's."""
    if folds and by.way == "latest":
        return int(FIRST_SHARE * N)
    return N - -(-N // folds) if folds else int((1 - HELD_OUT) * N)


def titles(M: int, n_train: int) -> dict[str, str]:
    """Display names of the models."""
    more = f"{5 * M}" if 5 * M < n_train else f"{n_train} (every row)"
    return {
        "linear": "Straight line",
        "exact": "Exact GP",
        "sgp": f"SGP, {M} inducing points",
        "sgp5": f"SGP, {more} inducing points",
        **{f"dgp{L}": f"DGP, {L} layers" for L in range(2, 6)},
        "boosting": "Gradient boosting",
    }


def specs(plan: Plan, M: int, n_train: int) -> dict[str, ModelSpec]:
    """The GPs to train, by name."""
    one = replace(plan.model, layers=1, inducing=min(M, n_train))
    return {
        "sgp": one,
        "sgp5": replace(one, inducing=min(5 * M, n_train)),
        **{f"dgp{L}": replace(one, layers=L) for L in range(2, 6)},
    }


def downloaded() -> list[str]:
    """Sets of the paper that were fetched to this machine before, without image sets."""
    entries = [catalogue.entry(name) for name in catalogue.cached()]
    return [e.name for e in entries if e.N and e.N * (e.D + 1) <= MOST_CELLS and not e.image]


def choose_data() -> tuple[str, Dataset] | None:
    """A set of the lab, or this session's own from "Your data"."""
    own = upload_state().prepared
    names = [*([OWN] if own is not None else []), *DATA, *downloaded()]

    def title(name: str) -> str:
        if name == OWN and own is not None:
            return f"Your data: {visible(own.dataset.name)}"
        return catalogue.entry(name).title

    name = st.selectbox(
        "Data set",
        names,
        key=persistent_key("compare_data", "motorcycle", names),
        format_func=title,
        help="What you bring to “Your data” is offered here too.",
    )
    if name == OWN:
        assert own is not None
        if too_many(own):
            st.info(
                "These data are too many for live runs: train in a terminal, as step 2 of “Your "
                "data” says, or choose another set.",
                icon=":material/terminal:",
            )
            return None
        return name, own.dataset
    return name, _load(name)


def _load(name: str) -> Dataset:
    return cached("set", name, lambda: catalogue.load(name))


def choose_split(name: str, dataset: Dataset) -> SplitBy:
    """Which rows the models are judged by."""
    state = upload_state()
    if name == OWN and state.loaded is not None and state.prepared is not None:
        target = state.prepared.recipe.targets[0].column
        return split_of_table(state.prepared, state.loaded.decided, target, "compare_")
    if name != OWN and catalogue.entry(name).kind == "toy":
        return BY_CHANCE
    time = "" if name == OWN else catalogue.entry(name).time
    return split_of_inputs(dataset, time, "compare_")


def begin(
    settings: tuple,
    dataset: Dataset,
    train: TrainSpec,
    folds: int,
    by: SplitBy,
    gps: dict,
    named: dict,
) -> None:
    """Trains the chosen models; only the new ones where no setting has changed."""
    comparison = st.session_state.get("comparison")
    st.session_state.comparison_error = ""
    if comparison is None or comparison.settings != settings:
        if comparison is not None:
            comparison.close()
        own = settings[0] if isinstance(settings[0], Prepared) else None
        refit = None if own is None else partial(_refit, own)
        comparison = Comparison(settings, dataset, train, folds, by, refit, session.browser())
        st.session_state.comparison = comparison
        at_end(comparison.close)
    try:
        comparison.add(session.workshop(), gps, set(st.session_state.your_compare_models), named)
    except (WorkshopError, ValueError) as error:
        st.session_state.comparison_error = str(error)


def _refit(prepared: Prepared, train: np.ndarray) -> Dataset:
    return prepared.refit(train).dataset


def controls(name: str, dataset: Dataset) -> tuple[Comparison | None, list[str], int]:
    """Which models, their size and training, and the button."""
    plan = plan_for(dataset)
    N, D = dataset.X.shape
    size, length, folding, seeding = st.columns(4, gap="medium")
    most = max(M for M in INDUCING if M <= max(5, N // 2))
    offered_M = [M for M in INDUCING if M <= most]
    proposed_M = max(M for M in offered_M if M <= max(5, plan.model.inducing_counts[0]))
    with size:
        M = (
            st.select_slider(
                "Inducing points",
                offered_M,
                key=persistent_key("compare_inducing", proposed_M, offered_M),
                help="M of every sparse model; one SGP has five times as many, or one for every "
                "row where rows are fewer.",
            )
            if len(offered_M) > 1
            else offered_M[0]
        )
    with length:
        steps = st.select_slider(
            "Steps",
            STEPS,
            key=persistent_key("compare_steps", 2000, STEPS),
            format_func=lambda n: f"{n:,}",
            help="Gradient steps of every model; the learning rates decay towards the last.",
        )
    offered = [k for k in FOLDS if k <= N] if dataset.X.size <= MOST_FOLD_CELLS else [0]
    with folding:
        folds = (
            st.select_slider(
                "Splits",
                offered,
                key=persistent_key(
                    "compare_folds", plan.folds if plan.folds in offered else 0, offered
                ),
                format_func=lambda k: f"{k} folds" if k else "one",
                help="One split holds out a tenth of the rows. Folds hold out every row once, and "
                "give error bars that include retraining.",
            )
            if len(offered) > 1
            else 0
        )
    with seeding:
        seed = st.number_input(
            "Seed",
            0,
            9999,
            key=persistent_key("compare_seed", 0),
            help="Of splits, start values and minibatches.",
        )
    by = choose_split(name, dataset)
    n_train = training_rows(N, folds, by)
    named = titles(M, n_train)
    offered_models = [
        model
        for model in named
        if model != "exact" or (dataset.task == "regression" and n_train <= EXACT_ROWS)
    ]
    key = persistent_key("compare_models", FIRST)
    st.session_state[key] = [m for m in st.session_state[key] if m in offered_models]
    models = st.multiselect(
        "Models",
        offered_models,
        key=key,
        format_func=named.__getitem__,
        placeholder="Choose at least one",
    )
    train = replace(plan.train, steps=steps, seed=int(seed), ramp_steps=min(100, steps // 5))
    own = upload_state().prepared if name == OWN else name
    settings = (own, M, steps, folds, int(seed), by.way, by.column)
    comparison: Comparison | None = st.session_state.get("comparison")
    same = comparison is not None and comparison.settings == settings
    new = set(models) - (comparison.requested if comparison is not None and same else set())
    gps = specs(plan, M, n_train)
    P = max(plan.n_outputs, 1)
    seconds = max(folds, 1) * sum(estimate(gps[m], train, n_train, D, P) for m in new if m in gps)
    with st.container(horizontal=True, vertical_alignment="center", key="comparison_bar"):
        st.button(
            "Train" if not same else "Train the missing ones",
            type="primary",
            icon=":material/play_arrow:",
            key="train_comparison",
            disabled=not new,
            on_click=begin,
            args=(settings, dataset, train, folds, by, gps, named),
        )
        if new & gps.keys():
            st.caption(f"Takes {duration(seconds)}, and a few seconds per model to compile.")
        elif not new and models:
            st.caption("Every model below is trained or training.")
    if comparison is not None and same and (lost := comparison.lost() & new):
        st.info(
            ", ".join(named[m] for m in named if m in lost)
            + ": failed, or was discarded since nobody watched for half an hour. The button trains "
            "the missing ones again.",
            icon=":material/history:",
        )
    if error := st.session_state.get("comparison_error"):
        complaint(error)
    if comparison is not None and not same:
        st.info(
            "The settings have changed since: the results below are of the earlier ones.",
            icon=":material/history:",
        )
        if comparison.settings[0] is not own and comparison.settings[0] != own:
            return None, models, M
    return comparison, models, M


def show_progress(comparison: Comparison) -> None:
    """How far the trials are; polled until they are over."""
    before = (comparison.over, comparison.cards())

    @st.fragment(run_every=None if comparison.over else progress.PATIENCE)
    def poll() -> None:
        for trial in comparison.trials:
            trial.watch()
        if (comparison.over, comparison.cards()) != before:
            st.rerun()
        for i, trial in enumerate(comparison.trials):
            if trial.status in ACTIVE:
                progress.progress_bar(trial, f"phases_{i}")
            for sentence in trial.failures():
                st.warning(safe(sentence), icon=":material/warning:")

    poll()
    if active := [trial for trial in comparison.trials if trial.status in ACTIVE]:
        progress.stop_button(active)


def show_scores(comparison: Comparison, models: list[str], named: dict[str, str]) -> None:
    """Every model's scores and times, and the paper's numbers where they are known."""
    cards = [card for card in comparison.cards() if card.model in models]
    waiting = [m for m in models if m not in {card.model for card in cards}]
    if not cards:
        st.markdown("The first scores come as soon as a model is trained.")
        return
    scored = compared.table(cards)
    rows, best = [model for model in named if model in scored], best_model(scored)
    data = comparison.settings[0]
    own = {m: next(c for c in cards if c.model == m) for m in rows}
    more = {
        "per step": {m: _time(own[m].seconds_per_step) for m in rows},
        "total": {m: _time(own[m].seconds) for m in rows},
    }
    known = isinstance(data, str) and bool(printed(data, "loglik"))
    show = _whose() if known else "ours"
    with st.container(key="comparison"):
        if show != "paper":
            st.markdown(markdown(score_table(scored, named, more), named[best]))
        if show != "ours":
            st.markdown(_paper_table(data, scored, named, show))
    n = next(iter(scored[rows[0]].values())).n
    folds = comparison.folds
    over = f"over {folds} folds" if folds else f"over {counted(n, 'held-out row')}"
    st.caption(
        f"± is a standard error {over}; arrows say which way is better. Times are those of this "
        "machine, each model by itself."
        + (
            " The paper's numbers (Salimbeni and Deisenroth 2017) are means over 20 splits, with "
            "standard errors in brackets, 100 inducing points and their own settings; “our "
            "benchmark” is what we measured on the first of those splits; “printed” marks what was "
            "not trained here."
            if show != "ours"
            else ""
        )
    )
    if waiting and not comparison.over:
        st.caption("Still training: " + ", ".join(named[m] for m in waiting) + ".")
    if len(rows) > 1:
        _against_best(cards, rows, best, named)
    figure = ladder_figure(
        {model: scored[model] for model in rows},
        named,
        "log_likelihood",
        "log-likelihood, nats per row →",
        page_ink(),
    )
    alt = (
        "Held-out log-likelihood of every model with its standard error; the best is "
        f"{named[best]}."
    )
    stage.figure(figure, alt, "comparison_ladder")


def _whose() -> str:
    """Whether ours, the paper's numbers or both are shown."""
    chosen = st.segmented_control(
        "Numbers",
        list(SHOW),
        key=persistent_key("compare_show", "both", tuple(SHOW)),
        format_func=SHOW.__getitem__,
        required=True,
    )
    return chosen or "both"


def _paper_table(data: str, scored: dict, named: dict[str, str], show: str) -> str:
    """Ours beside every system that the paper prints for these data."""
    ours = {
        "sgp500" if model == "sgp5" else model: {
            "loglik": score_text("log_likelihood", of["log_likelihood"]),
            "rmse": score_text("rmse", of["rmse"]),
        }
        for model, of in scored.items()
    }
    titles = SYSTEMS | {m: named[m] for m in named if m in scored and m not in ("sgp5", *SYSTEMS)}
    scores = {score: summary(regression(), data, score) for score in ("loglik", "rmse")}
    for model, (*_, n) in scores["loglik"].items():
        if model not in ours:  # what the benchmark measured, where nobody trains it here
            ours[model] = {score: number(*scores[score][model][:2]) for score in scores}
            titles[model] += f", our benchmark ({counted(n, 'split')})"
    return markdown(beside(ours, data, titles, show), "")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:.3g} min"


def _against_best(cards: list, rows: list[str], best: str, named: dict[str, str]) -> None:
    """Which models are worse than the best one beyond noise, in words."""
    against = [
        compared.compare(cards, best, m) for m in rows if m != best and _shared(cards, best, m)
    ]
    clear = [c.other for c in against if c.word == "better"]
    alike = [c.other for c in against if c.word == "same"]
    if any(c.word == "too_few" for c in against):
        st.markdown("Too few rows are held out to tell the models apart: choose folds.")
        return
    words = f"**{named[best]}** has the best log-likelihood"
    if clear:
        words += ", beyond noise against " + ", ".join(named[m] for m in clear)
    if alike:
        words += (", but not" if clear else ", but not beyond noise") + " against "
        words += ", ".join(named[m] for m in alike)
    st.markdown(f"{words}. {safe(compared.scope(against))}")
    with st.expander("The rule"):
        essay.write(compared.RULE)


def _shared(cards: list, one: str, other: str) -> bool:
    folds = [{c.fold for c in cards if c.model == name} for name in (one, other)]
    return bool(folds[0] & folds[1])


def pictures(comparison: Comparison, models: list[str], named: dict[str, str]) -> None:
    """Each model's predictions, side by side and on the same axes."""
    data = comparison.dataset
    cards = comparison.cards()
    done = [m for m in named if m in models and m in {card.model for card in cards}]
    if not done:
        return
    st.subheader("Side by side", anchor=False)
    if has_surface(data):
        st.markdown(
            "Each model's prediction, fitted to the first split: the mean, and the central 90 % of "
            "new points."
            if data.X.shape[1] == 1 and not data.classes
            else "Each model's prediction, fitted to the first split, with the rows."
        )
    else:
        essay.write("Held-out rows: predicted against observed.")
    for start in range(0, len(done), 3):
        row = done[start : start + 3]
        for column, model in zip(st.columns(3, gap="medium"), row, strict=False):
            with column, st.container(gap="xsmall"):
                st.markdown(f"**{named[model]}**")
                figure = _picture(comparison, model, cards)
                if figure is None:
                    st.caption("Its run was discarded: train again to see its picture.")
                else:
                    what = "its prediction over the inputs, with the rows"
                    if not has_surface(data):
                        what = "predictions for held-out rows, over what was observed"
                    stage.figure(figure, f"{named[model]}: {what}.", f"comparison_{model}")


def _picture(comparison: Comparison, model: str, cards: list) -> dict | None:
    data = comparison.dataset
    if not has_surface(data):
        if isinstance(comparison.settings[0], Prepared):
            cards = [replace(card, rows=comparison.settings[0].rows[card.rows]) for card in cards]
        card = together(cards, model)
        return (
            None if card is None else agreement_figure(card, data.output_names[0], page_ink(), 250)
        )
    card = next(card for card in cards if card.model == model)
    if model not in comparison.cache or comparison.cache[model][0] is not card:
        predictor = _predictor(comparison, model)
        if predictor is None:
            return None
        with st.spinner("Drawing …", show_time=True):
            comparison.cache[model] = (card, surface(predictor, data))
    return surface_figure(comparison.cache[model][1], data, model, page_ink())


def _predictor(comparison: Comparison, model: str):
    """A model fitted to the first split; None once its run was discarded."""
    if model in ("linear", "exact", "boosting"):
        train = comparison.training_rows()
        if model == "boosting":
            return boosting_predictor(train)
        if model == "linear":
            return forecast.linear_predictor(train)
        trial = next(t for t in comparison.trials if "exact" in t.wanted())
        return forecast.exact_predictor(train, kernel=trial.kernel)
    run, which = comparison.runs().get(model, (None, "deep"))
    if run is None or run.latest is None:
        return None
    parameters = run.latest.deep if which == "deep" else run.latest.rival
    return forecast.deep_predictor(parameters, run.scaler, comparison.train.seed)


session.leave_lessons()
st.title("Compare", anchor=False)
essay.write(
    "Is depth worth it here, or do more inducing points do as well? The models that you choose "
    "learn from the same rows, with the same splits and the same seed, and are judged by rows that "
    "none of them has seen."
)
with in_words("This comparison could not be shown. Choose another data set, or train again."):
    chosen = choose_data()
    if chosen is not None:
        comparison, models, M = controls(*chosen)
        if comparison is not None:
            named = titles(
                comparison.settings[1],
                training_rows(len(comparison.dataset), comparison.folds, comparison.by),
            )
            show_progress(comparison)
            show_scores(comparison, models, named)
            pictures(comparison, models, named)
        else:
            st.caption("Nothing is trained yet: choose models, and press Train.")
session.page_made()
dress(STYLE + progress.STYLE)
