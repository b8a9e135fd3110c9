// Hosts of the live pages: pictures, words, meters, tallies and the history slider, fed by one WebSocket.
//
// A page's script only places the hosts; what they show comes from the server as it happens, so
// nothing is rendered anew and nothing flickers. A frame is asked for by the answer "drawn" to the
// one before, so a slow browser gets fewer frames instead of a queue of stale ones.

import { drive } from "./bar.js";
import { showPoints } from "./clicks.js";
import { connect } from "./connection.js";
import { show } from "./frames.js";
import { timeline } from "./history.js";
import { part } from "./lesson.js";
import { paper } from "./paper.js";
import { hosts, newest, pending, stage, stateOf } from "./shared.js";
import { waits } from "./words.js";

export function mount({ parentElement, data, setTriggerValue }) {
  const box = parentElement.querySelector(".stage-host");
  if (data.kind === "connection") return connect(data, box, setTriggerValue);
  if (data.kind === "paper") return paper(box, data, setTriggerValue);
  if (data.kind === "part") return part(box, data, setTriggerValue);
  const state = Object.assign(stateOf(box), { kind: data.kind, library: data.library, gone: false });
  state.answers = data.answers;
  if (data.kind === "figure") {
    box.dataset.name = data.name;
    const { figure, alt, clicks } = data;
    if (state.shown !== figure) show(box, { figure: JSON.parse(figure), alt, clicks });
    else if (box._fullLayout) Object.assign(state.content, { clicks }), showPoints(box);
    state.shown = figure;
    return () => forget(box);
  }
  box.dataset.name = data.name;
  box.setAttribute("data-kind", data.kind);
  if (data.height) box.style.minHeight = data.height + "px";
  if (data.kind === "timeline") timeline(box);
  if (data.kind === "bar") drive(box, data, setTriggerValue);
  if (data.seek) seek(box);
  if (!hosts.has(data.name)) hosts.set(data.name, new Set());
  hosts.get(data.name).add(box);
  if (newest.has(data.name)) show(box, newest.get(data.name));
  return () => forget(box);
}

// What a press on a button has brought about is looked at, wherever on the page it is.
const SEEK = 5000; // milliseconds after the press
function seek(box) {
  if (stateOf(box).sought) return;
  stateOf(box).sought = true;
  if (!(performance.now() - stage.hand < SEEK)) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  box.scrollIntoView({ block: "center", behavior: still ? "auto" : "smooth" });
}

function forget(box) {
  const state = stateOf(box);
  hosts.get(box.dataset.name)?.delete(box);
  pending.delete(box);
  waits.delete(box);
  state.observer?.disconnect();
  state.observer = state.waiting = null;
  clearTimeout(state.resting);
  state.gone = true;
  // Plotly looks at what it has drawn once more when it is done.
  Promise.resolve(state.work).then(() => {
    if (!state.gone || !box.querySelector(".main-svg")) return;
    window.Plotly.purge(box);
    box.emit = () => {}; // a hover that had begun still reports
  });
}
