// The playground's first pictures, while Streamlit's own scripts start: the film that the page will
// show, on the places where it will show it. It goes when the page's own picture is there.

import { sketch, sketchable } from "./sketch.js";

const MOMENT = 400; // milliseconds that each is shown, as in the page itself
const FIRST = 100; // and the first: something moves at once
const PATIENCE = 500; // milliseconds that Streamlit's start waits for the first
const LONGEST = 20000; // milliseconds, after which something is wrong, and the page says what
const TITLES = { deep: "Deep model: 2 layers", rival: "Its single-layer rival, on the same axes" };
const CSS = `
.early { position: fixed; inset: 0; z-index: 50; pointer-events: none;
  overflow: hidden; font: 16px/25.6px "Source Sans", sans-serif; }
.early > div { position: absolute; top: 156px; left: 288px;
  width: calc((100% - 320px) * 5 / 14 - 21.33px); }
.early > div + div { left: calc(288px + (100% - 320px) * 5 / 14 + 10.67px); }
.early b { font-weight: 600; white-space: nowrap; }
.early-picture { position: relative; margin-top: 8px; }
.early canvas { position: absolute; top: 0; left: 0; }
@media (max-width: 768px) {
  .early > div, .early > div + div { top: 232px; left: 16px; width: calc(100% - 32px); }
  .early > div + div { top: 582.5px; }
}`;

const dark = () => {
  const chosen = localStorage.getItem(`stActiveTheme-${location.pathname}-v2`) ?? "";
  const named = /"name":"(Light|Dark)"/.exec(chosen)?.[1];
  return named ? named === "Dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

// Two moments at a time. The first address is the one that the page's HTML asks for before all else.
const search = location.search.slice(1);

async function ask(moment) {
  const answer = await fetch(`early?dark=${Number(dark())}&moment=${moment}&${search}`);
  return answer.status === 200 ? answer.json() : [];
}

function curtain() {
  const whole = document.createElement("div");
  whole.className = "early";
  whole.setAttribute("aria-hidden", "true");
  const style = document.createElement("style");
  style.textContent = CSS;
  whole.append(style);
  for (const [name, title] of Object.entries(TITLES)) {
    const [part, words, box] = ["div", "b", "div"].map((kind) => document.createElement(kind));
    words.textContent = title;
    box.className = "early-picture";
    whole[name] = box;
    part.append(words, box);
    whole.append(part);
  }
  document.documentElement.append(whole); // there may be no body yet
  return whole;
}

function draw(whole, pictures) {
  const { paper, figure: first } = pictures.deep;
  Object.assign(whole.style, { background: paper, color: first.layout.font.color });
  for (const name of Object.keys(TITLES)) {
    const [box, { figure }] = [whole[name], pictures[name]];
    box.style.height = figure.layout.height + "px";
    sketch(box, figure);
    box.dataset.drawn = Number(box.dataset.drawn ?? 0) + 1;
  }
}

const pause = (wait) => new Promise((done) => setTimeout(done, wait));

async function show(seen) {
  const { pathname } = location;
  let moments = await ask(0);
  const figures = moments.flatMap(Object.values).map((picture) => picture.figure);
  if (!figures.length || !figures.every(sketchable)) return seen();
  const whole = curtain();
  const over = () =>
    document.querySelector('[data-name="main/deep"][data-drawn], [data-testid=stException]') ||
    location.pathname !== pathname ||
    performance.now() > LONGEST;
  const watch = () => (over() ? whole.remove() : requestAnimationFrame(watch));
  watch();
  for (let n = 0; moments.length && whole.isConnected; ) {
    for (const pictures of moments) {
      draw(whole, pictures);
      requestAnimationFrame(() => setTimeout(seen)); // it is on the screen
      window.dgpEarly = n++; // the page goes on from there
      await pause(n > 1 ? MOMENT : FIRST);
    }
    moments = await ask(n);
  }
}

// Streamlit's start keeps the browser busy: it waits until a picture is seen, but not for long.
export const shown = Promise.race([
  new Promise((seen) => show(seen).catch(seen)),
  pause(PATIENCE),
]);
