"""The collection's page opens for every set, and gives its story and credit."""

import html
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from datasets import catalogue
from pages.figures.collection import rows_figure
from pages.figures.palette import LIGHT

APP = str(Path(__file__).parents[2] / "app.py")


def opened(kind: str) -> AppTest:
    page = AppTest.from_file(APP, default_timeout=60).run()
    page.switch_page("pages/explore/collection.py").run()
    page.get("button_group")[0].set_value(kind)
    return page.run()


@pytest.mark.parametrize("kind", ["toy", "shipped", "fetched"])
def test_every_set_has_its_story_and_credit_on_the_page(kind):
    page = opened(kind)
    names = catalogue.names(kind)
    assert len(page.selectbox[0].options) == len(names)
    for i, name in enumerate(names):
        page.selectbox[0].select_index(i).run()
        entry, text = catalogue.entry(name), " ".join(block.value for block in page.markdown)
        assert not page.exception and not page.error
        assert "Source:" in page.caption[-1].value and "Licence:" in page.caption[-1].value
        assert entry.story.split()[0] in html.unescape(text)


def test_boston_carries_its_warning():
    page = opened("shipped")
    page.selectbox[0].select_index(catalogue.names("shipped").index("boston")).run()
    assert "racial" in page.warning[0].value


@pytest.mark.parametrize(
    "name", ["step", "ridge", "spiral", "arm", "rectangles", "digits", "wine_red"]
)
def test_a_picture_for_every_shape_of_data(name):
    dataset, entry = catalogue.load(name), catalogue.entry(name)
    figure = rows_figure(dataset, entry.image, LIGHT)
    assert len(figure.data) == max(1, len(dataset.classes) if dataset.X.shape[1] == 2 else 1)
    if entry.image is None:
        assert figure.layout.xaxis.title.text and figure.layout.yaxis.title.text


def test_names_from_files_are_text_in_a_picture():
    dataset = catalogue.load("step")
    hostile = type(dataset)("x", dataset.X, dataset.Y, ("<b>x</b>",), ("<a href='x'>y</a>",))
    figure = rows_figure(hostile, None, LIGHT)
    assert "<b>" not in figure.layout.xaxis.title.text
    assert "<a" not in figure.layout.yaxis.title.text
