// Clicks in pictures, and the points that they put down or take away.

import { element, MAIN, sceneOf, stage, stateOf } from "./shared.js";
import { numbers } from "./sketch.js";

const NEAR = 14; // pixels within which a click is on a mark

// Clicks are numbered, and told to the page's script until it says that it has taken them: while it
// deals with some, others wait, and none is lost. A point that a click puts down is shown at once.

const MOST_CLICKS = 400; // that are remembered
const UNHEARD = 3000; // milliseconds after which a click is told again
stage.clicks ??= [];
stage.serial ??= 0;

export function click(where) {
  stage.clicks = [...stage.clicks, { ...where, serial: ++stage.serial }].slice(-MOST_CLICKS);
  for (const box of document.querySelectorAll(".stage-host")) if (box._fullLayout) showPoints(box);
  tellClicks();
}

function tellClicks() {
  const open = stage.clicks.filter(({ serial }) => serial > (stage.taken ?? 0));
  if (!open.length || stage.asking) return;
  stage.asking = setTimeout(() => {
    stage.asking = null;
    tellClicks();
  }, UNHEARD);
  stage.trigger?.("click", open);
}

export function taken(serial) {
  if (serial === stage.taken) return;
  stage.taken = serial;
  clearTimeout(stage.asking);
  stage.asking = null;
  tellClicks();
}

// What clicks make of the points of a picture that has not heard of them yet, by the rule of the
// script: one near a point takes it away, any other puts one down.
export function showPoints(box) {
  box.querySelectorAll(".stage-mark").forEach((mark) => mark.remove());
  const { draws } = stateOf(box).meta ?? {};
  const scene = sceneOf(box.dataset.name);
  const mine = stateOf(box).kind === "figure" || stage.scenes?.[scene]?.mine;
  const seen = stateOf(box).content?.clicks ?? 0;
  const news = stage.clicks.filter(
    ({ name, serial }) => serial > seen && sceneOf(name) === scene && (name === box.dataset.name || MAIN.test(name)),
  );
  if (!draws || !mine || !news.length) return;
  const trace = stateOf(box).content.figure.data.find((one) => one.name === draws);
  const [xs, ys] = trace ? [numbers(trace.x), numbers(trace.y)] : [[], []];
  const before = Array.from(xs, (x, i) => ({ x, y: ys[i] }));
  let now = before;
  for (const { x, y, near_x, near_y } of news) {
    const rest = now.filter((one) => Math.abs(one.x - x) > near_x || Math.abs(one.y - y) > near_y);
    now = rest.length < now.length ? rest : [...now, { x, y }];
  }
  const { xaxis, yaxis } = box._fullLayout;
  const { size = 8, color, opacity = 1 } = trace?.marker ?? {};
  const mark = (kind, { x, y }) => {
    const dot = element("div", `stage-mark stage-mark-${kind}`);
    Object.assign(dot.style, {
      left: xaxis._offset + xaxis.d2p(x) + "px",
      top: yaxis._offset + yaxis.d2p(y) + "px",
      width: size + "px",
      height: size + "px",
      opacity,
      ...(typeof color === "string" && { "--ink": color }),
    });
    box.append(dot);
  };
  const stale = box.classList.contains("stage-stale"); // a dimmed picture's points stay clear
  if (stale) before.filter((one) => now.includes(one)).forEach((one) => mark("kept", one));
  now.filter((one) => !before.includes(one)).forEach((one) => mark("put", one));
  before.filter((one) => !now.includes(one)).forEach((one) => mark("taken", one));
}

// The row that was clicked, where a picture says which: by its rank, or the nearest mark; null where
// there is none, undefined where a picture is not of rows.
export function rowAt(box, { plot, x, px, py }) {
  const { ranks, nearest } = stateOf(box).meta;
  if (ranks) return ranks[Math.round(x) - 1] ?? null;
  if (!nearest) return undefined;
  const trace = box._fullData.find((one) => one.name === nearest);
  let best = { far: NEAR, row: null };
  for (let i = 0; i < (trace?._length ?? 0); i++) {
    const far = Math.hypot(plot.xaxis.d2p(trace.x[i]) - px, plot.yaxis.d2p(trace.y[i]) - py);
    if (far < best.far) best = { far, row: trace.customdata[i] };
  }
  return best.row;
}
