// The bar that drives a run: play or pause, step, reset, and where the page wants them, another seed
// and the speeds. What its buttons say comes with the frames; what they do is `act`'s.

import { element, newest, sceneOf, send, stage, stateOf } from "./shared.js";

const HOLD = "Trains both models, or holds them still.";
const BUTTONS = {
  play: { icon: "play_arrow", label: "Play", help: HOLD, key: "Space" },
  pause: { icon: "pause", label: "Pause", help: HOLD, key: "Space" },
  step: {
    icon: "skip_next",
    label: "Step",
    help: "One gradient step of both models, then a pause.",
    key: "→",
  },
  reset: {
    icon: "replay",
    label: "Reset",
    help: "Back to the start of the same seed: the same run follows.",
  },
  seed: { icon: "casino", label: "New seed" },
};
const SPEED = "Steps a second; slow motion shows what a single step does.";

class Bar {
  constructor(box, { keyboard, speeds }, act) {
    this.act = act;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "This run");
    this.hold = this.button("pause", keyboard);
    this.hold.classList.add("stage-primary");
    this.single = this.button("step", keyboard);
    const parts = [this.hold, this.single, this.button("reset")];
    if (speeds.length) parts.push((this.seed = this.button("seed")), this.choice(speeds));
    box.replaceChildren(...parts);
    this.word = "pause";
  }

  button(word, keyboard) {
    const button = element("button", "stage-button");
    button.type = "button";
    button.onclick = () => this.act(button === this.hold ? this.word : word);
    this.dress(button, word, keyboard);
    return button;
  }

  dress(button, word, keyboard = button.hasAttribute("aria-keyshortcuts")) {
    const { icon, label, help, key } = BUTTONS[word];
    const picture = element("span", "stage-icon", icon);
    picture.setAttribute("aria-hidden", "true");
    picture.translate = false;
    button.replaceChildren(picture, element("span", "", label));
    if (help) button.title = help;
    if (!keyboard) return;
    const hint = element("kbd", "", key);
    hint.setAttribute("aria-hidden", "true");
    button.append(hint);
    button.setAttribute("aria-keyshortcuts", key === "→" ? "ArrowRight" : key);
  }

  choice(speeds) {
    const group = element("div", "stage-choice");
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Speed");
    this.speeds = speeds.map(([word, label]) => {
      const button = element("button", "", label);
      Object.assign(button, { type: "button", title: SPEED, value: word });
      button.onclick = () => this.act(`speed ${word}`);
      return button;
    });
    group.append(...this.speeds);
    return group;
  }

  show({ playing, over, seed, speed }) {
    const word = playing && !over ? "pause" : "play";
    if (word !== this.word) this.dress(this.hold, word);
    this.word = word;
    this.hold.disabled = this.single.disabled = over;
    if (!this.seed) return;
    this.seed.title = `Other start values and other noise, on the same data. This is seed ${seed}.`;
    for (const button of this.speeds)
      button.setAttribute("aria-pressed", String(button.value === String(speed ?? "full")));
  }
}

// The bar: most commands are sent to the server, in its order; what the page's script has to
// do, and commands to a run that is over, run the script.

const commands = []; // not sent yet

export function drive(box, data, trigger) {
  const state = stateOf(box);
  const scene = sceneOf(data.name);
  state.act = (word) => {
    const gone = newest.get(scene + "/state")?.phase === "gone";
    if (gone || data.script.includes(word.split(" ")[0])) return trigger("command", word);
    commands.push({ scene, word });
    tellCommands();
  };
  state.bar ??= new Bar(box, data, (word) => state.act(word));
}

export function tellCommands() {
  while (commands.length && stage.socket?.readyState === 1) send({ command: commands.shift() });
}

// Space and → drive the run whose bar says so, but not where a key means something by itself: in a
// field, or on a button, a link or a tab that the keyboard has reached.
const FIELDS = "input:not([type=range], [type=radio], [type=checkbox]), textarea, select";
const REACHED = "button, summary, a[href], input, [role=radio], [role=tab], [role=slider]";

const driven = () =>
  [...document.querySelectorAll(".stage-host[data-kind=bar]")]
    .map((box) => stateOf(box).bar)
    .find((bar) => bar?.hold.hasAttribute("aria-keyshortcuts"));

for (const kind of ["keydown", "keyup"])
  document.addEventListener(kind, (event) => {
    const { key, target } = event;
    const way = { " ": "hold", ArrowRight: "single" }[key];
    const bar = way && driven();
    if (!bar || event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (target.closest?.(`${FIELDS}, [contenteditable=true], [role=dialog]`)) return;
    if (target.closest?.(REACHED)?.matches(":focus-visible")) return;
    event.preventDefault(); // of a button that was clicked, and of the page, which would scroll
    if (kind === "keydown" && !(way === "hold" && event.repeat)) bar[way].click();
  });
