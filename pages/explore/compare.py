"""Compare: models on one data set, with the same splits and the same seed."""

from dataclasses import replace

import streamlit as st

from datasets import catalogue
from datasets.printed import PRINTED
from dgp_core.evaluation import comparison, forecast
from dgp_core.gp.data import Dataset
from dgp_core.gp.model import ModelSpec
from dgp_core.live.trial import EXACT_ROWS, MOST_FOLD_CELLS
from dgp_core.live.workshop import MOST_CELLS, WorkshopError
from dgp_core.tables.plain import visible
from dgp_core.tables.recipe import Prepared
from dgp_core.training.plan import Plan, duration, estimate, plan_for
from dgp_core.training.train import TrainSpec
from pages.figures.compare import has_sheet, ladder_figure, sheet, sheet_figure
from pages.figures.your_data import SCORES, agreement_figure, said, together
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data import desk
from pages.ui.your_data.desk import Contest, held, memory, safe
from pages.ui.your_data.phases import STYLE as PHASES_STYLE
from pages.ui.your_data.phases import phase_line

essay = Linker()

OWN = "your data"
DATA = tuple(n for n in (*catalogue.names("toy"), *catalogue.names("shipped")) if n != "drawn")
STEPS = (10, 100, 500, 1000, 2000, 5000, 10_000, 20_000)
INDUCING = (5, 10, 25, 50, 100, 200)
FOLDS = (0, 3, 5, 10, 20)
FIRST = ["linear", "sgp", "dgp2"]
PATIENCE = 1.0  # seconds between two looks at the trials
STYLE = """<style>
[data-testid=stMainBlockContainer] { max-width: 76rem; padding: 4.2rem 2rem 3rem; }
[data-testid=stMainBlockContainer] p { max-width: 46rem; }
.st-key-contest { overflow-x: auto; font-variant-numeric: tabular-nums; }
.st-key-contest td, .st-key-contest th { white-space: nowrap; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
@media (max-width: 640px) {
  [data-testid=stMainBlockContainer] { padding: 4.4rem 1rem 3rem; }
}
</style>"""


def training_rows(N: int, folds: int) -> int:
    """How many of N rows each model learns from."""
    return N - -(-N // folds) if folds else int(0.9 * N)


def titles(M: int, n_train: int) -> dict[str, str]:
    """What the rows are called."""
    more = f"{5 * M}" if 5 * M < n_train else f"{n_train} (every row)"
    return {
        "linear": "Straight line",
        "exact": "Exact GP",
        "sgp": f"SGP, {M} inducing points",
        "sgp5": f"SGP, {more} inducing points",
        **{f"dgp{L}": f"DGP, {L} layers" for L in range(2, 6)},
    }


def specs(plan: Plan, M: int, n_train: int) -> dict[str, ModelSpec]:
    """The models that are trained, by their rows' names."""
    one = replace(plan.model, layers=1, inducing=min(M, n_train))
    return {
        "sgp": one,
        "sgp5": replace(one, inducing=min(5 * M, n_train)),
        **{f"dgp{L}": replace(one, layers=L) for L in range(2, 6)},
    }


def downloaded() -> list[str]:
    """Sets of the paper that were fetched to this machine before, and are no pictures."""
    entries = [catalogue.entry(name) for name in catalogue.cached()]
    return [e.name for e in entries if e.N and e.N * (e.D + 1) <= MOST_CELLS and not e.image]


def choose_data() -> tuple[str, Dataset] | None:
    """A set of the lab, or what this session brought to "Your data"."""
    own = memory().prepared
    names = [*([OWN] if own is not None else []), *DATA, *downloaded()]

    def title(name: str) -> str:
        if name == OWN and own is not None:
            return f"Your data: {visible(own.dataset.name)}"
        return catalogue.entry(name).title

    name = st.selectbox(
        "Data set",
        names,
        key=held("compare_data", "motorcycle", names),
        format_func=title,
        help="What you bring to “Your data” is offered here too.",
    )
    if name == OWN:
        assert own is not None
        if desk.too_many(own):
            st.info(
                "These data are too many for live runs: train without the screen, as step 2 of "
                "“Your data” says, or choose another set.",
                icon=":material/terminal:",
            )
            return None
        return name, own.dataset
    return name, _load(name)


def _load(name: str) -> Dataset:
    return desk.once("set", name, lambda: catalogue.load(name))


def begin(
    by: tuple, dataset: Dataset, train: TrainSpec, folds: int, wanted: dict, named: dict
) -> None:
    """Trains what was asked for; only what is new where nothing else has changed."""
    kept = st.session_state.get("contest")
    st.session_state.contest_refused = ""
    if kept is None or kept.by != by:
        if kept is not None:
            kept.close()
        kept = st.session_state.contest = Contest(by, dataset, train, folds)
    try:
        kept.add(session.workshop(), wanted, set(st.session_state.your_compare_models), named)
    except (WorkshopError, ValueError) as error:
        st.session_state.contest_refused = str(error)


def controls(name: str, dataset: Dataset) -> tuple[Contest | None, list[str], int]:
    """Which models, how large, how long; and the button."""
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
                key=held("compare_inducing", proposed_M, offered_M),
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
            key=held("compare_steps", 2000, STEPS),
            format_func=lambda n: f"{n:,}",
            help="Gradient steps of every model; rates fall towards the last.",
        )
    offered = [k for k in FOLDS if k <= N] if dataset.X.size <= MOST_FOLD_CELLS else [0]
    with folding:
        folds = (
            st.select_slider(
                "Splits",
                offered,
                key=held("compare_folds", plan.folds if plan.folds in offered else 0, offered),
                format_func=lambda k: f"{k} folds" if k else "one",
                help="One split holds out a tenth of the rows. Folds hold out every row once, and "
                "give errors that know of training too.",
            )
            if len(offered) > 1
            else 0
        )
    with seeding:
        seed = st.number_input(
            "Seed", 0, 9999, key=held("compare_seed", 0), help="Of splits, starts and minibatches."
        )
    n_train = training_rows(N, folds)
    named = titles(M, n_train)
    offered_models = [
        model
        for model in named
        if model != "exact" or (dataset.task == "regression" and n_train <= EXACT_ROWS)
    ]
    key = held("compare_models", FIRST)
    st.session_state[key] = [m for m in st.session_state[key] if m in offered_models]
    models = st.multiselect(
        "Models: add and remove rows",
        offered_models,
        key=key,
        format_func=named.__getitem__,
        placeholder="Choose at least one",
    )
    train = replace(plan.train, steps=steps, seed=int(seed), ramp_steps=min(100, steps // 5))
    own = memory().prepared if name == OWN else name
    by = (own, M, steps, folds, int(seed))
    contest: Contest | None = st.session_state.get("contest")
    same = contest is not None and contest.by == by
    new = set(models) - (contest.asked if contest is not None and same else set())
    wanted = specs(plan, M, n_train)
    P = max(plan.n_outputs, 1)
    seconds = max(folds, 1) * sum(
        estimate(wanted[m], train, n_train, D, P) for m in new if m in wanted
    )
    with st.container(horizontal=True, vertical_alignment="center", key="contest_bar"):
        st.button(
            "Train them" if not same else "Train what is missing",
            type="primary",
            icon=":material/play_arrow:",
            key="train_contest",
            disabled=not new,
            on_click=begin,
            args=(by, dataset, train, folds, wanted, named),
        )
        if new & wanted.keys():
            st.caption(f"It takes {duration(seconds)}, and some seconds a model to compile.")
        elif not new and models:
            st.caption("Every row below is trained, or on its way.")
    if contest is not None and same and (lost := contest.lost() & new):
        st.info(
            ", ".join(named[m] for m in named if m in lost)
            + ": failed, or let go since nobody watched for half an hour. The button trains what "
            "is missing again.",
            icon=":material/history:",
        )
    if refused := st.session_state.get("contest_refused"):
        st.error(safe(refused), icon=":material/error:")
    if contest is not None and not same:
        st.info(
            "The settings have changed since: what follows is of the earlier ones.",
            icon=":material/history:",
        )
        if contest.by[0] is not by[0] and contest.by[0] != by[0]:
            return None, models, M
    return contest, models, M


def progress(contest: Contest) -> None:
    """How far the trials are; looked at now and then as long as they are not over."""
    before = (contest.over, contest.cards())

    @st.fragment(run_every=None if contest.over else PATIENCE)
    def look() -> None:
        for trial in contest.trials:
            trial.watch()
        if (contest.over, contest.cards()) != before:
            st.rerun()
        for i, trial in enumerate(contest.trials):
            if trial.status in ("training", "scoring", "paused"):
                now = trial.progress()
                said = f"Paused. {now.sentence}" if trial.status == "paused" else now.sentence
                with st.container(gap="xsmall", key=f"phases_{i}"):
                    st.progress(min(1.0, max(0.0, now.fraction)), text=said)
                    st.caption(phase_line(now))
            for sentence in trial.failures():
                st.warning(safe(sentence), icon=":material/warning:")

    look()
    active = [t for t in contest.trials if t.status in ("training", "scoring", "paused")]
    if active:
        paused = all(t.status == "paused" for t in active)
        st.button(
            "Continue" if paused else "Stop",
            icon=":material/play_arrow:" if paused else ":material/pause:",
            key="continue_contest" if paused else "stop_contest",
            on_click=_each,
            args=(active, "play" if paused else "pause"),
        )


def _each(trials: list, wish: str) -> None:
    for trial in trials:
        getattr(trial, wish)()


def score_table(contest: Contest, models: list[str], named: dict[str, str]) -> None:
    """Every row's scores and times, and the paper's numbers where they are known."""
    cards = [card for card in contest.cards() if card.model in models]
    waiting = [m for m in models if m not in {card.model for card in cards}]
    if not cards:
        st.markdown("The first scores come as soon as a model is trained.")
        return
    scored = comparison.table(cards)
    rows = [model for model in named if model in scored]
    names = list(scored[rows[0]])
    best = max(rows, key=lambda m: scored[m]["log_likelihood"].value)
    printed = {m: PRINTED[contest.by[0], m] for m in rows if (contest.by[0], m) in PRINTED}
    head = ["model", *(SCORES[n] for n in names), "a step", "in all"]
    head += ["paper: log-likelihood", "paper: RMSE"] if printed else []
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    for model in rows:
        cells = [said(n, scored[model][n]) for n in names]
        if model == best:
            cells[0] = f"**{cells[0]}**"
        own = next(c for c in cards if c.model == model)
        cells += [_time(own.seconds_per_step), _time(own.seconds)]
        if printed:
            pair = printed.get(model, (None, None))
            cells += ["–" if value is None else f"{value:g}".replace("-", "−") for value in pair]
        lines.append(f"| {named[model]} | " + " | ".join(cells) + " |")
    with st.container(key="contest"):
        st.markdown("\n".join(lines))
    n = next(iter(scored[rows[0]].values())).n
    over = f"over {contest.folds} folds" if contest.folds else f"over {n:,} held-out rows"
    st.caption(
        f"± is a standard error {over}; arrows say which way is better. Times are of this machine, "
        "each model by itself."
        + (
            " The paper's numbers (Salimbeni and Deisenroth 2017) are means over 20 splits with "
            "100 inducing points and their own recipe; “–” is a number that is not at hand here."
            if printed
            else ""
        )
    )
    if waiting and not contest.over:
        st.caption("On their way: " + ", ".join(named[m] for m in waiting) + ".")
    if len(rows) > 1:
        _against_best(cards, rows, best, named)
    ladder = {model: scored[model] for model in rows}
    figure = ladder_figure(
        ladder,
        named,
        "log_likelihood",
        "log-likelihood, nats a row →",
        page_ink(),
    )
    alt = (
        "Held-out log-likelihood of every model with its standard error; the best is "
        f"{named[best]}."
    )
    stage.figure(figure, alt, "contest_ladder")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 100 else f"{seconds / 60:.3g} min"


def _against_best(cards: list, rows: list[str], best: str, named: dict[str, str]) -> None:
    """Which rows are worse than the best one beyond noise, in words."""
    found = [
        comparison.compare(cards, best, m) for m in rows if m != best and _shared(cards, best, m)
    ]
    clear = [c.other for c in found if c.word == "better"]
    alike = [c.other for c in found if c.word == "same"]
    if any(c.word == "too_few" for c in found):
        st.markdown("Too few rows are held out to tell the models apart: choose folds.")
        return
    words = f"**{named[best]}** has the best log-likelihood"
    if clear:
        words += ", beyond noise against " + ", ".join(named[m] for m in clear)
    if alike:
        words += (", but not" if clear else ", but not beyond noise") + " against "
        words += ", ".join(named[m] for m in alike)
    st.markdown(words + ".")
    with st.expander("The rule"):
        essay.write(comparison.RULE)


def _shared(cards: list, one: str, other: str) -> bool:
    folds = [{c.fold for c in cards if c.model == name} for name in (one, other)]
    return bool(folds[0] & folds[1])


def pictures(contest: Contest, models: list[str], named: dict[str, str]) -> None:
    """What each model says, side by side and on the same axes."""
    data = contest.dataset
    cards = contest.cards()
    done = [m for m in named if m in models and m in {card.model for card in cards}]
    if not done:
        return
    st.subheader("Side by side", anchor=False)
    if has_sheet(data):
        st.markdown(
            "Each model's prediction, fitted to the first split: mean, and where 90 % of new "
            "points should fall."
            if data.X.shape[1] == 1 and not data.classes
            else "Each model's prediction, fitted to the first split, with the rows."
        )
    else:
        essay.write("Held-out rows: what was predicted, against what was seen.")
    for start in range(0, len(done), 3):
        row = done[start : start + 3]
        for column, model in zip(st.columns(3, gap="medium"), row, strict=False):
            with column, st.container(gap="xsmall"):
                st.markdown(f"**{named[model]}**")
                figure = _picture(contest, model, cards)
                if figure is None:
                    st.caption("Its picture is gone with its run: train again to see it.")
                else:
                    what = "its prediction over the inputs, with the rows"
                    if not has_sheet(data):
                        what = "what it predicted of held-out rows, over what was observed"
                    stage.figure(figure, f"{named[model]}: {what}.", f"contest_{model}")


def _picture(contest: Contest, model: str, cards: list) -> dict | None:
    data = contest.dataset
    if not has_sheet(data):
        if isinstance(contest.by[0], Prepared):
            cards = [replace(card, rows=contest.by[0].rows[card.rows]) for card in cards]
        card = together(cards, model)
        return (
            None if card is None else agreement_figure(card, data.output_names[0], page_ink(), 250)
        )
    card = next(card for card in cards if card.model == model)
    if model not in contest.made or contest.made[model][0] is not card:
        predictor = _predictor(contest, model)
        if predictor is None:
            return None
        with st.spinner("Drawing …", show_time=True):
            contest.made[model] = (card, sheet(predictor, data))
    return sheet_figure(contest.made[model][1], data, model, page_ink())


def _predictor(contest: Contest, model: str):
    """A model fitted to the first split; None where it was let go."""
    train = contest.dataset.take(contest.trials[0].train_rows)
    if model == "linear":
        return forecast.linear_predictor(train)
    if model == "exact":
        return forecast.exact_predictor(train)
    run, which = contest.runs().get(model, (None, "deep"))
    if run is None or run.latest is None:
        return None
    parameters = run.latest.deep if which == "deep" else run.latest.rival
    return forecast.deep_predictor(parameters, run.scaler, contest.train.seed)


session.browser()
st.title("Compare", anchor=False)
essay.write(
    "Is depth worth it here, or do more inducing points do as well? Models of your choice learn "
    "the same rows, with the same splits and the same seed, and are judged by rows that none of "
    "them has seen."
)
with in_words("This comparison could not be shown. Choose another data set, or train again."):
    chosen = choose_data()
    if chosen is not None:
        contest, models, M = controls(*chosen)
        if contest is not None:
            named = titles(contest.by[1], training_rows(len(contest.dataset), contest.folds))
            progress(contest)
            score_table(contest, models, named)
            pictures(contest, models, named)
        else:
            st.caption("Nothing is trained yet: choose models, and press the button.")
session.keep_cookie()
dress(STYLE + PHASES_STYLE)
