"""Every data set of the lab: what it teaches, what it looks like, and whom to thank."""

import streamlit as st

from datasets import catalogue
from dgp_core.gp.data import counted
from dgp_core.tables.plain import plain
from pages.figures.collection import rows_figure
from pages.ui import session
from pages.ui.bar import dress
from pages.ui.choices import DATA, Choices
from pages.ui.glossary_links import Linker
from pages.ui.sentences import in_words
from pages.ui.stage import hosts as stage
from pages.ui.theme import page_ink

essay = Linker()

KINDS = {"toy": "Toys, drawn on the spot", "shipped": "Real, shipped", "fetched": "Real, to fetch"}
TASKS = {
    "regression": "regression",
    "binary": "two classes",
    "multiclass": "several classes",
    "counts": "counts",
}
STYLE = "<style>[data-testid=stMainBlockContainer] { padding-top: 4.4rem; }</style>"

st.title("Data", anchor=False)
st.markdown(
    "Each set is here because it shows one thing. Choose one, read what to look for, and see its "
    "rows."
)

session.arrive_alone("set", "kind")
first = catalogue.entry(session.linked("set", catalogue.names(), "step"))
kind = st.segmented_control(
    "Kind",
    list(KINDS),
    default=session.linked("kind", list(KINDS), first.kind),
    required=True,
    format_func=KINDS.__getitem__,
    key="own_kind",
)
names = catalogue.names(kind)
titles = {name: catalogue.entry(name).title for name in names}
chosen = st.selectbox(
    "Data set",
    names,
    index=names.index(session.linked("set", names, names[0])),
    format_func=titles.__getitem__,
    key="own_set",
)
session.link(kind=kind, set=chosen)
session.say()
entry = catalogue.entry(chosen)

rows = "a few" if entry.N is None else f"{entry.N:,}"
essay.write(
    f"**{rows} rows · {counted(entry.D, 'input')} · {TASKS[entry.task]}.** "
    f"{plain(entry.story, 1000)}"
)
if entry.name in DATA:
    st.page_link(
        "pages/explore/playground.py",
        label="Open in the playground",
        icon=":material/science:",
        query_params=Choices(data=entry.name).query(),
    )
if entry.warning:
    st.warning(plain(entry.warning, 1000), icon=":material/warning:")

if entry.kind == "fetched":
    st.info(
        "This set is not part of the app. Where there is a network, "
        f'`datasets.catalogue.load("{entry.name}")` fetches it once and keeps it.',
        icon=":material/download:",
    )
elif entry.name == "drawn":
    st.info("These points are yours: nothing is drawn until you put some down.")
else:
    with in_words("This set could not be shown. Choose another one."):
        ink = page_ink()
        figure = rows_figure(catalogue.load(entry.name), entry.image, ink).to_plotly_json()
        stage.figure(figure, f"The rows of the data set {entry.title}.", "collection_rows")

if entry.kind == "toy":
    st.caption("Source: drawn by this app, from a seed. Licence: yours to use as you like.")
else:
    st.caption(f"Source: {plain(entry.source, 1000)}. Licence: {plain(entry.licence, 1000)}.")
dress(STYLE)
