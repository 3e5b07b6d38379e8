"""The report's script: zoom and a shared cursor for charts over time, tables of findings that sort and filter.

It draws what svg.Chart.values has, with textContent only: names of members come from the network.
"""

SCRIPT = r""""use strict";
// Charts over time: drawn again in the width that they have, with one cursor and one range of time for all of them.
const NS = "http://www.w3.org/2000/svg", LEFT = 74, RIGHT = 14, TOP = 12, BOTTOM = 30;
const shared = {from: 0, to: 1, at: null};
const charts = [];
const make = (name, attributes, parent, text) => {
  const found = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) found.setAttribute(key, value);
  if (text !== undefined) found.textContent = text;
  if (parent) parent.append(found);
  return found;
};
const digits = value => String(Number(value.toPrecision(3)));
const duration = value => {
  if (value === 0) return "0";
  for (const [limit, factor, unit] of [[1e-3, 1e6, "µs"], [1, 1e3, "ms"], [60, 1, "s"], [3600, 1 / 60, "min"]])
    if (Math.abs(value) < limit) return digits(value * factor) + " " + unit;
  return digits(value / 3600) + " h";
};
const short = value => {
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= limit) return digits(value / limit) + unit;
  return digits(value);
};
const shown = (chart, value) => chart.unit === "duration" ? duration(value) : short(value) +
  (chart.unit === "rate" ? "/s" : "");
const ticks = (low, high, wanted) => {
  const raw = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(times => times * power).find(each => each >= raw * 0.999);
  const found = [];
  for (let number = Math.ceil(low / step - 1e-9); number <= Math.floor(high / step + 1e-9); number++)
    found.push(number * step);
  return found;
};
const powers = (low, high) => {
  const found = [];
  for (let power = Math.round(Math.log10(low)); power <= Math.round(Math.log10(high)); power++) found.push(10 ** power);
  return found;
};
class Plot {
  constructor(figure, number) {
    Object.assign(this, JSON.parse(figure.querySelector("script").textContent), {figure, number});
    figure.classList.add("live");
    figure.tabIndex = 0;
    this.svg = make("svg", {role: "img", class: "drawn"}, figure);
    this.says = document.createElement("p");
    this.says.className = "says";
    figure.append(this.says);
    this.listen();
  }
  x(value) {
    const {from, to} = shared;
    return LEFT + (this.width - LEFT - RIGHT) * (value / this.stop - from) / (to - from);
  }
  time(pixels) {
    const {from, to} = shared;
    const share = Math.min(1, Math.max(0, (pixels - LEFT) / (this.width - LEFT - RIGHT)));
    return (from + (to - from) * share) * this.stop;
  }
  y(value) {
    const scale = this.log ? each => Math.log10(Math.max(each, this.low)) : each => each;
    const low = scale(this.low), high = scale(this.high);
    const share = high > low ? (scale(value) - low) / (high - low) : 0;
    return this.height - BOTTOM - (this.height - TOP - BOTTOM) * Math.min(1, Math.max(0, share));
  }
  draw() {
    this.width = Math.max(240, this.figure.clientWidth);
    const {svg, width, height} = this, right = width - RIGHT, bottom = height - BOTTOM;
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const clip = make("clipPath", {id: "clip" + this.number}, svg);
    make("rect", {x: LEFT, y: 0, width: width - LEFT - RIGHT, height}, clip);
    for (const value of this.log ? powers(this.low, this.high) : ticks(this.low, this.high, 5)) {
      make("line", {class: "grid", x1: LEFT, x2: right, y1: this.y(value), y2: this.y(value)}, svg);
      make("text", {class: "tick", x: LEFT - 8, y: this.y(value) + 4, "text-anchor": "end"}, svg, shown(this, value));
    }
    make("line", {class: "axis", x1: LEFT, x2: right, y1: bottom, y2: bottom}, svg);
    for (const value of ticks(shared.from * this.stop, shared.to * this.stop, width > 600 ? 6 : 3)) {
      make("line", {class: "axis", x1: this.x(value), x2: this.x(value), y1: bottom, y2: bottom + 4}, svg);
      make("text", {class: "tick", x: this.x(value), y: bottom + 18, "text-anchor": "middle"}, svg, duration(value));
    }
    const inside = make("g", {"clip-path": `url(#clip${this.number})`}, svg);
    for (const [at, word] of this.marks) {
      const mark = make("g", {class: "mark"}, inside);
      make("line", {x1: this.x(at), x2: this.x(at), y1: TOP, y2: bottom}, mark);
      make("title", {}, mark, word);
    }
    const pair = ([at, value]) => this.x(at).toFixed(1) + "," + this.y(value).toFixed(1);
    const place = points => points.map(pair).join(" ");
    for (const [colour, points] of this.bands)
      make("polygon", {class: "band f" + colour, points: place([...points.map(([at, , high]) => [at, high]),
        ...points.map(([at, low]) => [at, low]).reverse()])}, inside);
    for (const [colour, , points] of this.lines)
      make("polyline", {class: "line c" + colour, points: place(points)}, inside);
    for (const [colour, points] of this.dots)
      for (const [at, value, word] of points)
        make("title", {}, make("circle", {class: "f" + colour, cx: this.x(at), cy: this.y(value), r: 2.2}, inside),
          word);
    this.cursor = make("line", {class: "cursor", y1: TOP, y2: bottom, visibility: "hidden"}, svg);
    this.chosen = make("rect", {class: "chosen", y: TOP, height: bottom - TOP, width: 0}, svg);
    this.point();
  }
  point() {
    const at = shared.at === null ? null : shared.at * this.stop;
    this.cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    if (at === null) {
      this.says.textContent = shared.to - shared.from < 1 ? "Double-click or 0 shows the whole time." : "";
      return;
    }
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(at));
    const near = points => points.reduce((best, each) => Math.abs(each[0] - at) < Math.abs(best[0] - at) ? each : best);
    const words = this.lines.filter(([, , points]) => points.length)
      .map(([, name, points]) => name + " " + shown(this, near(points)[1]));
    for (const [, points] of this.dots) if (points.length) words.push("max " + shown(this, near(points)[1]));
    this.says.textContent = "at " + duration(at) + ": " + words.join(", ");
  }
  listen() {
    const {svg, figure} = this;
    let down = null;
    const pixels = event => event.clientX - svg.getBoundingClientRect().left;
    svg.addEventListener("pointermove", event => {
      pointAt(this.time(pixels(event)) / this.stop);
      if (down === null) return;
      const [low, high] = [down, pixels(event)].sort((a, b) => a - b);
      this.chosen.setAttribute("x", low);
      this.chosen.setAttribute("width", high - low);
    });
    svg.addEventListener("pointerdown", event => { if (event.pointerType === "mouse") down = pixels(event); });
    svg.addEventListener("pointerup", event => {
      if (down !== null && Math.abs(pixels(event) - down) > 8) {
        const [low, high] = [this.time(down), this.time(pixels(event))].sort((a, b) => a - b);
        zoomTo(low / this.stop, high / this.stop);
      }
      down = null;
      this.chosen.setAttribute("width", 0);
    });
    svg.addEventListener("pointerleave", () => { down = null; this.chosen.setAttribute("width", 0); pointAt(null); });
    svg.addEventListener("dblclick", () => zoomTo(0, 1));
    figure.addEventListener("keydown", event => {
      const span = shared.to - shared.from, middle = shared.at === null ? (shared.from + shared.to) / 2 : shared.at;
      const moves = {ArrowLeft: -span / 50, ArrowRight: span / 50};
      if (event.key in moves)
        pointAt(Math.min(shared.to, Math.max(shared.from, middle + moves[event.key])));
      else if (event.key === "+") zoomTo(middle - span / 4, middle + span / 4);
      else if (event.key === "-") zoomTo(middle - span, middle + span);
      else if (event.key === "0" || event.key === "Escape") zoomTo(0, 1);
      else return;
      event.preventDefault();
    });
  }
}
const pointAt = share => { shared.at = share; for (const chart of charts) chart.point(); };
const zoomTo = (from, to) => {
  shared.from = Math.max(0, from);
  shared.to = Math.min(1, Math.max(to, shared.from + 1e-6));
  for (const chart of charts) chart.draw();
};
for (const figure of document.querySelectorAll("figure.plot")) charts.push(new Plot(figure, charts.length));
new ResizeObserver(() => { for (const chart of charts) chart.draw(); }).observe(document.body);
// Tables of findings: a click on a head sorts, a text above leaves what has it.
for (const table of document.querySelectorAll("table.sorted")) {
  const rows = [...table.rows].slice(1), heads = [...table.rows[0].cells];
  const value = (row, at) => {
    const text = row.cells[at].textContent, number = Number(text.replaceAll(",", ""));
    return text && !Number.isNaN(number) ? number : text;
  };
  const time = new Map(rows.map((row, at) => [row, at]));
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    head.replaceChildren(button);
    let up = true;
    button.addEventListener("click", () => {
      const order = (a, b) => at === 0 ? time.get(a) - time.get(b) : value(a, at) < value(b, at) ? -1 :
        value(a, at) > value(b, at) ? 1 : time.get(a) - time.get(b);
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      for (const row of [...rows].sort((a, b) => up ? order(a, b) : order(b, a))) table.tBodies[0].append(row);
      up = !up;
    });
  });
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "only rows with ...";
  filter.setAttribute("aria-label", "only rows with this text");
  filter.addEventListener("input", () => {
    const wanted = filter.value.toLowerCase();
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.parentElement.before(filter);
}
"""
