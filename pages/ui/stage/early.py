"""The playground's first pictures, for a page that has only just been asked for.

Streamlit's own scripts take a browser a second or more to start. Until then, early.js shows the
first moments of the film that the page will go on with.
"""

from collections.abc import Callable
from functools import lru_cache, partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from datasets.starts import NAMES, film_of
from dgp_core.live.run import Run
from pages.ui.choices import Choices, read_query
from pages.ui.stage.wire import encode

MOST_KEPT = 64
"""Moments, in all their looks."""

Paint = Callable[..., dict[str, dict]]
"""From a run and a moment of its film, and how it is to be looked at, to elements."""


def early_route(paint: Paint) -> Route:
    """Where a browser asks for two moments of the film that belongs to a link, if it has one."""
    kept = lru_cache(MOST_KEPT)(partial(_painted, paint))

    async def answer(request: Request) -> Response:
        query = dict(request.query_params)
        moment, dark = query.get("moment", ""), query.get("dark") == "1"
        choices, _ = read_query(query)
        content = None
        if moment.isdecimal() and choices.data in NAMES:
            content = await run_in_threadpool(kept, choices, dark, int(moment[:3]))
        if content is None:
            return Response(status_code=204)
        return Response(content, media_type="application/json")

    return Route("/early", answer)


def _painted(paint: Paint, choices: Choices, dark: bool, moment: int) -> bytes | None:
    moments = film_of(choices.dataset, choices.model)[moment : moment + 2]
    if not moments:
        return None
    run = Run(choices.dataset, choices.model, choices.train)
    look = dark, choices.shade == "bands", choices.noise == "with", choices.place
    painted = [paint(run, seen, *look) for seen in moments]
    return encode(painted)
