// Tables that can be sorted, searched, filtered, and downloaded as CSV with every digit of the file.

const FIRST = 100; // rows that are shown initially
const CARDS = 40; // tables up to this size are shown completely, and as cards on a narrow page

/** Convert a table from columns to rows. */
function rowsOf(table) {
  const count = table.cells[0]?.length ?? 0;
  return Array.from({ length: count }, (_, i) => table.cells.map((column) => column[i]));
}

/** Return the values of a row that filters test: store, engine and size. */
function kindsOf(columns, row) {
  const at = (name) => row[columns.indexOf(name)];
  const size = at("object_size_bytes");
  return {
    store: at("store") ?? (columns.includes("system") ? at("system").split(", ")[0].replace("all systems", "") : undefined),
    engine: at("engine"),
    size: size ? String(Number(size)) : size,
  };
}

const isNumeric = (rows, column) => rows.some((row) => row[column] !== "") && rows.every((row) => row[column] === "" || isNumber(row[column]));

/** Return CSV as pandas writes it: with quotes only around cells that need them. */
function csvOf(columns, rows) {
  const cell = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return [columns, ...rows].map((row) => row.map((value) => cell(text(value))).join(",")).join("\n") + "\n";
}

function download(name, content) {
  const address = URL.createObjectURL(new Blob([content], { type: "text/csv" }));
  const link = h("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** Sort rows by a column; numbers by value, empty cells last. */
function sorted(rows, column, numeric, descending) {
  const empty = (row) => row[column] === "";
  const before = (a, b) => (numeric ? Number(a[column]) - Number(b[column]) : a[column].localeCompare(b[column], "en", { numeric: true }));
  return [...rows].sort((a, b) => empty(a) - empty(b) || (descending ? -1 : 1) * before(a, b));
}

/**
 * Build a table. given: {name, title, columns, rows, behind: positions of the points of each row, total}. asked: {sort:
 * column or -column, find, all}; changed: called with the new choice, to update the address. link: positions ->
 * address. compact: without tools.
 */
function tableOf(given, asked, link, { changed = () => {}, compact = false, cell = null } = {}) {
  const { columns } = given;
  const numbered = given.rows.map((row, i) => [...row, i]); // appends the number of the row
  const numeric = columns.map((_, i) => isNumeric(given.rows, i));
  const filled = columns.map((_, i) => given.rows.some((row) => row[i] !== ""));
  const hasPoints = given.behind?.some(Boolean);
  const want = { sort: asked.sort ?? "", find: asked.find ?? "", all: asked.all ?? "" };
  const body = h("tbody");
  const head = h("tr");
  const count = h("span", { class: "small" });
  const more = h("button", { type: "button", hidden: true }, "Show all rows");
  let shown = compact ? Infinity : FIRST;

  const visible = () => columns.map((_, i) => i).filter((i) => want.all || filled[i]);
  const chosen = () => {
    const word = want.find.toLowerCase();
    let rows = word ? numbered.filter((row) => row.slice(0, -1).some((value) => text(value).toLowerCase().includes(word))) : numbered;
    const column = columns.indexOf(want.sort.replace(/^-/, ""));
    if (column >= 0) rows = sorted(rows, column, numeric[column], want.sort.startsWith("-"));
    return rows;
  };
  const cellOf = (row, i) => {
    const value = text(row[i]);
    const content = cell?.(columns[i], value, row);
    const attributes = { "data-of": columns[i] }; // the heading, if a narrow page shows a row as a card
    if (content) return h("td", attributes, content);
    if (numeric[i]) return h("td", { ...attributes, class: "number", title: value.length > 6 ? value : null }, short(value));
    return h("td", { ...attributes, class: value.length > 40 ? "words" : value.length < 22 ? "short" : null }, value);
  };
  const render = () => {
    const rows = chosen();
    head.replaceChildren(
      ...(hasPoints ? [h("th", { scope: "col" }, "points")] : []),
      ...visible().map((i) => {
        const by = want.sort.replace(/^-/, "") === columns[i];
        const sort = by ? (want.sort.startsWith("-") ? "descending" : "ascending") : "none";
        const click = () => {
          want.sort = by && sort === "ascending" ? `-${columns[i]}` : columns[i];
          changed(want);
          render();
          head.querySelectorAll("button")[visible().indexOf(i)].focus();
          say(`sorted by ${columns[i]}, ${want.sort.startsWith("-") ? "descending" : "ascending"}`);
        };
        return h("th", { scope: "col", class: numeric[i] ? "number" : null, "aria-sort": sort }, h("button", { type: "button", onclick: click }, columns[i].replaceAll("_", "_\u200b")));
      }),
    );
    body.replaceChildren(
      ...rows.slice(0, shown).map((row) => {
        const points = given.behind?.[row.at(-1)];
        const to = points ? h("a", { href: link(points), "aria-label": `points behind row ${row.at(-1) + 1}` }, `${points.split(" ").length}`) : "";
        return h("tr", {}, ...(hasPoints ? [h("td", { class: "number", "data-of": "points" }, to)] : []), ...visible().map((i) => cellOf(row, i)));
      }),
    );
    more.hidden = rows.length <= shown;
    const beyond = given.total > given.rows.length ? `; the page has the first ${short(given.rows.length)} of ${short(given.total)}, all are in tables/${given.name}.csv` : "";
    count.textContent = `${short(rows.length)} ${rows.length === 1 ? "row" : "rows"}${rows.length > shown ? `, ${shown} shown` : ""}${beyond}`;
  };
  more.addEventListener("click", () => {
    shown = Infinity;
    render();
  });
  const find = h("input", { type: "search", value: want.find, size: 16 });
  find.addEventListener("input", () => {
    want.find = find.value;
    changed(want);
    render();
  });
  const empty = h("input", { type: "checkbox", checked: Boolean(want.all) });
  empty.addEventListener("change", () => {
    want.all = empty.checked ? "1" : "";
    changed(want);
    render();
  });
  const save = h("button", { type: "button", onclick: () => download(`${given.name}.csv`, csvOf(columns, chosen().map((row) => row.slice(0, -1)))) }, "Download CSV");
  const tools = compact ? null : h("div", { class: "tools" }, h("label", {}, "Find ", find), filled.every(Boolean) ? null : h("label", {}, empty, " show empty columns"), save, count, more);
  render();
  const few = compact && given.rows.length <= CARDS;
  return h("div", {}, tools, h("div", { class: few ? "scroll cards" : "scroll", tabindex: "0", role: "region", "aria-label": given.title }, h("table", {}, h("caption", { class: compact ? "hidden" : null }, given.title), h("thead", {}, head), body)));
}
