// When what is drawn: frames as they come, the newest of each picture, and who waits for whom.

import { moveTimeline } from "./history.js";
import { asking, tally } from "./lesson.js";
import { picture } from "./pictures.js";
import { begin, drawnFor, frames, hear, idOf, past } from "./runs.js";
import { hosts, MAIN, newest, pending, sceneOf, stage, stateOf } from "./shared.js";
import { meter, page, words } from "./words.js";

const SLOW = 110; // milliseconds of a frame, above which the others take turns

// Whoever presses a button or moves a slider is answered first: pictures wait meanwhile, and only
// the newest of each is drawn after that.
const ANSWER = 250; // milliseconds
const LATER = 400; // … until what was left is looked at again
for (const kind of ["pointerdown", "click", "keydown"])
  document.addEventListener(
    kind,
    (event) => {
      const on = event.target.closest?.("button, [role=slider]");
      if (on) Object.assign(stage, { hand: performance.now(), slides: !on.matches("button") });
    },
    true,
  );

const busy = () =>
  Math.max(0, (stage.hand ?? -ANSWER) + ANSWER - performance.now(), asking());

// What has come of a run that was replaced, should the page's script name it again: by the browser's
// arrows one comes back to a run, and its first frame may be earlier than the script's word.
const replaced = new Map(); // name -> content

export function comeBack(scene, run) {
  const mine = [...replaced].filter(([name]) => sceneOf(name) === scene);
  for (const [name] of mine) replaced.delete(name);
  draw(Object.fromEntries(mine.filter(([, content]) => idOf(content.run) === run)));
}

export async function draw(elements) {
  for (const [name, content] of Object.entries(elements))
    if (content.run) hear(sceneOf(name), content);
  for (const [name, content] of Object.entries(elements)) {
    const scene = sceneOf(name);
    const { run, clicks } = frames.get(scene) ?? {};
    Object.assign(content, { run, clicks });
    if (past.get(scene)?.has(idOf(run))) {
      replaced.set(name, content);
      continue;
    }
    replaced.delete(name);
    if (run) begin(scene, run);
    newest.set(name, content);
    for (const box of hosts.get(name) ?? []) {
      if (!box.isConnected) hosts.get(name).delete(box);
      else if (content.figure) pending.set(box, content);
      else show(box, content);
    }
  }
  // After a slider another run may begin, whose frames need not queue behind this one.
  if (busy() && stage.slides) return wait(busy());
  while (busy()) await new Promise((done) => setTimeout(done, Math.min(50, busy())));
  await paint(false);
}

function wait(milliseconds) {
  clearTimeout(stage.later);
  stage.later = setTimeout(() => paint(true), Math.min(LATER, milliseconds));
}

let painting = null;
const paint = (all) => (painting ??= paintPending(all).finally(() => (painting = null)));

// Draws what is pending: all of it, or on a slow browser the main pictures and every second other.
async function paintPending(all) {
  const began = performance.now();
  const isMain = ([box]) => MAIN.test(box.dataset.name);
  const boxes = [...pending].sort((a, b) => isMain(b) - isMain(a));
  for (const [i, [box]] of boxes.entries()) {
    if (busy()) break;
    const turn = isMain([box]) || !box.dataset.drawn || (i + stage.frames) % 2 === 0;
    if (!all && stage.cost > SLOW && !turn) continue;
    const content = pending.get(box);
    pending.delete(box);
    if (content) await picture(box, content).then(breath);
  }
  stage.cost = 0.7 * (stage.cost ?? 0) + 0.3 * (performance.now() - began);
  if (pending.size) wait(busy() || LATER);
}

// Lets the browser paint and listen between two pictures.
const breath = () =>
  new Promise((done) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(null);
  });

export function show(box, content) {
  if (content.figure) return picture(box, content);
  drawnFor(box, content);
  if (stateOf(box).kind === "meter") return meter(box, content);
  if (stateOf(box).kind === "tally") return tally(box, stateOf(box).answers, content);
  if (stateOf(box).kind === "bar") return stateOf(box).bar.show(content);
  if (stateOf(box).kind === "timeline") return moveTimeline(box, content);
  if (content.html !== undefined) return page(box, content.html);
  return words(box, content.text ?? "", content.since);
}
