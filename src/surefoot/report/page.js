// Fills the charts of a page with its data, and links them: one run and one step are picked, by hovering over a line, by
// the list of runs or by the slider, and every chart, the readout and the diagnosis follow.
"use strict";
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const charts = read("charts");
  const page = read("data");
  const views = new Map();
  const at = { run: 0, row: 0, shown: new Set(page.optimizers || []) };
  const byId = (id) => document.getElementById(id);
  const dark = matchMedia("(prefers-color-scheme: dark)");

  const wilson = (share, count, z) => {
    const z2 = z * z;
    const middle = (share * count + z2 / 2) / (count + z2);
    const reach = Math.sqrt(z2 * (share * (1 - share) * count + z2 / 4)) / (count + z2);
    return [Math.max(0, middle - reach), Math.min(1, middle + reach)];
  };

  const binRows = (parts) => {
    const fours = Array.from({ length: parts.length / 4 }, (_, k) => parts.slice(4 * k, 4 * k + 4));
    const total = fours.reduce((sum, four) => sum + four[1], 0);
    return fours.map(([place, count, tenThousandths, right]) => {
      const confidence = tenThousandths / 10000;
      const accuracy = right / count;
      const [low, high] = wilson(accuracy, count, page.z);
      return {
        left: place / page.num_bins, right: (place + 1) / page.num_bins, count, zero: 0, share: count / total, confidence,
        accuracy, low, high, side: confidence > accuracy ? "overconfident" : "underconfident",
      };
    });
  };

  const everyRun = (chart) => page.runs.flatMap((run, index) => {
    const y = run.columns[chart.y] || [];
    const x = chart.x ? run.columns[chart.x] || [] : run.steps;
    const last = run.steps.length - 1;
    return run.steps.map((step, row) => ({
      run: index, row, step, x: x[row], y: y[row] ?? null, optimizer: run.optimizer, dash: run.dash,
      end: row === 0 ? "first" : row === last ? "last" : "",
    })).filter((item) => !chart.x || (item.x != null && item.y != null));
  });

  const pickedRun = (chart) => {
    const run = page.runs[at.run];
    if (!run) return [];
    if (chart.kind === "course") {
      return everyRow(run, (row) => ({ y: (run.columns[chart.y] || [])[row] ?? null,
        ...(chart.x ? { x: (run.columns[chart.x] || [])[row] ?? null } : {}) }))
        .filter((item) => !chart.x || (item.x != null && item.y != null));
    }
    return everyRow(run, (row) => Object.fromEntries(
      chart.keys.map((key) => [key.split("/")[1], (run.columns[key] || [])[row] ?? null])));
  };
  const everyRow = (run, make) => run.steps.map((step, row) => ({ step, ...make(row) }));

  const bins = (chart) => {
    if (chart.values) return binRows(chart.values);
    const run = page.runs[at.run];
    return run && run.bins && run.bins[chart.split] ? binRows(run.bins[chart.split][at.row] || []) : [];
  };

  const edges = () => {
    const seen = new Map();
    for (const run of page.runs || []) {
      if (run.edge && run.edge <= page.highest_edge) seen.set(`${run.optimizer} ${run.edge}`, run);
    }
    return [...seen.values()].map((run) => ({ optimizer: run.optimizer, edge: run.edge }));
  };

  const refresh = (view, chart) => {
    const run = (page.runs || [])[at.run];
    view.signal("step", run ? run.steps[at.row] : -1);
    view.signal("edge", run && run.edge ? run.edge : -1);
    view.signal("colour", run ? page.colours[run.optimizer] : "#8a8a8a");
    if (chart.kind === "bins") view.data("bins", bins(chart));
    else view.data("picked", pickedRun(chart));
    return view.runAsync();
  };

  const number = (value) => value == null ? "-" : Number(value).toPrecision(4).replace(/\.?0+$|(\.\d*?)0+(?=e)/, "$1");

  const tell = () => {
    const run = (page.runs || [])[at.run];
    const readout = byId("readout");
    if (!run || !readout) return;
    readout.replaceChildren();
    const title = document.createElement("strong");
    title.textContent = `${run.label}, step ${run.steps[at.row]}: `;
    readout.append(title);
    for (const [key, name] of Object.entries(page.readout)) {
      if (!run.columns[key]) continue;
      const part = document.createElement("span");
      part.dataset.key = key;
      part.dataset.value = run.columns[key][at.row];
      part.textContent = `${name} ${number(run.columns[key][at.row])}; `;
      readout.append(part);
    }
    const slider = byId("step");
    slider.max = run.steps.length - 1;
    slider.value = at.row;
    slider.setAttribute("aria-valuetext", `step ${run.steps[at.row]}`);
    byId("step-now").textContent = run.steps[at.row];
    byId("run").value = at.run;
    const said = byId("run-diagnosis");
    if (said) {
      said.replaceChildren(...(run.diagnosis || []).map((sentence) => {
        const item = document.createElement("li");
        item.textContent = sentence;
        return item;
      }));
    }
  };

  let asked = false;
  const show = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      tell();
      for (const [name, view] of views) refresh(view, charts[name]);
    });
  };

  const pick = (run, row) => {
    if (run === at.run && row === at.row) return;
    at.run = run;
    at.row = Math.max(0, Math.min(row, page.runs[run].steps.length - 1));
    show();
  };

  const restrict = () => {
    for (const [name, view] of views) {
      if (charts[name].kind === "course") { view.signal("shown", [...at.shown]); view.runAsync(); }
    }
    let first = null;
    for (const option of byId("run").options) {
      const run = page.runs[option.value];
      option.hidden = option.disabled = !at.shown.has(run.optimizer);
      if (!option.hidden && first === null) first = Number(option.value);
    }
    if (first !== null && !at.shown.has(page.runs[at.run].optimizer)) pick(first, page.runs[first].steps.length - 1);
  };

  const REACH = 25;  // pixels
  const nearest = (chart, view, canvas, event) => {
    const box = canvas.getBoundingClientRect();
    const [left, top] = view.origin();
    const around = view.padding();
    const [px, py] = [event.clientX - box.x - around.left - left, event.clientY - box.y - around.top - top];
    const [x, y] = [view.scale("x"), view.scale("y")];
    let [best, least] = [null, REACH * REACH];
    for (const point of chart.points) {
      if (point.y == null || !at.shown.has(point.optimizer)) continue;
      const far = (x(chart.x ? point.x : point.step) - px) ** 2 + (y(point.y) - py) ** 2;
      if (far < least) [best, least] = [point, far];
    }
    return best;
  };

  const embed = async (name) => {
    const chart = charts[name];
    const began = { ...at };
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--ink").trim();
    const line = style.getPropertyValue("--line").trim();
    const paper = style.getPropertyValue("--paper").trim();
    const spec = structuredClone(chart.spec);
    for (const param of spec.params) {
      if (param.name === "ink") param.value = ink;
      if (param.name === "shown") param.value = [...at.shown];
      const run = (page.runs || [])[at.run];
      if (run && param.name === "step") param.value = run.steps[at.row];
      if (run && param.name === "edge") param.value = run.edge || -1;
      if (run && param.name === "colour") param.value = page.colours[run.optimizer];
    }
    spec.datasets = chart.kind === "bins" ? { bins: bins(chart) } : { picked: pickedRun(chart) };
    if (chart.kind === "course") {
      chart.points = everyRun(chart);
      Object.assign(spec.datasets, { all: chart.points.map((point) => ({ ...point })), edges: edges() });
    }
    if (!edges().length) spec.layer = spec.layer.filter((layer) => !layer.data || layer.data.name !== "edges");
    spec.config = {
      background: paper, view: { stroke: line }, font: "system-ui, sans-serif",
      axis: { labelColor: ink, titleColor: ink, gridColor: line, gridOpacity: 0.5, domainColor: line, tickColor: line,
        titleFontWeight: "normal", labelFontSize: 11, titleFontSize: 12, tickCount: 5, labelFlush: false },
      legend: { labelColor: ink, titleColor: ink, labelFontSize: 11, labelLimit: 300 },
    };
    const place = byId(`chart-${name}`);
    const before = views.get(name);
    if (before) before.finalize();
    const result = await window.vegaEmbed(place, spec, { actions: false, renderer: "canvas", ast: false, tooltip: true, logLevel: 1 });
    views.set(name, result.view);
    const canvas = place.querySelector("canvas");
    if (canvas) { canvas.setAttribute("role", "presentation"); }
    if (chart.kind === "course") {
      place.addEventListener("pointermove", (event) => {
        const near = nearest(chart, views.get(name), canvas, event);
        if (near) pick(near.run, near.row);
      });
    }
    if (at.run !== began.run || at.row !== began.row) await refresh(result.view, chart);
  };

  const all = async () => {
    const far = (name) => {  // from what is on the screen
      const box = byId(`chart-${name}`).getBoundingClientRect();
      return Math.max(0, box.top - innerHeight, -box.bottom);
    };
    const waiting = Object.keys(charts);
    for (let drawn = 1; waiting.length; drawn += 1) {
      waiting.sort((one, other) => far(one) - far(other));
      await embed(waiting.shift());
      if (drawn === 2 || !waiting.length) document.documentElement.dataset.usable = "yes";
      await new Promise((resolve) => setTimeout(resolve));  // so that the page answers in between
    }
    document.documentElement.dataset.ready = "yes";
  };

  const controls = () => {
    if (!byId("run") || !(page.runs || []).length) return;
    at.row = page.runs[0].steps.length - 1;
    byId("run").addEventListener("change", (event) => {
      const run = Number(event.target.value);
      pick(run, page.runs[run].steps.length - 1);
    });
    byId("step").addEventListener("input", (event) => pick(at.run, Number(event.target.value)));
    for (const box of document.querySelectorAll("input[name=optimizer]")) {
      box.addEventListener("change", () => {
        if (box.checked) at.shown.add(box.value); else at.shown.delete(box.value);
        restrict();
      });
    }
    tell();
  };

  const update = (fresh) => {  // of a page that is live: more rows, more runs
    const before = page.runs[at.run];
    const atEnd = !before || at.row >= before.steps.length - 1;
    Object.assign(page, fresh);
    for (const name of fresh.optimizers) {
      if (!document.querySelector(`input[name=optimizer][value="${CSS.escape(name)}"]`)) return location.reload();
    }
    const list = byId("run");
    while (list.options.length < page.runs.length) list.add(new Option(page.runs[list.options.length].label, list.options.length));
    const same = before ? page.runs.findIndex((run) => run.label === before.label) : 0;
    at.run = Math.max(0, same);
    at.row = atEnd ? page.runs[at.run].steps.length - 1 : at.row;
    page.runs.forEach((run, index) => { list.options[index].textContent = run.label; });
    for (const [name, view] of views) {
      if (charts[name].kind !== "course") continue;
      charts[name].points = everyRun(charts[name]);
      view.data("all", charts[name].points.map((point) => ({ ...point })));
    }
    show();
  };

  window.surefoot = { at, views, page, update };  // what the tests look at
  controls();
  const start = performance.now();
  all().then(() => { document.documentElement.dataset.seconds = ((performance.now() - start) / 1000).toFixed(3); });
  dark.addEventListener("change", all);
})();
