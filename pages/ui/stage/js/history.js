// The history slider: the last place is the newest moment, and moves on with it.

import { element, send, stateOf } from "./shared.js";

export function timeline(box) {
  const state = stateOf(box);
  if (state.range) return;
  state.range = element("input");
  Object.assign(state.range, { type: "range", min: 0, max: 0, step: 1, value: 0 });
  state.range.setAttribute("aria-label", "History: an earlier moment of this run");
  state.label = element("span");
  state.back = element("button", "", "Back to now");
  Object.assign(state.back, { type: "button", hidden: true });
  state.range.oninput = () => {
    const last = Number(state.range.max);
    const index = Number(state.range.value);
    send({ at: index >= last ? null : index / Math.max(1, last) });
  };
  state.back.onclick = () => send({ at: null });
  box.replaceChildren(state.range, state.label, state.back);
}

export function moveTimeline(box, { index, count, text, live }) {
  const state = stateOf(box);
  if (document.activeElement !== state.range || live) {
    state.range.max = Math.max(0, count - 1);
    state.range.value = index;
  }
  state.range.disabled = count < 2;
  state.range.setAttribute("aria-valuetext", text);
  state.label.textContent = text;
  state.back.hidden = live;
}
