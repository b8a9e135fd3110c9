"""The report of a fit: one HTML file with its figures inside, without scripts or addresses."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dgp_core.evaluation import comparison, diagnostics
from dgp_core.evaluation.comparison import ScoreCard, Verdict
from dgp_core.evaluation.explain import Importance, Response
from dgp_core.tables.plain import visible
from pages.figures.palette import LIGHT
from pages.figures.scores import MODELS, score_table, together
from pages.figures.svg import escaped, svg
from pages.figures.your_data import (
    agreement_figure,
    calibration_figure,
    importance_figure,
    residual_figure,
    response_figure,
)

STYLE = """
body { font: 16px/1.55 "Source Sans", "Segoe UI", Roboto, Helvetica, Arial, sans-serif;
  color: #1B2733; background: #fff; max-width: 74rem; margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.9rem; margin: 0 0 .3rem; } h2 { font-size: 1.25rem; margin: 2.2rem 0 .5rem; }
p { max-width: 46rem; margin: .5rem 0; } .small { color: #4C5A67; font-size: .88rem; }
.verdict { font-size: 1.35rem; line-height: 1.4; font-weight: 600; border-left: 4px solid #0072B2;
  padding-left: 1rem; max-width: 52rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid #E3E8ED; }
td.number { text-align: right; } .wide { overflow-x: auto; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(27rem, 1fr));
  gap: 1.6rem; }
figure { margin: 0; } figcaption { font-size: .88rem; color: #4C5A67; max-width: 34rem; }
svg { width: 100%; height: auto; } svg text { font-family: inherit; }
pre { background: #F2F5F8; padding: .8rem 1rem; overflow-x: auto; font-size: .82rem; }
@media print { figure { break-inside: avoid; } }
"""


@dataclass(frozen=True)
class Illustration:
    """A figure with its title and caption."""

    figure: dict
    title: str
    caption: str


@dataclass(frozen=True)
class Section:
    """A heading, and what is below it: sentences, a table, figures, code."""

    title: str
    sentences: Sequence[str] = ()
    table: Sequence[Sequence[str]] = ()
    """A header, and lines."""
    figures: Sequence[Illustration] = ()
    code: str = ""


def report(title: str, verdict: str, rule: str, sections: Sequence[Section]) -> str:
    """The whole file; every text is escaped here, wherever it comes from."""
    body = [
        f"<h1>{escaped(title)}</h1>",
        f'<p class="verdict">{escaped(verdict)}</p>',
        f'<p class="small">{escaped(rule)}</p>',
    ]
    for section in sections:
        body.append(f"<h2>{escaped(section.title)}</h2>")
        body += [f"<p>{escaped(sentence)}</p>" for sentence in section.sentences]
        if section.table:
            body.append(_table(section.table))
        if section.figures:
            shown = "".join(
                f"<figure>{svg(p.figure, p.title)}<figcaption><strong>{escaped(p.title)}.</strong> "
                f"{escaped(p.caption)}</figcaption></figure>"
                for p in section.figures
            )
            body.append(f'<div class="pictures">{shown}</div>')
        if section.code:
            body.append(f"<pre>{escaped(section.code)}</pre>")
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
        "style-src 'unsafe-inline'\">"
        f"<title>{escaped(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(body)}</body></html>"
    )


def fit_report(
    name: str,
    about: Sequence[str],
    cards: Sequence[ScoreCard],
    verdict: Verdict,
    y_name: str,
    importance: Sequence[Importance] = (),
    responses: Sequence[Response] = (),
    script: str = "",
    explained: str = "",
) -> str:
    """A fit from its data to its verdict: scores, diagnostics of the model that it recommends,
    explanations (of the model `explained`), and the script."""
    scored = comparison.table(cards)
    models = [model for model in MODELS if model in scored]
    best = verdict.model if verdict.model in models else models[0]
    card = together(cards, best)
    sections = [
        Section("The data and the models", about),
        Section(
            "Scores on rows that no model had seen",
            ["± is a standard error. Arrows say which way is better."],
            score_table(scored, MODELS),
        ),
    ]
    if card is not None:
        sections.append(
            Section(f"Diagnostics ({MODELS[best]})", figures=_diagnostics(card, y_name))
        )
        worst = diagnostics.worst_rows(card, 10)
        sections.append(
            Section(
                "The held-out rows with the lowest log-likelihood",
                ["Look here for data-entry errors, or causes that no column records."],
                [
                    ["row of the file", "log-likelihood, nats", "observed and predicted"],
                    *(
                        [
                            f"{one.row + 1:,}",
                            f"{one.log_likelihood:.2f}".replace("-", "−"),
                            one.surprise,
                        ]
                        for one in worst
                    ),
                ],
            )
        )
    if importance:
        shown = [
            Illustration(
                importance_figure(importance, LIGHT),
                "Permutation importance",
                "The log-likelihood that held-out rows lose when an input is permuted among them.",
            )
        ]
        classes = card.classes if card is not None else ()
        shown += [
            Illustration(
                response_figure(one, y_name, classes, LIGHT),
                f"Response to {visible(one.name, 40)}",
                "The mean prediction as this input goes over its range, the others as they are.",
            )
            for one in responses
        ]
        title = "What the model has learnt" + (f" ({explained})" if explained else "")
        sections.append(Section(title, figures=shown))
    if script:
        sections.append(Section("The same fit in Python", code=script))
    return report(f"Deep GP Lab: {visible(name, 80)}", verdict.text, comparison.RULE, sections)


def _diagnostics(card: ScoreCard, y_name: str) -> list[Illustration]:
    if card.forecast.probabilities is not None:
        return [
            Illustration(
                calibration_figure(card, LIGHT),
                "Calibration",
                "How often a predicted probability came true. On the diagonal, it is calibrated.",
            ),
            Illustration(
                agreement_figure(card, y_name, LIGHT),
                "Confusion matrix",
                "Held-out rows of each class, by the most probable class.",
            ),
        ]
    return [
        Illustration(
            calibration_figure(card, LIGHT),
            "Calibration",
            "Quantiles of the observed values in their predicted distributions (PIT). Flat: "
            "calibrated; U-shaped: overconfident; hump-shaped: underconfident.",
        ),
        Illustration(
            agreement_figure(card, y_name, LIGHT),
            "Predicted against observed",
            "Each dot is a held-out row with its 90 % interval.",
        ),
        Illustration(
            residual_figure(card, y_name, LIGHT),
            "Residuals",
            "In units of each row's predicted standard deviation; they should show no pattern.",
        ),
    ]


def _table(table: Sequence[Sequence[str]]) -> str:
    def cell(text: str, tag: str) -> str:
        number = bool(re.match(r"[−–\d]", str(text)))
        return f"<{tag}{' class=number' if number else ''}>{escaped(text)}</{tag}>"

    lines = ["".join(cell(text, "th") for text in table[0])]
    lines += ["".join(cell(text, "td") for text in row) for row in table[1:]]
    return f'<div class="wide"><table>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'
