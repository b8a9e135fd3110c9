"""Words of a link, a file or a model are shown as they are spelt: none becomes markup."""

import re
from dataclasses import fields
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from dgp_core.live.run import Run
from pages.ui import sentences
from pages.ui.choices import Choices
from pages.ui.stage import server

PAGES = Path(__file__).parents[2] / "pages"
HOSTILE = "[Sign in](https://evil.test/) ![](https://evil.test/p.png) <b>x</b> :smile: $x$ `y`"
MARKUP = re.compile(r"!\[|<b>x|https://evil|:smile:|\$x\$|`y`")
LINK = (*(field.name for field in fields(Choices)), "v", "run", "hide", "lock", "view", "follow")
OWN = ("layer", "enters", "leaves", "measure", "depth", "swing", "draw", "redraw", "S", "B", "set",
       "kind", "fit.data", "fit.rate", "gp_points", "gp_kernel")  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def uncompiled():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "prepare", lambda run: None)
        yield
    server.stop()


def texts(page: AppTest) -> list[str]:
    """Everything that a page hands to Streamlit as Markdown."""
    blocks = [*page.info, *page.error, *page.warning, *page.success, *page.markdown, *page.caption]
    widgets = [*page.selectbox, *page.slider, *page.checkbox, *page.radio, *page.button]
    return [block.value for block in blocks] + [f"{w.label} {w.help}" for w in widgets]


@pytest.mark.parametrize(
    "name", ["explore/playground", "explore/prior", "explore/collection", "learn/what_is_a_gp"]
)
def test_no_parameter_of_a_link_becomes_markup(name):
    page = AppTest.from_file(str(PAGES.parent / "app.py"), default_timeout=120)
    page.switch_page(f"pages/{name}.py")
    for parameter in (*LINK, *OWN):
        page.query_params[parameter] = HOSTILE
    page.run()
    assert not page.exception
    assert [text for text in texts(page) if MARKUP.search(text)] == []
    if name == "explore/playground":  # it was said, in letters
        assert any("Sign in" in info.value for info in page.info)


@pytest.mark.parametrize("show", ["notice", "complaint"])
def test_every_sentence_is_escaped_where_it_is_shown(show, monkeypatch):
    said = []
    for kind in ("info", "error"):
        monkeypatch.setattr(sentences.st, kind, lambda text, **_: said.append(text))
    getattr(sentences, show)(f"The link says {HOSTILE}.")
    assert "Sign in" in said[0] and not MARKUP.search(said[0])


def test_sentences_with_words_from_outside_have_one_way_to_the_page():
    """An f-string, or an error's own words, in a box are escaped, or hold only our own."""
    boxes = re.compile(r"st\.(?:info|error|warning|success)\(\s*(str\(\w+\)|\w+),", re.DOTALL)
    loose = [
        f"{path.name}: {found}"
        for path in PAGES.rglob("*.py")
        if path.name != "sentences.py"
        for found in boxes.findall(path.read_text(encoding="utf-8"))
    ]
    assert loose == []
