"""Layers, Mixture, Prior and the two randomnesses without a browser, in their states."""

import time
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dgp_core.live.run import Run
from tests.pages.opened import PATIENCE, elements, hosts, run_of

APP = str(Path(__file__).parents[2] / "app.py")
pytestmark = pytest.mark.usefixtures("moved_by_chance")
PAGES = ("layers", "mixture", "prior", "randomness")


def open_page(name: str, **query) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=PATIENCE)
    for key, value in query.items():
        page.query_params[key] = value
    page.run()
    return page.switch_page(f"pages/explore/{name}.py").run()


def begun(page: AppTest) -> AppTest:
    """Waits for the run's first steps, and runs the page again."""
    deadline = time.monotonic() + PATIENCE
    while (latest := run_of(page).latest) is None or latest.step < 3:
        assert time.monotonic() < deadline, run_of(page).reason
        time.sleep(0.05)
    return page.run()


def clean(page: AppTest) -> bool:
    return not page.exception and not page.error


@pytest.mark.parametrize("name", PAGES)
def test_opens_while_the_model_is_being_compiled(name, monkeypatch):
    monkeypatch.setattr(Run, "prepare", lambda run: None)
    page = open_page(name, inducing="5", layers="3")
    assert clean(page) and page.title[0].value


@pytest.mark.parametrize("name", ["layers", "mixture"])
@pytest.mark.parametrize("data", ["nearly_linear", "ridge"])
def test_every_picture_that_has_room_is_painted(name, data):
    page = begun(open_page(name, inducing="5", data=data, speed="10"))
    assert clean(page)
    painted = {key for key, part in elements(page).items() if "figure" in part}
    assert hosts(page) == painted and len(painted) > 5


def test_a_layer_and_what_it_is_worth():
    page = begun(open_page("layers", inducing="5", data="nearly_linear", speed="10"))
    words = elements(page)["main/layer_words"]["text"]
    page.segmented_control(key="layer_of_2").set_value(1).run()
    assert "Layer 1 of 2" in words
    assert "Layer 2 of 2" in elements(page)["main/layer_words"]["text"]
    page.button(key="measure_without").click().run()
    assert clean(page) and page.session_state.removal[0] == page.session_state.run_id
    assert len(page.session_state.removal[1].without) == 1


def test_a_single_layer_has_none_to_remove():
    page = begun(open_page("layers", inducing="5", data="nearly_linear", layers="1"))
    assert clean(page) and any("no inner layer" in info.value for info in page.info)


def test_the_mixture_s_place_can_be_typed_and_is_in_the_link():
    page = begun(open_page("mixture", inducing="5", data="nearly_linear", speed="10"))
    before = elements(page)["main/mixture_title"]["text"]
    page.number_input[0].set_value(0.75).run()
    assert clean(page) and page.query_params["star"] == "0.75"
    after = elements(page)["main/mixture_title"]["text"]
    assert after != before and "0.75" in after


def test_real_data_have_no_fresh_rows_to_judge_by():
    page = begun(open_page("mixture", inducing="5", data="motorcycle", layers="1"))
    assert clean(page) and any("holds rows out" in info.value for info in page.info)
    assert "main/pit" not in hosts(page)


def test_a_deeper_prior_and_another_draw():
    page = open_page("prior", inducing="5")
    page.slider(key="prior_depth").set_value(10).run()
    assert clean(page) and any("10 layers" in words.value for words in page.markdown)
    page.button(key="prior_again").click().run()
    assert clean(page) and page.session_state.prior_seed == 1


def test_both_randomnesses_are_measured_and_drawn_again():
    page = begun(open_page("randomness", inducing="5", data="nearly_linear", speed="1"))
    assert clean(page)
    first = page.session_state.noise[1]
    page.button(key="noise_again").click().run()
    again = page.session_state.noise[1]
    assert clean(page) and again is not first and page.session_state.noise_seed == 1
