// A class: a teacher's page tells where it is, and those that follow it go there and show the same.

import { element, send, stage } from "./shared.js";

const UNHEARD = 3000; // milliseconds after which the script is asked again
const TELL = 100; // … between two words of a teacher's place
const ANEW = 2000; // … for which pictures wait at most, while the page is made anew
const SETTLES = 3000; // … in which a page that grows stays at its place
const LINE = 0.3; // of the window's height: what lies there is being looked at

const main = () => document.querySelector("[data-testid=stMain]");
const lineOf = (scrolls) => {
  const { top, height } = scrolls.getBoundingClientRect();
  return top + LINE * height;
};
const partOf = (i) => document.querySelector(`.st-key-part_${i}`);

// The page's script has run: it shows this version of the class.
export function joined(lesson, box, trigger) {
  const changed = stage.lesson?.follows !== lesson.follows;
  Object.assign(stage, { lesson, lessonBox: box, lessonTrigger: trigger });
  clearTimeout(stage.lessonAsked);
  stage.lessonAsked = null;
  if (changed && !lesson.follows) stage.place = null;
  ask();
  if (lesson.teaches) tell();
  const page = document.querySelector("[data-testid=stMainBlockContainer]");
  if (page) grows.observe(page);
}

// A part of a page that follows can be made anew by itself: it shows these keys, as of a version.
const parts = new Map(); // box -> what it shows
export function part(box, { shows, version }, trigger) {
  clearTimeout(parts.get(box)?.asked);
  parts.set(box, { shows, version, trigger, asked: null });
  askPart(box);
  return () => {
    clearTimeout(parts.get(box)?.asked);
    parts.delete(box);
  };
}

// How long pictures may still wait for what was asked for; they would keep the browser from it.
let asked = -ANEW;
export function asking() {
  const waits = stage.lessonAsked || [...parts.values()].some((one) => one.asked);
  return waits ? Math.max(0, asked + ANEW - performance.now()) : 0;
}

function awaits() {
  asked = performance.now();
  stage.slides = false;
}

export function heard(page) {
  stage.lessonPage = page;
  ask();
  for (const box of [...parts.keys()]) askPart(box);
  const { place } = page;
  if (!place || String(place) === String(stage.place)) return;
  stage.place = place;
  stage.placed = performance.now();
  go();
}

// Only the script can show another version of the whole; one asking at a time.
function ask() {
  const { lesson, lessonPage, lessonBox, lessonTrigger } = stage;
  if (!lessonPage || !lesson || stage.lessonAsked || !lessonBox?.isConnected) return;
  if (!(lesson.follows || lesson.teaches) || lessonPage.version <= lesson.version) return;
  stage.lessonAsked = setTimeout(() => {
    stage.lessonAsked = null;
    ask();
  }, UNHEARD);
  awaits();
  lessonTrigger("class", lessonPage.version);
}

function askPart(box) {
  const { lesson, lessonPage } = stage;
  const one = parts.get(box);
  if (!one || one.asked || !lessonPage?.parts || !box.isConnected) return;
  if (lessonPage.version > lesson?.version) return; // the whole page is asked for
  const version = Math.max(...one.shows.map((key) => lessonPage.parts[key] ?? 0));
  if (version <= one.version) return;
  one.asked = setTimeout(() => {
    one.asked = null;
    askPart(box);
  }, UNHEARD);
  awaits();
  one.trigger("class", version);
}

// To where the teacher is; a page that is still being made grows meanwhile.
function go() {
  const scrolls = main();
  if (!stage.lesson?.follows || !stage.place || !scrolls) return;
  const [i, share] = stage.place;
  if (i < 0) return scrolls.scrollTo(0, 0);
  const part = partOf(i)?.getBoundingClientRect();
  if (!part) {
    if (performance.now() - stage.placed < SETTLES) setTimeout(go, 200);
    return;
  }
  scrolls.scrollBy(0, part.top + share * part.height - lineOf(scrolls));
}
const grows = new ResizeObserver(() => {
  if (performance.now() - stage.placed < SETTLES) go();
});

// Where a teacher is.
function place() {
  const scrolls = main();
  if (!scrolls || scrolls.scrollTop <= 1) return [-1, 0];
  const line = lineOf(scrolls);
  for (let i = 0, part; (part = partOf(i)); i++) {
    const box = part.getBoundingClientRect();
    if (box.bottom > line)
      return [i, Math.min(1, Math.max(0, (line - box.top) / Math.max(1, box.height)))];
  }
  return [-1, 0];
}

let telling = null;
function tell() {
  telling ??= setTimeout(() => {
    telling = null;
    if (!stage.lesson?.teaches) return;
    const [i, share] = place();
    const now = [i, Math.round(1000 * share) / 1000];
    if (String(now) === String(stage.sentPlace)) return;
    stage.sentPlace = now;
    send({ place: now });
  }, TELL);
}
document.addEventListener("scroll", () => stage.lesson?.teaches && tell(), true);

// A show of hands: how many chose each answer, or only how many have chosen.
export function tally(box, answers, { hands = 0, counts }) {
  const said = hands === 1 ? "1 answer so far." : `${hands} answers so far.`;
  const words = element("div", "", said);
  if (!counts) return box.replaceChildren(words);
  const list = element("dl", "stage-tally");
  answers.forEach((answer, i) => {
    const count = counts[i] ?? 0;
    const [bar, fill] = [element("dd"), element("div", "stage-tally-bar")];
    fill.style.width = `${hands ? (100 * count) / hands : 0}%`;
    bar.append(fill);
    bar.setAttribute("aria-hidden", "true");
    list.append(element("dt", "", answer), bar, element("dd", "", count));
  });
  box.replaceChildren(words, list);
}
