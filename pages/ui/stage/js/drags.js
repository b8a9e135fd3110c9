// Inducing points that are dragged.

import { click, rowAt } from "./clicks.js";
import { sceneOf, send, stage, stateOf } from "./shared.js";
import { axisName, numbers } from "./sketch.js";

const DOUBLE = 320; // milliseconds in which a second click makes a double one: Plotly's are 300
const NEAR = 14; // pixels within which a press takes hold of an inducing point

// Where a pointer is, in the units of the plot under it.
function place(box, event) {
  const frame = box.getBoundingClientRect();
  const px = event.clientX - frame.left;
  const py = event.clientY - frame.top;
  for (const plot of Object.values(box._fullLayout?._plots ?? {})) {
    const { xaxis, yaxis } = plot;
    const x = px - xaxis._offset;
    const y = py - yaxis._offset;
    if (x < 0 || y < 0 || x > xaxis._length || y > yaxis._length) continue;
    return { plot, px: x, py: y, x: Number(xaxis.p2d(x)), y: Number(yaxis.p2d(y)) };
  }
  return null;
}

// The inducing point under the pointer, if this picture lets one be moved.
function grip(box, event) {
  const { drag } = stateOf(box).meta;
  const mine = stage.scenes?.[sceneOf(box.dataset.name)]?.mine;
  const here = drag && mine && place(box, event);
  if (!here) return null;
  const trace = box._fullData?.find((one) => one.name === drag.trace && one._length);
  if (!trace || (trace.xaxis ?? "x") !== here.plot.xaxis._id) return null;
  let best = null;
  for (let i = 0; i < trace._length; i++) {
    const dx = here.plot.xaxis.d2p(trace.x[i]) - here.px;
    const dy = here.plot.yaxis.d2p(trace.y[i]) - here.py;
    const far = Math.hypot(dx, dy);
    if (far < NEAR && (!best || far < best.far)) best = { far, index: i };
  }
  if (!best) return null;
  const { index } = best;
  const from = { x: trace.x[index], y: trace.y[index] };
  return { index, from, before: from, trace: drag.trace, plane: drag.plane };
}

// A point in the hand stays under it, whatever the frames say meanwhile. Let go, it stays there until
// a frame has it there; a run that trains may have taken it on, so that after a while it is enough
// that a frame has it nearer to this place than to where the frames had it.
const CLOSE = 0.05; // of the way that it was dragged
const SOON = 500; // milliseconds in which it has to be as close as that
const LATE = 3000; // milliseconds after which the frames are believed

export function inPlace(box, data) {
  const { held } = stateOf(box);
  const trace = held && data.find((one) => one.name === held.trace);
  if (!trace || held.x === undefined) return data;
  const xs = Array.from(numbers(trace.x));
  const ys = Array.from(numbers(trace.y));
  if (held.released) {
    const far = (x, y) => Math.hypot(xs[held.index] - x, held.plane ? ys[held.index] - y : 0);
    const { x, y } = held.from;
    const way = Math.hypot(held.x - x, held.plane ? held.y - y : 0);
    const soon = performance.now() - held.released < SOON;
    const there = soon ? CLOSE * way : far(held.before.x, held.before.y);
    if (far(held.x, held.y) <= there) {
      stateOf(box).held = null;
      return data;
    }
  }
  held.before = { x: xs[held.index], y: ys[held.index] };
  xs[held.index] = held.x;
  if (held.plane) ys[held.index] = held.y;
  return data.map((one) => (one === trace ? { ...trace, x: xs, y: ys } : one));
}

// Moves Plotly's own mark, without having it draw everything anew.
function follows(box) {
  const { trace, index, x, y, plane } = stateOf(box).held;
  for (const group of box.querySelectorAll(".scatterlayer .trace")) {
    if (group.__data__?.[0]?.trace.name !== trace) continue;
    const { xaxis, yaxis } = group.__data__[0].trace;
    const [across, up] = [xaxis, yaxis].map((name) => box._fullLayout[axisName(name)]);
    for (const mark of group.querySelectorAll(".point")) {
      if (mark.__data__?.i !== index) continue;
      const height = plane ? up.d2p(y) : up.d2p(mark.__data__.y);
      mark.setAttribute("transform", `translate(${across.d2p(x)},${height})`);
    }
  }
}

// Of each point that was moved, the server is told the newest place, not every one.
const moved = new Map(); // picture and point -> what to tell
const APART = 60; // milliseconds between two messages

export function tellMoves() {
  if (stage.telling || !moved.size || stage.socket?.readyState !== 1) return;
  for (const move of moved.values()) send({ move });
  moved.clear();
  stage.telling = setTimeout(() => {
    stage.telling = null;
    tellMoves();
  }, APART);
}

export function listen(box, redraw) {
  const state = stateOf(box);
  let pressed = null;
  const move = (event) => {
    const here = place(box, event);
    if (here) Object.assign(state.held, { x: here.x, y: here.y });
    const { index, x, y } = state.held;
    if (x === undefined) return;
    const name = box.dataset.name;
    moved.set(`${name} ${index}`, { name, index, x, y });
    follows(box);
    tellMoves();
  };
  box.addEventListener(
    "pointerdown",
    (event) => {
      pressed = { x: event.clientX, y: event.clientY, zoomed: state.zoomed };
      if (state.meta.click) Object.assign(stage, { hand: performance.now(), slides: false });
      const caught = event.button === 0 && grip(box, event);
      if (!caught) return;
      state.held = caught;
      event.stopPropagation();
      event.preventDefault();
      box.setPointerCapture(event.pointerId);
    },
    true,
  );
  // A finger that holds a point drags it, and does not scroll the page.
  const inHand = () => state.held && !state.held.released;
  const keep = (event) => {
    if (!inHand()) return;
    event.stopPropagation();
    if (event.cancelable) event.preventDefault();
  };
  for (const kind of ["mousedown", "touchstart"])
    box.addEventListener(kind, keep, { capture: true, passive: false });
  box.addEventListener("pointermove", (event) => {
    if (inHand()) move(event);
    else box.classList.toggle("stage-grip", Boolean(grip(box, event)));
  });
  const release = (event) => {
    if (!inHand()) return;
    move(event);
    const { held } = state;
    if (held.x === undefined) return (state.held = null);
    held.released = performance.now();
    setTimeout(() => {
      if (state.held !== held || state.gone) return;
      state.held = null;
      redraw();
    }, LATE);
  };
  box.addEventListener("pointerup", release, true);
  box.addEventListener("pointercancel", release, true);
  box.addEventListener("click", (event) => {
    if (!state.meta.click || event.target.closest(".stage-menu")) return;
    if (pressed && Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > 4) return;
    const here = place(box, event);
    if (!here) return;
    const { xaxis, yaxis } = here.plot;
    const wide = Math.abs(xaxis.p2d(xaxis._length) - xaxis.p2d(0));
    const high = Math.abs(yaxis.p2d(yaxis._length) - yaxis.p2d(0));
    const row = rowAt(box, here);
    if (row === null) return;
    // A double click zooms out: it is no click, and the first of its two waits to be known as one.
    clearTimeout(state.clicking);
    if (event.detail > 1 && (pressed?.zoomed || !state.meta.draws)) return;
    const where = {
      name: box.dataset.name,
      row,
      x: here.x,
      y: here.y,
      near_x: (10 * wide) / xaxis._length,
      near_y: (10 * high) / yaxis._length,
    };
    if (pressed?.zoomed) state.clicking = setTimeout(click, DOUBLE, where);
    else click(where);
  });
}
