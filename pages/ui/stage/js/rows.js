// A point under the pointer lights up in every picture: one is followed through all layers. Pictures
// of rows say meta.follow, how the names of their rows' traces begin, and a row's number is (the
// first of) its customdata; pictures over one input say meta.across, on which axis it is.

import { element, stage, stateOf } from "./shared.js";
import { axisName } from "./sketch.js";

const rowOf = (custom) => (typeof custom === "object" ? custom?.[0] : custom);
const isOfRows = (trace, follow) =>
  follow !== undefined && trace.type === "scatter" && trace.customdata && trace.name?.startsWith(follow);

export function follow(box) {
  const all = (followed) => {
    stage.followed = followed;
    for (const other of document.querySelectorAll(".stage-host"))
      if (other._fullLayout) mark(other);
  };
  box.on("plotly_hover", ({ points }) => {
    const { data, fullData, customdata, x } = points[0];
    const { follow, across } = stateOf(box).meta;
    if (isOfRows(data, follow)) all({ row: rowOf(customdata) });
    else if (across && (fullData?.xaxis ?? "x") === across) all({ x: Number(x), box });
  });
  box.on("plotly_unhover", () => stage.followed && all(null));
}

export function mark(box) {
  box.querySelectorAll(".stage-ring, .stage-across").forEach((one) => one.remove());
  const { row, x, box: from } = stage.followed ?? {};
  const { follow, across } = stateOf(box).meta ?? {};
  if (row !== undefined && follow !== undefined) ring(box, row, follow);
  if (x === undefined || !across || box === from) return;
  const xaxis = box._fullLayout[axisName(across)];
  const yaxis = box._fullLayout[axisName(xaxis.anchor)];
  const left = xaxis.d2p(x);
  if (!(left >= 0 && left <= xaxis._length)) return;
  const line = element("div", "stage-across");
  Object.assign(line.style, {
    left: xaxis._offset + left + "px",
    top: yaxis._offset + "px",
    height: yaxis._length + "px",
  });
  box.append(line);
}

function ring(box, row, follow) {
  for (const trace of box._fullData) {
    if (!isOfRows(trace, follow)) continue;
    const i = Array.from(trace.customdata).findIndex((one) => rowOf(one) === row);
    if (i < 0) continue;
    const [xaxis, yaxis] = [trace.xaxis, trace.yaxis].map(
      (name) => box._fullLayout[axisName(name)],
    );
    const mark = element("div", "stage-ring");
    mark.style.left = xaxis._offset + xaxis.d2p(trace.x[i]) + "px";
    mark.style.top = yaxis._offset + yaxis.d2p(trace.y[i]) + "px";
    box.append(mark);
  }
}
