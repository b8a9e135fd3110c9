"""A first visit: what a deep GP is, in a sentence and a picture, and three ways on.

The browser remembers that the card was closed; the server is told nothing.
"""

import streamlit as st
from streamlit.components.v2 import component

# A bend of the input, a smooth function of what comes out, and the step that both make together.
PICTURE = """
<svg viewBox="0 0 300 92" role="img" aria-label="Two smooth layers make a step together: the first
  bends the input, the second is a function of what comes out of it.">
  <g fill="none" stroke="currentColor" stroke-opacity="0.35">
    <path d="M8 8v62h76M116 8v62h76M216 8v62h76"/>
    <path d="M92 40h16m-5-4 5 4-5 4M198 36h12M198 44h12"/>
  </g>
  <g fill="none" stroke-width="2.4" stroke-linecap="round">
    <path stroke="#56B4E9" d="M12 62C30 58 34 60 44 40S62 20 80 14"/>
    <path stroke="#56B4E9" d="M120 60C132 60 140 56 154 39S178 18 188 18"/>
    <path stroke="#0072B2" stroke-opacity="0.25" stroke-width="14" d="M222 58h28l6-38h30"/>
    <path stroke="#0072B2" d="M220 58h28c4 0 4-38 8-38h32"/>
  </g>
  <g fill="currentColor" font-size="10" text-anchor="middle">
    <text x="46" y="86">layer 1</text><text x="154" y="86">layer 2</text>
    <text x="254" y="86">together</text>
  </g>
  <g fill="currentColor" fill-opacity="0.7">
    <circle cx="226" cy="54" r="2"/><circle cx="238" cy="61" r="2"/><circle cx="264" cy="17" r="2"/>
    <circle cx="276" cy="23" r="2"/><circle cx="286" cy="18" r="2"/>
  </g>
</svg>"""
SENTENCE = (
    "A <b>deep Gaussian process</b> passes its input through several Gaussian processes in turn: "
    "so it can rest here and jump there, and it still says how sure it is."
)

_card = component(
    "first_visit",
    html=f"""<aside class="first-visit" aria-label="A first visit" hidden>
  <button type="button" class="first-close" aria-label="Close">×</button>
  {PICTURE}
  <p>{SENTENCE}</p>
  <div class="first-ways">
    <button type="button" class="stage-button stage-primary first-play">Play</button>
    <a class="stage-button" href="what_is_a_gp">Learn</a>
    <a class="stage-button" href="your_data">Bring data</a>
  </div>
</aside>""",
    css="""
.st-key-first_visit { position: absolute; }
.first-visit { position: fixed; right: 1.5rem; bottom: 1.5rem; z-index: 95; width: 23rem;
  max-width: calc(100vw - 2rem); padding: 1rem 1.1rem; border-radius: 0.6rem;
  color: var(--st-text-color); background: var(--st-background-color);
  border: 1px solid var(--st-border-color); box-shadow: 0 6px 28px rgb(0 0 0 / 0.25); }
.first-visit[hidden] { display: none; }
.first-visit svg { width: calc(100% - 1.5rem); display: block; }
.first-visit p { margin: 0.5rem 0 0.8rem; font-size: 0.95rem; line-height: 1.45; }
.first-ways { display: flex; gap: 0.5rem; }
.first-ways > * { flex: 1; justify-content: center; text-decoration: none !important; }
.first-close { position: absolute; top: 0.3rem; right: 0.3rem; width: 2.2rem; height: 2.2rem;
  border: 0; background: none; color: inherit; font-size: 1.3rem; cursor: pointer; }
@media (max-width: 640px) { .first-visit { right: 1rem; bottom: 1rem; } }
""",
    js="""export default ({ parentElement }) => {
      const card = parentElement.querySelector(".first-visit");
      const NAME = "dgp-first-visit";
      const remembered = () => {
        try { return localStorage.getItem(NAME); } catch { return "private"; }
      };
      card.hidden = Boolean(remembered());
      const close = () => {
        try { localStorage.setItem(NAME, "over"); } catch {}
        card.hidden = true;
      };
      for (const way of card.querySelectorAll("button, a")) way.addEventListener("click", close);
      card.querySelector(".first-play").addEventListener("click", () => {
        const hold = document.querySelector(".stage-host[data-kind=bar] .stage-primary");
        if (hold?.textContent.includes("Play")) hold.click();
      });
      card.onkeydown = ({ key }) => key === "Escape" && close();
    }""",
    isolate_styles=False,
)


def first_visit() -> None:
    """Where somebody comes to the plain playground: by a link of one's own, one knows why."""
    memory = st.session_state
    if memory.setdefault("came_plainly", not st.query_params):
        _card(key="first_visit")
