// A quick drawing of a figure on a canvas, for what moves: shades, bands, lines and marks.
//
// Plotly takes tens of milliseconds to draw a picture anew; this takes a few. It knows only what
// the live pictures are made of, and `sketchable` says whether a figure is made of that. Axes are
// Plotly's own, which stay as they are around it; until Plotly has come, plain ones are drawn here.

const DASHES = { solid: [], dot: [1, 1], dash: [3, 3], dashdot: [3, 1, 1, 1], longdash: [5, 5] };
const SYMBOLS = ["circle", "square", "diamond", "triangle-up", "cross", "x"];
const LOOSE = 1.6; // times as wide as need be, at which axes are made anew
const plain = (value, known) => value === undefined || known.includes(value);
export const axisName = (reference = "x") => reference[0] + "axis" + reference.slice(1);

export function sketchable({ data, layout }) {
  const { annotations = [], barmode } = layout;
  if (barmode || annotations.some((one) => one.xref !== "paper" || one.showarrow)) return false;
  const fixed = (reference) => {
    const axis = layout[axisName(reference)];
    return axis?.range && plain(axis.type, ["linear", "log"]) && !axis.scaleanchor;
  };
  return (
    data.every((trace) => {
      if (!fixed(trace.xaxis) || !fixed(trace.yaxis ?? "y")) return false;
      if (trace.type === "heatmap") return trace.zsmooth && trace.z?.dtype === "u1";
      if (trace.type !== "scatter" || trace.stackgroup) return false;
      if ([trace.error_x, trace.error_y].some((error) => error?.symmetric === false)) return false;
      const { line = {}, marker = {} } = trace;
      return (
        ["lines", "markers", "lines+markers"].includes(trace.mode) &&
        plain(trace.fill, ["toself", "none"]) &&
        plain(line.shape, ["linear"]) &&
        plain(line.dash, Object.keys(DASHES)) &&
        plain(marker.symbol, SYMBOLS) &&
        (!trace.mode.includes("markers") ||
          (typeof marker.color === "string" && typeof marker.size === "number"))
      );
    }) && (layout.shapes ?? []).every((shape) => shape.type === "line" && shape.yref === "paper")
  );
}

// What Plotly would have to draw anew if it changed: the axes' dress, the legend, and the ranges.
export function surroundings({ data, layout }) {
  const ranges = {};
  const dress = JSON.stringify(layout, (name, part) => {
    if (name === "shapes") return part.length;
    return name === "range" ? undefined : part;
  });
  for (const [name, part] of Object.entries(layout)) if (part?.range) ranges[name] = part.range;
  const legend = layout.showlegend ? data.map(({ name, line }) => [name, line]) : [];
  return { dress: dress + JSON.stringify(legend), ranges };
}

// Whether a picture still fits into the axes that are there, and does not shrink in them: ranges
// that tremble from frame to frame stay as they are.
export function fits(now, before) {
  if (!before || now.dress !== before.dress) return false;
  return Object.entries(now.ranges).every(([name, [low, high]]) => {
    const [from, to] = before.ranges[name] ?? [];
    if (low === from && high === to) return true;
    return from <= low && high <= to && to - from <= LOOSE * (high - low);
  });
}

export function sketch(box, figure, drawn) {
  const { data, layout } = figure;
  const width = box.clientWidth;
  const height = layout.height;
  const canvas = (box.canvas ??= underneath(box));
  const ratio = window.devicePixelRatio || 1;
  const pixels = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixels[0]) canvas.width = pixels[0];
  if (canvas.height !== pixels[1]) canvas.height = pixels[1];
  Object.assign(canvas.style, { width: width + "px", height: height + "px" });
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const plots = new Map();
  const plot = (x = "x", y = "y") => {
    if (!plots.has(x + y)) {
      const axes = drawn ? [drawn[axisName(x)], drawn[axisName(y)]] : null;
      const own = axes ? place(...axes) : ownPlace(layout, x, y, width, height);
      if (!axes) ownAxes(pen, own, layout[axisName(x)], layout[axisName(y)], layout.font);
      plots.set(x + y, own);
    }
    return plots.get(x + y);
  };
  for (const trace of data) {
    const here = plot(trace.xaxis, trace.yaxis);
    pen.save();
    pen.beginPath();
    pen.rect(here.left, here.top, here.width, here.height);
    pen.clip();
    if (trace.type === "heatmap") shade(pen, trace, here);
    else scatter(pen, trace, here);
    pen.restore();
  }
  for (const one of layout.annotations ?? []) words(pen, one, layout.font, width, height);
  for (const { x0, x1, y0, y1, line, xref } of layout.shapes ?? []) {
    const here = plot(xref === "x2" ? "x2" : "x", xref === "x2" ? "y2" : "y");
    pen.beginPath();
    pen.moveTo(here.x(x0), here.top + (1 - y0) * here.height);
    pen.lineTo(here.x(x1), here.top + (1 - y1) * here.height);
    stroke(pen, line);
  }
}

function words(pen, { text, x, y }, { size, family, color }, width, height) {
  Object.assign(pen, { font: `${size}px ${family}`, fillStyle: color, textAlign: "center" });
  const lines = text.split("<br>");
  lines.forEach((line, i) =>
    pen.fillText(line, x * width, (1 - y) * height + (i - (lines.length - 1) / 2) * 1.3 * size),
  );
}

export const rub = (box) => box.canvas?.getContext("2d").clearRect(0, 0, 1e5, 1e5);

function underneath(box) {
  const canvas = document.createElement("canvas");
  canvas.className = "stage-sketch";
  canvas.setAttribute("aria-hidden", "true");
  box.prepend(canvas);
  return canvas;
}

// From numbers to pixels.

const scale = (type, range, from, length) => {
  const [a, b] = range.map(Number);
  const by = length / (b - a);
  if (type === "log") return (value) => from + (Math.log10(value) - a) * by;
  return (value) => from + (value - a) * by;
};

function place(xaxis, yaxis) {
  const [left, width, top, height] = [xaxis._offset, xaxis._length, yaxis._offset, yaxis._length];
  return {
    left,
    top,
    width,
    height,
    x: scale(xaxis.type, xaxis.range, left, width),
    y: scale(yaxis.type, yaxis.range, top + height, -height),
  };
}

function ownPlace(layout, x, y, width, height) {
  const room = { left: 46, right: 8, top: 8, bottom: 40 };
  const [from, to] = layout[axisName(x)].domain ?? [0, 1];
  const [low, high] = layout[axisName(y)].domain ?? [0, 1];
  const across = width - room.left - room.right;
  const down = height - room.top - room.bottom;
  const axis = (reference, offset, length) => ({
    type: layout[axisName(reference)].type,
    range: layout[axisName(reference)].range,
    _offset: offset,
    _length: length,
  });
  return place(
    axis(x, room.left + from * across, (to - from) * across),
    axis(y, room.top + (1 - high) * down, (high - low) * down),
  );
}

// Ticks at 1, 2 or 5 times a power of ten.
function ticks([low, high], log) {
  if (log) return [...Array(1 + Math.floor(high) - Math.ceil(low)).keys()].map((i) => Math.ceil(low) + i);
  const rough = (high - low) / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((k) => k * power >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(Number((i * step).toPrecision(6)));
  return found;
}

function ownAxes(pen, here, xaxis, yaxis, font) {
  pen.save();
  pen.font = `${font.size}px ${font.family}`;
  pen.lineWidth = 1;
  pen.fillStyle = font.color;
  pen.strokeStyle = xaxis.gridcolor;
  const { left, top, width, height } = here;
  pen.beginPath();
  pen.textAlign = "center";
  for (const at of xaxis.showticklabels === false ? [] : ticks(xaxis.range, xaxis.type === "log")) {
    const value = xaxis.type === "log" ? 10 ** at : at;
    pen.moveTo(here.x(value), top);
    pen.lineTo(here.x(value), top + height);
    pen.fillText(String(value).replace("-", "−"), here.x(value), top + height + 15);
  }
  pen.fillText(xaxis.title?.text ?? "", left + width / 2, top + height + 32);
  pen.textAlign = "right";
  for (const at of yaxis.showticklabels === false ? [] : ticks(yaxis.range, false)) {
    pen.moveTo(left, here.y(at));
    pen.lineTo(left + width, here.y(at));
    pen.fillText(String(at).replace("-", "−"), left - 5, here.y(at) + 4);
  }
  pen.stroke();
  pen.textAlign = "center";
  pen.translate(left - 34, top + height / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillText(yaxis.title?.text ?? "", 0, 0);
  pen.restore();
}

// Traces.

const ARRAYS = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, i4: Int32Array };
const unpacked = new WeakMap();

export function numbers(spec) {
  if (!spec?.bdata) return spec ?? [];
  if (!unpacked.has(spec)) {
    const text = atob(spec.bdata);
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    unpacked.set(spec, new ARRAYS[spec.dtype](bytes.buffer));
  }
  return unpacked.get(spec);
}

function stroke(pen, { color = "#000", width = 2, dash = "solid" } = {}) {
  if (!width) return;
  pen.strokeStyle = color;
  pen.lineWidth = width;
  pen.setLineDash(DASHES[dash].map((part) => part * Math.max(width, dash === "dot" ? 2 : 3)));
  pen.stroke();
  pen.setLineDash([]);
}

function scatter(pen, trace, here) {
  const xs = numbers(trace.x);
  const ys = numbers(trace.y);
  if (trace.mode.includes("lines")) {
    pen.lineJoin = "round";
    pen.beginPath();
    let on = false;
    for (let i = 0; i < xs.length; i++) {
      const [x, y] = [here.x(xs[i]), here.y(ys[i])];
      if (!Number.isFinite(x + y)) on = false;
      else if (on) pen.lineTo(x, y);
      else pen.moveTo(x, y), (on = true);
    }
    if (trace.fill === "toself") {
      pen.closePath();
      pen.fillStyle = trace.fillcolor;
      pen.fill();
    }
    stroke(pen, trace.line);
  }
  for (const [error, across, up] of [[trace.error_x, 1, 0], [trace.error_y, 0, 1]]) {
    if (!error) continue;
    const far = numbers(error.array);
    pen.beginPath();
    for (let i = 0; i < xs.length; i++) {
      const [dx, dy] = [across * far[i], up * far[i]];
      pen.moveTo(here.x(xs[i] - dx), here.y(ys[i] - dy));
      pen.lineTo(here.x(xs[i] + dx), here.y(ys[i] + dy));
    }
    stroke(pen, { color: error.color, width: error.thickness });
  }
  if (!trace.mode.includes("markers")) return;
  const { symbol = "circle", size, color, line = {}, opacity = 1 } = trace.marker;
  pen.globalAlpha = opacity;
  pen.beginPath();
  for (let i = 0; i < xs.length; i++) mark(pen, symbol, here.x(xs[i]), here.y(ys[i]), size / 2);
  pen.fillStyle = color;
  pen.fill();
  stroke(pen, { color: line.color, width: line.width ?? 0 });
  pen.globalAlpha = 1;
}

function mark(pen, symbol, x, y, r) {
  const corners = {
    square: [[-1, -1], [1, -1], [1, 1], [-1, 1]],
    diamond: [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
    "triangle-up": [[-1.1547, 0.5774], [1.1547, 0.5774], [0, -1.1547]],
    cross: cross(0),
    x: cross(Math.PI / 4),
  }[symbol];
  if (!corners) {
    pen.moveTo(x + r, y);
    pen.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  corners.forEach(([dx, dy], i) => (i ? pen.lineTo(x + r * dx, y + r * dy) : pen.moveTo(x + r * dx, y + r * dy)));
  pen.closePath();
}

const cross = (turn) => {
  const [a, b] = [1.2, 0.4];
  const arms = [[b, a], [b, b], [a, b], [a, -b], [b, -b], [b, -a], [-b, -a], [-b, -b], [-a, -b], [-a, b], [-b, b], [-b, a]];
  const [c, s] = [Math.cos(turn), Math.sin(turn)];
  return arms.map(([x, y]) => [c * x - s * y, s * x + c * y]);
};

// The shade: a cell a number, smoothed as it is stretched over the plot.
function shade(pen, trace, here) {
  const z = numbers(trace.z);
  const [rows, columns] = trace.z.shape.split(",").map(Number);
  const xs = numbers(trace.x);
  const ys = numbers(trace.y);
  const palette = colours(trace.colorscale);
  const image = new ImageData(columns, rows);
  const words = new Uint32Array(image.data.buffer);
  const upward = here.y(ys[0]) > here.y(ys[rows - 1]);
  for (let i = 0; i < rows; i++) {
    const row = (upward ? rows - 1 - i : i) * columns;
    for (let j = 0; j < columns; j++) words[row + j] = palette[z[i * columns + j]];
  }
  const small = (shade.canvas ??= document.createElement("canvas"));
  Object.assign(small, { width: columns, height: rows });
  small.getContext("2d").putImageData(image, 0, 0);
  const half = [(xs[columns - 1] - xs[0]) / (columns - 1) / 2, (ys[rows - 1] - ys[0]) / (rows - 1) / 2];
  const [x0, x1] = [here.x(xs[0] - half[0]), here.x(xs[columns - 1] + half[0])];
  const [y0, y1] = [here.y(ys[0] - half[1]), here.y(ys[rows - 1] + half[1])];
  pen.imageSmoothingEnabled = true;
  pen.drawImage(small, Math.min(x0, x1), Math.min(y0, y1), Math.abs(x1 - x0), Math.abs(y1 - y0));
}

const palettes = new Map();

function colours(scale) {
  const key = JSON.stringify(scale);
  if (palettes.has(key)) return palettes.get(key);
  const stops = scale.map(([at, colour]) => [255 * at, colour.match(/[\d.]+/g).map(Number)]);
  const palette = new Uint32Array(256);
  for (let i = 0; i < 256; i++) {
    const k = Math.max(1, stops.findIndex(([at]) => at >= i));
    const [[a, low], [b, high]] = [stops[k - 1], stops[k]];
    const mix = low.map((part, c) => part + ((high[c] - part) * (i - a)) / (b - a));
    palette[i] =
      (Math.round(255 * (mix[3] ?? 1)) << 24) | (mix[2] << 16) | (mix[1] << 8) | Math.round(mix[0]);
  }
  palettes.set(key, palette);
  return palette;
}
