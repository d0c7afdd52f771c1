// The page: reads the address, fills the view, and reacts to filters, theme and width. `storelab.replace` replaces the
// data while the page is open.

let shown = 0; // only the last requested view is filled

async function render(focus = false) {
  const turn = ++shown;
  hideTip();
  try {
    await fill(turn, focus);
  } catch (error) {
    console.error(error);
    document.getElementById("main").replaceChildren(h("p", { class: "empty" }, `This view cannot be shown: ${error.message}`));
  }
}

async function fill(turn, focus) {
  const [head, tableData, figureData] = await Promise.all([block("head"), block("tables"), block("figures")]);
  const state = parseView(location.hash);
  const page = new Page(state, head, tableData, figureData);
  forget();
  const view = Object.hasOwn(VIEWS, state.view) ? VIEWS[state.view] : () => missing(`There is no view ${state.view}.`);
  const filled = await view(page, state.argument);
  if (turn !== shown) return;
  const main = document.getElementById("main");
  const at = scrollY;
  main.replaceChildren(...filled.filter(Boolean));
  menu(state);
  filterBar(state, head, Object.keys(figureData).length > 0);
  document.title = `${main.querySelector("h1, h2")?.textContent ?? head.title} · ${head.name}`;
  document.documentElement.dataset.ready = String(turn);
  if (focus) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  } else scrollTo(0, at);
  if (state.view === "print") redraw(true);
}

function menu(state) {
  const here = UNDER[state.view] ?? state.view;
  const link = ([view, words]) => h("li", {}, h("a", { href: linkTo(state, view), "aria-current": view === here ? "page" : null }, words));
  document.getElementById("views").replaceChildren(h("ul", {}, Object.entries(MENU).map(link)));
}

/** Build the bar of filters. figures: whether there are any, so that their axis can be chosen. */
function filterBar(state, head, figures) {
  const bar = document.getElementById("filters");
  const go = (changes) => {
    const keep = document.activeElement?.dataset?.key;
    history.pushState(null, "", fragmentOf(parseView(location.hash), changes));
    render().then(() => keep && document.querySelector(`#filters [data-key="${CSS.escape(keep)}"]`)?.focus());
  };
  const chips = Object.entries(head.filters).map(([name, values]) => {
    const legend = { store: "Store", engine: "Engine", size: "Object size" }[name] ?? name;
    const chip = ([value, words]) => {
      const on = state[name].has(value);
      const toggle = () => go({ [name]: new Set(on ? [...state[name]].filter((v) => v !== value) : [...state[name], value]) });
      return h("button", { type: "button", class: "chip", "aria-pressed": String(on), "data-key": `${name}:${value}`, onclick: toggle }, words || value);
    };
    return h("fieldset", {}, h("legend", {}, legend), values.map(chip));
  });
  const scale = h("select", { id: "scale", "data-key": "scale" }, [["", "as in the printed figure"], ["linear", "linear"], ["log", "logarithmic"]].map(([value, words]) => h("option", { value, selected: state.scale === value }, words)));
  scale.addEventListener("change", () => go({ scale: scale.value }));
  const any = FILTERS.some((name) => state[name].size);
  const clear = any ? h("button", { type: "button", "data-key": "clear", onclick: () => go({ store: new Set(), engine: new Set(), size: new Set() }) }, "Show all") : null;
  bar.replaceChildren(h("div", {}, ...chips, figures ? h("label", {}, "Value axis ", scale) : "", clear ?? ""));
  bar.hidden = !figures && !chips.length;
}

// --- theme ---

const system = matchMedia("(prefers-color-scheme: dark)");
const themeChoice = document.getElementById("theme");

function remembered() {
  try {
    return localStorage.getItem("storelab-theme") ?? "";
  } catch {
    return ""; // some browsers store nothing for pages from files
  }
}

function applyTheme(chosen = themeChoice.value) {
  const now = chosen || (system.matches ? "dark" : "light");
  if (document.documentElement.dataset.theme === now) return false;
  document.documentElement.dataset.theme = now;
  return true;
}

themeChoice.value = remembered();
applyTheme();
themeChoice.addEventListener("change", () => {
  try {
    localStorage.setItem("storelab-theme", themeChoice.value);
  } catch {
    // the choice holds only for this visit
  }
  if (applyTheme()) render();
});
system.addEventListener("change", () => applyTheme() && render());

// --- paper, width, keys ---

let printing = false;
addEventListener("beforeprint", () => {
  printing = applyTheme("light");
  if (globalThis.vega) for (const [element, entry] of WAITING) drawNow(element, entry, { vega: globalThis.vega, vegaLite: globalThis.vegaLite });
});
addEventListener("afterprint", () => {
  if (printing && applyTheme()) render();
});

let width = innerWidth;
let resting;
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  clearTimeout(resting);
  resting = setTimeout(() => globalThis.vega && redraw(), 150);
});
addEventListener("hashchange", () => render(true));
addEventListener("scroll", hideTip, { passive: true });
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
document.getElementById("licences").addEventListener("toggle", async (event) => {
  event.target.querySelector("pre").textContent = (await textOf("licences")) ?? "";
});

globalThis.storelab = {
  /** Replace these blocks ({head, tables, figures, "details-0" …}) and draw the same view again. */
  replace(data) {
    replaceBlocks(data);
    return render();
  },
  block,
  csvOf,
};

render();
