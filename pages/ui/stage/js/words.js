// Words, meters, and how long a wait has lasted.

import { element, stage, stateOf } from "./shared.js";

// HTML of the server's own making, such as a legend.
export function page(box, html) {
  if (stateOf(box).shown !== html) box.innerHTML = html;
  stateOf(box).shown = html;
}

// Words: **bold** is the only mark; everything else is shown as it is.

export function words(box, text, since) {
  if (stateOf(box).shown !== text) {
    stateOf(box).shown = text;
    box.replaceChildren(
      ...text.split("**").map((part, i) => element(i % 2 ? "strong" : "span", "", part)),
    );
  }
  if (since) waits.set(box, since);
  else waits.delete(box);
  sayHowLong(box, since);
}

// How long a wait has lasted, by the server's clock; counted here, without another frame.
export const waits = new Map(); // box -> since when
function sayHowLong(box, since) {
  const seconds = since ? Math.floor(Date.now() / 1000 + (stage.clockOffset ?? 0) - since) : 0;
  const minutes = Math.floor(seconds / 60);
  const elapsed = minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
  const last = box.querySelector(".stage-elapsed") ?? element("span", "stage-elapsed");
  last.textContent = seconds > 0 ? ` · ${elapsed}` : "";
  if (!last.isConnected && seconds > 0) box.append(last);
}
setInterval(() => waits.forEach((since, box) => sayHowLong(box, since)), 500);

export function meter(box, { value, text }) {
  const state = stateOf(box);
  if (!state.bar) {
    state.line = element("div");
    const track = element("div", "stage-meter-track");
    track.setAttribute("role", "meter");
    track.setAttribute("aria-valuemin", "0");
    track.setAttribute("aria-valuemax", "1");
    state.bar = element("div");
    track.append(state.bar);
    box.replaceChildren(state.line, track);
  }
  state.line.textContent = text;
  state.bar.style.width = 100 * value + "%";
  state.bar.parentElement.setAttribute("aria-valuenow", value.toFixed(3));
  state.bar.parentElement.setAttribute("aria-label", text);
}
