"""What the pages about a run share: the bar that drives it, its line of words, and their dress."""

import streamlit as st
from streamlit.components.v2 import component
from streamlit.delta_generator import DeltaGenerator

from dgp_core.live.run import Run
from pages.ui import session, share
from pages.ui.choices import SPEEDS
from pages.ui.stage import hosts as stage
from pages.ui.stage.server import COMMANDS

# Room for the pictures, as the page's own margins are made for text; and nothing fades between
# two of them.
STYLE = """<style>
[data-testid=stMainBlockContainer] { padding: 4rem 2rem 3rem; }
[data-testid=stSidebarHeader] { height: 2.5rem; margin-bottom: 0; }
[data-testid=stSidebarUserContent] { padding-top: 0; }
.st-key-above { min-height: 2.5rem; }
[data-stale=true] { opacity: 1 !important; transition: none !important; }
@media (max-width: 1150px) {
  .st-key-bar { flex-wrap: nowrap; gap: 0.35rem; }
  .st-key-bar > * { flex-shrink: 0; }
  .st-key-bar > :has(.st-key-share) { flex: 0 0 auto; width: auto; }
}
@media (max-width: 640px) {
  .st-key-above { min-height: 53px; }
  [data-testid=stMainBlockContainer] { padding: 4.4rem 1rem 3rem; }
  div:has(> .st-key-above) { position: sticky; top: 3.75rem; z-index: 90;
    background: var(--paper); }
  .st-key-bar { padding: 0.4rem 0; gap: 0.2rem; }
  .st-key-share button { padding: 0.25rem 0.3rem; }
  .st-key-share button :is(p, [data-testid=stMarkdownContainer]) { position: absolute; width: 1px;
    overflow: hidden; clip-path: inset(50%); }
}
</style>"""
# The theme's own blue is too faint for small letters on a tint of itself. What has nothing to show
# takes no room.
CONTRAST = """<style>
:root {{ --paper: {paper}; --ink: {text}; }}
.st-key-stage, .st-key-theme {{ position: absolute; }}
button[data-variant=segmented_control] p, [data-testid=stSlider] p {{ color: {text}; }}
[data-testid=stCaptionContainer], [data-testid=stCaptionContainer] p {{ opacity: 1 !important;
  color: color-mix(in srgb, {text} 82%, transparent) !important; }}
button kbd {{ color: inherit !important; opacity: 1 !important; }}
</style>"""
# The bar comes after the pictures, which must not be pushed down by it.
ROOM = """<style>
div:has(> .st-key-state):not(div:has(> .st-key-above) ~ div) { margin-top: 3.5rem; }
@media (max-width: 640px) {
  div:has(> .st-key-state):not(div:has(> .st-key-above) ~ div) { margin-top: calc(53px + 1rem); }
}
</style>"""
SPEED_LABELS = tuple((word, "Full" if word == "full" else f"{word}/s") for word in SPEEDS)
PROJECTOR = "<style>html { font-size: 20px; } [data-testid=stSidebar] { display: none; }</style>"


_theme = component(
    "theme",
    js="""export default ({ data, setTriggerValue }) => {
      const app = document.querySelector("[data-testid=stApp]");
      const look = new MutationObserver(() => {
        const inks = getComputedStyle(app).backgroundColor.match(/[\\d.]+/g).slice(0, 3);
        const dark = inks.reduce((sum, ink) => sum + Number(ink), 0) < 384;
        if (dark === data.dark) return;
        look.disconnect();
        setTriggerValue("changed", true);
      });
      look.observe(app, { attributeFilter: ["class"] });
      return () => look.disconnect();
    }""",
)


def dress(style: str = STYLE) -> None:
    """The page's margins, large type where a link asks for it, and letters that stand out.

    Pictures are inked for the theme: where another is put on, the page's script runs again.
    """
    theme = "dark" if st.context.theme.type == "dark" else "light"
    text, paper = (st.get_option(f"theme.{theme}.{n}Color") for n in ("text", "background"))
    st.html(
        style
        + CONTRAST.format(text=text, paper=paper)
        + ("" if "bar" in session.display_options().hide else ROOM)
        + (PROJECTOR if session.display_options().projector else "")
    )
    again = session.by_hand(lambda: None)
    _theme(key="theme", data={"dark": theme == "dark"}, on_changed_change=again)


def state_line() -> None:
    """What the run is doing, in numbers and in words."""
    with st.container(horizontal=True, gap="small", key="state"):
        stage.words("main/numbers", 20)
        stage.words("main/state", 20)


def intro(title: str, run_id: str, words: str) -> None:
    """The head of a page that looks at the playground's run in another way."""
    st.title(title, anchor=False)
    st.markdown(words)
    st.caption(
        f"This is the run of your playground: {session.choices_in_words(run_id)} "
        "Settings are changed there."
    )


def bar_place() -> DeltaGenerator:
    """Where the bar will be: it stays in reach while a phone scrolls."""
    return st.container(key="above")


def bar(run: Run, mine: bool, place: DeltaGenerator | None = None) -> None:
    """The playground's own: for whoever controls the run; others may start their own."""
    choices = st.session_state.choices
    with (
        place or bar_place(),
        st.container(horizontal=True, vertical_alignment="center", gap="small", key="bar"),
    ):
        if mine:
            script = (*COMMANDS, "seed", "speed") if choices.at else ("seed", "speed")
            stage.bar("main", session.run_command, script, keyboard=True, speeds=SPEED_LABELS)
        else:
            st.button(
                "Start my own",
                type="primary",
                icon=":material/add:",
                on_click=session.start_my_own,
                key="own",
                help="A run with the same settings, which you control.",
            )
        st.fragment(share.panel)(run, mine)
