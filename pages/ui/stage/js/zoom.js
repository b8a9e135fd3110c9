// Both models' predictions are on the same axes: a zoom in one is a zoom in the other.

import { hosts, MAIN, sceneOf, stateOf } from "./shared.js";

const AXES = /^[xy]axis\d*\.(range|autorange)/;

export function link(box) {
  box.on("plotly_relayout", (change) => {
    const axes = Object.entries(change ?? {}).filter(([name]) => AXES.test(name));
    const state = stateOf(box);
    if (!axes.length) return;
    state.zoomed = axes.some(([name]) => /range\[/.test(name));
    if (state.led || !MAIN.test(box.dataset.name)) return;
    for (const other of ["deep", "rival"].flatMap((name) => [
      ...(hosts.get(`${sceneOf(box.dataset.name)}/${name}`) ?? []),
    ])) {
      if (other === box || !other._fullLayout) continue;
      const follower = stateOf(other);
      follower.led = true;
      Promise.resolve(window.Plotly.relayout(other, Object.fromEntries(axes))).finally(() => {
        follower.led = false;
        follower.zoomed = state.zoomed;
      });
    }
  });
}
