// What a picture gives away: itself as PNG or SVG, and the numbers behind it as CSV.

import { element, stateOf } from "./shared.js";
import { axisName } from "./sketch.js";

export function downloads(box, settle) {
  const [menu, summary] = [element("details", "stage-menu"), element("summary", "", "⤓")];
  summary.setAttribute("aria-label", "Download this picture or its numbers");
  summary.title = "Download";
  menu.append(summary);
  for (const format of ["PNG", "SVG", "CSV"]) {
    const button = Object.assign(element("button", "", format), { type: "button" });
    button.onclick = async () => {
      menu.open = false;
      await settle();
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
  const layout = { ...box.layout, paper_bgcolor: stateOf(box).paper ?? (page || "#fff") };
  const { width, height } = box.getBoundingClientRect();
  return window.Plotly.toImage(
    { data: box.data, layout },
    { format: format.toLowerCase(), width, height, scale: 2 },
  );
}

// The numbers behind the marks, with what the axes call them; a shade is turned back into what it
// is a shade of.
function csv(box) {
  const traces = box._fullData.filter((trace) => trace.x || trace.y || trace.z);
  const titles = (letter) => {
    const axes = traces.map((trace) => trace[letter + "axis"] ?? letter);
    const titles = axes.map((name) => box._fullLayout[axisName(name)]?.title?.text ?? "");
    return [...new Set(titles.filter(Boolean))].join(" | ") || letter;
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
    const safe = typeof value === "string" && FORMULA.test(text) ? "'" + text : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const text = rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
  return URL.createObjectURL(new Blob([text], { type: "text/csv" }));
}

// What a spreadsheet would run, as _FORMULA in dgp_core/tables/plain.py.
const FORMULA = /^[ \u00a0]*[=+\-@\t\r\n＝＋－＠]/;

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

export function save(name, url) {
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  link.click();
  if (url.startsWith("blob:")) setTimeout(() => URL.revokeObjectURL(url), 10000);
}
