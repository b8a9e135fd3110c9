// A row under the pointer is ringed in every picture of the same kind: one is followed through all
// layers. Such pictures say meta.follow, and a row's number is the first of its customdata.

import { stage, stateOf } from "./shared.js";
import { axisName } from "./sketch.js";

export function follow(box) {
  const rings = (row) => {
    stage.followed = row;
    for (const other of document.querySelectorAll(".stage-host"))
      if (stateOf(other).meta?.follow && other._fullLayout) ring(other, row);
  };
  box.on("plotly_hover", ({ points }) => {
    const { data, customdata } = points[0];
    const { follow } = stateOf(box).meta;
    if (follow && data.name?.startsWith(follow)) rings(customdata[0]);
  });
  box.on("plotly_unhover", () => stateOf(box).meta.follow && rings(null));
}

export function ring(box, row) {
  box.querySelectorAll(".stage-ring").forEach((one) => one.remove());
  if (row === null) return;
  for (const trace of box._fullData) {
    if (!trace.name.startsWith(stateOf(box).meta.follow)) continue;
    const i = Array.from(trace.customdata).findIndex((one) => one[0] === row);
    if (i < 0) continue;
    const [xaxis, yaxis] = [trace.xaxis, trace.yaxis].map(
      (name) => box._fullLayout[axisName(name)],
    );
    const mark = document.createElement("div");
    mark.className = "stage-ring";
    mark.style.left = xaxis._offset + xaxis.d2p(trace.x[i]) + "px";
    mark.style.top = yaxis._offset + yaxis.d2p(trace.y[i]) + "px";
    box.append(mark);
  }
}
