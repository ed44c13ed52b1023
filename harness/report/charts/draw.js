// Draws the charts of a report: each script element of type application/json with the class `chart` has the
// specification of the element behind it. Colours of text and lines are those of the page, dark or light.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const text = { labelColor: "currentColor", titleColor: "currentColor" };
  const config = {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: null },
    autosize: { type: "fit-x", contains: "padding" },
    axis: { ...text, gridColor: "currentColor", gridOpacity: 0.15, domainColor: "currentColor",
            tickColor: "currentColor", labelLimit: 130, labelOverlap: true, tickCount: 5 },
    legend: { ...text, orient: "bottom", columns: matchMedia("(max-width: 600px)").matches ? 2 : 6,
              labelLimit: 180, symbolStrokeColor: "currentColor" },
    rule: { color: "currentColor" },
    text: { color: "currentColor" },
    title: { color: "currentColor", anchor: "start", fontWeight: 600 },
  };
  const options = {
    renderer: "svg", config, tooltip: { theme: dark ? "dark" : "light" },
    actions: { export: true, source: false, compiled: false, editor: false },
  };
  const reachable = 60;  // marks: more would make the way through the page too long

  // A mark that has the focus shows its tooltip, as if the mouse were over it.
  function listen(mark) {
    const tell = (kind) => {
      const box = mark.getBoundingClientRect();
      mark.dispatchEvent(new PointerEvent(kind, {
        bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 }));
    };
    mark.tabIndex = 0;
    mark.addEventListener("focus", () => tell("pointermove"));
    mark.addEventListener("blur", () => tell("pointerout"));
  }

  async function draw(data) {
    if (data.begun) return;
    data.begun = true;
    const place = data.nextElementSibling;
    await vegaEmbed(place, JSON.parse(data.textContent), options);
    const marks = [...place.querySelectorAll("path[role=graphics-symbol]:not([aria-hidden])")]
      .filter((mark) => !mark.closest("[aria-roledescription=legend]"));
    if (marks.length <= reachable) marks.forEach(listen);
  }

  // A chart is drawn when it comes near the view; all are drawn before the page is printed.
  const charts = document.querySelectorAll("script.chart");
  const places = new Map([...charts].map((data) => [data.nextElementSibling, data]));
  const near = new IntersectionObserver((entries) => entries.forEach((entry) => {
    if (!entry.isIntersecting) return;
    near.unobserve(entry.target);
    draw(places.get(entry.target));
  }), { rootMargin: "300px" });
  for (const place of places.keys()) near.observe(place);
  addEventListener("beforeprint", () => charts.forEach(draw));
})();
