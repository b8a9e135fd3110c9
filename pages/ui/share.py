"""What leaves the app: a link and its QR code, the model as a file, and the run as a script."""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qsl, urlencode, urlsplit

import streamlit as st
from streamlit.components.v2 import component

from datasets import catalogue
from datasets.starts import SPLIT
from dgp_core import archive
from dgp_core.live.run import Run
from dgp_core.script import Named, script
from pages.ui import session
from pages.ui.choices import (
    HIDEABLE,
    REVEALS,
    VERSION,
    Choices,
    DisplayOptions,
    read_query,
)
from pages.ui.classroom.room import qr_svg, room
from pages.ui.download import download
from pages.ui.sentences import complaint

MOST_MODEL_MB = 64
SAFE = ",~"
"""Marks in our links that need no code of their own."""
LOOKS = ("shade", "noise", "star", "lock", "hide", "view")
"""What a link says of how a run is looked at."""
LONGEST_CODE = 1000
"""Bytes of a link that a camera still reads well."""


def link() -> str:
    """The address of what is on the page, as another browser needs it."""
    query = urlencode(dict(st.query_params), safe=SAFE)
    return room().invite(f"{str(st.context.url).partition('?')[0]}?{query}")


def address_with(address: str, query: Mapping[str, str]) -> str:
    """An address that says this too, after the ? or & that it needs."""
    if not query:
        return address
    return f"{address}{'&' if '?' in address else '?'}{urlencode(query, safe=SAFE)}"


def without_run(address: str) -> str:
    """The same settings, for somebody who starts a run of their own."""
    page, _, query = room().anywhere(address).partition("?")
    parts = [(name, value) for name, value in parse_qsl(query) if name != "run"]
    return f"{page}?{urlencode(parts or [('v', VERSION)], safe=SAFE)}"


def short_link(address: str) -> str:
    """The run by its name alone, and how it is looked at where that is not as at first."""
    page, _, query = address.partition("?")
    asked, first = dict(parse_qsl(query)), Choices().query()
    kept = {n: asked[n] for n in ("run", *LOOKS) if n in asked and asked[n] != first.get(n)}
    return room().invite(address_with(page, kept))


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
        Named(choices.data, options, catalogue.load(choices.data, **options), choices.judged_by),
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


_link_tools = component(
    "link_tools",
    html='<div class="link-tools"><button type="button" class="link-code"></button>'
    '<button type="button" class="link-copy stage-button"></button></div>',
    css="""
.link-tools { display: flex; align-items: center; gap: 1rem; }
.link-code { padding: 0; border: 0; background: #fff; cursor: zoom-in; line-height: 0;
  border-radius: 0.3rem; }
.link-code:focus-visible { outline: 2px solid var(--st-primary-color); outline-offset: 2px; }
.link-code[hidden] { display: none; }
.link-code img { width: 9rem; height: 9rem; }
.link-code:is(:fullscreen, .link-large) { position: fixed; inset: 0; width: 100vw; height: 100vh;
  z-index: 1000000; display: grid; place-items: center; cursor: zoom-out; border-radius: 0; }
.link-code:is(:fullscreen, .link-large) img { width: 92vmin; height: 92vmin; }
""",
    js="""export default ({ data, parentElement }) => {
      const [code, copy] = parentElement.querySelectorAll("button");
      const picture = new Image();
      picture.src = data.code;
      picture.alt = "QR code of the link";
      code.replaceChildren(picture);
      code.hidden = !data.code;
      code.title = code.ariaLabel = "Show the QR code on the whole screen";
      code.onclick = async () => {
        if (document.fullscreenElement) return document.exitFullscreen();
        if (code.classList.contains("link-large")) return code.classList.remove("link-large");
        try { await code.requestFullscreen(); } catch { code.classList.add("link-large"); }
      };
      code.onkeydown = ({ key }) => key === "Escape" && code.classList.remove("link-large");
      copy.textContent = "Copy link";
      copy.onclick = async () => {
        try {
          await navigator.clipboard.writeText(data.link);
        } catch { // a page that is served without https has no clipboard
          const field = document.createElement("textarea");
          field.value = data.link;
          parentElement.append(field);
          field.select();
          document.execCommand("copy");
          field.remove();
        }
        copy.textContent = "Copied";
        setTimeout(() => { copy.textContent = "Copy link"; }, 1500);
      };
    }""",
    isolate_styles=False,
)


def link_tools(address: str, key: str) -> None:
    """The link's QR code, which a click shows on the whole screen, and a button that copies it."""
    short = len(address.encode()) <= LONGEST_CODE
    picture = base64.b64encode(qr_svg(address).encode()).decode() if short else ""
    code = f"data:image/svg+xml;base64,{picture}" if short else ""
    _link_tools(key=key, data={"link": address, "code": code})
    if not short:
        st.caption("This link is too long for a QR code.")


def only_here(address: str) -> bool:
    """Whether an address means whatever computer opens it."""
    host = urlsplit(address).hostname or ""
    return host.endswith("localhost") or host.startswith("127.") or host == "::1"


def say_only_here(address: str) -> None:
    """Where nobody else can open a link."""
    if only_here(address):
        st.warning(
            f"Nobody else can open this link: {urlsplit(address).hostname} means whatever "
            "computer opens it. Start the app with `make class`, and share the address that it "
            "prints.",
            icon=":material/link_off:",
        )


HIDE_WORDS = {
    "controls": "settings",
    "bar": "play and reset",
    "rival": "the single-layer rival",
    "bound": "the bound",
    "layers": "the layers",
    "mixture": "the mixture",
    "history": "the history slider",
    "words": "the words below",
}
EMBED = {"embed": "true"}


def class_options(key: str, offered: Sequence[str], lessons: bool = False) -> dict[str, str]:
    """What a link for a class adds to an address; `key` ends the controls' keys."""
    lock = st.checkbox(
        "Lock the settings",
        key=f"class_lock{key}",
        help="Settings, sliders, clicks and drags are held, and the menu is hidden; play, pause "
        "and reset stay.",
    )
    projector = st.checkbox(
        "Large type, for a projector",
        key=f"class_projector{key}",
        help="Space plays and pauses the first run, → steps.",
    )
    embedded = st.checkbox(
        "Embed it in a course page", key=f"class_embed{key}", help="Without the menu."
    )
    hide = st.multiselect(
        "Leave out",
        offered,
        format_func=lambda name: HIDE_WORDS[name],
        key=f"class_hide{key}",
        help="Settings are all sliders, choices and buttons of the pictures: they stay as they are "
        "now. Questions stay too, unless the words go."
        if lessons
        else None,
    )
    reveal = ""
    if lessons:
        reveal = st.selectbox(
            "What should happen",
            ("", *REVEALS),
            format_func=REVEAL_WORDS.__getitem__,
            key=f"class_reveal{key}",
        )
    options = DisplayOptions(lock, tuple(hide), projector, reveal)
    return options.query() | (EMBED if embedded else {})


REVEAL_WORDS = {"": "is shown after a guess", "open": "is shown", "withheld": "is not shown"}


def class_link(address: str) -> None:
    """A link for a class: settings locked, parts left out, or large type for a wall."""
    with st.expander("For a class"):
        for_class = address_with(address, class_options("", HIDEABLE))
        st.code(for_class, language=None, wrap_lines=True)
        if room().address:
            st.markdown("[The room's address, for a wall](room)")


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
        short = short_link(address)
        st.markdown("**Watch this run with me.** Whoever opens the link sees what you see.")
        if box.open:  # it takes longer than all the rest of the page
            link_tools(short, "share_tools")
        st.code(short, language=None, wrap_lines=True)
        say_only_here(short)
        st.markdown("**The same settings**, as a run of their own:")
        st.code(without_run(address), language=None, wrap_lines=True)
        if run.latest is not None and run.latest.step:
            step = run.latest.step
            st.markdown(f"**This very moment:** a run that trains to step {step:,} and pauses.")
            st.code(f"{without_run(address)}&at={step}", language=None, wrap_lines=True)
        class_link(without_run(address))
        st.divider()
        st.markdown("**Download.** Each picture and its numbers have a ⤓ of their own.")
        model, code = f"deep-gp-{run.dataset.name}.npz", f"deep_gp_{run.dataset.name}.py"
        download("The model (.npz)", partial(model_file, run), model, "download", "take_model")
        download("The run as Python (.py)", partial(run_script, run), code, "code", "take_script")
        if run.altered:
            st.caption(
                "Rates were changed or points moved during the run: the script trains with the "
                "rates as they are now, from the start, and so ends elsewhere. Reset the run first "
                "for one that it repeats exactly."
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
                    complaint(error)
                else:
                    session.open_saved(choices, saved)
                    st.rerun()
