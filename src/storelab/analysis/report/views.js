// Views: the content of the page for each fragment of the address.

/** Data, state and links for a view. */
class Page {
  constructor(state, head, tables, figures) {
    Object.assign(this, { state, head, tables, figures });
    this.points = rowsOf(tables.points);
    this.pointColumns = tables.points.columns;
    this.runs = (places) => linkTo(state, "runs", places.split(" ").join("."));
    this.open = (places) => {
      location.hash = places.includes(" ") ? this.runs(places) : this.toPoint(Number(places));
    };
  }

  of(place, column) {
    return this.points[place]?.[this.pointColumns.indexOf(column)] ?? "";
  }

  toPoint(place) {
    return linkTo(this.state, "point", this.of(place, "key"));
  }

  /** Return a table for `tableOf` with the rows that pass the filters. keep: a further condition. */
  given(name, title, keep = () => true) {
    const table = this.tables[name];
    const kept = rowsOf(table).map((row, i) => [row, table.behind[i] ?? ""]).filter(([row], i) => keep(row, table.columns, i) && passes(this.state, kindsOf(table.columns, row)));
    return { name, title, columns: table.columns, rows: kept.map(([row]) => row), behind: kept.map(([, behind]) => behind), total: table.rows > table.cells[0]?.length ? table.rows : 0 };
  }

  /** Return some columns of a table under readable names. */
  some(given, columns) {
    const at = Object.keys(columns).map((name) => given.columns.indexOf(name));
    return { ...given, columns: Object.values(columns), rows: given.rows.map((row) => at.map((i) => row[i] ?? "")) };
  }
}

const factsOf = (facts) => h("dl", { class: "facts" }, facts.map(([what, value]) => h("div", {}, h("dt", {}, what), h("dd", {}, value))));

// --- overview ---

function overview(page) {
  const { head } = page;
  return [
    h("h1", {}, head.title),
    h("p", { class: "under" }, `Campaign ${head.name}${head.authors.length ? ` · ${head.authors.join(", ")}` : ""}`),
    factsOf(head.facts),
    head.notes.length ? h("ul", { class: "notes", "aria-label": "Notes about points" }, head.notes.map(([count, text, places]) => h("li", {}, h("a", { href: page.runs(places.join(" ")) }, `${count} ${count === 1 ? "point" : "points"}`), ` ${text}`))) : null,
    ...failures(page),
    ...verdicts(page),
    ...claims(page),
    h("h2", {}, "Figures"),
    Object.keys(page.figures).length ? figureIndex(page) : h("p", { class: "empty" }, "The campaign has no data for any figure."),
  ];
}

function failures(page) {
  const given = page.given("points", "Points that are not in any median", (row, columns) => ["failed", "invalid"].includes(row[columns.indexOf("state")]));
  if (!given.rows.length) return [];
  return [h("h2", {}, "Failed and invalid points"), tableOf({ ...page.some(given, { key: "key", state: "state", reason: "reason" }), behind: [] }, {}, page.runs, { compact: true, cell: (column, value) => linked(page, column, value) ?? stateCell(column, value) })];
}

function stateCell(column, value) {
  const kinds = { failed: "failed", invalid: "invalid", confirmed: "confirmed", refuted: "refuted", undecided: "undecided" };
  return ["state", "verdict"].includes(column) && kinds[value] ? h("span", { class: kinds[value] }, value) : null;
}

function verdicts(page) {
  const given = page.given("verdicts", "What limited each store");
  if (!given.rows.length) return [];
  const columns = { deployment: "store", workload: "workload", engine: "engine", what: "what", best: "best", unit: "unit", where: "reached with", verdict: "limited by", evidence: "evidence" };
  return [h("h2", {}, "Limits of each store"), tableOf(page.some(given, columns), {}, page.runs, { compact: true })];
}

function claims(page) {
  const every = page.given("claims", "Findings of earlier evaluations, judged on this campaign");
  const at = (name) => every.columns.indexOf(name);
  const counts = new Map(["confirmed", "refuted", "undecided", "not measured here"].map((verdict) => [verdict, 0]));
  for (const row of every.rows) counts.set(row[at("verdict")], (counts.get(row[at("verdict")]) ?? 0) + 1);
  const pick = (...want) => {
    const wanted = every.rows.map((row) => want.includes(row[at("verdict")]));
    return { ...every, rows: every.rows.filter((_, i) => wanted[i]), behind: every.behind.filter((_, i) => wanted[i]) };
  };
  const [decided, undecided, others] = [pick("confirmed", "refuted"), pick("undecided"), pick("not measured here")];
  const unit = (row, value, name) => (row[at(value)] ? `${isNumber(row[at(value)]) ? short(row[at(value)]) : row[at(value)]} ${row[at(name)]}`.trim() : "");
  const value = (row) => {
    const ends = row[at("low")] && row[at("high")] ? ` [${short(row[at("low")])}, ${short(row[at("high")])}]` : "";
    return row[at("value")] ? `${short(row[at("value")])}${ends} ${row[at("unit")]}`.trim() : "";
  };
  const given = (some) => ({
    ...some,
    columns: ["finding", "system", "verdict", "expected", "value", "why", "published", "source"],
    rows: some.rows.map((row) => [row[at("statement")], row[at("system")], row[at("verdict")], row[at("expected")], value(row), [row[at("evidence")], row[at("reason")]].filter(Boolean).join("; "), unit(row, "published", "published_unit"), row[at("source")]]),
  });
  const folded = (table, summary) => (table.rows.length ? h("details", {}, h("summary", {}, `${table.rows.length} ${summary}`), tableOf(table, {}, page.runs, { compact: true, cell: stateCell })) : null);
  return [
    h("h2", {}, "Findings of earlier evaluations"),
    h("ul", { class: "counts" }, [...counts].map(([verdict, count]) => h("li", { class: verdict.split(" ")[0] }, h("b", {}, count), verdict))),
    decided.rows.length ? tableOf(given(decided), {}, page.runs, { compact: true, cell: stateCell }) : h("p", { class: "empty" }, "None of them could be decided."),
    folded(given(undecided), "undecided from these data, with what is missing"),
    folded(page.some(others, { says: "finding", source: "source", campaigns: "campaigns" }), "not measured here, with the campaigns that measure them"),
  ];
}

function figureIndex(page) {
  return h("ul", { class: "index" }, Object.entries(page.figures).map(([name, figure]) => h("li", {}, h("a", { href: linkTo(page.state, "figure", name) }, figure.title || name))));
}

// --- figures ---

function plot(page, name, single = false) {
  const figure = page.figures[name];
  const { state } = page;
  const filtering = FILTERS.some((kind) => state[kind].size);
  const numbers = h("details", {}, h("summary", {}, "Numbers of this figure"));
  numbers.addEventListener("toggle", () => {
    if (!numbers.open || numbers.children.length > 1) return;
    numbers.append(tableOf({ name, title: `Numbers of ${figure.title || name}`, ...numbersOf(figure.panels, state) }, {}, page.runs));
  });
  return h(
    "article",
    { class: "plot", id: `figure-${name}`, "aria-label": figure.title || name },
    h(single ? "h1" : "h2", {}, single ? figure.title || name : h("a", { href: linkTo(state, "figure", name) }, figure.title || name)),
    filtering && !figure.filtered ? h("p", { class: "small" }, "The filters do not apply to this figure.") : null,
    legendOf(figure.panels),
    h(
      "div",
      { class: figure.panels.length === 1 ? "panels one" : "panels" },
      figure.panels.map((panel) => h("figure", { class: "panel" }, h("figcaption", {}, panel.title || "\u00a0"), chart(panel, state, describe(figure, panel), page.open))),
    ),
    h("p", { class: "small" }, figure.note),
    h("p", { class: "caption" }, figure.caption, " From ", h("a", { href: linkTo(state, "table", figure.table) }, `${figure.table}.csv`), "."),
    numbers,
  );
}

/** Describe a chart in words, for screen readers. */
function describe(figure, panel) {
  const names = panel.lines.filter((line) => (line.opacity ?? 1) === 1).map((line) => line.name).filter(Boolean);
  const what = panel.value === "x" ? panel.x.label : `${panel.y.label} against ${panel.x.label}`;
  return [figure.title, panel.title, what, names.length ? `curves: ${[...new Set(names)].join("; ")}` : "", "the numbers are below"].filter(Boolean).join(". ");
}

const figures = (page) => [h("h1", {}, "Figures"), Object.keys(page.figures).length ? h("p", { class: "under" }, "Hover over a value to read it, click it to see the points behind it.") : null, ...Object.keys(page.figures).map((name) => plot(page, name)), Object.keys(page.figures).length ? null : h("p", { class: "empty" }, "The campaign has no data for any figure.")];

function figure(page, name) {
  if (!page.figures[name]) return missing(`There is no figure ${name}.`);
  return [h("p", { class: "under" }, h("a", { href: linkTo(page.state, "figures") }, "All figures")), plot(page, name, true)];
}

const missing = (text) => [h("h1", {}, "Not in this page"), h("p", { class: "empty" }, text)];

// --- tables ---

function tables(page) {
  const names = Object.keys(page.tables).sort();
  const rows = (name) => page.tables[name].rows;
  return [
    h("h1", {}, "Tables"),
    h("p", { class: "under" }, "All tables of the campaign. docs/tables.md describes the columns."),
    h("ul", { class: "index" }, names.filter(rows).map((name) => h("li", {}, h("a", { href: linkTo(page.state, "table", name) }, name), ` (${short(rows(name))} ${rows(name) === 1 ? "row" : "rows"})`))),
    h("p", { class: "small" }, `Tables without rows: ${names.filter((name) => !rows(name)).join(", ") || "none"}.`),
  ];
}

function table(page, name) {
  if (!page.tables[name]) return missing(`There is no table ${name}.`);
  const { state } = page;
  const changed = (want) => history.replaceState(null, "", fragmentOf({ ...state, ...want }));
  return [h("p", { class: "under" }, h("a", { href: linkTo(state, "tables") }, "All tables")), h("h1", {}, name), tableOf(page.given(name, `${name}.csv`), state, page.runs, { changed, cell: (column, value) => linked(page, column, value) ?? stateCell(column, value) })];
}

/** Link a key to its point. */
function linked(page, column, value) {
  return column === "key" && value ? h("a", { href: linkTo(page.state, "point", value) }, broken(value)) : null;
}

/** Allow line breaks between the parts of a long key. */
const broken = (key) => key.split(/(?<=[/_])/).flatMap((part) => [part, h("wbr")]);

// --- points ---

const RUN = { key: "key", state: "state", reason: "reason", overlap_rate_per_s: "operations/s", overlap_throughput_mb_per_s: "MB/s", latency_p50_ms: "p50 [ms]", latency_p99_ms: "p99 [ms]", operations: "operations", errors: "failed", steadiness: "steadiness", started: "started" };

function listed(page, title, keep) {
  const given = page.some(page.given("points", title, keep), RUN);
  const changed = (want) => history.replaceState(null, "", fragmentOf({ ...page.state, ...want }));
  return tableOf({ ...given, name: "points", behind: [] }, page.state, page.runs, { changed, cell: (column, value) => linked(page, column, value) ?? stateCell(column, value) });
}

const points = (page) => [h("h1", {}, "Points"), h("p", { class: "under" }, "In the order of measurement, with a link to the record of each point."), listed(page, "Points of the campaign", () => true)];

function runs(page, places) {
  const wanted = new Set(places.split(".").map(Number));
  const keep = (row, columns, i) => wanted.has(i);
  const one = { ...page, state: { ...page.state, store: new Set(), engine: new Set(), size: new Set() } };
  const unfiltered = Object.assign(Object.create(Page.prototype), one);
  return [h("h1", {}, `${wanted.size} ${wanted.size === 1 ? "point" : "points"}`), listed(unfiltered, "Points behind a value", keep)];
}

const SETTINGS_END = "rep"; // the columns of points.csv from `workload` up to this one are axes

async function point(page, key) {
  const place = page.points.findIndex((row) => row[page.pointColumns.indexOf("key")] === key);
  if (place < 0) return missing(`There is no point ${key}.`);
  const details = (await block(`details-${Math.floor(place / page.head.part)}`))?.[key] ?? { facts: [], tables: [], panels: [] };
  const columns = page.pointColumns;
  const cells = columns.map((name, i) => [name, page.points[place][i]]).filter(([, value]) => value !== "");
  const end = columns.indexOf(SETTINGS_END);
  const isSetting = ([name]) => columns.indexOf(name) <= end && name !== "order";
  const numbers = (list) => list.map(([name, value]) => [name, isNumber(value) ? short(value) : value]);
  const [state, reason] = [page.of(place, "state"), page.of(place, "reason")];
  const ofPoint = Object.keys(page.tables).filter((name) => name !== "points" && !["timeline", "errors_over_time"].includes(name) && page.tables[name].columns.includes("key"));
  const groups = Object.keys(page.tables).filter((name) => page.tables[name].behind.some((places) => places.split(" ").includes(String(place))) && page.tables[name].columns.includes("n") && name !== "claims");
  return [
    h("p", { class: "under" }, h("a", { href: linkTo(page.state, "points") }, "All points"), place > 0 ? [" · ", h("a", { href: page.toPoint(place - 1) }, "previous")] : null, place + 1 < page.points.length ? [" · ", h("a", { href: page.toPoint(place + 1) }, "next")] : null),
    h("h1", {}, page.head.keys[place].join(", ")),
    h("p", { class: "under" }, h("code", {}, key)),
    h("p", {}, h("strong", { class: state }, state), reason ? `: ${reason}` : ""),
    details.panels.length ? h("div", { class: "panels" }, details.panels.map((panel) => h("figure", { class: "panel" }, h("figcaption", {}, panel.y.label), legendOf([panel]), chart(panel, { ...page.state, store: new Set(), engine: new Set(), size: new Set() }, describe({ title: page.head.keys[place].join(", ") }, panel), () => {})))) : null,
    h("h2", {}, "Setting"),
    factsOf(numbers(cells.filter(isSetting))),
    h("h2", {}, "Windows and results"),
    factsOf(numbers(cells.filter((cell) => !isSetting(cell) && !["key", "state", "reason", "order"].includes(cell[0])))),
    ...details.tables.flatMap((one) => [h("h2", {}, one.title), tableOf({ name: one.title, title: one.title, columns: one.columns, rows: one.rows.map((row) => row.map(text)) }, {}, page.runs, { compact: true })]),
    ...ofPoint.flatMap((name) => {
      const given = page.given(name, name, (row, known) => row[known.indexOf("key")] === key);
      return given.rows.length ? [h("h2", {}, `In ${name}.csv`), tableOf({ ...given, behind: [] }, {}, page.runs, { compact: true })] : [];
    }),
    groups.length ? h("p", { class: "small" }, "Its group is in ", ...groups.flatMap((name, i) => [i ? ", " : "", h("a", { href: linkTo(page.state, "table", name) }, `${name}.csv`)]), ".") : null,
    ...details.facts.flatMap(([name, facts]) => [h("h2", {}, name), factsOf(facts)]),
  ];
}

// --- all in one, for paper ---

const everything = (page) => [...overview(page).slice(0, -2), ...Object.keys(page.figures).map((name) => plot(page, name))];

const VIEWS = { overview, figures, figure, tables, table, points, runs, point, print: everything };
const MENU = { overview: "Overview", figures: "Figures", tables: "Tables", points: "Points", print: "All in one" };
const UNDER = { figure: "figures", table: "tables", point: "points", runs: "points" };
