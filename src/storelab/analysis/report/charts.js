// Figures: converts the data of a panel to Vega-Lite and draws it as SVG when it becomes visible. Hovering shows a value, a click
// opens its points; a table below each figure has the same numbers, for keyboards and screen readers.

const SHAPES = {
  o: "circle", ".": "circle", s: "square", "^": "triangle-up", D: "diamond", v: "triangle-down", P: "cross",
  "<": "triangle-left", ">": "triangle-right",
  X: "M-1,-0.6L-0.6,-1L0,-0.4L0.6,-1L1,-0.6L0.4,0L1,0.6L0.6,1L0,0.4L-0.6,1L-1,0.6L-0.4,0Z",
  x: "M-1,-0.8L-0.8,-1L0,-0.2L0.8,-1L1,-0.8L0.2,0L1,0.8L0.8,1L0,0.2L-0.8,1L-1,0.8L-0.2,0Z",
  "*": "M0,-1L0.24,-0.32L0.95,-0.31L0.38,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.38,0.12L-0.95,-0.31L-0.24,-0.32Z",
};
const DASHES = { "-": [], "--": [6, 4], ":": [2, 3], "-.": [6, 3, 2, 3] };
const HEIGHT = 240;
const LINE = 34; // height of a category in pixels

const theme = () => {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(["ground", "ink", "soft", "line", "grid"].map((n) => [n, style.getPropertyValue(`--${n}`).trim()]));
};
const isDark = () => document.documentElement.dataset.theme === "dark";

/** Return a colour for this background: on a dark one, greys are inverted. */
function seen(colour) {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  if (!isDark() || Math.max(r, g, b) - Math.min(r, g, b) > 12) return colour;
  const grey = Math.round(255 - Math.min(r, 205)).toString(16).padStart(2, "0");
  return `#${grey}${grey}${grey}`;
}

/** Return the values of a panel that pass the filters, one object each; `line` is the number of its line. */
function valuesOf(panel, state) {
  const out = [];
  panel.lines.forEach((line, number) => {
    line.x.forEach((x, i) => {
      const field = (name) => line[name]?.[i];
      if (x === null || field("y") === null) {
        out.push({ line: number, i, x, y: null });
        return;
      }
      if (!passes(state, { store: field("store"), engine: field("engine"), size: field("size") })) return;
      out.push({ line: number, i, x, y: field("y"), low: field("low") ?? null, high: field("high") ?? null, open: field("open") === true });
    });
  });
  return out;
}

/** Return the scale of the value axis: as printed, linear or log. With a 0, log becomes symlog. */
function scaleOf(panel, state, numbers) {
  const printed = panel[panel.value].scale;
  if (state.scale === "linear") return "linear";
  if (state.scale !== "log" && printed === "linear") return "linear";
  if (numbers.some((n) => n < 0)) return "linear";
  if (!numbers.some((n) => n > 0)) return "linear";
  return numbers.some((n) => n === 0) ? "symlog" : "log";
}

/** Return {scale, ticks} of an axis, with room at its ends. */
function axisOf(axis, type, numbers, fromZero) {
  const known = numbers.filter((n) => n !== null && Number.isFinite(n));
  const places = Object.keys(axis.names ?? {}).map(Number);
  let least = Math.min(...known, ...(fromZero ? [0] : []));
  let most = Math.max(...known);
  if (!known.length) [least, most] = [0, 1];
  if (type === "log") {
    const room = Math.max(1.12, (most / least) ** 0.06);
    [least, most] = [least / room, most * room];
  } else if (type === "symlog") {
    most *= 1.3;
    least = 0;
  } else {
    const room = (most - least || Math.abs(most) || 1) * (fromZero ? 0.08 : 0.06);
    [least, most] = [fromZero && least >= 0 ? 0 : least - room, most + room];
  }
  if (axis.range && type === "linear") [least, most] = axis.range;
  const scale = { type, domain: [least, most], nice: false, ...(type === "linear" ? { zero: false } : {}) };
  if (type === "symlog") scale.constant = 10 ** Math.floor(Math.log10(Math.min(...known.filter((n) => n > 0))));
  if (axis.reverse) scale.reverse = true;
  const ticks = places.length ? places.filter((p) => p >= least && p <= most) : type === "log" ? decades(least, most) : type === "symlog" ? [0, ...(decades(scale.constant, most) ?? [scale.constant])] : undefined;
  return { scale, ticks };
}

/** Return positions that leave half a line below the first category, and above the last. */
function edgesOf(places) {
  const ordered = [...places].sort((a, b) => a - b);
  const room = Math.min(1, ...ordered.slice(1).map((place, i) => place - ordered[i])) / 2;
  return [ordered[0] - room, ordered.at(-1) + room];
}

/** Return ticks of a logarithmic axis: at 1, 2, 5 on a short one, otherwise at powers of ten; none on a very short one. */
function decades(least, most) {
  const span = most / least;
  if (span < 4) return undefined;
  const out = [];
  const every = Math.ceil(Math.log10(span) / 6);
  for (let power = Math.floor(Math.log10(least)); power <= Math.log10(most); power++) {
    for (const digit of span < 300 ? [1, 2, 5] : [1]) {
      const tick = digit * 10 ** power;
      if (tick >= least && tick <= most && (span < 300 || power % every === 0)) out.push(Number(tick.toPrecision(6)));
    }
  }
  return out;
}

/** Return the labels of ticks as a Vega expression; its strings are JSON, so that no text can break out of them. */
function labelsOf(axis, most = 0) {
  if (!axis.names) return "replace(format(datum.value, ',~r'), /,/g, '\u202f')";
  const lines = (words) => (most ? wrapped(words.replaceAll("\n", " "), most) ?? [""] : words.split("\n"));
  const known = Object.fromEntries(Object.entries(axis.names).map(([place, words]) => [`p${Number(place)}`, lines(words)]));
  return `${JSON.stringify(known).replaceAll("\u2028", " ").replaceAll("\u2029", " ")}['p' + datum.value]`;
}

/** Break words into lines of at most `most` characters. */
function wrapped(words, most) {
  const lines = [];
  for (const word of (words ?? "").split(" ")) {
    if (lines.length && lines.at(-1).length + word.length < most) lines.push(`${lines.pop()} ${word}`);
    else lines.push(word);
  }
  return words ? lines : null;
}

/** Return the Vega-Lite specification of a panel; null if it has no value to show. */
function vegaLiteOf(panel, state, width) {
  const look = theme();
  const values = valuesOf(panel, state);
  const shown = values.filter((v) => v.y !== null);
  const areas = (panel.areas ?? []).flatMap((a) => a.x.map((x, i) => ({ x, x2: a.x2[i], y: a.y[i], y2: a.y2[i], colour: seen(a.colour) })));
  if (!shown.length && !areas.length) return null;
  const across = panel.value === "x";
  const numbersOf = (v) => (across ? [v.x, v.low, v.high] : [v.y, v.low, v.high]);
  const others = (v) => (across ? v.y : v.x);
  const levels = panel.levels.filter((l) => l.at !== null && l.along !== "x");
  const measured = [...shown.flatMap(numbersOf), ...areas.flatMap((a) => (across ? [a.x, a.x2] : [a.y, a.y2])), ...levels.map((l) => l.at)].filter((n) => n !== null && n !== undefined);
  const placed = [...shown.map(others), ...areas.flatMap((a) => (across ? [a.y, a.y2] : [a.x, a.x2]))];
  const type = scaleOf(panel, state, measured);
  const names = Object.keys(panel.y.names ?? {}).length;
  if (across && names) placed.push(...edgesOf(Object.keys(panel.y.names).map(Number)));
  const otherType = !across && panel.x.scale === "log" && placed.every((n) => n > 0) ? "log" : "linear";
  const axes = {
    x: across ? axisOf(panel.x, type, measured, type === "linear") : axisOf(panel.x, otherType, placed, false),
    y: across ? axisOf(panel.y, "linear", placed, false) : axisOf(panel.y, type, measured, type === "linear"),
  };
  const letters = Math.floor(Math.min(260, width * 0.45) / 5.8); // maximum characters of a line of a category's name
  const lines = Math.max(1, ...Object.values(panel.y.names ?? {}).map((words) => wrapped(words.replaceAll("\n", " "), letters)?.length ?? 1));
  const plot = across && names ? width - 5.8 * Math.min(letters, Math.max(...Object.values(panel.y.names).map((words) => words.length))) - 20 : width - 50;
  const channel = (which, field) => ({
    field,
    type: "quantitative",
    scale: axes[which].scale,
    axis: {
      title: wrapped(panel[which].label, which === "y" && !names ? 34 : 60),
      titleLimit: 0,
      labelExpr: labelsOf(panel[which], which === "y" && names ? letters : 0),
      ...(axes[which].ticks ? { values: axes[which].ticks } : { tickCount: which === "x" ? Math.max(2, Math.min(6, Math.floor(plot / 60))) : 5 }),
      labelOverlap: axes[which].ticks ? "greedy" : "parity", // keeps equal steps
      grid: true,
      ...(which === "x" && Object.values(panel.x.names ?? {}).some((w) => w.length > 6) ? { labelAngle: -40 } : {}),
      ...(which === "y" && names ? { labelLimit: 0, labelOverlap: false } : {}),
    },
  });
  const line = (v) => panel.lines[v.line];
  const decorated = shown.map((v) => {
    const colour = seen(line(v).colour);
    const hollow = v.open || line(v).full === false;
    return { ...v, colour, fill: hollow ? look.ground : colour, shape: SHAPES[line(v).marker] ?? "circle", opacity: line(v).opacity ?? 1 };
  });
  const both = { x: channel("x", "x"), y: channel("y", "y") };
  const own_colour = { color: { field: "colour", type: "nominal", scale: null } };
  const layers = [];
  for (const band of panel.bands ?? []) {
    layers.push({ data: { values: [{ a: band.from, b: band.to }] }, mark: { type: "rect", color: seen(band.colour), opacity: isDark() ? 0.22 : 0.9 }, encoding: { x: channel("x", "a"), x2: { field: "b" } } });
  }
  if (areas.length) layers.push({ data: { values: areas }, mark: { type: "rect" }, encoding: { ...both, x2: { field: "x2" }, y2: { field: "y2" }, ...own_colour } });
  for (const level of panel.levels.filter((l) => l.at !== null)) {
    const which = level.along === "x" || across ? "x" : "y";
    layers.push({ data: { values: [{ at: level.at }] }, mark: { type: "rule", color: seen(level.colour), strokeDash: DASHES[level.dash] ?? [6, 4], strokeWidth: 1 }, encoding: { [which]: channel(which, "at") } });
    if (level.name && which === "y") layers.push({ data: { values: [{ at: level.at, text: level.name }] }, mark: { type: "text", align: "left", baseline: "bottom", dx: 3, dy: -2, fontSize: 10, color: seen(level.colour) }, encoding: { y: channel("y", "at"), x: { value: 0 }, text: { field: "text" } } });
  }
  const spans = decorated.filter((v) => v.low !== null && v.high !== null && v.high > v.low);
  if (spans.length) {
    const ends = across ? { x: channel("x", "low"), x2: { field: "high" }, y: channel("y", "y") } : { x: channel("x", "x"), y: channel("y", "low"), y2: { field: "high" } };
    layers.push({ data: { values: spans }, mark: { type: "rule", strokeWidth: 1.4 }, encoding: { ...ends, ...own_colour } });
  }
  panel.lines.forEach((line, number) => {
    const dash = line.dash;
    const points = values.filter((v) => v.line === number);
    if (dash === "none" || points.filter((v) => v.y !== null).length < 2) return;
    const mark = { type: "line", color: seen(line.colour), strokeDash: DASHES[dash] ?? [], strokeWidth: (line.width ?? 1.3) * 1.3, opacity: line.opacity ?? 1, interpolate: line.step ? "step" : "linear", clip: true };
    layers.push({ data: { values: points.map(({ i, x, y }) => ({ i, x, y })) }, mark, encoding: { ...both, order: { field: "i", type: "quantitative" } } });
  });
  const marked = decorated.filter((v) => line(v).marker !== "none");
  const bare = decorated.filter((v) => line(v).marker === "none");
  const next = (v, step) => values.some((other) => other.line === v.line && other.i === v.i + step && other.y !== null);
  const lone = bare.filter((v) => line(v).dash !== "none" && !next(v, -1) && !next(v, 1));
  const symbol = { fill: { field: "fill", type: "nominal", scale: null }, stroke: { field: "colour", type: "nominal", scale: null }, shape: { field: "shape", type: "nominal", scale: null } };
  if (marked.length) layers.push({ data: { values: marked }, mark: { type: "point", size: 62, strokeWidth: 1.6, opacity: 1, tooltip: { content: "data" }, cursor: "pointer" }, encoding: { ...both, ...symbol } });
  // A value between two missing ones has no line: without a dot it would be invisible.
  if (lone.length) layers.push({ data: { values: lone }, mark: { type: "point", shape: "circle", size: 16, filled: true, opacity: 1 }, encoding: { ...both, ...own_colour } });
  // A line without symbols still shows its values on hover.
  if (bare.length && bare.length <= 4000) layers.push({ data: { values: bare }, mark: { type: "point", size: 80, opacity: 0, tooltip: { content: "data" } }, encoding: both });
  // States reported by the store are in a separate row, at the top.
  const marks = (panel.marks ?? []).flatMap((group) => group.x.map((x) => ({ x, shape: SHAPES[group.marker] ?? "circle", colour: seen(group.colour), fill: group.full === false ? look.ground : seen(group.colour) })));
  if (marks.length) layers.push({ data: { values: marks }, mark: { type: "point", size: 36, strokeWidth: 1, opacity: 1 }, encoding: { x: channel("x", "x"), y: { value: 0 }, ...symbol } });
  if (panel.words?.length) {
    const labels = panel.words.filter((w) => w.y !== null);
    const above = panel.words.filter((w) => w.y === null);
    const text = { field: "text" };
    if (labels.length) layers.push({ data: { values: labels }, mark: { type: "text", align: "left", dx: 5, dy: -6, fontSize: 9, color: look.soft, lineBreak: "\n" }, encoding: { ...both, text } });
    if (above.length) layers.push({ data: { values: above }, mark: { type: "text", align: "right", baseline: "bottom", angle: 270, dy: -2, fontSize: 9, color: look.soft }, encoding: { x: channel("x", "x"), y: { value: 2 }, text } });
  }
  const font = { labelFont: "system-ui, sans-serif", titleFont: "system-ui, sans-serif" };
  return {
    width: Math.max(120, width),
    height: across && names ? Math.max(LINE, 13 * lines + 12) * names + 50 : HEIGHT,
    autosize: { type: "fit", contains: "padding", resize: true },
    background: null,
    padding: 4,
    layer: layers,
    resolve: { scale: { x: "shared", y: "shared" } },
    config: {
      aria: false,
      view: { stroke: null },
      text: { font: "system-ui, sans-serif" },
      axis: { ...font, labelColor: look.soft, titleColor: look.ink, gridColor: look.grid, domainColor: look.line, tickColor: look.line, labelFontSize: 11, titleFontSize: 11.5, titleFontWeight: "normal", labelSeparation: 4, labelLineHeight: 12 },
    },
  };
}

// --- tooltips ---

/** Return [what, value] pairs for a drawn value. */
function textsOf(panel, value) {
  const line = panel.lines[value.line];
  const across = panel.value === "x";
  const measured = across ? panel.x : panel.y;
  const place = across ? line.at?.[value.i] ?? wordsAt(panel.y, value.y) : wordsAt(panel.x, value.x);
  const out = [[across ? "" : panel.x.label || "x", place]];
  out.push([measured.label || "value", short(across ? value.x : value.y)]);
  if (value.low !== null && value.low !== undefined && value.high !== null) out.push([line.interval?.[value.i] ?? "interval", `${short(value.low)} to ${short(value.high)}`]);
  if (line.n?.[value.i]) out.push(["runs", String(line.n[value.i])]);
  const runs = line.behind?.[value.i];
  if (runs) out.push(["points", `${runs.split(" ").length}: click to show them`]);
  return out;
}

function wordsAt(axis, place) {
  const known = Object.entries(axis.names ?? {}).find(([at]) => Number(at) === place);
  return known ? known[1].replaceAll("\n", ", ") || short(place) : short(place);
}

function showTip(panel, value, event) {
  const tip = document.getElementById("tip");
  const lines = textsOf(panel, value).map(([what, text]) => (what ? `${what}: ${text}` : text));
  tip.replaceChildren(...[panel.lines[value.line].name, ...lines].filter(Boolean).map((text) => h("div", {}, text)));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
  tip.style.top = `${Math.max(4, Math.min(event.clientY + 14, innerHeight - box.height - 8))}px`;
}

const hideTip = () => {
  document.getElementById("tip").hidden = true;
};

// --- drawing ---

const WAITING = new Map(); // element of a chart -> its panel and state
let watching;

function forget() {
  for (const element of WAITING.keys()) WAITING.get(element).view?.finalize();
  WAITING.clear();
  watching?.disconnect();
  watching = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "300px" });
}

/** Create an element that draws a panel when it becomes visible. open: called with the positions of the clicked points. */
function chart(panel, state, name, open) {
  const element = h("div", { class: "chart", role: "img", "aria-label": name });
  WAITING.set(element, { panel, state, open, drawn: false });
  watching.observe(element);
  return element;
}

async function draw(element) {
  const entry = WAITING.get(element);
  if (!entry || entry.drawn) return;
  entry.drawn = true;
  drawNow(element, entry, await library());
}

function drawNow(element, entry, { vega, vegaLite }) {
  const { panel, state, open } = entry;
  entry.view?.finalize();
  entry.drawn = true;
  const spec = vegaLiteOf(panel, state, Math.floor(element.clientWidth) - 2);
  if (!spec) {
    element.replaceChildren(h("p", { class: "empty" }, panel.lines.length ? "No value: the filters exclude all, or none was recorded." : panel.texts?.join(" ") || "Not recorded."));
    return;
  }
  const inner = h("div", { "aria-hidden": "true" }); // the chart has the accessible name, and the table below has the values
  element.replaceChildren(inner);
  element.style.minHeight = "0";
  const view = new vega.View(vega.parse(vegaLite.compile(spec, { logger: QUIET }).spec), { renderer: "svg", container: inner, hover: false, logger: QUIET });
  view.tooltip((_, event, item, value) => (value === null || item?.datum?.line === undefined ? hideTip() : showTip(panel, item.datum, event)));
  view.addEventListener("click", (_, item) => {
    const runs = item?.datum?.line === undefined ? "" : panel.lines[item.datum.line].behind?.[item.datum.i];
    if (runs) open(runs);
  });
  view.run();
  entry.view = view;
  if (panel.texts?.length) element.append(h("p", { class: "small" }, panel.texts.join(" ")));
}

// Suppresses messages of Vega: a value without a position on an axis is not an error.
const QUIET = { level: () => QUIET, error: (...words) => (console.error(...words), QUIET), warn: () => QUIET, info: () => QUIET, debug: () => QUIET };

/** Draw all drawn charts again, after a change of theme or width. all: also those that were not visible yet. */
async function redraw(all = false) {
  const known = await library();
  for (const [element, entry] of WAITING) if (entry.drawn || all) drawNow(element, entry, known);
}

// --- legend and numbers ---

function swatch(line) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [key, value] of Object.entries({ width: 28, height: 12, viewBox: "-14 -6 28 12", "aria-hidden": "true" })) svg.setAttribute(key, value);
  const add = (name, attributes) => {
    const part = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) part.setAttribute(key, value);
    svg.append(part);
  };
  const colour = seen(line.colour);
  if (line.area) add("rect", { x: -7, y: -5, width: 14, height: 10, fill: colour });
  if (line.dash && line.dash !== "none") add("path", { d: "M-14,0H14", stroke: colour, "stroke-width": 2, "stroke-dasharray": (DASHES[line.dash] ?? []).join(" ") });
  const shape = SHAPES[line.marker];
  if (shape) {
    const fill = line.full === false ? "none" : colour;
    if (shape === "square") add("rect", { x: -4, y: -4, width: 8, height: 8, fill, stroke: colour });
    else if (shape.startsWith("M")) add("path", { d: shape, transform: "scale(5)", fill: colour });
    else if (shape.startsWith("triangle") || shape === "diamond" || shape === "cross") {
      const d = { "triangle-up": "M0,-5L5,4H-5Z", "triangle-down": "M0,5L5,-4H-5Z", "triangle-left": "M-5,0L4,5V-5Z", "triangle-right": "M5,0L-4,5V-5Z", diamond: "M0,-5L5,0L0,5L-5,0Z", cross: "M-2,-5H2V-2H5V2H2V5H-2V2H-5V-2H-2Z" }[shape];
      add("path", { d, fill, stroke: colour });
    } else add("circle", { r: 4, fill, stroke: colour });
  }
  return svg;
}

/** Return the legend of the colours and symbols of these panels, each once. */
function legendOf(panels) {
  const known = new Map();
  for (const panel of panels) {
    for (const line of [...panel.lines, ...(panel.marks ?? [])]) {
      const alike = [line.name, line.colour, line.marker, line.dash, line.full].join("|");
      if (line.name && (line.opacity ?? 1) === 1 && !known.has(alike)) known.set(alike, line);
    }
    for (const area of [...(panel.areas ?? []), ...(panel.bands ?? [])]) if (area.name && !known.has(area.name + area.colour)) known.set(area.name + area.colour, { ...area, area: true });
  }
  if (!known.size) return null;
  return h("ul", { class: "legend" }, [...known.values()].map((line) => h("li", {}, swatch(line), line.name)));
}

/** Return the numbers of a figure as a table: {columns, rows, behind: positions of the points of each row}. */
function numbersOf(panels, state) {
  const rows = [];
  const behind = [];
  for (const panel of panels) {
    const across = panel.value === "x";
    for (const value of valuesOf(panel, state)) {
      if (value.y === null) continue;
      const line = panel.lines[value.line];
      if ((line.opacity ?? 1) < 1) continue;
      rows.push([panel.title, line.name, across ? line.at?.[value.i] ?? wordsAt(panel.y, value.y) : wordsAt(panel.x, value.x), (across ? panel.x : panel.y).label, text(across ? value.x : value.y), text(value.low), text(value.high), text(line.n?.[value.i])]);
      behind.push(line.behind?.[value.i] ?? "");
    }
  }
  return { columns: ["panel", "curve", "at", "what", "value", "low", "high", "n"], rows, behind };
}

const text = (value) => (value === null || value === undefined ? "" : String(value));
