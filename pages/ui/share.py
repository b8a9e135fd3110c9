"""What leaves the app: a link and its QR code, the model as a file, and the run as a script."""

import base64
import io
from dataclasses import replace
from urllib.parse import parse_qsl, urlencode

import segno
import streamlit as st

from dgp_core import archive
from dgp_core.live.run import Run
from dgp_core.script import Named, script
from pages.ui import session
from pages.ui.choices import HIDEABLE, SPLIT, VERSION, Choices, DisplayOptions, read_query

MOST_MODEL_MB = 64
SAFE = ",~"
"""Marks in our links that need no code of their own."""
LONGEST_CODE = 1000
"""Bytes of a link that a camera still reads well."""


def link() -> str:
    """The address of what is on the page, as another browser needs it."""
    query = urlencode(dict(st.query_params), safe=SAFE)
    return f"{str(st.context.url).partition('?')[0]}?{query}"


def without_run(address: str) -> str:
    """The same settings, for somebody who starts a run of their own."""
    page, _, query = address.partition("?")
    parts = [(name, value) for name, value in parse_qsl(query) if name != "run"]
    return f"{page}?{urlencode(parts or [('v', VERSION)], safe=SAFE)}"


def for_a_camera(address: str) -> str:
    """The link as a QR code holds it: where it is long, only the run's name."""
    if len(address.encode()) <= LONGEST_CODE:
        return address
    page, _, query = address.partition("?")
    return f"{page}?{urlencode({'v': VERSION, 'run': dict(parse_qsl(query)).get('run', '')})}"


def qr_code(address: str) -> str:
    """A QR code as an SVG picture: dark on light in any theme, with a reader's margin."""
    code = segno.make(for_a_camera(address), error="l", micro=False)
    picture = io.BytesIO()
    code.save(picture, kind="svg", scale=4, border=4, dark="#000", light="#fff", xmldecl=False)
    return picture.getvalue().decode()


def model_file(run: Run) -> bytes:
    """The deep model, to go on with here or with `python -m dgp_core resume`."""
    content = io.BytesIO()
    settings = {"playground": session.started_with(run).query(), "altered": run.altered}
    archive.save(content, run.archive(settings=settings))
    return content.getvalue()


def run_script(run: Run) -> str:
    """Python that trains the same model to the same step, bit for bit."""
    choices = session.started_with(run)
    options = {"points": choices.drawn_points} if choices.data == "drawn" else {}
    steps = run.latest.step if run.latest is not None else 0
    train = replace(run.train, tolerance=0.0)  # it goes as far as the run has gone
    fraction, number = SPLIT if choices.holds_out else (None, None)
    return script(
        Named(choices.data, options),
        run.model,
        train,
        fraction=fraction,
        split_seed=number,
        steps=steps,
    )


def open_model(content: bytes) -> tuple[Choices, archive.Archive]:
    """A saved model and the choices that it was made with; a sentence where it has none."""
    saved = archive.load(io.BytesIO(content))
    query = (saved.settings or {}).get("playground")
    if not isinstance(query, dict) or query.get("v") != VERSION:
        raise archive.ArchiveError(
            "This model was not saved by the playground: open it on the page Your data."
        )
    choices, _ = read_query({str(name): str(value) for name, value in query.items()})
    if choices.model != saved.model:
        raise archive.ArchiveError("The file's model and its settings do not agree: it is damaged.")
    return choices, saved


HIDE_WORDS = {
    "controls": "settings",
    "bar": "play and reset",
    "rival": "the rival",
    "bound": "the bound",
    "layers": "the layers",
    "mixture": "the mixture",
    "history": "the history slider",
    "words": "the words below",
}


def class_link(address: str) -> None:
    """A link for a class: settings locked, parts left out, or large type for a wall."""
    with st.expander("For a class"):
        lock = st.checkbox("Lock the settings", key="class_lock")
        projector = st.checkbox("Large type, for a projector", key="class_projector")
        hide = st.multiselect(
            "Leave out", HIDEABLE, format_func=lambda name: HIDE_WORDS[name], key="class_hide"
        )
        query = DisplayOptions(lock, tuple(hide), projector).query()
        st.code(
            "&".join([address, urlencode(query, safe=SAFE)] if query else [address]),
            language=None,
            wrap_lines=True,
        )
        st.caption("Add &embed=true to put it into a course page.")


def panel(run: Run, mine: bool) -> None:
    """Link, QR code and downloads, in a box that opens at a click."""
    box = st.popover(
        "Share",
        icon=":material/share:",
        help="Links, downloads, and saved models.",
        key="share",
        on_change="rerun",  # what it holds is of the moment at which it opens
    )
    with box:
        address = link()
        st.markdown("**Watch this run with me.** Whoever opens the link sees what you see.")
        st.code(address, language=None, wrap_lines=True)
        st.markdown("**The same settings**, as a run of their own:")
        st.code(without_run(address), language=None, wrap_lines=True)
        if run.latest is not None and run.latest.step:
            step = run.latest.step
            st.markdown(f"**This very moment:** a run that trains to step {step:,} and pauses.")
            st.code(f"{without_run(address)}&at={step}", language=None, wrap_lines=True)
        class_link(without_run(address))
        if box.open:  # it takes longer than all the rest of the page
            picture = base64.b64encode(qr_code(address).encode()).decode()
            words = "QR code of the first link"
            st.html(f'<img alt="{words}" width="180" src="data:image/svg+xml;base64,{picture}">')
            st.caption("The first link, for a camera")
        st.divider()
        st.markdown("**Download.** Each picture and its numbers have a ⤓ of their own.")
        st.download_button(
            "The model (.npz)",
            data=lambda: model_file(run),
            file_name=f"deep-gp-{run.dataset.name}.npz",
            mime="application/octet-stream",
            icon=":material/download:",
            key="take_model",
            on_click="ignore",
        )
        st.download_button(
            "The run as Python (.py)",
            data=lambda: run_script(run),
            file_name=f"deep_gp_{run.dataset.name}.py",
            mime="text/x-python",
            icon=":material/code:",
            key="take_script",
            on_click="ignore",
        )
        if run.altered:
            st.caption(
                "Rates were changed or points moved under way: the script trains with the rates as "
                "they are now, from the start, and so ends elsewhere. Reset the run first for one "
                "that it repeats exactly."
            )
        if mine:
            upload = st.file_uploader(
                "Open a model that was saved here",
                type="npz",
                key="open_model",
                max_upload_size=MOST_MODEL_MB,
            )
            if upload is not None and upload.file_id != st.session_state.get("opened"):
                st.session_state.opened = upload.file_id
                try:
                    choices, saved = open_model(upload.getvalue())
                except ValueError as error:
                    st.error(str(error), icon=":material/error:")
                else:
                    session.open_saved(choices, saved)
                    st.rerun()
