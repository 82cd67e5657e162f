"use strict";
// Draws the lanes. All data is in the page (#data); positions are in units of the axis that is chosen:
// nanoseconds by time, collectives by order.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const canvas = byId("chart"), scroller = byId("scroll"), tip = byId("tip"), detail = byId("detail");
const pen = canvas.getContext("2d");
const STATES = ["started", "returned", "complete", "failed"];
const WORDS = {
  started: "started, not returned", returned: "submitted, not seen complete",
  complete: "complete", failed: "failed",
};
const NOTHING = "A click, or an arrow key in the chart, chooses an operation.";
const GUTTER = 76, AXIS = 26, LANE = data.lanes.length > 40 ? 16 : 28, LEAST = 2;

// An entry as the page holds it: [seq, collective, submitted, ended, state, text, result, marked].
const lanes = data.lanes.map((lane) => ({
  rank: lane.rank, dumped: lane.dumped, missing: !lane.entries,
  entries: (lane.entries || []).map((e) => ({
    seq: e[0], collective: e[1], from: e[2], to: e[3], state: STATES[e[4]],
    text: data.texts[e[5]], result: data.results[e[6]], marked: e[7] === 1,
  })),
}));

// Columns of the order: a collective has its number; what is none shares the rest of the column before.
for (const lane of lanes) {
  let column = lane.entries.length ? firstNumber(lane) - 1 : 0;
  let between = [];
  const flush = () => {
    between.forEach((e, i) => {
      e.left = column + 0.62 + (0.36 * i) / between.length;
      e.right = column + 0.62 + (0.36 * (i + 0.85)) / between.length;
    });
    between = [];
  };
  for (const e of lane.entries) {
    if (!e.collective) { between.push(e); continue; }
    flush();
    column = e.collective;
    e.left = column;
    e.right = column + 0.58;
  }
  flush();
}
function firstNumber(lane) {
  const first = lane.entries.find((e) => e.collective);
  return first ? first.collective : 1;
}

let mode = "order", view = [0, 1], selected = null, wanted = false;
const start = (e) => (mode === "time" ? e.from : e.left);
const end = (e, lane) => {
  if (mode === "order") return e.right;
  if (e.to >= 0) return e.to;
  return e.state === "started" ? Math.max(lane.dumped, e.from) : e.from;
};
const width = () => canvas.clientWidth - GUTTER;
const toX = (v) => GUTTER + ((v - view[0]) / (view[1] - view[0])) * width();
const toValue = (x) => view[0] + ((x - GUTTER) / width()) * (view[1] - view[0]);

function extent() {
  let low = Infinity, high = -Infinity;
  for (const lane of lanes) for (const e of lane.entries) {
    low = Math.min(low, start(e));
    high = Math.max(high, end(e, lane), start(e));
  }
  if (!(high >= low)) return [0, 1];
  const room = (high - low) * 0.02 || 1;
  return [low - room, high + room];
}
function marked() {
  for (const lane of lanes) for (const e of lane.entries) if (e.marked) return { lane, e };
  return null;
}
function show(from, to) {
  const least = mode === "time" ? 1000 : 1;  // A microsecond, a column.
  if (to - from < least) { const c = (from + to) / 2; from = c - least / 2; to = c + least / 2; }
  view = [from, to];
  redraw();
}
function fit() { show(...extent()); }
function toMarked() {
  const found = marked();
  if (!found) return fit();
  const all = extent();
  if (mode === "order") return show(Math.max(all[0], found.e.left - 5), Math.min(all[1], found.e.left + 4));
  const length = Math.max(end(found.e, found.lane) - found.e.from, 1e4);
  show(Math.max(all[0], found.e.from - length * 0.4), found.e.from + length * 1.15);
}
function zoom(factor, x) {
  const at = toValue(x === undefined ? GUTTER + width() / 2 : x);
  show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
}
function pan(pixels) {
  const by = (pixels / width()) * (view[1] - view[0]);
  show(view[0] + by, view[1] + by);
}

function duration(ns) {
  if (ns < 1e3) return ns.toFixed(0) + " ns";
  if (ns < 1e6) return (ns / 1e3).toFixed(1) + " us";
  if (ns < 1e9) return (ns / 1e6).toFixed(2) + " ms";
  return (ns / 1e9).toFixed(3) + " s";
}
function describe(lane, e) {
  const lines = ["rank " + lane.rank + ": " + e.text, "submission " + e.seq +
    (e.collective ? ", collective " + e.collective : "") + ", " + WORDS[e.state] +
    (e.state === "failed" ? " (" + e.result + ")" : "")];
  let when = "submitted at " + duration(e.from);
  if (e.to >= 0) when += ", took " + duration(e.to - e.from);
  else if (e.state === "started") when += ", " + duration(Math.max(lane.dumped - e.from, 0)) + " before the dump";
  lines.push(when + (e.marked ? "; the sentence is about this one" : ""));
  return lines.join("\n");
}

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
let colours = {};
function readColours() {
  for (const name of ["paper", "ink", "faint", "line", "band", "mark", "focus"].concat(STATES)) colours[name] = colour(name);
}
// States differ in pattern, too: not everybody tells the colours apart.
function bar(to, x, y, w, h, state) {
  to.fillStyle = colours[state];
  to.fillRect(x, y, w, h);
  if (state === "complete" || w < 5) return;
  to.save();
  to.beginPath();
  to.rect(x, y, w, h);
  to.clip();
  to.strokeStyle = colours.paper;
  to.lineWidth = 1;
  to.beginPath();
  const first = Math.max(x, GUTTER * (to === pen)) - h, last = Math.min(x + w, to.canvas.clientWidth || x + w);
  const step = state === "started" ? 6 : 9;
  for (let i = first; i < last; i += step) {
    to.moveTo(i, y + h);
    to.lineTo(i + h, y);
    if (state === "failed") { to.moveTo(i, y); to.lineTo(i + h, y + h); }
  }
  to.stroke();
  to.restore();
}

function ticks() {
  const count = Math.max(2, Math.floor(width() / 120));
  const raw = (view[1] - view[0]) / count;
  const unit = Math.pow(10, Math.floor(Math.log10(raw)));
  let step = [1, 2, 5, 10].map((m) => m * unit).find((s) => s >= raw);
  if (mode === "order") step = Math.max(1, Math.round(step));
  const all = [];
  for (let v = Math.ceil(view[0] / step) * step; v <= view[1] && all.length < 100; v += step) all.push(v);
  return all;
}
function axisText(v) {
  if (mode === "order") return v >= 1 ? String(Math.round(v)) : "";
  return v < 0 ? "-" + duration(-v) : duration(v);
}

function draw() {
  wanted = false;
  const ratio = window.devicePixelRatio || 1;
  const total = AXIS + lanes.length * LANE;
  const h = Math.min(total, Math.floor(window.innerHeight * 0.7));
  canvas.style.height = h + "px";
  byId("space").style.height = total + "px";
  const w = canvas.clientWidth;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
    canvas.width = Math.round(w * ratio);
    canvas.height = Math.round(h * ratio);
  }
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, w, h);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const top = scroller.scrollTop;
  for (let i = Math.floor(top / LANE); i < lanes.length; ++i) {
    const y = AXIS + i * LANE - top;
    if (y > h) break;
    drawLane(lanes[i], y, i % 2 === 1, w);
  }
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, w, AXIS);
  pen.strokeStyle = colours.line;
  pen.fillStyle = colours.faint;
  for (const v of ticks()) {
    const x = toX(v);
    pen.beginPath();
    pen.moveTo(x + 0.5, AXIS - 6);
    pen.lineTo(x + 0.5, h);
    pen.globalAlpha = 0.6;
    pen.stroke();
    pen.globalAlpha = 1;
    pen.fillText(axisText(v), x + 3, AXIS / 2);
  }
}
function drawLane(lane, y, odd, w) {
  if (odd) { pen.fillStyle = colours.band; pen.fillRect(0, y, w, LANE); }
  const hasMark = lane.entries.some((e) => e.marked) || data.faulty.includes(lane.rank);
  pen.fillStyle = hasMark ? colours.mark : colours.ink;
  pen.fillText((hasMark ? "\u25b8 " : "") + "rank " + lane.rank, 8, y + LANE / 2);
  if (lane.missing) {
    pen.fillStyle = colours.faint;
    pen.fillText("no dump", GUTTER + 8, y + LANE / 2);
    return;
  }
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, y, w - GUTTER, LANE);
  pen.clip();
  const pad = LANE > 20 ? 5 : 2;
  let drawnTo = -1;
  for (const e of lane.entries) {
    const x = toX(start(e)), right = toX(end(e, lane));
    if (right < GUTTER || x > w) continue;
    const wide = Math.max(right - x, LEAST);
    const chosen = selected && selected.e === e;
    // Thousands in one pixel are one line of it.
    if (x + wide <= drawnTo && !e.marked && !chosen) continue;
    drawnTo = Math.max(drawnTo, x + wide);
    bar(pen, x, y + pad, wide, LANE - 2 * pad, e.state);
    if (wide > 44 && LANE > 20) label(e.text, x, y, wide, e.state);
    if (e.marked || chosen) {
      pen.strokeStyle = chosen ? colours.focus : colours.mark;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, y + pad - 2, wide + 2, LANE - 2 * pad + 4);
    }
  }
  pen.restore();
}
function label(text, x, y, wide, state) {
  const from = Math.max(x, GUTTER) + 5, room = x + wide - from - 8;
  let shown = pen.measureText(text).width > room ? text.split(" ")[0] : text;
  while (shown.length > 3 && pen.measureText(shown).width > room) shown = shown.slice(0, -4) + "\u2026";
  if (shown.length < 4) return;
  const size = pen.measureText(shown).width;
  pen.fillStyle = colours.paper;
  if (state !== "complete") pen.fillRect(from - 3, y + LANE / 2 - 7, size + 6, 14);
  pen.fillStyle = state === "complete" ? colours.paper : colours.ink;
  pen.fillText(shown, from, y + LANE / 2 + 0.5);
}
function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(draw);
}

function find(x, y) {
  if (y < AXIS || x < GUTTER) return null;
  const lane = lanes[Math.floor((y - AXIS + scroller.scrollTop) / LANE)];
  if (!lane) return null;
  let best = null, nearest = 6;
  for (const e of lane.entries) {
    const left = toX(start(e)), right = Math.max(toX(end(e, lane)), left + LEAST);
    const far = x < left ? left - x : x > right ? x - right : 0;
    if (far < nearest || (far === 0 && nearest === 0)) { nearest = far; best = e; }
  }
  return best && { lane, e: best };
}
function select(found) {
  selected = found;
  detail.textContent = found ? describe(found.lane, found.e) : NOTHING;
  if (found) {
    const y = lanes.indexOf(found.lane) * LANE;
    if (y < scroller.scrollTop) scroller.scrollTop = y;
    const visible = canvas.clientHeight - AXIS - LANE;
    if (y > scroller.scrollTop + visible) scroller.scrollTop = y - visible;
    const at = start(found.e), span = view[1] - view[0];
    if (at < view[0] || at > view[1]) view = [at - span / 2, at + span / 2];
  }
  redraw();
}
// Along the lane, or to the same place in another one.
function move(along, across) {
  const now = selected || marked() || (lanes.some((l) => l.entries.length) &&
    { lane: lanes.find((l) => l.entries.length), e: lanes.find((l) => l.entries.length).entries[0] });
  if (!now) return;
  if (!selected) return select(now);
  if (along !== 0) {
    const at = now.lane.entries.indexOf(now.e) + along;
    const e = now.lane.entries[Math.min(Math.max(at, 0), now.lane.entries.length - 1)];
    return select({ lane: now.lane, e });
  }
  for (let i = lanes.indexOf(now.lane) + across; i >= 0 && i < lanes.length; i += across) {
    const lane = lanes[i];
    if (!lane.entries.length) continue;
    const distance = (e) => Math.abs(start(e) - start(now.e));
    return select({ lane, e: lane.entries.reduce((a, b) => (distance(b) < distance(a) ? b : a)) });
  }
}

const KEYS = {
  ArrowLeft: () => move(-1, 0), ArrowRight: () => move(1, 0), ArrowUp: () => move(0, -1),
  ArrowDown: () => move(0, 1), Home: () => move(-Infinity, 0), End: () => move(Infinity, 0),
  "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), "0": fit, m: toMarked,
  "[": () => pan(-width() / 4), "]": () => pan(width() / 4), Escape: () => select(null),
};
canvas.addEventListener("keydown", (event) => {
  const act = KEYS[event.key];
  if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  act();
});
canvas.addEventListener("wheel", (event) => {
  const scrolls = scroller.scrollHeight > scroller.clientHeight + 1;
  if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX);
  else if (event.ctrlKey || event.metaKey || !scrolls) zoom(Math.exp(event.deltaY * 0.002), event.offsetX);
  else return;
  event.preventDefault();
}, { passive: false });
let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, moved: false };
  canvas.setPointerCapture(event.pointerId);
});
canvas.addEventListener("pointermove", (event) => {
  if (drag && (drag.moved || Math.abs(event.clientX - drag.x) > 3)) {
    pan(drag.x - event.clientX);
    drag = { x: event.clientX, moved: true };
    tip.hidden = true;
    return;
  }
  const found = find(event.offsetX, event.offsetY);
  tip.hidden = !found;
  if (!found) return;
  tip.textContent = describe(found.lane, found.e);
  tip.style.left = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8) + "px";
});
canvas.addEventListener("pointerup", (event) => {
  if (drag && !drag.moved) select(find(event.offsetX, event.offsetY));
  drag = null;
});
canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
scroller.addEventListener("scroll", redraw);
window.addEventListener("resize", redraw);
byId("in").addEventListener("click", () => zoom(0.6));
byId("out").addEventListener("click", () => zoom(1 / 0.6));
byId("all").addEventListener("click", fit);
byId("mark").addEventListener("click", () => { toMarked(); select(marked()); });
byId("mark").hidden = !marked();
for (const name of ["order", "time"]) {
  byId(name).addEventListener("change", () => { mode = name; toMarked(); });
}
function drawKey() {
  for (const sample of document.querySelectorAll(".key canvas")) {
    bar(sample.getContext("2d"), 0, 0, sample.width, sample.height, sample.dataset.state);
  }
}
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); drawKey(); redraw(); });
readColours();
drawKey();
detail.textContent = NOTHING;
if (location.hash === "#by-time") { mode = "time"; byId("time").checked = true; }
toMarked();
