// The page while its campaign is measured: the server sends changes once a second, and the first view shows them in
// place. The table of points is fetched on request. Nothing is drawn while the page is hidden.

let message; // the last message
let came = 0; // its time by the clock of this browser (ms)
let lost = false; // connection to the server
let write = () => {}; // writes `message` into the current view
let rowsHere; // version of the table of points that the page holds
let fetched = 0;

const SIDES = { client_cores: "clients", server_cores: "store", host_cores: "host" };
const STAGES = { store: "Starting the store", data: "Staging the data", clients: "Starting the clients", measuring: "Measuring", checks: "Checking the answers and writing the record", ended: "Ended" };
const MOODS = { waiting: "waiting", running: "measuring", between: "measuring", killed: "killed", silent: "silent", stopped: "stopped", failed: "points failed", complete: "complete" };

/** Format seconds. */
function span(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.round(seconds);
  if (seconds < 9.95) return `${Number(seconds.toFixed(1))} s`;
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  return `${Math.floor(whole / 3600)} h ${String(Math.floor((whole % 3600) / 60)).padStart(2, "0")} min`;
}

/** Format bytes with decimal prefixes. */
function sizeOf(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const at = bytes < 1000 ? 0 : Math.min(5, Math.floor(Math.log10(bytes) / 3));
  return `${Number((bytes / 1000 ** at).toPrecision(3))} ${["B", "kB", "MB", "GB", "TB", "PB"][at]}`;
}

const last = (column) => column?.at(-1) ?? null;
const some = (value, words, none = "–") => (value === null || value === undefined ? none : words(value));

// --- small charts, as SVG: one path for each line ---

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** Create a chart of the last seconds: {element, draw(at, {line: values}, words)}. */
function strip(title, lines) {
  const [wide, high] = [300, 80];
  const picture = svg("svg", { viewBox: `0 0 ${wide} ${high}`, preserveAspectRatio: "none", role: "img", "aria-label": title });
  const paths = lines.map((name) => {
    const path = svg("path", { class: `line ${name}`, fill: "none", "vector-effect": "non-scaling-stroke" });
    picture.append(path);
    return path;
  });
  const top = h("span", { class: "most" });
  const [from, until] = [h("span"), h("span", {}, "now")];
  const element = h("figure", { class: "strip" }, h("figcaption", {}, title), top, picture, h("div", { class: "times" }, from, until));
  const draw = (at, values, words, stale) => {
    const known = values.flat().filter((v) => v !== null);
    const most = Math.max(...known, 0);
    const [first, end] = [at[0] ?? 0, at.at(-1) ?? 1];
    paths.forEach((path, i) => {
      let pen = "M";
      const steps = values[i].map((value, k) => {
        if (value === null) {
          pen = "M";
          return "";
        }
        const step = `${pen}${(((at[k] - first) / (end - first || 1)) * wide).toFixed(1)},${(high - 2 - (most ? value / most : 0) * (high - 6)).toFixed(1)}`;
        pen = "L";
        return step;
      });
      path.setAttribute("d", steps.join("") || "M0,0");
    });
    top.textContent = known.length ? `to ${words(most)}` : "no data";
    from.textContent = at.length > 1 ? `${Math.round(end - first)} s ${stale ? "before" : "ago"}` : "";
    until.textContent = stale ? "the end" : "now";
    picture.setAttribute("aria-label", `${title}: ${known.length ? `at most ${words(most)}, ${stale ? "at the end" : "now"} ${lines.map((name, i) => `${SIDES[name] ?? ""} ${some(last(values[i]), words)}`.trim()).join(", ")}` : "no data"}`);
  };
  return { element, draw };
}

// --- the view ---

function live(page) {
  document.body.dataset.view = "live"; // filters apply to points
  const text = () => h("span");
  const [status, age, counted, left, pointText, stage] = Array.from({ length: 6 }, text);
  const mood = h("p", { class: "mood" }, h("b", {}), " ", status);
  const parts = ["ok", "invalid", "failed"].map((kind) => h("span", { class: `part ${kind}` }));
  const whole = h("div", { class: "whole", role: "img" }, parts);
  const progress = h("progress", { max: "1", value: "0", "aria-label": "Progress of the point" });
  const tile = (name) => ({ value: h("b"), more: h("span", { class: "small" }), name });
  const tiles = { operations: tile("operations/s"), bytes: tile("data"), errors: tile("failed operations"), memory: tile("memory") };
  const meters = Object.entries(SIDES).map(([column, name]) => {
    const meter = h("meter", { min: "0", max: "1", value: "0", "aria-label": `Busy cores: ${name}` });
    return { column, name, meter, value: h("span") };
  });
  const rates = strip("operations/s", ["operations_per_s"]);
  const data = strip("bytes/s", ["bytes_per_s"]);
  const cores = strip("busy cores", Object.keys(SIDES));
  const [recent, wrong, made, number] = [h("div"), h("div"), h("p", { hidden: true }, h("a", { href: "report.html" }, "The report of the campaign is available")), h("h2", {}, "Point")];
  const point = h(
    "section",
    { "aria-label": "The current point" },
    number,
    h("p", { class: "under" }, pointText),
    progress,
    h("p", { class: "small" }, stage),
    h("dl", { class: "tiles" }, Object.values(tiles).map(({ name, value, more }) => h("div", {}, h("dt", {}, name), h("dd", {}, value, more)))),
    h("h2", {}, "CPU"),
    h("div", { class: "meters" }, meters.flatMap(({ name, meter, value }) => [h("span", { class: `side ${name}` }, name), meter, value])),
    h("div", { class: "strips" }, rates.element, data.element, cores.element),
  );
  let spoken = "";
  let listed = "";

  write = () => {
    const { counts, planned, state } = message;
    const where = lost ? "lost" : message.mood;
    const words = lost ? "Connection lost: `storelab live` ended, or the network failed. Retrying." : message.said;
    mood.className = `mood ${where}`;
    mood.firstChild.textContent = lost ? "lost" : MOODS[message.mood];
    status.textContent = words;
    if (words !== spoken) say(words);
    spoken = words;
    const now = performance.now();
    const old = message.age_s === null ? null : message.age_s + (now - came) / 1000;
    age.textContent = old === null ? "" : `, data of ${old < 10 ? `${old.toFixed(1)} s` : span(old)} ago`;
    const shares = [counts.done - counts.invalid, counts.invalid, counts.failed];
    parts.forEach((part, i) => part.style.setProperty("width", `${planned ? (100 * shares[i]) / planned : 0}%`));
    counted.textContent = `${counts.done} of ${planned} points done${counts.invalid ? ` (${counts.invalid} invalid)` : ""}, ${counts.failed} failed, ${counts["to come"]} to come`;
    whole.setAttribute("aria-label", counted.textContent);
    left.textContent = message.left_s === null ? "" : ` · about ${span(message.left_s)} remaining`;
    made.hidden = !message.report;
    const lists = JSON.stringify([message.recent, message.wrong]);
    if (lists !== listed) {
      recent.replaceChildren(...few(page, message.recent, "Measured last"));
      wrong.replaceChildren(...few(page, message.wrong, "Failed and invalid points"));
    }
    listed = lists;
    point.hidden = !state || ["complete", "failed", "waiting"].includes(message.mood);
    if (!state || point.hidden) return;
    const elapsed = state.start_ns ? Math.max(0, Math.min(state.point.duration_s, (message.now_ns - state.start_ns) / 1e9)) : 0;
    const stale = ["killed", "silent", "stopped"].includes(message.mood);
    point.classList.toggle("old", stale);
    number.textContent = `Point ${state.number} of ${state.points}${stale ? ", last known state" : ""}`;
    pointText.textContent = `${state.point.store} ${state.point.workload} ${state.point.said}`;
    progress.value = state.point.duration_s ? elapsed / state.point.duration_s : 0;
    stage.textContent = `${STAGES[state.stage] ?? state.stage}${state.start_ns ? `: ${span(elapsed)} of ${span(state.point.duration_s)}` : ""}${state.clients_told ? `, ${state.clients_told} of ${state.point.clients} clients report` : ""}${state.reason ? `. ${state.reason}` : ""}`;
    const seconds = state.seconds;
    tiles.operations.value.textContent = some(last(seconds.operations_per_s), (v) => short(Math.round(v)));
    tiles.operations.more.textContent = some(state.operations, (v) => `${short(v)} in all`, "");
    tiles.bytes.value.textContent = some(last(seconds.bytes_per_s), (v) => `${sizeOf(v)}/s`);
    tiles.bytes.more.textContent = some(state.bytes, (v) => `${sizeOf(v)} in all`, "");
    tiles.errors.value.textContent = some(state.errors, short);
    tiles.errors.value.className = state.errors ? "failed" : "";
    tiles.errors.more.textContent = some(last(seconds.errors_per_s), (v) => `${short(Math.round(v))} in the last second`, "");
    tiles.memory.value.textContent = some(state.client_rss_bytes, (v) => `${sizeOf(v)} clients`);
    tiles.memory.more.textContent = some(state.server_rss_bytes, (v) => `${sizeOf(v)} store`, "");
    for (const { column, meter, value } of meters) {
      const busy = last(seconds[column]);
      meter.max = state.cores ?? 1;
      meter.value = busy ?? 0;
      value.textContent = some(busy, (v) => `${v.toFixed(2)} of ${state.cores} cores`);
    }
    rates.draw(seconds.at_s, [seconds.operations_per_s], (v) => short(Math.round(v)), stale);
    data.draw(seconds.at_s, [seconds.bytes_per_s], (v) => `${sizeOf(v)}/s`, stale);
    cores.draw(seconds.at_s, Object.keys(SIDES).map((name) => seconds[name]), (v) => v.toFixed(2), stale);
  };
  const out = [h("h1", {}, page.head.title), mood, h("p", { class: "under" }, `Campaign ${page.head.name}`, age), whole, h("p", {}, counted, left), made, point, wrong, recent];
  if (message) write();
  return out;
}

function few(page, rows, title) {
  if (!rows.length) return [];
  const shown = rows.map((row) => [row.key, row.state, row.reason ?? "", text(row.operations_per_s ?? ""), text(row.mb_per_s ?? "")]);
  const given = { name: "points", title, columns: ["key", "state", "reason", RUN.operations_per_s, RUN.mb_per_s], rows: shown };
  return [h("h2", {}, title), tableOf(given, {}, page.runs, { compact: true, cell: (column, value) => linked(page, column, value) ?? stateCell(column, value) })];
}

// --- other views: those of the report that are only about points ---

for (const name of Object.keys(RUN)) delete RUN[name];
Object.assign(RUN, { key: "key", state: "state", reason: "reason", operations_per_s: "operations/s, whole run", mb_per_s: "MB/s, whole run", operations: "operations", errors: "failed", started: "started" });

/** Fetch the table of points if it is older than the last message. */
async function fresh(page) {
  write = () => {};
  document.body.dataset.view = "points";
  if (!message || rowsHere === message.rows) return page;
  const wanted = message.rows;
  const answer = await fetch("points.json");
  if (!answer.ok) return page;
  const given = await answer.json();
  [rowsHere, fetched] = [wanted, performance.now()];
  replaceBlocks(given);
  return new Page(page.state, given.head, given.tables, {});
}

Object.assign(VIEWS, {
  overview: live,
  points: async (page) => points(await fresh(page)),
  runs: async (page, places) => runs(await fresh(page), places),
  point: async (page, key) => point(await fresh(page), key),
});
for (const name of ["figures", "figure", "tables", "table", "print"]) [delete VIEWS[name], delete MENU[name]];
MENU.overview = "Live";

// --- messages ---

const first = block("live").then((found) => {
  [message, came, rowsHere] = [found, performance.now(), found.rows];
});
let stream;

function listen() {
  if (stream || document.hidden) return;
  stream = new EventSource("events");
  stream.onmessage = (event) => {
    [message, came, lost] = [JSON.parse(event.data), performance.now(), false];
    document.documentElement.dataset.version = String(message.now_ns);
    write();
    const view = parseView(location.hash).view;
    if (view !== "overview" && rowsHere !== message.rows && performance.now() - fetched > 5000) render();
  };
  stream.onerror = () => {
    lost = true;
    if (message) write();
  };
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) return listen();
  stream?.close();
  stream = undefined;
});
setInterval(() => message && !document.hidden && write(), 1000);
first.then(() => {
  write();
  listen();
});
