// Which run is shown. A frame's element "state" names the run of its scene and how often it was
// reset; the page's script names it too, and may be earlier or later than the frame. What is still
// of the run before is dimmed until it is drawn for the new one.

import { showPoints } from "./clicks.js";
import { hosts, newest, pending, sceneOf, stateOf } from "./shared.js";

const runs = new Map(); // scene -> the run that is to be seen: its id, and its resets once known
export const frames = new Map(); // scene -> the last "state": of which run the frames are
export const past = new Map(); // scene -> ids of runs that were replaced
export const idOf = (run) => run?.split(" ")[0];

export function begin(scene, run) {
  const before = runs.get(scene);
  if (before === run || idOf(before) === run) return;
  runs.set(scene, run);
  if (!past.has(scene)) past.set(scene, new Set());
  if (before && idOf(before) !== idOf(run)) past.get(scene).add(idOf(before));
  past.get(scene).delete(idOf(run));
  if (before === idOf(run)) return; // the same, as the frames know it
  for (const name of [...newest.keys()]) if (sceneOf(name) === scene) newest.delete(name);
  for (const [name, boxes] of hosts)
    if (sceneOf(name) === scene)
      for (const box of boxes) {
        pending.delete(box);
        box.classList.add("stage-stale");
        box.setAttribute("aria-busy", "true");
        if (box._fullLayout) showPoints(box);
      }
}

// Frames are of this run from now on, which has taken in so many clicks; what stays on the page as it
// is, too.
export function hear(scene, state) {
  frames.set(scene, state);
  for (const [name, boxes] of hosts)
    for (const box of sceneOf(name) === scene ? boxes : [])
      if (stateOf(box).content?.run === state.run) {
        stateOf(box).content.clicks = state.clicks;
        if (box._fullLayout) showPoints(box);
      }
}

export function drawnFor(box, { run }) {
  if (run !== runs.get(sceneOf(box.dataset.name))) return;
  box.classList.remove("stage-stale");
  box.removeAttribute("aria-busy");
}
