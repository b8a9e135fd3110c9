"""The welcome page in each of its states, without a browser."""

import json
from pathlib import Path

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

import dgp_core

APP = str(Path(__file__).parents[2] / "app.py")


@pytest.fixture
def page() -> AppTest:
    st.cache_data.clear()
    return AppTest.from_file(APP, default_timeout=300).run()


def press_fit(page: AppTest) -> AppTest:
    return page.button[0].click().run()


def means(page: AppTest) -> list:
    """The mean lines of the page's pictures."""
    figures = [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]
    return [
        trace["y"] for figure in figures for trace in figure["data"] if trace.get("name") == "mean"
    ]


def test_opens_with_the_data_and_asks_for_a_fit(page):
    assert not page.exception and not page.error
    assert page.title[0].value == "Deep GP Lab"
    assert len(page.get("plotly_chart")) == 1
    assert "press Fit" in page.info[0].value


def test_fits_two_models_that_differ(page):
    press_fit(page)
    assert not page.exception and not page.error and not page.info
    assert [h.value for h in page.subheader[:2]] == ["Deep: 2 layers", "Single layer"]
    deep, single = means(page)
    assert deep != single


def test_a_failure_is_a_sentence_and_the_page_goes_on(page, monkeypatch, caplog):
    said = []

    def fail(self, X, y):
        said.append(f"{y.max():.6f} is too high")
        raise RuntimeError(said[0])

    monkeypatch.setattr(dgp_core.DeepGPRegressor, "fit", fail)
    press_fit(page)
    assert not page.exception
    assert "could not be fitted" in page.error[0].value
    assert page.subheader[-1].value == "What is coming"
    assert "RuntimeError" in caplog.text and said[0] not in caplog.text
