"""Step 3 of "Your data": the verdict, the scores, and diagnostics on held-out rows."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import streamlit as st

from dgp_core.evaluation import comparison, conformal, diagnostics
from dgp_core.evaluation.conformal import Widening
from dgp_core.gp.data import counted
from dgp_core.gp.likelihoods import OF_TASK
from dgp_core.tables.plain import visible
from pages.figures.scores import MODELS, best_model, markdown, score_table, together
from pages.figures.your_data import agreement_figure, calibration_figure, residual_figure
from pages.ui.glossary_links import Linker
from pages.ui.sentences import safe
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink
from pages.ui.your_data.fit import LIKELIHOOD_NAMES, STEPS, refit
from pages.ui.your_data.upload_state import Fitted, persistent_key, row_table, upload_state

WORST_ROWS = 10


def verdict(fitted: Fitted) -> comparison.Verdict | None:
    """Which model is better on held-out rows; None before both were scored."""
    cards = fitted.scored()
    scored = {"deep", "single"} & {card.model for card in cards}
    return comparison.verdict(cards) if scored else None


def choose_model(fitted: Fitted, name: str, label: str, more: tuple[str, ...] = ()) -> str:
    """Which model to use; at first the one that the verdict names."""
    found, scored = verdict(fitted), {card.model for card in fitted.scored()}
    options = ["deep", *(["single"] if fitted.plan.model.layers > 1 else [])]
    options += [model for model in more if model in scored]
    if len(options) == 1 or found is None:
        return "deep"
    return _choose(label, name, _first(found, options), options)


def _first(found: comparison.Verdict, options: list[str]) -> str:
    """The recommended model, or of the two GPs the better one."""
    if found.model in options:
        return found.model
    deeper = found.comparisons and found.comparisons[0].word == "better"
    return "deep" if deeper or "single" not in options else "single"


def widening(fitted: Fitted, model: str) -> Widening | None:
    """By how much a model's intervals are to be widened; None where nobody wants it, or its
    held-out rows are too few to tell."""
    if not upload_state().controls.get("widen"):
        return None
    return possible_widening(fitted, model)


def possible_widening(fitted: Fitted, model: str) -> Widening | None:
    own = [card for card in fitted.scored() if card.model == model]
    return conformal.widening(own, fitted.trial.by, fitted.plan.train.seed)


def _choose(label: str, name: str, first: str, options: list[str]) -> str:
    chosen = st.segmented_control(
        label,
        options,
        format_func=MODELS.__getitem__,
        key=persistent_key(name, first, options),
        required=True,
    )
    return chosen or first


def show(fitted: Fitted, essay: Linker) -> None:
    """The verdict, its scores, and how one model did on rows that it had not seen."""
    st.header("3 · Judge", anchor="judge")
    cards, found = fitted.scored(), verdict(fitted)
    if found is None:
        st.markdown("Nothing is scored yet: the verdict comes at the end of the main fit.")
        return
    with st.container(key="verdict"):
        st.markdown(("" if fitted.over else "So far: ") + safe(found.sentence))
    st.markdown(safe(" ".join(filter(None, (found.calibration, found.scope)))))
    offer_refit(fitted, found)
    offer_widening(fitted, found)
    st.caption(essay.linked(comparison.RULE))
    with st.container(key="scores"):
        scored = comparison.table(cards)
        st.markdown(markdown(score_table(scored, MODELS), MODELS[best_model(scored)]))
    if unit := log_unit(fitted):
        st.caption(unit)
    _explain_scores(fitted)
    models = [model for model in MODELS if model in {card.model for card in cards}]
    best = found.model if found.model in models else models[0]
    card = together(in_file(fitted, cards), _choose("Look closer at", "judged", best, models))
    assert card is not None
    _diagnostics(fitted, card)


def offer_refit(fitted: Fitted, found: comparison.Verdict) -> None:
    """Where the recommended GP is overconfident: another likelihood, or more steps."""
    plan, gp = fitted.plan, found.model in ("deep", "single")
    if found.honest or not gp or not fitted.over or upload_state().prepared is not fitted.prepared:
        return
    now, steps = plan.model.likelihood, plan.train.steps
    other = {"gaussian": "student_t", "robust_max": "softmax", "poisson": "negative_binomial"}
    likelihood = other.get(now, now)
    if likelihood not in OF_TASK[fitted.prepared.dataset.task]:
        likelihood = now
    more = next((n for n in STEPS if n > steps), steps)
    offered = [
        ("likelihood", LIKELIHOOD_NAMES.get(likelihood), likelihood, steps),
        ("steps", f"{more:,} steps", now, more),
    ]
    with st.container(horizontal=True, key="remedies"):
        for what, title, likelihood, n in offered:
            if (likelihood, n) == (now, steps):
                continue
            st.button(
                f"Fit again with {title}",
                key=f"refit_{what}",
                on_click=refit,
                args=(fitted, likelihood, n),
                icon=":material/replay:",
            )


def offer_widening(fitted: Fitted, found: comparison.Verdict) -> None:
    """Where the recommended model is overconfident: conformal widening, and what it is worth."""
    possible = None if found.honest else possible_widening(fitted, found.model)
    wanted = bool(upload_state().controls.get("widen"))
    if possible is None and not wanted:
        return
    st.toggle(
        "Widen its intervals by held-out rows (conformal)",
        key=persistent_key("widen", False),
        help="Half of the held-out rows say how far the intervals must be stretched to hold 90 %; "
        "the other half check it. It changes intervals, not means, wherever this model is used "
        "below: one row, files, the model file and the report.",
    )
    if (now := widening(fitted, found.model)) is not None:
        st.caption(f"Widened. {now.sentence}")
    elif upload_state().controls.get("widen"):
        st.caption("Too few rows are held out to widen this model's intervals.")


def in_file(fitted: Fitted, cards: Sequence[comparison.ScoreCard]) -> list[comparison.ScoreCard]:
    """Cards with the file's own row numbers."""
    return [replace(card, rows=fitted.prepared.rows[card.rows]) for card in cards]


def judged_by(fitted: Fitted) -> str:
    """Which rows were held out, in a sentence."""
    by = fitted.trial.by
    return {
        "chance": "Rows were held out by chance.",
        "latest": f"The latest rows by {visible(by.column)} were held out: models are judged on "
        "rows later than any they were trained on.",
        "groups": f"Whole groups of {visible(by.column)} were held out: models are judged on "
        "groups that they were not trained on.",
    }[by.way]


def log_unit(fitted: Fitted) -> str:
    """The unit of the scores where the target was log-transformed."""
    recipe = fitted.prepared.recipe
    if "log" not in recipe.transforms:
        return ""
    y = safe(recipe.targets[0].column)
    return (
        f"Log-likelihood, RMSE and CRPS are of the natural logarithm of {y}, which is what the "
        f"models learn: an RMSE of 0.1 is a typical error of about 10 % of {y}."
    )


def _explain_scores(fitted: Fitted) -> None:
    data = fitted.prepared.dataset
    line = {"regression": "Bayesian linear regression", "counts": "Poisson regression"}.get(
        data.task, "logistic regression"
    )
    with st.expander("What the scores mean"):
        if data.classes:
            st.markdown(
                "**Log-likelihood:** the logarithm of the probability given to the observed class; "
                "0 is perfect. **Accuracy:** how often the most probable class was right. "
                "**AUC:** how well rows of one class are ranked before others; ½ is chance. "
                "**Brier:** the squared error of the probabilities; 0 is perfect. "
                f"The straight line is {line}. ± is a standard error."
            )
        else:
            st.markdown(
                "**Log-likelihood:** the logarithm of the density at the observed value; higher "
                "is better, and being sure and wrong costs most. **RMSE:** the typical error of "
                f"the mean, in {safe(data.output_names[0])}'s unit. **CRPS:** the same idea for "
                "the whole distribution. **Inside 90 %:** how often the 90 % interval held the "
                "observed value; it should be near 90 %. "
                f"The straight line is {line}. ± is a standard error."
            )


def _diagnostics(fitted: Fitted, card: comparison.ScoreCard) -> None:
    y, ink, model = fitted.prepared.dataset.output_names[0], page_ink(), MODELS[card.model]
    if card.forecast.probabilities is not None:
        left, right = st.columns(2, gap="medium")
        with left:
            st.markdown("**Calibration.** On the diagonal, predicted probabilities come true.")
            alt = (
                f"{model}: the share of held-out rows of a class, over its predicted probability; "
                "on the diagonal it is calibrated."
            )
            stage.figure(calibration_figure(card, ink), alt, "your_calibration")
        with right:
            st.markdown("**Confusion matrix.** Rows of each class, by the most probable class.")
            alt = f"{model}: held-out rows of each class, by the most probable class."
            stage.figure(agreement_figure(card, y, ink), alt, "your_agreement")
    else:
        left, middle, right = st.columns(3, gap="medium")
        with left:
            st.markdown("**Calibration.** All bars should be level.")
            alt = (
                f"{model}: shares of held-out rows by the quantile of the observed value, ten "
                "bars; level bars are calibrated."
            )
            stage.figure(calibration_figure(card, ink), alt, "your_calibration")
            st.caption("U-shaped: overconfident; hump-shaped: underconfident.")
        with middle:
            st.markdown("**Predicted against observed**, with 90 % bars.")
            alt = f"{model}: predicted {visible(y)} over observed, held-out rows with 90 % bars."
            stage.figure(agreement_figure(card, y, ink), alt, "your_agreement")
        with right:
            st.markdown("**Residuals** should show no pattern.")
            alt = (
                f"{model}: residuals of held-out rows, in predicted standard deviations, over "
                "predictions."
            )
            stage.figure(residual_figure(card, y, ink), alt, "your_residuals")
    worst = diagnostics.worst_rows(card, WORST_ROWS)
    st.markdown(
        f"**The {counted(len(worst), 'held-out row')} with the lowest log-likelihood.** Look here "
        "for data-entry errors, or causes that no column records."
    )
    rows = np.array([one.row for one in worst])
    st.dataframe(
        {
            "row": (rows + 1).tolist(),
            "nats": [round(one.log_likelihood, 2) for one in worst],
            "observed and predicted": [one.surprise for one in worst],
            **{f"{n} ": v for n, v in row_table(fitted.loaded.read, rows).items()},
        },
        hide_index=True,
        alt="The held-out rows with the lowest log-likelihood.",
    )
