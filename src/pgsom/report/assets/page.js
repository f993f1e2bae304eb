"use strict";
/* Brings the charts of a page to life: hover and arrow keys read values off, legend entries hide curves, buttons
   switch the axis. A line chart is drawn as `lines.py` drew it, in shares of the width, so nothing depends on its size. */
(() => {
  const MARGIN = 0.04; // as in lines.py
  // The size of the drawings, as lines.py set it.
  const { width: WIDTH, height: HEIGHT } = document.querySelector(".curves")?.viewBox.baseVal ?? {};

  /* Axes and numbers, as in scale.py. */

  function scale(values, margin) {
    const finite = values.filter(Number.isFinite);
    let low = finite.length ? finite.reduce((a, b) => Math.min(a, b)) : 0;
    let high = finite.length ? finite.reduce((a, b) => Math.max(a, b)) : 1;
    if (0 < low && low <= high / 2) low = 0;
    if (high - low <= 1e-9 * Math.max(Math.abs(low), Math.abs(high))) {
      const half = (Math.abs(low) || 1) / 2;
      [low, high] = [low - half, high + half];
    }
    const around = margin * (high - low);
    const begin = low - around * (low !== 0), end = high + around * (high !== 0);
    const step = roundStep((end - begin) / 6), slack = (end - begin) * 1e-9;
    const first = Math.ceil((begin - slack) / step), last = Math.floor((end + slack) / step);
    const ticks = Array.from({ length: last - first + 1 }, (_, k) => (first + k) * step);
    return { begin, end, ticks, share: (value) => (value - begin) / (end - begin) };
  }

  function roundStep(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= least * (1 - 1e-9));
  }

  function written(value) {
    if (!Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (size >= 1e6) return `${short(value / 1e6)}M`;
    if (size >= 1e4) return `${short(value / 1e3)}k`;
    return short(value);
  }

  function short(value) {
    const text = Math.abs(value) < 1e4 ? String(Number(value.toPrecision(4))) : value.toFixed(0);
    return text.replaceAll("-", "−");
  }

  /* Elements. Text enters a page only as text. */

  function svg(name, attributes, text = "") {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  }

  function html(name, ...children) {
    const element = document.createElement(name);
    element.append(...children);
    return element;
  }

  const round = (value) => String(Number(value.toFixed(2)));
  const percent = (share) => `${round(100 * share)}%`;
  const height = (y, value) => HEIGHT * (1 - y.share(value));

  /* Paths; a gap in the numbers begins a new piece. */

  function pieces(points) {
    const found = [[]];
    for (const point of points) {
      if (point.every(Number.isFinite)) found[found.length - 1].push(point);
      else found.push([]);
    }
    return found.filter((piece) => piece.length);
  }

  const path = (points) => "M" + points.map(([across, down]) => `${round(across)},${round(down)}`).join("L");

  function linePath(across, values, y) {
    return pieces(across.map((at, i) => [at, heightOf(y, values[i])])).map(path).join("");
  }

  function bandPath(across, low, high, y) {
    const points = across.map((at, i) => [at, heightOf(y, low[i]), heightOf(y, high[i])]);
    return pieces(points)
      .map((piece) => [...piece.map(([at, , top]) => [at, top]), ...piece.reverse().map(([at, low]) => [at, low])])
      .map((outline) => path(outline) + "Z")
      .join("");
  }

  const heightOf = (y, value) => (value === null ? NaN : height(y, value));

  class LineChart {
    constructor(figure) {
      this.part = (selector) => figure.querySelector(selector);
      this.data = JSON.parse(this.part("script").textContent);
      this.axis = Object.keys(this.data.labels)[0];
      this.hidden = new Set();
      this.plot = this.part(".plot");
      this.readout = html("div");
      this.readout.className = "readout";
      this.readout.hidden = true;
      this.plot.append(this.readout);
      this.pointer = this.part(".canvas").appendChild(svg("g", {}));
      this.addControls(figure);
      this.addReading();
      this.draw();
    }

    get shown() {
      return this.data.series.filter((series) => !this.hidden.has(series.name));
    }

    addControls(figure) {
      enableLegend(figure, (name, visible) => {
        this.hidden[visible ? "delete" : "add"](name);
        this.draw();
      });
      const buttons = [...figure.querySelectorAll(".switch button")];
      for (const button of buttons) {
        button.closest(".switch").hidden = false;
        button.addEventListener("click", () => {
          for (const one of buttons) one.setAttribute("aria-pressed", String(one === button));
          this.axis = button.dataset.axis;
          this.draw();
        });
      }
    }

    addReading() {
      const plot = this.plot;
      plot.tabIndex = 0;
      plot.setAttribute("role", "slider");
      const follow = (event) => {
        const box = plot.getBoundingClientRect();
        const share = (event.clientX - box.left) / box.width;
        this.read(nearest(this.places, this.x.begin + share * (this.x.end - this.x.begin)));
      };
      plot.addEventListener("pointermove", follow);
      plot.addEventListener("pointerdown", follow);
      plot.addEventListener("pointerleave", () => this.leave());
      plot.addEventListener("focus", () => {
        if (plot.matches(":focus-visible")) this.read(this.index ?? this.places.length - 1);
      });
      plot.addEventListener("blur", () => this.leave());
      plot.addEventListener("keydown", (event) => this.key(event));
    }

    key(event) {
      const last = this.places.length - 1, index = this.index ?? last, page = Math.ceil(last / 10);
      const target = {
        ArrowLeft: index - 1, ArrowDown: index - 1, ArrowRight: index + 1, ArrowUp: index + 1,
        PageDown: index - page, PageUp: index + page, Home: 0, End: last,
      }[event.key];
      if (event.key === "Escape") this.leave();
      if (target === undefined) return;
      event.preventDefault();
      this.read(Math.max(0, Math.min(last, target)));
    }

    draw() {
      const across = this.shown.flatMap((series) => series.x[this.axis]);
      const x = (this.x = scale([0, ...across], 0));
      const y = (this.y = scale(this.shown.flatMap(({ mean, low, high }) => [...mean, ...low, ...high]), MARGIN));
      // The points the reader steps through: those of any curve.
      this.places = [...new Set(across)].sort((a, b) => a - b);
      this.part(".grid").replaceChildren(
        ...y.ticks.map((tick) => round(height(y, tick))).map((at) => svg("line", { x1: 0, x2: "100%", y1: at, y2: at })),
        ...x.ticks
          .map((tick) => percent(x.share(tick)))
          .map((at) => svg("line", { class: "tick", x1: at, x2: at, y1: HEIGHT - 4, y2: HEIGHT })),
      );
      this.part(".y-axis").replaceChildren(
        ...y.ticks.map((tick) =>
          svg("text", { x: "100%", dx: -8, y: round(height(y, tick)), dy: "0.32em", "text-anchor": "end" }, written(tick)),
        ),
      );
      this.part(".x-axis").replaceChildren(
        ...x.ticks.map((tick) => {
          const at = x.share(tick), anchor = at < 0.02 ? "start" : at > 0.98 ? "end" : "middle";
          return svg("text", { x: percent(at), y: 14, "text-anchor": anchor }, written(tick));
        }),
      );
      this.part(".curves").replaceChildren(...this.shown.map((series) => this.curve(series)));
      this.part(".x-label").textContent = this.data.labels[this.axis];
      this.plot.setAttribute("aria-label", `Read values along ${this.data.labels[this.axis]}`);
      this.plot.setAttribute("aria-valuemin", x.begin);
      this.plot.setAttribute("aria-valuemax", x.end);
      this.leave();
    }

    curve(series) {
      const across = series.x[this.axis].map((at) => WIDTH * this.x.share(at));
      const group = svg("g", { "data-name": series.name });
      if (series.low.length) {
        group.append(svg("path", { class: "band", fill: series.colour, d: bandPath(across, series.low, series.high, this.y) }));
      }
      const d = linePath(across, series.mean, this.y);
      group.append(svg("path", { class: "line", stroke: series.colour, "stroke-dasharray": series.dashes, d }));
      return group;
    }

    /* Show the values of all curves at one of `places`. */
    read(index) {
      if (!this.places.length) return;
      this.index = index;
      const at = this.places[index], place = this.x.share(at), label = this.data.labels[this.axis];
      const values = this.shown.map((series) => ({ series, ...valueAt(series, this.axis, at) }));
      const dots = values
        .filter(({ mean }) => Number.isFinite(mean))
        .map(({ series, mean, x }) =>
          svg("circle", {
            class: "dot", fill: series.colour, r: 4, cx: percent(this.x.share(x)), cy: round(height(this.y, mean)),
          }),
        );
      const line = svg("line", { class: "crosshair", x1: percent(place), x2: percent(place), y1: 0, y2: HEIGHT });
      this.pointer.replaceChildren(line, ...dots);
      const rows = values.map(({ series, mean, low, high }) => {
        const name = html("td", swatch(series), " " + series.name);
        return html("tr", name, html("td", written(mean)), html("td", between(low, high)));
      });
      this.readout.replaceChildren(html("table", html("caption", `${label}: ${exactly(at)}`), html("tbody", ...rows)));
      this.readout.hidden = false;
      const room = this.plot.clientWidth - this.readout.offsetWidth, here = place * this.plot.clientWidth;
      const left = place > 0.5 ? here - this.readout.offsetWidth - 14 : here + 14;
      this.readout.style.left = `${Math.max(Math.min(0, room), Math.min(room, left))}px`;
      const said = values.map(({ series, mean, low, high }) => `${series.name} ${written(mean)} ${between(low, high)}`);
      this.plot.setAttribute("aria-valuenow", at);
      this.plot.setAttribute("aria-valuetext", `${label} ${exactly(at)}: ${said.join("; ")}`);
    }

    leave() {
      this.index = null;
      this.readout.hidden = true;
      this.pointer.replaceChildren();
    }
  }

  const exactly = (value) => value.toLocaleString("en", { maximumFractionDigits: 2 });
  const between = (low, high) => (Number.isFinite(low) && Number.isFinite(high) ? `[${written(low)}, ${written(high)}]` : "");

  function swatch(series) {
    const drawn = svg("svg", { class: "swatch", width: 26, height: 10, "aria-hidden": "true" });
    drawn.append(svg("line", { x1: 1, x2: 25, y1: 5, y2: 5, stroke: series.colour, "stroke-dasharray": series.dashes }));
    return drawn;
  }

  /* The curve's own point nearest to `at`; nothing outside of where it goes. */
  function valueAt(series, axis, at) {
    const places = series.x[axis];
    if (!places.length || at < places[0] || at > places[places.length - 1]) return { mean: NaN };
    const index = nearest(places, at);
    return { x: places[index], mean: series.mean[index], low: series.low[index], high: series.high[index] };
  }

  function nearest(places, at) {
    return places.reduce((best, place, index) => (Math.abs(place - at) < Math.abs(places[best] - at) ? index : best), 0);
  }

  function enableLegend(figure, changed) {
    for (const button of figure.querySelectorAll(".legend button")) {
      button.disabled = false;
      button.addEventListener("click", () => {
        const visible = button.getAttribute("aria-pressed") === "false";
        button.setAttribute("aria-pressed", String(visible));
        changed(button.dataset.name, visible);
      });
    }
  }

  for (const figure of document.querySelectorAll(".chart.lines")) new LineChart(figure);
  for (const figure of document.querySelectorAll(".chart.bars")) {
    enableLegend(figure, (name, visible) => {
      for (const group of figure.querySelectorAll(".group")) if (group.dataset.name === name) group.hidden = !visible;
    });
  }
})();
