// Hosts of the live pages: pictures, words, meters and the history slider, fed by one WebSocket.
//
// A page's script only places the hosts; what they show comes from the server as it happens, so
// nothing is rendered anew and nothing flickers. A frame is asked for by the answer "drawn" to the
// one before, so a slow browser gets fewer frames instead of a queue of stale ones.

import { fits, rub, sketch, sketchable, surroundings } from "./sketch.js";

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
  if (data.kind === "figure") {
    box.dataset.name = data.name;
    const { figure, alt } = data;
    if (box.shown !== figure) show(box, { figure: JSON.parse(figure), alt });
    box.shown = figure;
    return () => forget(box);
  }
  box.dataset.name = data.name;
  box.setAttribute("data-kind", data.kind);
  if (data.height) box.style.minHeight = data.height + "px";
  if (data.kind === "timeline") timeline(box);
  if (!hosts.has(data.name)) hosts.set(data.name, new Set());
  hosts.get(data.name).add(box);
  if (newest.has(data.name)) show(box, newest.get(data.name));
  return () => forget(box);
}

function forget(box) {
  hosts.get(box.dataset.name)?.delete(box);
  box.observer?.disconnect();
  box.observer = box.waiting = null;
  clearTimeout(box.resting);
  if (!box.querySelector(".main-svg")) return;
  window.Plotly?.purge(box);
  box.emit = () => {}; // what was being drawn still reports when it is done
}

// The connection: one a page, opened anew where it was lost.

function connect(data, setTriggerValue) {
  stage.trigger = setTriggerValue;
  stage.phase = data.phase;
  if (stage.token === data.token && stage.socket?.readyState <= 1) return;
  stage.token = data.token;
  stage.socket?.close();
  newest.clear();
  open(data.token, 250);
}

function open(token, wait) {
  if (token !== stage.token) return;
  const url = new URL("stage/" + token, document.baseURI);
  url.protocol = url.protocol.replace("http", "ws");
  const socket = (stage.socket = new WebSocket(url));
  let answered = false;
  socket.onmessage = async (event) => {
    answered = true;
    const frame = JSON.parse(event.data);
    await draw(frame.elements);
    stage.frames += 1;
    if (socket.readyState === 1) socket.send(JSON.stringify({ drawn: frame.n }));
  };
  socket.onclose = (event) => {
    if (socket !== stage.socket || event.code === 4404) return;
    setTimeout(() => open(token, Math.min(8000, 2 * wait)), answered ? 250 : wait);
  };
}

const send = (message) => {
  if (stage.socket?.readyState === 1) stage.socket.send(JSON.stringify(message));
};

const MAIN = /\/(deep|rival)$/; // drawn in every frame
const SLOW = 110; // milliseconds of a frame, above which the others take turns

async function draw(elements) {
  const pictures = [];
  for (const [name, content] of Object.entries(elements)) {
    newest.set(name, content);
    if (content.phase && content.phase !== stage.phase) {
      stage.phase = content.phase;
      stage.trigger?.("phase", content.phase);
    }
    for (const box of hosts.get(name) ?? []) {
      if (!box.isConnected) hosts.get(name).delete(box);
      else if (content.figure) pictures.push([box, content, MAIN.test(name)]);
      else show(box, content);
    }
  }
  clearTimeout(stage.later);
  const began = performance.now();
  const waiting = [];
  pictures.sort((a, b) => b[2] - a[2]);
  for (const [i, [box, content, main]] of pictures.entries()) {
    if (!main && stage.cost > SLOW && (i + stage.frames) % 2) waiting.push([box, content]);
    else await picture(box, content).then(breath);
  }
  stage.cost = 0.7 * (stage.cost ?? 0) + 0.3 * (performance.now() - began);
  stage.later = setTimeout(() => waiting.forEach(([box, content]) => picture(box, content)), 400);
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
  if (box.kind === "meter") return meter(box, content);
  if (box.kind === "timeline") return moveTimeline(box, content);
  if (content.html !== undefined) return page(box, content.html);
  return words(box, content.text ?? "");
}

// HTML of the server's own making, such as a legend.
function page(box, html) {
  if (box.said !== html) box.innerHTML = html;
  box.said = html;
}

// Words: **bold** is the only mark; everything else is shown as it is.

function words(box, text) {
  if (box.said === text) return;
  box.said = text;
  box.replaceChildren(
    ...text.split("**").map((part, i) => {
      const span = document.createElement(i % 2 ? "strong" : "span");
      span.textContent = part;
      return span;
    }),
  );
}

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
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", alt);
  enlarge(figure.layout);
  box.style.height = figure.layout.height + "px";
  box.paper = paper;
  if (touch()) figure.layout.dragmode = false;
  clearTimeout(box.resting);
  const quick = sketchable(figure);
  const moves = quick && fits(surroundings(figure), box.around) && !box.matches(":hover");
  if (moves || !window.Plotly) {
    box.waiting = content;
    if (quick && box.clientWidth) {
      sketch(box, figure, box._fullLayout);
      box.classList.add("stage-sketched");
      count(box);
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

const count = (box) => (box.dataset.drawn = Number(box.dataset.drawn ?? 0) + 1);

// Plotly draws what was sketched last.
async function settle(box) {
  if (box.waiting) await finish(box, box.waiting);
}

async function finish(box, { figure }) {
  const { data, layout } = figure;
  box.waiting = null;
  box.meta = layout.meta ?? {};
  let Plotly;
  try {
    Plotly = await plotly(box.library);
  } catch {
    box.textContent = "The charts' script did not load. Reload the page.";
    return;
  }
  if (!box.isConnected) return;
  if (box.held) holdInPlace(box, data);
  const around = surroundings(figure);
  await Plotly.react(box, data, layout, { displayModeBar: false, doubleClick: "reset" });
  box.around = around;
  box.classList.remove("stage-sketched");
  rub(box);
  count(box);
  if (box.observer) return;
  box.observer = new ResizeObserver(() => box.isConnected && Plotly.Plots.resize(box));
  box.observer.observe(box);
  box.addEventListener("pointerenter", () => settle(box));
  listen(box);
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
  const here = drag && place(box, event);
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
  return best && { index: best.index, trace: drag.trace, plane: drag.plane };
}

// A point in the hand stays under it, whatever the frames say meanwhile.
function holdInPlace(box, data) {
  const trace = data.find((one) => one.name === box.held.trace);
  if (!trace || box.held.x === undefined) return;
  const plain = window.Plotly ? box._fullData.find((one) => one.name === box.held.trace) : null;
  if (!plain) return;
  trace.x = Array.from(plain.x);
  trace.x[box.held.index] = box.held.x;
  if (box.held.plane) {
    trace.y = Array.from(plain.y);
    trace.y[box.held.index] = box.held.y;
  }
}

function listen(box) {
  let pressed = null;
  let last = 0;
  const tell = (event, done) => {
    const here = place(box, event);
    if (here) Object.assign(box.held, { x: here.x, y: here.y });
    if (box.held.x === undefined) return;
    const { index, x, y } = box.held;
    send({ move: { name: box.dataset.name, index, x, y, done } });
  };
  box.addEventListener(
    "pointerdown",
    (event) => {
      pressed = { x: event.clientX, y: event.clientY };
      box.held = event.button === 0 ? grip(box, event) : null;
      if (!box.held) return;
      event.stopPropagation();
      event.preventDefault();
      box.setPointerCapture(event.pointerId);
    },
    true,
  );
  for (const kind of ["mousedown", "touchstart"])
    box.addEventListener(kind, (event) => box.held && event.stopPropagation(), true);
  box.addEventListener("pointermove", (event) => {
    if (!box.held) {
      box.classList.toggle("stage-grip", Boolean(grip(box, event)));
      return;
    }
    if (event.timeStamp - last < 60) return;
    last = event.timeStamp;
    tell(event, false);
  });
  const release = (event) => {
    if (!box.held) return;
    tell(event, true);
    box.held = null;
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
    stage.trigger?.("click", {
      name: box.dataset.name,
      x: here.x,
      y: here.y,
      near_x: (10 * wide) / xaxis._length,
      near_y: (10 * high) / yaxis._length,
    });
  });
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
  const layout = { ...box.layout, paper_bgcolor: box.paper ?? "#fff" };
  const { width, height } = box.getBoundingClientRect();
  return window.Plotly.toImage(
    { data: box.data, layout },
    { format: format.toLowerCase(), width, height, scale: 2 },
  );
}

export function csv(box) {
  const rows = [["trace", "x", "y", "value"]];
  for (const trace of box._fullData) {
    const name = trace.name ?? trace.type;
    if (trace.z) {
      trace.z.forEach((line, i) =>
        Array.from(line).forEach((z, j) => rows.push([name, trace.x?.[j] ?? j, trace.y?.[i] ?? i, z])),
      );
    } else {
      const n = Math.max(trace.x?.length ?? 0, trace.y?.length ?? 0);
      for (let i = 0; i < n; i++) rows.push([name, trace.x?.[i] ?? "", trace.y?.[i] ?? "", ""]);
    }
  }
  const cell = (value) => {
    const text = String(value ?? "");
    const safe = typeof value === "string" && /^[=+\-@\t]/.test(text) ? "'" + text : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const text = rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  return URL.createObjectURL(new Blob([text], { type: "text/csv" }));
}

function save(name, url) {
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// On a wall the page's type is larger, and so is that of its pictures.
const enlarged = new WeakSet();

function enlarge(layout) {
  const times = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
  if (times <= 1 || enlarged.has(layout)) return;
  enlarged.add(layout);
  const grow = (part) => {
    for (const [name, value] of Object.entries(part ?? {})) {
      if (/font$/.test(name) && value?.size) value.size *= times;
      else if (value && typeof value === "object" && name !== "margin") grow(value);
    }
  };
  grow(layout);
  layout.height *= times;
}
