// Something to print: the script's words, with every picture drawn into its place. What is saved asks
// no server for anything and runs no script.

import { save } from "./downloads.js";
import { plotly } from "./pictures.js";
import { element, stage, stateOf } from "./shared.js";

const WIDTHS = { 1: 640, 2: 400, 3: 290 }; // of a picture, by how many stand in its row

export function paper(box, { label, sheet, library }, trigger) {
  const state = stateOf(box);
  box.setAttribute("data-kind", "paper");
  if (!state.button) {
    const button = (state.button = element("button", "stage-button"));
    const icon = Object.assign(element("span", "stage-icon", "print"), { translate: false });
    icon.setAttribute("aria-hidden", "true");
    button.append(icon, label);
    button.type = "button";
    state.words = element("span");
    state.words.setAttribute("role", "status");
    box.replaceChildren(button, state.words);
  }
  state.button.onclick = () => {
    state.words.textContent = "Preparing …";
    state.button.disabled = true;
    stage.hand = performance.now(); // pictures wait meanwhile
    trigger("command", true);
  };
  if (!sheet.serial || sheet.serial === state.printed) return;
  state.printed = sheet.serial;
  print(sheet, library, (words) => (state.words.textContent = words)).then(
    () => (state.words.textContent = "Saved. Open the file, and print it."),
    () => (state.words.textContent = "The pictures could not be drawn. Reload the page, and try again."),
  ).finally(() => {
    state.button.disabled = false;
    trigger("done", sheet.serial);
  });
}

async function print({ file, html, figures }, library, say) {
  const Plotly = await plotly(library);
  const page = new DOMParser().parseFromString(html, "text/html");
  const places = [...page.querySelectorAll("[data-picture]")];
  for (const [i, place] of places.entries()) {
    say(`Drawing picture ${i + 1} of ${places.length} …`);
    const { data, layout } = JSON.parse(figures[place.dataset.picture]);
    const width = WIDTHS[Math.min(3, place.closest(".row").children.length)];
    const source = await Plotly.toImage({ data, layout }, { format: "svg", width, height: layout.height });
    Object.assign(place, { src: source, width, height: layout.height });
    place.removeAttribute("data-picture");
  }
  const text = "<!doctype html>\n" + page.documentElement.outerHTML;
  save(file, URL.createObjectURL(new Blob([text], { type: "text/html" })));
}
