"""A lesson on paper: one HTML file that asks no server for anything; equations as MathML."""

import html
import re

import latex2mathml.converter

from pages.ui.lessons.parts import Equation, Lesson, Part, Picture, Question, Try, Words

CITATION = (
    "Hugh Salimbeni and Marc Peter Deisenroth, “Doubly stochastic variational inference for deep "
    "Gaussian processes”, NIPS 2017"
)


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
@page {{ size: A4; margin: 18mm; }}
body {{ font: 11.5pt/1.5 Georgia, serif; max-width: 44rem; margin: 2rem auto; color: #111; }}
h1 {{ font-size: 20pt; }} h2, h3, h4 {{ break-after: avoid; margin-bottom: 0; }}
table {{ border-collapse: collapse; font-size: 9.5pt; margin: 1rem 0; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .15rem .6rem; text-align: left; }}
tr, .room, .equation {{ break-inside: avoid; }}
.summary, .small, footer {{ color: #444; font-size: 10pt; }}
.equation {{ display: flex; align-items: center; justify-content: center; gap: 2rem; }}
.room {{ min-height: 7rem; border: 1px solid #bbb; padding: .3rem .6rem; color: #777; }}
.choose {{ list-style: "☐  "; }}
</style></head><body>
{body}
</body></html>
"""


def sheet(lesson: Lesson) -> str:
    """The lesson's words, equations and exercises, with room to write."""
    body = [f"<h1>{lesson.number} · {html.escape(lesson.title)}</h1>"]
    body.append(f"<p class=summary>{html.escape(lesson.summary)}</p>")
    exercise = 0
    for part in lesson.on_paper or lesson.parts:
        exercise += isinstance(part, Try | Question)
        body += _printed(part, exercise)
    body.append(f"<footer>The paper: {CITATION}.</footer>")
    return PAGE.format(title=html.escape(lesson.title), body="\n".join(body))


def _printed(part: Part, exercise: int) -> list[str]:
    """A part as HTML; a thing to try and a question are the exercise of that number."""
    if isinstance(part, Words):
        return _blocks(part.text)
    if isinstance(part, Equation):
        tag = f"<span class=number>({html.escape(part.number)})</span>" if part.number else ""
        math = latex2mathml.converter.convert(part.tex, display="block")
        return [
            f"<div class=equation>{math}{tag}</div>",
            f"<p class=small>{_inline(part.says)}</p>",
        ]
    if isinstance(part, Try):
        head = f"<h3>Exercise {exercise}</h3>"
        return [head, f"<p>{_inline(part.do)}</p>", "<p class=room>What happened?</p>"]
    if isinstance(part, Question):
        answers = "".join(f"<li>{_inline(text)}</li>" for text, _, _ in part.answers)
        head = f"<h3>Exercise {exercise}</h3><p>{_inline(part.ask)}</p>"
        return [head, f"<ul class=choose>{answers}</ul>", "<p class=room>Because:</p>"]
    table = _blocks(part.on_paper()) if isinstance(part, Picture) and part.on_paper else []
    return [*table, f"<p class=small>On screen: {_inline(part.says)}</p>"]


def _blocks(text: str) -> list[str]:
    """Paragraphs, headings, lists and tables: the Markdown that lessons use."""
    return [_block(block) for block in text.split("\n\n")]


def _block(text: str) -> str:
    lines = text.split("\n")
    if heading := re.match(r"(#{2,4}) ", text):
        n = len(heading[1])
        return f"<h{n}>{_inline(text[n + 1 :])}</h{n}>"
    if all(re.match(r"\d+\. ", line) for line in lines):
        items = "".join(f"<li>{_inline(line.split('. ', 1)[1])}</li>" for line in lines)
        return f"<ol>{items}</ol>"
    if all(line.startswith("|") for line in lines):
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines]
        return _table(rows[0], rows[2:])
    return f"<p>{_inline(text)}</p>"


def _table(names: list[str], rows: list[list[str]]) -> str:
    head = "".join(f"<th>{_inline(name)}</th>" for name in names)
    body = ("".join(f"<td>{_inline(cell)}</td>" for cell in row) for row in rows)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>"


def _inline(text: str) -> str:
    """The little Markdown that lessons use, as HTML: bold, emphasis, links' words, $equations$."""
    pieces = text.split("$")
    out = []
    for i, piece in enumerate(pieces):
        if i % 2:
            out.append(latex2mathml.converter.convert(piece))
            continue
        out.append(_marks(html.escape(piece)))
    return "".join(out)


def _marks(text: str) -> str:
    text = text.replace("\\_", "_")
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<![*\w])\*([^*]+)\*", r"<i>\1</i>", text)
