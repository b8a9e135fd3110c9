"""The pictures that a browser shows before Streamlit's own scripts have started."""

import asyncio

import orjson
import pytest
from starlette.requests import Request
from starlette.responses import Response

from datasets.starts import film
from pages.figures.boards import opening
from pages.figures.palette import DARK, LIGHT
from pages.ui.stage.early import early_route
from pages.ui.stage.library import EarlyScripts, script

HTML = (
    b'<html><head><script type="module" crossorigin src="./static/js/index.A-b_1.js"></script>'
    b"</head><body></body></html>"
)


early = early_route(opening).endpoint


def get(query: str) -> Response:
    """What a browser is answered."""
    request = Request({"type": "http", "headers": [], "query_string": query.encode()})
    return asyncio.run(early(request))


@pytest.mark.parametrize(
    ("link", "name"), [("", "step"), ("data=chirp&shade=bands", "chirp"), ("data=spiral", "spiral")]
)
def test_a_link_with_a_film_gets_two_moments_of_it(link, name):
    answer = get(f"dark=0&moment=2&{link}")
    moments = orjson.loads(answer.body)
    assert answer.status_code == 200 and len(moments) == 2
    for painted, seen in zip(moments, film(name)[2:4], strict=True):
        assert painted.keys() == {"deep", "rival"}
        assert f"step {seen.step}" in painted["deep"]["alt"]
        assert painted["deep"]["paper"] == LIGHT.paper
    assert "contour" not in {trace["type"] for trace in painted["deep"]["figure"]["data"]}


def test_by_night_it_is_dark():
    painted = orjson.loads(get("dark=1&moment=0&v=1").body)[0]["deep"]
    assert painted["paper"] == DARK.paper
    assert painted["figure"]["layout"]["font"]["color"] == DARK.text


@pytest.mark.parametrize(
    "link",
    ["data=concrete", "layers=3", "data=drawn&points=0_1~1_0~2_3", "data=step&inducing=5"],
)
def test_a_link_without_a_film_gets_nothing(link):
    assert get(f"dark=0&moment=0&{link}").status_code == 204


@pytest.mark.parametrize("moment", ["12", "99999999999", "-1", "x", "", "²"])
def test_there_is_no_moment_but_the_film_s(moment):
    assert get(f"dark=0&moment={moment}").status_code == 204


def test_a_broken_link_is_met_as_the_page_meets_it():
    answer = get("dark=0&moment=0&data=stepp&layers=two&points=<&star=nan,inf")
    assert answer.status_code == 200 and orjson.loads(answer.body)


def test_the_page_asks_for_a_picture_first_and_streamlit_starts_after_it():
    page = EarlyScripts(None).opened(HTML, "data=chirp&v=1").decode()
    first = page.index('href="early?dark=0&amp;moment=0&amp;data=chirp&amp;v=1"')
    start = f'await import("./{script("early")}").then(({{ shown }}) => shown)'
    assert first < page.index(script("early")) < page.index(start)
    assert '.catch(() => {}); import("./static/js/index.A-b_1.js");' in page
    assert '<script type="module" crossorigin src=' not in page


def test_an_address_cannot_break_out_of_the_page():
    page = EarlyScripts(None).opened(HTML, 'x="><script>alert(1)</script>').decode()
    assert "<script>alert" not in page and "&lt;script&gt;" in page


@pytest.mark.parametrize("link", ["run=abc", "hide=rival", "view=projector", "embed=true"])
def test_a_link_to_a_page_that_looks_another_way_is_left_as_it_is(link):
    assert EarlyScripts(None).opened(HTML, link) == HTML
