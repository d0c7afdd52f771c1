// Charts in a frame of another page, for example the output of a notebook: figures below each other, without links.

const STATE = parseView("");

function inFrame([name, figure]) {
  return h(
    "article",
    { class: "plot", "aria-label": figure.title || name },
    figure.title ? h("h3", {}, figure.title) : null,
    figure.legends ? null : legendOf(figure.panels),
    h("div", { class: figure.panels.length === 1 ? "panels one" : "panels" }, figure.panels.map((panel) => h("figure", { class: "panel" }, h("figcaption", {}, panel.title || "\u00a0"), figure.legends ? legendOf([panel]) : null, chart(panel, STATE, [figure.title || name, panel.title, panel.y.label].join(" "), () => {})))),
    figure.note ? h("p", { class: "small" }, figure.note) : null,
    figure.caption ? h("p", { class: "caption" }, figure.caption) : null,
  );
}

// The frame gets the height of its content.
new ResizeObserver(() => {
  if (frameElement) frameElement.style.height = `${document.body.scrollHeight}px`;
}).observe(document.body);

forget();
document.getElementById("main").append(...Object.entries(await block("figures")).map(inFrame));
await redraw(true); // all charts, because a notebook may be printed
