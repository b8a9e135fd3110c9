"""The playground's first pictures, for a page that has only just been asked for.

Streamlit's own scripts take a browser a second or more to start. Until then, early.js shows the
first moments of the film that the page will go on with; and what the page's run needs is compiled,
if it never was.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from datasets.starts import NAMES, film_of
from dgp_core.live.limits import MOST_KEPT, MOST_WAITING
from dgp_core.live.run import Run
from dgp_core.training.programs import programs
from pages.ui.choices import Choices, read_query
from pages.ui.classroom.entrance import base_path
from pages.ui.stage.wire import encode

UNSEEN = ("rate", "natural", "batch", "samples", "seed", "speed", "at")
"""Choices that change nothing in it."""

Paint = Callable[..., dict[str, dict]]
"""From a run and a moment of its film, and how it is to be looked at, to elements."""


def early_route(paint: Paint) -> Route:
    """Where a browser asks for two moments of the film that belongs to a link, if it has one."""
    kept = lru_cache(MOST_KEPT)(partial(_painted, paint))
    painting, asked = asyncio.Lock(), 0

    async def answer(request: Request) -> Response:
        nonlocal asked
        query = dict(request.query_params)
        moment, dark = query.get("moment", ""), query.get("dark") == "1"
        choices, _ = read_query(query)
        if moment == "0":
            await run_in_threadpool(_have_compiled, choices)
        content = None
        if moment.isdecimal() and choices.data in NAMES and asked < MOST_WAITING:
            asked += 1
            try:
                async with painting:
                    look = seen_at_first(choices)
                    content = await run_in_threadpool(kept, look, dark, int(moment[:3]))
            finally:
                asked -= 1
        if content is None:
            return Response(status_code=204)
        return Response(content, media_type="application/json")

    return Route(f"{base_path()}/early", answer)


def seen_at_first(choices: Choices) -> Choices:
    """The choices that a film's picture depends on, all others as they are at first; a place to
    four digits, as our own links have it."""
    star = ",".join(f"{value:.4g}" for value in choices.place)
    first = {name: getattr(Choices(), name) for name in UNSEEN}
    return replace(choices, star=star, **first)


def _have_compiled(choices: Choices) -> None:
    run = Run(choices.dataset, choices.model, choices.train)
    programs().request(run.programs)


def _painted(paint: Paint, choices: Choices, dark: bool, moment: int) -> bytes | None:
    moments = film_of(choices.dataset, choices.model)[moment : moment + 2]
    if not moments:
        return None
    run = Run(choices.dataset, choices.model, choices.train)
    look = dark, choices.shade == "bands", choices.noise == "with", choices.place
    painted = [paint(run, seen, *look) for seen in moments]
    return encode(painted)
