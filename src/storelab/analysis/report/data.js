// The data of the page: blocks within it, packed or plain, each unpacked when it is first asked for. What stands in a
// block is untrusted text: it becomes text nodes and numbers, never markup.

const BLOCKS = new Map();

async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** The text of a block; undefined where there is none. */
async function textOf(name) {
  const element = document.querySelector(`script[data-block="${CSS.escape(name)}"]`);
  if (!element) return undefined;
  return element.dataset.packed ? unpacked(element.textContent) : element.textContent;
}

/** The data of a block: a promise, one for all who ask. */
function block(name) {
  if (!BLOCKS.has(name)) BLOCKS.set(name, textOf(name).then((text) => (text === undefined ? undefined : JSON.parse(text))));
  return BLOCKS.get(name);
}

/** Other data in place of what was there: {name of a block: data}. */
function replaceBlocks(data) {
  for (const [name, value] of Object.entries(data)) BLOCKS.set(name, Promise.resolve(value));
}

let drawing;
/** Vega and Vega-Lite, when the first figure asks for them. */
function library() {
  drawing ??= textOf("library").then((text) => {
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
    return { vega: globalThis.vega, vegaLite: globalThis.vegaLite };
  });
  return drawing;
}

// --- elements ---

/** An element: h("a", {href: "#x", onclick: f}, "text", other). Attributes that are null or false are left out. */
function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

/** Tell those who do not see the page. */
function say(text) {
  document.getElementById("said").textContent = text;
}

// --- numbers ---

const isNumber = (text) => text !== "" && text !== null && Number.isFinite(Number(text));

/** A number for people: whole numbers exactly, others to three significant digits; thousands apart. */
function short(value) {
  if (value === null || value === undefined || value === "") return "";
  const number = Number(value);
  if (!Number.isFinite(number)) return String(value);
  const rounded = Number.isInteger(number) && Math.abs(number) < 1e15 ? number : Number(number.toPrecision(3));
  const [whole, tail] = Math.abs(rounded) >= 1e-4 || rounded === 0 ? plain(rounded).split(".") : [rounded.toString()];
  const digits = whole.replace("-", "");
  const grouped = digits.length > 4 ? whole.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f") : whole;
  return tail ? `${grouped}.${tail}` : grouped;
}

function plain(number) {
  const text = String(number);
  return text.includes("e") ? number.toLocaleString("en-US", { useGrouping: false, maximumFractionDigits: 12 }) : text;
}

// --- the view: what the address' fragment says ---

const FILTERS = ["store", "engine", "size"];

/** {view, argument, store, engine, size: sets of values; scale, sort, find, all}. */
function parseView(fragment) {
  const [path, query] = fragment.replace(/^#/, "").split("?", 2);
  const [view, ...rest] = path.split("/");
  const asked = new URLSearchParams(query ?? "");
  const state = { view: view || "overview", argument: decode(rest.join("/")) };
  for (const name of FILTERS) state[name] = new Set(asked.getAll(name));
  for (const name of ["scale", "sort", "find", "all"]) state[name] = asked.get(name) ?? "";
  return state;
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The fragment of a view: that of `state`, with these changes. */
function fragmentOf(state, changes = {}) {
  const next = { ...state, ...changes };
  const query = new URLSearchParams();
  for (const name of FILTERS) for (const value of next[name] ?? []) query.append(name, value);
  for (const name of ["scale", "sort", "find", "all"]) if (next[name]) query.set(name, next[name]);
  const argument = next.argument ? `/${encodeURIComponent(next.argument).replaceAll("%2F", "/").replaceAll("%7E", "~")}` : "";
  const asked = query.toString();
  return `#${next.view}${argument}${asked ? `?${asked}` : ""}`;
}

/** Another view with the same filters and scale. */
function linkTo(state, view, argument = "") {
  return fragmentOf(state, { view, argument, sort: "", find: "", all: "" });
}

/** Whether filters leave what has these values; what has no value of a kind is not of that kind, and stays. */
function passes(state, values) {
  return FILTERS.every((name) => !state[name]?.size || values[name] === undefined || values[name] === "" || state[name].has(values[name]));
}
