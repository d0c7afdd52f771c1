// The data of the page: blocks, packed or plain, each unpacked at its first use. The content of a
// block is untrusted text: it becomes text nodes and numbers, never markup.

const BLOCKS = new Map();

async function unpacked(packed) {
  const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Return the text of a block; undefined if there is none. */
async function textOf(name) {
  const element = document.querySelector(`script[data-block="${CSS.escape(name)}"]`);
  if (!element) return undefined;
  return element.dataset.packed ? unpacked(element.textContent) : element.textContent;
}

/** Return a promise of the data of a block, the same one for all callers. */
function block(name) {
  if (!BLOCKS.has(name)) BLOCKS.set(name, textOf(name).then((text) => (text === undefined ? undefined : JSON.parse(text))));
  return BLOCKS.get(name);
}

/** Replace the data of blocks: {name of a block: data}. */
function replaceBlocks(data) {
  for (const [name, value] of Object.entries(data)) BLOCKS.set(name, Promise.resolve(value));
}

let drawing;
/** Load Vega and Vega-Lite when the first figure needs them. */
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

/** Create an element: h("a", {href: "#x", onclick: f}, "text", other). Attributes that are null or false are left out. */
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

/** Announce a text to screen readers. */
function say(text) {
  document.getElementById("said").textContent = text;
}

// --- numbers ---

const isNumber = (text) => text !== "" && text !== null && Number.isFinite(Number(text));

/** Format a number: whole numbers exactly, others to three significant digits; with separated thousands. */
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

// --- the view, from the fragment of the address ---

const FILTERS = ["store", "engine", "size"];

/** Return {view, argument, store, engine, size: sets of values; scale, sort, find, all}. */
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

/** Return the fragment of a view: that of `state`, with these changes. */
function fragmentOf(state, changes = {}) {
  const next = { ...state, ...changes };
  const query = new URLSearchParams();
  for (const name of FILTERS) for (const value of next[name] ?? []) query.append(name, value);
  for (const name of ["scale", "sort", "find", "all"]) if (next[name]) query.set(name, next[name]);
  const argument = next.argument ? `/${encodeURIComponent(next.argument).replaceAll("%2F", "/").replaceAll("%7E", "~")}` : "";
  const asked = query.toString();
  return `#${next.view}${argument}${asked ? `?${asked}` : ""}`;
}

/** Return the address of another view with the same filters and scale. */
function linkTo(state, view, argument = "") {
  return fragmentOf(state, { view, argument, sort: "", find: "", all: "" });
}

/** Return whether these values pass the filters. A filter does not apply to an item without a value for it. */
function passes(state, values) {
  return FILTERS.every((name) => !state[name]?.size || values[name] === undefined || values[name] === "" || state[name].has(values[name]));
}
