// Pictures: sketched while they move, and drawn by Plotly.

import { showPoints } from "./clicks.js";
import { downloads } from "./downloads.js";
import { inPlace, listen } from "./drags.js";
import { follow, mark } from "./rows.js";
import { drawnFor } from "./runs.js";
import { newest, stage, stateOf } from "./shared.js";
import { link } from "./zoom.js";
import { fits, rub, sketch, sketchable, surroundings } from "./sketch.js";

const REST = 500; // milliseconds without a frame, after which Plotly draws what was sketched
const FIRST = 700; // milliseconds that sketches move before Plotly's start holds them up
const touch = () => window.matchMedia("(pointer: coarse)").matches;

let library;
export const plotly = (src) =>
  (library ??= new Promise((done, failed) => {
    if (window.Plotly) return done(window.Plotly);
    const script = document.createElement("script"); // the page's HTML has it fetched already
    script.src = src;
    script.onload = () => done(window.Plotly);
    script.onerror = failed;
    document.head.appendChild(script);
  }));

// What Plotly is doing with a box, until it is done, well or ill.
const work = (box, doing) => {
  stateOf(box).work = Promise.allSettled([stateOf(box).work, doing]).then(() => {});
  return doing;
};

// While frames come, a picture that only moves is sketched; Plotly draws it where its axes change,
// where the pointer is (it hovers, zooms and drags), and when it has come to rest.
export async function picture(box, content) {
  const state = stateOf(box);
  const { figure, alt, paper } = content;
  state.content = content;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", alt);
  enlarge(figure.layout);
  box.style.height = figure.layout.height + "px";
  state.paper = paper;
  if (touch()) figure.layout.dragmode = false;
  clearTimeout(state.resting);
  const quick = sketchable(figure);
  const still = box.matches(":hover") || state.held;
  const moves = quick && fits(surroundings(figure), state.around) && !still;
  if (moves || !window.Plotly) {
    state.waiting = content;
    if (quick && box.clientWidth) {
      sketch(box, figure, box._fullLayout);
      box.classList.add("stage-sketched");
      count(box);
      drawnFor(box, content);
      if (box._fullLayout) showPoints(box);
    }
    if (state.around) state.resting = setTimeout(() => settle(box), REST);
    else later(box, quick ? FIRST : 0);
    return;
  }
  await finish(box, content);
}

// Plotly's start takes a second or so of the page's time: what moves may move first.
function later(box, wait) {
  stage.moving ??= new Promise((done) => setTimeout(done, wait));
  stage.moving.then(() => settle(box));
}

// How often it has been drawn.
function count(box) {
  box.dataset.drawn = Number(box.dataset.drawn ?? 0) + 1;
}

// Plotly draws what was sketched last.
async function settle(box) {
  if (stateOf(box).waiting) await finish(box, stateOf(box).waiting);
}

async function finish(box, content) {
  const state = stateOf(box);
  const { figure } = content;
  const { layout } = figure;
  state.waiting = null;
  state.meta = layout.meta ?? {};
  let Plotly;
  try {
    Plotly = await plotly(state.library);
  } catch {
    box.textContent = "The charts' script did not load. Reload the page.";
    return;
  }
  if (state.gone || !box.isConnected) return;
  const data = inPlace(box, figure.data);
  const around = surroundings(figure);
  await work(box, Plotly.react(box, data, layout, { displayModeBar: false, doubleClick: "reset" }));
  state.around = around;
  box.classList.remove("stage-sketched");
  rub(box);
  count(box);
  if (state.gone) return; // while it was being drawn
  drawnFor(box, content);
  showPoints(box);
  mark(box);
  if (state.observer) return;
  state.observer = new ResizeObserver(() => {
    if (box.isConnected) work(box, Plotly.Plots.resize(box)).then(() => showPoints(box));
  });
  state.observer.observe(box);
  box.addEventListener("pointerenter", () => settle(box));
  const { name } = box.dataset;
  listen(box, () => newest.has(name) && picture(box, newest.get(name)));
  follow(box);
  link(box);
  downloads(box, () => settle(box));
}

// On a wall the page's type is larger, and so is that of its pictures.
const enlarged = new WeakMap(); // layout -> how many times as large as it came

function enlarge(layout) {
  const wanted = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  const times = Math.max(1, wanted) / (enlarged.get(layout) ?? 1);
  if (times === 1) return;
  enlarged.set(layout, Math.max(1, wanted));
  const grow = (part) => {
    for (const [name, value] of Object.entries(part ?? {})) {
      if (/font$/.test(name) && value?.size) value.size *= times;
      else if (value && typeof value === "object" && name !== "margin") grow(value);
    }
  };
  grow(layout);
  layout.height *= times;
}

// The page's type may grow after its first pictures, which may be the last for a while.
const rem = document.createElement("div");
rem.style.cssText = "position: absolute; width: 1rem; height: 0; visibility: hidden";
document.body.append(rem);
new ResizeObserver(() => {
  for (const box of document.querySelectorAll(".stage-host"))
    if (stateOf(box).content) picture(box, stateOf(box).content);
}).observe(rem);
