"""Your data: from a table to a model, its verdict, and its predictions, in five steps."""

import streamlit as st

from pages.ui import session
from pages.ui.bar import dress
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.your_data import bring, columns, fit, judge, progress, reading, understand, use
from pages.ui.your_data.upload_state import upload_state

STYLE = """<style>
[data-testid=stMainBlockContainer] { max-width: 76rem; padding: 4.2rem 2rem 3rem; }
[data-testid=stMainBlockContainer] p, [data-testid=stMainBlockContainer] li { max-width: 46rem; }
.st-key-verdict p { font-size: 1.4rem; line-height: 1.4; font-weight: 600; max-width: 54rem; }
.st-key-verdict { border-left: 4px solid #0072B2; padding-left: 1rem; }
.st-key-scores { overflow-x: auto; font-variant-numeric: tabular-nums; }
.st-key-scores td, .st-key-scores th { white-space: nowrap; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
@media (max-width: 640px) {
  [data-testid=stMainBlockContainer] { padding: 4.4rem 1rem 3rem; }
  .st-key-verdict p { font-size: 1.15rem; }
}
</style>"""

essay = Linker()
session.browser()
st.title("Your data", anchor=False)
st.markdown(
    "From your table to a model that you can trust and download, in five steps. No knowledge of "
    "Gaussian processes is needed: each step says what it does, proposes good settings, and lets "
    "you change them."
)
with in_words("This page could not be shown. Reload it, or bring other data."):
    state = upload_state()
    fitted = state.fitted
    live = fit.play(fitted)
    # A container per step: when one grows, the elements of the next ones, and a file that is just
    # being uploaded there, keep their places.
    with st.container():
        bring.show()
        reading.show()
    if state.loaded is not None:
        with (
            st.container(),
            in_words("These columns could not be shown. Bring the file again, or another one."),
        ):
            prepared = columns.show()
            if prepared is not None:
                fit.show_plan(prepared)
    if fitted is not None:
        with in_words("This fit could not be shown. Fit again, or with fewer inducing points."):
            with st.container():
                fit.show_progress(fitted)
                if live:
                    fit.show_live(fitted)
                judge.show(fitted, essay)
            with st.container():
                understand.show(fitted, live, essay)
    if fitted is not None or state.opened is not None:
        with (
            st.container(),
            in_words("This model could not be used. Fit it again, or open its file again."),
        ):
            use.show(fitted)
session.page_made()
dress(STYLE + progress.STYLE)
