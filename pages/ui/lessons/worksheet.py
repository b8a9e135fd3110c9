"""A lesson on paper: one HTML file that asks no server for anything; equations as MathML.

Pictures have places in it, `<img data-picture>`, which the browser fills: see stage/js/paper.js.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import latex2mathml.converter

from pages.ui.lessons.parts import Equation, Lesson, Part, Picture, Question, Try, Words
from pages.ui.stage.wire import encode
from pages.ui.theme import on_paper

CITATION = (
    "Hugh Salimbeni and Marc Peter Deisenroth, “Doubly stochastic variational inference for deep "
    "Gaussian processes”, NIPS 2017"
)


@dataclass(frozen=True)
class Drawn:
    """A picture as it stands on the page, with the words above it."""

    says: str
    figure: dict


Drawings = Mapping[int, Sequence[Sequence[Drawn]]]
"""Rows of pictures, by the number of their part."""

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
@page {{ size: A4; margin: 18mm; @bottom-center {{ content: counter(page);
  font: 9pt Georgia, serif; color: #666; }} }}
:root {{ color-scheme: light; background: #fff; }}
body {{ font: 11.5pt/1.5 Georgia, serif; max-width: 44rem; margin: 2rem auto; color: #111; }}
h1 {{ font-size: 20pt; }} h1, h2, h3, h4 {{ break-after: avoid; }}
h2, h3, h4 {{ margin-bottom: 0; }}
section + section {{ break-before: page; }}
section.solved + section.solved {{ break-before: auto; margin-top: 2.5rem; }}
table {{ border-collapse: collapse; font-size: 9.5pt; margin: 1rem 0; }}
th, td {{ border-bottom: 1px solid #ccc; padding: .15rem .6rem; text-align: left; }}
table, .exercise, .equation, .row {{ break-inside: avoid; }}
p:has(+ table) {{ break-after: avoid; }} footer {{ break-before: avoid; }}
.summary, .small, footer {{ color: #444; font-size: 10pt; }}
.equation {{ display: flex; align-items: center; justify-content: center; gap: 2rem; }}
mtd[columnalign] {{ padding: .2em 0; }} /* which browsers do not align by themselves */
mtd[columnalign=right] {{ text-align: right; }} mtd[columnalign=left] {{ text-align: left; }}
.name {{ display: flex; gap: 1rem; font-size: 10pt; margin: 0 0 1.5rem; }}
.name span {{ flex: 3; border-bottom: 1px solid #777; padding-top: 1.2rem; }}
.name span + span {{ flex: 1; }}
.room {{ min-height: 7rem; border: 1px solid #bbb; padding: .3rem .6rem; color: #777; }}
.choose {{ list-style: "☐  "; }}
.right {{ list-style: "☑  "; }} .wrong {{ list-style: "☐  "; }}
.row {{ display: flex; gap: .8rem; align-items: flex-end; margin: 1rem 0 .3rem; }}
figure {{ flex: 1; margin: 0; min-width: 0; }}
figcaption {{ font-size: 9.5pt; line-height: 1.3; }}
img {{ width: 100%; height: auto; }}
.contents td {{ vertical-align: top; }}
</style></head><body>
{body}
</body></html>
"""
NAME = "<p class=name><span>Name</span><span>Date</span></p>"


def sheet(lesson: Lesson, drawings: Drawings | None = None) -> str:
    """The lesson's words, equations, pictures and exercises, with room to write."""
    return _page(lesson.title, [_worksheet(lesson, drawings or {})])


def solutions(lesson: Lesson) -> str:
    """What should happen in each exercise, and the right answer to each question, with reasons."""
    return _page(f"Solutions: {lesson.title}", [_solved(lesson)], "solved")


def booklet(lessons: Sequence[Lesson], drawings: Sequence[Drawings]) -> str:
    """The sheets of all lessons, each from a page of its own on."""
    sheets = [_worksheet(lesson, of) for lesson, of in zip(lessons, drawings, strict=True)]
    title = "Deep Gaussian processes: worksheets"
    return _page(title, [_cover(title, lessons, NAME), *sheets])


def solutions_booklet(lessons: Sequence[Lesson]) -> str:
    """The solutions of all lessons."""
    title = "Deep Gaussian processes: solutions"
    solved = [_solved(lesson) for lesson in lessons]
    return _page(title, [_cover(title, lessons), *solved], "", *["solved"] * len(solved))


def figures(lessons: Sequence[Lesson], drawings: Sequence[Drawings]) -> dict[str, str]:
    """Every picture of these sheets as JSON, in the colours of paper, by its place."""
    return {
        _place(lesson, i, j, k): on_paper(encode(drawn.figure).decode())
        for lesson, of in zip(lessons, drawings, strict=True)
        for i, rows in of.items()
        for j, row in enumerate(rows)
        for k, drawn in enumerate(row)
    }


def _page(title: str, sections: Sequence[str], *kinds: str) -> str:
    body = "\n".join(
        f'<section class="{kind}">{section}</section>'
        for section, kind in zip_longest(sections, kinds, fillvalue="")
    )
    return PAGE.format(title=html.escape(title), body=body)


def _cover(title: str, lessons: Sequence[Lesson], name: str = "") -> str:
    rows = "".join(
        f"<tr><td>{lesson.number}</td><td><b>{html.escape(lesson.title)}</b><br>"
        f"{html.escape(lesson.summary)}</td><td>{lesson.minutes} minutes</td></tr>"
        for lesson in lessons
    )
    return (
        f"<h1>{html.escape(title)}</h1>{name}<table class=contents>{rows}</table>"
        f"<footer>The paper: {CITATION}.</footer>"
    )


def _worksheet(lesson: Lesson, drawings: Drawings) -> str:
    body = [f"<h1>{lesson.number} · {html.escape(lesson.title)}</h1>{NAME}"]
    body.append(f"<p class=summary>{html.escape(lesson.summary)}</p>")
    at = {id(part): i for i, part in enumerate(lesson.parts)}
    for part, exercise in _numbered(lesson):
        i = at.get(id(part), -1)
        for j, row in enumerate(drawings.get(i, ())):
            body.append(_row(row, [_place(lesson, i, j, k) for k in range(len(row))]))
        body += _printed(part, exercise, drawn=bool(drawings.get(i)))
    body.append(f"<footer>The paper: {CITATION}.</footer>")
    return "\n".join(body)


def _solved(lesson: Lesson) -> str:
    body = [f"<h1>Solutions: {lesson.number} · {html.escape(lesson.title)}</h1>"]
    for part, exercise in _numbered(lesson):
        if isinstance(part, Try):
            body.append(_solution(exercise, part.do, f"<p>{_inline(part.then)}</p>"))
        elif isinstance(part, Question):
            answers = (
                f"<li class={'right' if right else 'wrong'}><b>{_inline(_ended(text))}</b> "
                f"{_inline(why)}</li>"
                for text, right, why in part.answers
            )
            body.append(_solution(exercise, part.ask, f"<ul>{''.join(answers)}</ul>"))
    return "\n".join(body)


def _solution(number: int, task: str, solved: str) -> str:
    return (
        f"<div class=exercise><h3>Exercise {number}</h3><p class=small>{_inline(task)}</p>"
        f"{solved}</div>"
    )


def _ended(answer: str) -> str:
    """An answer before its reason: one that is no sentence ends with a colon."""
    return answer if answer[-1] in ".?!" else f"{answer}:"


def _numbered(lesson: Lesson) -> Iterator[tuple[Part, int]]:
    """The parts on paper; a thing to try and a question are the exercise of that number."""
    exercise = 0
    for part in lesson.on_paper or lesson.parts:
        exercise += isinstance(part, Try | Question)
        yield part, exercise


def _place(lesson: Lesson, i: int, j: int, k: int) -> str:
    """The name of a picture's place on paper."""
    return f"{lesson.number}-{i}-{j}-{k}"


def _row(row: Sequence[Drawn], places: Sequence[str]) -> str:
    pictures = (
        f"<figure><figcaption>{_inline(drawn.says)}</figcaption>"
        f'<img alt="{html.escape(drawn.says)}" data-picture="{place}"></figure>'
        for drawn, place in zip(row, places, strict=True)
    )
    return f"<div class=row>{''.join(pictures)}</div>"


def _printed(part: Part, exercise: int, drawn: bool) -> list[str]:
    """A part as HTML."""
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
        return [_exercise(exercise, part.do, "", "What happened?")]
    if isinstance(part, Question):
        answers = "".join(f"<li>{_inline(text)}</li>" for text, _, _ in part.answers)
        return [_exercise(exercise, part.ask, f"<ul class=choose>{answers}</ul>", "Because:")]
    table = _blocks(part.on_paper()) if isinstance(part, Picture) and part.on_paper else []
    return [*table, f"<p class=small>{'' if drawn else 'On screen: '}{_inline(part.says)}</p>"]


def _exercise(number: int, task: str, answers: str, room: str) -> str:
    """A task, and room to write."""
    return (
        f"<div class=exercise><h3>Exercise {number}</h3><p>{_inline(task)}</p>{answers}"
        f"<p class=room>{room}</p></div>"
    )


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
    text = text.replace("\\_", "_").replace(" %", "\u00a0%")
    text = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<![*\w])\*([^*]+)\*", r"<i>\1</i>", text)
