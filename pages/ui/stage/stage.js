// Hosts of the live pages: pictures, words, meters and the history slider, fed by one WebSocket.
//
// A page's script only places the hosts; what they show comes from the server as it happens, so
// nothing is rendered anew and nothing flickers. A frame is asked for by the answer "drawn" to the
// one before, so a slow browser gets fewer frames instead of a queue of stale ones.

import { Bar, listenToKeys } from "./bar.js";
import { axisName, fits, numbers, rub, sketch, sketchable, surroundings } from "./sketch.js";

const NEAR = 14; // pixels within which a press takes hold of an inducing point
const hosts = new Map(); // name -> Set of boxes
const newest = new Map(); // name -> what to show
const stage = (window.dgpStage ??= { socket: null, token: null, frames: 0 });
const REST = 500; // milliseconds without a frame, after which Plotly draws what was sketched
const FIRST = 700; // milliseconds that sketches move before Plotly's start holds them up
const touch = () => window.matchMedia("(pointer: coarse)").matches;

let library;
const plotly = (src) =>
  (library ??= new Promise((done, failed) => {
    if (window.Plotly) return done(window.Plotly);
    const script = document.createElement("script"); // the page's HTML has it fetched already
    script.src = src;
    script.onload = () => done(window.Plotly);
    script.onerror = failed;
    document.head.appendChild(script);
  }));

export function mount({ parentElement, data, setTriggerValue }) {
  const box = parentElement.querySelector(".stage-host");
  if (data.kind === "connection") return connect(data, setTriggerValue);
  box.kind = data.kind;
  box.library = data.library;
  box.gone = false;
  if (data.kind === "figure") {
    box.dataset.name = data.name;
    const { figure, alt, clicks } = data;
    if (box.shown !== figure) show(box, { figure: JSON.parse(figure), alt, clicks });
    else if (box._fullLayout) Object.assign(box.content, { clicks }), showPoints(box);
    box.shown = figure;
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
  if (box.sought) return;
  box.sought = true;
  if (!(performance.now() - stage.hand < SEEK)) return;
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  box.scrollIntoView({ block: "center", behavior: still ? "auto" : "smooth" });
}

function forget(box) {
  hosts.get(box.dataset.name)?.delete(box);
  pending.delete(box);
  waits.delete(box);
  box.observer?.disconnect();
  box.observer = box.waiting = null;
  clearTimeout(box.resting);
  box.gone = true;
  // Plotly looks at what it has drawn once more when it is done.
  Promise.resolve(box.work).then(() => {
    if (!box.gone || !box.querySelector(".main-svg")) return;
    window.Plotly.purge(box);
    box.emit = () => {}; // a hover that was under way still reports
  });
}

// What Plotly is doing with a box, until it is done, well or ill.
const work = (box, doing) => {
  box.work = Promise.allSettled([box.work, doing]).then(() => {});
  return doing;
};

// The connection: one a page, opened anew where it was lost.

function connect(data, setTriggerValue) {
  if (stage.path && stage.path !== location.pathname && !location.hash)
    document.querySelector("[data-testid=stMain]")?.scrollTo(0, 0);
  stage.path = location.pathname;
  stage.trigger = setTriggerValue;
  const before = stage.scenes ?? {};
  stage.scenes = data.scenes;
  for (const [scene, { run }] of Object.entries(data.scenes))
    if (run !== before[scene]?.run) begin(scene, run);
  taken(data.taken);
  if (stage.token === data.token && stage.socket?.readyState <= 1) return;
  stage.token = data.token;
  stage.socket?.close();
  newest.clear();
  frames.clear();
  open(data.token, 250);
}

function open(token, wait) {
  if (token !== stage.token) return;
  const url = new URL("stage/" + token, document.baseURI);
  url.protocol = url.protocol.replace("http", "ws");
  if (window.dgpEarly) url.searchParams.set("film", window.dgpEarly); // early.js has come so far
  const socket = (stage.socket = new WebSocket(url));
  socket.binaryType = "arraybuffer";
  let answered = false;
  socket.onmessage = async (event) => {
    answered = true;
    stage.lost = null;
    const { data } = event;
    const frame = JSON.parse(typeof data === "string" ? data : new TextDecoder().decode(data));
    stage.ahead = frame.now - Date.now() / 1000;
    await draw(frame.elements);
    if (!frame.n) return; // an answer between two frames
    stage.frames += 1;
    if (socket.readyState === 1) socket.send(JSON.stringify({ drawn: frame.n }));
  };
  socket.onopen = () => {
    tellWishes();
    tellMoves();
  };
  socket.onclose = (event) => {
    if (socket !== stage.socket) return;
    if (event.code === 4404) return say("**Not connected.** Reload the page to go on.");
    if (answered) stage.lost ??= Date.now() / 1000 + (stage.ahead ?? 0);
    if (stage.lost) say("**Connection lost.** Trying again …", stage.lost);
    setTimeout(() => open(token, Math.min(8000, 2 * wait)), answered ? 250 : wait);
  };
}

// In place of what the run is doing, which nobody knows meanwhile.
function say(text, since) {
  for (const [name, boxes] of hosts)
    if (name.endsWith("/state")) for (const box of boxes) words(box, text, since);
}

const send = (message) => {
  if (stage.socket?.readyState === 1) stage.socket.send(JSON.stringify(message));
};

// Which run is shown. A frame's element "state" names the run of its scene and how often it was
// reset; the page's script names it too, and may be earlier or later than the frame. What is still
// of the run before is dimmed until it is drawn for the new one.

const runs = new Map(); // scene -> the run that is to be seen: its id, and its resets once known
const frames = new Map(); // scene -> the last "state": of which run the frames are
const past = new Map(); // scene -> ids of runs that were replaced
const idOf = (run) => run?.split(" ")[0];
const sceneOf = (name) => name.split("/")[0];

function begin(scene, run) {
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
function hear(scene, state) {
  frames.set(scene, state);
  for (const [name, boxes] of hosts)
    for (const box of sceneOf(name) === scene ? boxes : [])
      if (box.content?.run === state.run) {
        box.content.clicks = state.clicks;
        if (box._fullLayout) showPoints(box);
      }
}

function drawnFor(box, { run }) {
  if (run !== runs.get(sceneOf(box.dataset.name))) return;
  box.classList.remove("stage-stale");
  box.removeAttribute("aria-busy");
}

const MAIN = /\/(deep|rival)$/; // drawn in every frame
const SLOW = 110; // milliseconds of a frame, above which the others take turns

// Whoever presses a button or moves a slider is answered first: pictures wait meanwhile, and only
// the newest of each is drawn after that.
const ANSWER = 250; // milliseconds
for (const kind of ["pointerdown", "click", "keydown"])
  document.addEventListener(
    kind,
    (event) => {
      const on = event.target.closest?.("button, [role=slider]");
      if (on) Object.assign(stage, { hand: performance.now(), slides: !on.matches("button") });
    },
    true,
  );

const busy = () => Math.max(0, (stage.hand ?? -ANSWER) + ANSWER - performance.now());
const pending = new Map(); // box -> the newest content that it has not drawn yet

async function draw(elements) {
  for (const [name, content] of Object.entries(elements))
    if (content.run) hear(sceneOf(name), content);
  for (const [name, content] of Object.entries(elements)) {
    const scene = sceneOf(name);
    const { run, clicks } = frames.get(scene) ?? {};
    if (past.get(scene)?.has(idOf(run))) continue; // it was under way when another began
    if (run) begin(scene, run);
    Object.assign(content, { run, clicks });
    newest.set(name, content);
    for (const box of hosts.get(name) ?? []) {
      if (!box.isConnected) hosts.get(name).delete(box);
      else if (content.figure) pending.set(box, content);
      else show(box, content);
    }
  }
  // After a slider another run may begin, whose frames need not queue behind this one.
  if (busy() && stage.slides) return wait(busy());
  while (busy()) await new Promise((done) => setTimeout(done, busy()));
  await paint(false);
}

function wait(milliseconds) {
  clearTimeout(stage.later);
  stage.later = setTimeout(() => paint(true), milliseconds);
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
  if (pending.size) wait(busy() || 400);
}

// Lets the browser paint and listen between two pictures.
const breath = () =>
  new Promise((done) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = done;
    channel.port2.postMessage(null);
  });

function show(box, content) {
  if (content.figure) return picture(box, content);
  drawnFor(box, content);
  if (box.kind === "meter") return meter(box, content);
  if (box.kind === "bar") return box.bar.show(content);
  if (box.kind === "timeline") return moveTimeline(box, content);
  if (content.html !== undefined) return page(box, content.html);
  return words(box, content.text ?? "", content.since);
}

// HTML of the server's own making, such as a legend.
function page(box, html) {
  if (box.said !== html) box.innerHTML = html;
  box.said = html;
}

// Words: **bold** is the only mark; everything else is shown as it is.

function words(box, text, since) {
  if (box.said !== text) {
    box.said = text;
    box.replaceChildren(
      ...text.split("**").map((part, i) => {
        const span = document.createElement(i % 2 ? "strong" : "span");
        span.textContent = part;
        return span;
      }),
    );
  }
  if (since) waits.set(box, since);
  else waits.delete(box);
  sayHowLong(box, since);
}

// How long a wait has lasted, by the server's clock; counted here, without another frame.
const waits = new Map(); // box -> since when
function sayHowLong(box, since) {
  const seconds = since ? Math.floor(Date.now() / 1000 + (stage.ahead ?? 0) - since) : 0;
  const minutes = Math.floor(seconds / 60);
  const said = minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
  const last = box.querySelector(".stage-elapsed") ?? document.createElement("span");
  last.className = "stage-elapsed";
  last.textContent = seconds > 0 ? ` · ${said}` : "";
  if (!last.isConnected && seconds > 0) box.append(last);
}
setInterval(() => waits.forEach((since, box) => sayHowLong(box, since)), 500);

function meter(box, { value, text }) {
  if (!box.bar) {
    box.line = document.createElement("div");
    box.line.className = "stage-meter-words";
    const track = document.createElement("div");
    track.className = "stage-meter-track";
    track.setAttribute("role", "meter");
    track.setAttribute("aria-valuemin", "0");
    track.setAttribute("aria-valuemax", "1");
    box.bar = document.createElement("div");
    track.append(box.bar);
    box.replaceChildren(box.line, track);
  }
  box.line.textContent = text;
  box.bar.style.width = 100 * value + "%";
  box.bar.parentElement.setAttribute("aria-valuenow", value.toFixed(3));
  box.bar.parentElement.setAttribute("aria-label", text);
}

// The bar: most of what it wishes is told to the server, in its order; what the page's script has to
// do, and what is wished of a run that is over, runs the script.

const wishes = []; // not told yet

function drive(box, data, trigger) {
  const scene = sceneOf(data.name);
  box.act = (word) => {
    const gone = newest.get(scene + "/state")?.phase === "gone";
    if (gone || data.script.includes(word.split(" ")[0])) return trigger("wish", word);
    wishes.push({ scene, word });
    tellWishes();
  };
  box.bar ??= new Bar(box, data, (word) => box.act(word));
}

function tellWishes() {
  while (wishes.length && stage.socket?.readyState === 1) send({ wish: wishes.shift() });
}

listenToKeys(() =>
  [...document.querySelectorAll(".stage-host[data-kind=bar]")]
    .map((box) => box.bar)
    .filter((bar) => bar?.hold.hasAttribute("aria-keyshortcuts")),
);

// The history slider: the last place is the newest moment, and moves on with it.

function timeline(box) {
  if (box.range) return;
  box.range = document.createElement("input");
  Object.assign(box.range, { type: "range", min: 0, max: 0, step: 1, value: 0 });
  box.range.setAttribute("aria-label", "History: an earlier moment of this run");
  box.said = document.createElement("span");
  box.back = document.createElement("button");
  Object.assign(box.back, { type: "button", textContent: "Back to now", hidden: true });
  box.range.oninput = () => {
    const last = Number(box.range.max);
    const index = Number(box.range.value);
    send({ at: index >= last ? null : index / Math.max(1, last) });
  };
  box.back.onclick = () => send({ at: null });
  box.replaceChildren(box.range, box.said, box.back);
}

function moveTimeline(box, { index, count, text, live }) {
  if (document.activeElement !== box.range || live) {
    box.range.max = Math.max(0, count - 1);
    box.range.value = index;
  }
  box.range.disabled = count < 2;
  box.range.setAttribute("aria-valuetext", text);
  box.said.textContent = text;
  box.back.hidden = live;
}

// Pictures.

// While frames come, a picture that only moves is sketched; Plotly draws it where its axes change,
// where the pointer is (it hovers, zooms and drags), and when it has come to rest.
async function picture(box, content) {
  const { figure, alt, paper } = content;
  box.content = content;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", alt);
  enlarge(figure.layout);
  box.style.height = figure.layout.height + "px";
  box.paper = paper;
  if (touch()) figure.layout.dragmode = false;
  clearTimeout(box.resting);
  const quick = sketchable(figure);
  const still = box.matches(":hover") || box.held;
  const moves = quick && fits(surroundings(figure), box.around) && !still;
  if (moves || !window.Plotly) {
    box.waiting = content;
    if (quick && box.clientWidth) {
      sketch(box, figure, box._fullLayout);
      box.classList.add("stage-sketched");
      count(box);
      drawnFor(box, content);
      if (box._fullLayout) showPoints(box);
    }
    if (box.around) box.resting = setTimeout(() => settle(box), REST);
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
  if (box.waiting) await finish(box, box.waiting);
}

async function finish(box, content) {
  const { figure } = content;
  const { layout } = figure;
  box.waiting = null;
  box.meta = layout.meta ?? {};
  let Plotly;
  try {
    Plotly = await plotly(box.library);
  } catch {
    box.textContent = "The charts' script did not load. Reload the page.";
    return;
  }
  if (box.gone || !box.isConnected) return;
  const data = inPlace(box, figure.data);
  const around = surroundings(figure);
  await work(box, Plotly.react(box, data, layout, { displayModeBar: false, doubleClick: "reset" }));
  box.around = around;
  box.classList.remove("stage-sketched");
  rub(box);
  count(box);
  if (box.gone) return; // while it was being drawn
  drawnFor(box, content);
  showPoints(box);
  if (box.meta.follow) ring(box, stage.followed ?? null);
  if (box.observer) return;
  box.observer = new ResizeObserver(() => {
    if (box.isConnected) work(box, Plotly.Plots.resize(box)).then(() => showPoints(box));
  });
  box.observer.observe(box);
  box.addEventListener("pointerenter", () => settle(box));
  listen(box);
  follow(box);
  downloads(box);
}

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
  const { drag } = box.meta;
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
  const before = { x: trace.x[index], y: trace.y[index] };
  return { index, before, trace: drag.trace, plane: drag.plane };
}

// A point in the hand stays under it, whatever the frames say meanwhile; let go, it stays there
// until a frame has it nearer to this place than to where the frames had it.
const LATE = 3000; // milliseconds after which the frames are believed

function inPlace(box, data) {
  const { held } = box;
  const trace = held && data.find((one) => one.name === held.trace);
  if (!trace || held.x === undefined) return data;
  const xs = Array.from(numbers(trace.x));
  const ys = Array.from(numbers(trace.y));
  if (held.released) {
    const far = (x, y) => Math.hypot(xs[held.index] - x, held.plane ? ys[held.index] - y : 0);
    const there = far(held.x, held.y) <= far(held.before.x, held.before.y);
    if (there) box.held = null;
    if (there) return data;
  }
  held.before = { x: xs[held.index], y: ys[held.index] };
  xs[held.index] = held.x;
  if (held.plane) ys[held.index] = held.y;
  return data.map((one) => (one === trace ? { ...trace, x: xs, y: ys } : one));
}

// Moves Plotly's own mark, without having it draw everything anew.
function follows(box) {
  const { trace, index, x, y, plane } = box.held;
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

function tellMoves() {
  if (stage.telling || !moved.size || stage.socket?.readyState !== 1) return;
  for (const move of moved.values()) send({ move });
  moved.clear();
  stage.telling = setTimeout(() => {
    stage.telling = null;
    tellMoves();
  }, APART);
}

function listen(box) {
  let pressed = null;
  const move = (event) => {
    const here = place(box, event);
    if (here) Object.assign(box.held, { x: here.x, y: here.y });
    const { index, x, y } = box.held;
    if (x === undefined) return;
    const name = box.dataset.name;
    moved.set(`${name} ${index}`, { name, index, x, y });
    follows(box);
    tellMoves();
  };
  box.addEventListener(
    "pointerdown",
    (event) => {
      pressed = { x: event.clientX, y: event.clientY };
      if (box.meta.click) Object.assign(stage, { hand: performance.now(), slides: false });
      const caught = event.button === 0 && grip(box, event);
      if (!caught) return;
      box.held = caught;
      event.stopPropagation();
      event.preventDefault();
      box.setPointerCapture(event.pointerId);
    },
    true,
  );
  // A finger that holds a point drags it, and does not scroll the page.
  const inHand = () => box.held && !box.held.released;
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
    const { held } = box;
    if (held.x === undefined) return (box.held = null);
    held.released = true;
    setTimeout(() => {
      if (box.held !== held || box.gone) return;
      box.held = null;
      if (newest.has(box.dataset.name)) picture(box, newest.get(box.dataset.name));
    }, LATE);
  };
  box.addEventListener("pointerup", release, true);
  box.addEventListener("pointercancel", release, true);
  box.addEventListener("click", (event) => {
    if (!box.meta.click || event.target.closest(".stage-menu")) return;
    if (pressed && Math.hypot(event.clientX - pressed.x, event.clientY - pressed.y) > 4) return;
    const here = place(box, event);
    if (!here) return;
    const { xaxis, yaxis } = here.plot;
    const wide = Math.abs(xaxis.p2d(xaxis._length) - xaxis.p2d(0));
    const high = Math.abs(yaxis.p2d(yaxis._length) - yaxis.p2d(0));
    const row = rowAt(box, here);
    if (row === null) return;
    click({
      name: box.dataset.name,
      row,
      x: here.x,
      y: here.y,
      near_x: (10 * wide) / xaxis._length,
      near_y: (10 * high) / yaxis._length,
    });
  });
}

// Clicks are numbered, and told to the page's script until it says that it has taken them: while it
// deals with some, others wait, and none is lost. A point that a click puts down is shown at once.

const MOST_CLICKS = 400; // that are remembered
const UNHEARD = 3000; // milliseconds after which a click is told again
stage.clicks ??= [];
stage.serial ??= 0;

function click(where) {
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

function taken(serial) {
  if (serial === stage.taken) return;
  stage.taken = serial;
  clearTimeout(stage.asking);
  stage.asking = null;
  tellClicks();
}

// What clicks make of the points of a picture that has not heard of them yet, by the rule of the
// script: one near a point takes it away, any other puts one down.
function showPoints(box) {
  box.querySelectorAll(".stage-mark").forEach((mark) => mark.remove());
  const { draws } = box.meta ?? {};
  const scene = sceneOf(box.dataset.name);
  const mine = box.kind === "figure" || stage.scenes?.[scene]?.mine;
  const seen = box.content?.clicks ?? 0;
  const news = stage.clicks.filter(
    ({ name, serial }) => serial > seen && sceneOf(name) === scene && (name === box.dataset.name || MAIN.test(name)),
  );
  if (!draws || !mine || !news.length) return;
  const trace = box.content.figure.data.find((one) => one.name === draws);
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
    const dot = document.createElement("div");
    dot.className = `stage-mark stage-mark-${kind}`;
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
function rowAt(box, { plot, x, px, py }) {
  const { ranks, nearest } = box.meta;
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

// A row under the pointer is ringed in every picture of the same kind: one is followed through all
// layers. Such pictures say meta.follow, and a row's number is the first of its customdata.
function follow(box) {
  const rings = (row) => {
    stage.followed = row;
    for (const other of document.querySelectorAll(".stage-host"))
      if (other.meta?.follow && other._fullLayout) ring(other, row);
  };
  box.on("plotly_hover", ({ points }) => {
    const { data, customdata } = points[0];
    if (box.meta.follow && data.name?.startsWith(box.meta.follow)) rings(customdata[0]);
  });
  box.on("plotly_unhover", () => box.meta.follow && rings(null));
}

function ring(box, row) {
  box.querySelectorAll(".stage-ring").forEach((one) => one.remove());
  if (row === null) return;
  for (const trace of box._fullData) {
    if (!trace.name.startsWith(box.meta.follow)) continue;
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

// What a picture gives away: itself as PNG or SVG, and the numbers behind it as CSV.

function downloads(box) {
  const menu = document.createElement("details");
  menu.className = "stage-menu";
  const summary = document.createElement("summary");
  summary.textContent = "⤓";
  summary.setAttribute("aria-label", "Download this picture or its numbers");
  summary.title = "Download";
  menu.append(summary);
  for (const format of ["PNG", "SVG", "CSV"]) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", textContent: format });
    button.onclick = async () => {
      menu.open = false;
      await settle(box);
      const name = (box.getAttribute("aria-label") ?? "picture").replace(/\W+/g, "-").slice(0, 60);
      save(`${name}.${format.toLowerCase()}`, await (format === "CSV" ? csv(box) : image(box, format)));
    };
    menu.append(button);
  }
  box.parentElement.append(menu);
  box.parentElement.classList.add("stage-frame");
}

async function image(box, format) {
  const page = getComputedStyle(box).getPropertyValue("--st-background-color").trim();
  const layout = { ...box.layout, paper_bgcolor: box.paper ?? (page || "#fff") };
  const { width, height } = box.getBoundingClientRect();
  return window.Plotly.toImage(
    { data: box.data, layout },
    { format: format.toLowerCase(), width, height, scale: 2 },
  );
}

// The numbers behind the marks, with what the axes call them; a shade is turned back into what it
// is a shade of.
export function csv(box) {
  const traces = box._fullData.filter((trace) => trace.x || trace.y || trace.z);
  const titles = (letter) => {
    const axes = traces.map((trace) => trace[letter + "axis"] ?? letter);
    const said = axes.map((name) => box._fullLayout[axisName(name)]?.title?.text ?? "");
    return [...new Set(said.filter(Boolean))].join(" | ") || letter;
  };
  const columns = [titles("x"), titles("y"), "value", ...ERRORS, "text"];
  const found = [];
  for (const trace of traces) {
    const name = trace.name ?? trace.type;
    const add = (i, x, y, value) => {
      const text = Array.isArray(trace.text) ? trace.text[i] : "";
      const custom = trace.customdata?.[i] ?? [];
      const more = typeof custom === "object" ? Array.from(custom) : [custom];
      found.push([name, x, y, value, ...errors(trace, i), text, ...more]);
    };
    if (trace.z) {
      const { peak, power } = trace.meta ?? {};
      const real = (z) => (peak ? peak * (z / 255) ** power : z);
      trace.z.forEach((line, i) =>
        Array.from(line).forEach((z, j) => add(NaN, trace.x?.[j] ?? j, trace.y?.[i] ?? i, real(z))),
      );
      continue;
    }
    const n = Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
    const colours = trace.marker?.color;
    for (let i = 0; i < n; i++) {
      const value = typeof colours?.[i] === "number" ? colours[i] : "";
      add(i, trace.x?.[i] ?? "", trace.y?.[i] ?? "", value);
    }
  }
  const most = Math.max(0, ...found.map((row) => row.length - columns.length - 1));
  const head = ["trace", ...columns, ...Array(most).keys()].map((one, i) =>
    i > columns.length ? `more ${one + 1}` : one,
  );
  // Columns that no trace fills are left out.
  const used = head.map((_, i) => i < 3 || found.some((row) => (row[i] ?? "") !== ""));
  const rows = [head, ...found].map((row) => head.map((_, i) => row[i]).filter((_, i) => used[i]));
  const cell = (value) => {
    const text = typeof value === "string" ? plain(value) : String(value ?? "");
    const safe = typeof value === "string" && /^[=+\-@\t]/.test(text) ? "'" + text : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const text = rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  return URL.createObjectURL(new Blob([text], { type: "text/csv" }));
}

// Words of a picture without their marks: names from files are spelt for HTML there.
const plain = (html) => new DOMParser().parseFromString(html, "text/html").body.textContent;

const ERRORS = ["x minus", "x plus", "y minus", "y plus"];

// How far the bars of a mark reach.
function errors(trace, i) {
  return [trace.error_x, trace.error_y].flatMap((bars) => {
    if (!bars?.visible || !bars.array) return ["", ""];
    return [(bars.symmetric === false && bars.arrayminus ? bars.arrayminus : bars.array)[i], bars.array[i]];
  });
}

function save(name, url) {
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 10000);
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
    if (box.content) picture(box, box.content);
}).observe(rem);
