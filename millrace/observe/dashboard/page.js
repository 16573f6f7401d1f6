// The live page of a job. It asks for /state.json once a second and shows what it says.
// Everything that tasks say is put in as text, never as markup. Elements are kept from one look to
// the next (`keyed`), so that what is hovered, scrolled, opened or selected stays as it is.
"use strict";

const find = (selector, within = document) => within.querySelector(selector);
const SVG = "http://www.w3.org/2000/svg";

function make(tag, classes = "", ...children) {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  element.append(...children);
  return element;
}

function drawn(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// One child of `parent` per item, in their order; `create` makes it once, `update` each time.
function keyed(parent, items, key, create, update) {
  const known = parent.known ??= new Map();
  const left = new Set(known.keys());
  let after = null;
  for (const item of items) {
    const name = key(item);
    left.delete(name);
    let child = known.get(name);
    if (!child) known.set(name, (child = create(item)));
    const place = after ? after.nextSibling : parent.firstChild;
    if (place !== child) parent.insertBefore(child, place);
    update(child, item);
    after = child;
  }
  for (const name of left) {
    known.get(name).remove();
    known.delete(name);
  }
}

// -- Numbers ---------------------------------------------------------------------------------

function bytes(count) {
  for (const unit of ["B", "KB", "MB", "GB"]) {
    if (count < 999.5) return `${count < 10 && unit !== "B" ? count.toFixed(1) : Math.round(count)} ${unit}`;
    count /= 1000;
  }
  return `${count.toFixed(1)} TB`;
}

function short(value) {
  if (typeof value !== "number") return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return value.toExponential(1);
  if (size >= 1e4) return Math.round(value).toLocaleString("en");
  if (size >= 100) return String(Math.round(value));
  return String(Number(value.toPrecision(3)));
}

const whole = (value) => value == null ? "–" : Math.round(value).toLocaleString("en");
const rate = (value) => value >= 100 ? whole(value) : value >= 10 ? value.toFixed(0) : value.toFixed(value ? 1 : 0);
const percent = (value) => `${Math.round(value * 100)} %`;
const width = (share) => `${(100 * Math.min(1, share || 0)).toFixed(1)}%`;

function lasting(seconds) {
  seconds = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  if (hours >= 48) return `${Math.floor(hours / 24)} d ${hours % 24} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
}

const clock = (time) => new Date(time * 1000).toLocaleTimeString("en-GB");

// -- Curves ----------------------------------------------------------------------------------

// A figure with one curve, whose points a cursor tells.
function chart(figure, points, height, xText, yText) {
  points = points.filter(([, y]) => typeof y === "number");
  figure.points = points;
  const across = Math.max(120, figure.clientWidth || 200);
  const svg = figure.svg ??= figure.appendChild(drawn("svg", { role: "img" }));
  svg.setAttribute("viewBox", `0 0 ${across} ${height}`);
  svg.setAttribute("height", height);
  if (points.length < 2) {
    const none = drawn("text", { x: 0, y: 14 });
    none.textContent = "no curve yet";
    return svg.replaceChildren(none);
  }
  const [left, right, top, bottom] = [0, across, 6, height - 14];
  const [first, last] = [points[0][0], points.at(-1)[0]];
  let low = Infinity, high = -Infinity;
  for (const [, y] of points) { low = Math.min(low, y); high = Math.max(high, y); }
  if (low > 0 && low < 0.6 * high) low = 0;
  if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
  const x = (value) => left + (right - left) * (value - first) / (last - first || 1);
  const y = (value) => bottom - (bottom - top) * (value - low) / (high - low);
  const line = points.map(([a, b]) => `${x(a).toFixed(1)} ${y(b).toFixed(1)}`).join("L");
  svg.setAttribute("aria-label", `from ${yText(points[0][1])} to ${yText(points.at(-1)[1])}`);
  const label = (at, text, anchor, where) => {
    const element = drawn("text", { x: at, y: where, "text-anchor": anchor });
    element.textContent = text;
    return element;
  };
  const marks = drawn("g", {});
  svg.replaceChildren(
    drawn("line", { class: "grid-line", x1: left, x2: right, y1: top, y2: top }),
    drawn("line", { class: "grid-line", x1: left, x2: right, y1: bottom, y2: bottom }),
    drawn("path", { class: "area", d: `M${x(first)} ${bottom}L${line}L${x(last)} ${bottom}Z` }),
    drawn("path", { class: "curve", d: `M${line}` }),
    label(left, yText(high), "start", top + 11),
    label(left, yText(low), "start", bottom - 3),
    label(left, xText(first), "start", height - 2),
    label(right, xText(last), "end", height - 2),
    marks,
  );
  const point = (at) => {
    marks.replaceChildren();
    if (at == null) return;
    const wanted = first + (last - first) * at;
    let near = points[0];
    for (const each of points) if (Math.abs(each[0] - wanted) < Math.abs(near[0] - wanted)) near = each;
    const text = label(x(near[0]) + (at > 0.6 ? -6 : 6), `${yText(near[1])} at ${xText(near[0])}`, at > 0.6 ? "end" : "start", top + 24);
    text.style.fill = "var(--text)";
    marks.append(
      drawn("line", { class: "cursor", x1: x(near[0]), x2: x(near[0]), y1: top, y2: bottom }),
      drawn("circle", { class: "dot", cx: x(near[0]), cy: y(near[1]), r: 4 }),
      text,
    );
  };
  figure.point = point;
  point(figure.at);
  if (!figure.listens) {
    figure.listens = true;
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      figure.at = (event.clientX - box.left) / box.width;
      figure.point(figure.at);
    });
    svg.addEventListener("pointerleave", () => { figure.at = null; figure.point(null); });
  }
}

// What a task did at each of the last looks: bars of one colour per kind; a digit is the load of a
// server, in tenths of a core.
function strip(svg, looks) {
  const all = 60;
  if (svg.looks === looks) return;
  svg.looks = looks;
  svg.replaceChildren();
  const start = all - looks.length;
  for (const match of looks.matchAll(/(.)\1*/g)) {
    const [run, kind] = match;
    const load = kind >= "0" && kind <= "9" ? 0.12 + 0.88 * Number(kind) / 9 : 1;
    const place = { x: (start + match.index) * 3, y: 0, width: run.length * 3 - 0.5, height: 12 };
    svg.append(drawn("rect", { class: kind >= "a" ? kind : "c", opacity: load, ...place }));
  }
}

// -- The parts of the page -------------------------------------------------------------------

function showHead(state) {
  const { job } = state;
  const up = state.tasks.filter((task) => task.up).length;
  const failed = state.tasks.some((task) => task.state.startsWith("failed"));
  say(find("#job"), job.name);
  const ended = job.exit_code === 0 ? "done" : job.exit_code == null ? "over" : `ended with ${job.exit_code}`;
  const pill = find("#state");
  say(pill, job.state === "running" ? "running" : ended);
  pill.className = `pill ${failed || (job.exit_code ?? 0) > 0 ? "bad" : job.state}`;
  document.title = `${whole(state.global_step)} · ${job.name}`;
  say(find("#facts"), `${up} of ${state.tasks.length} tasks up · ${job.command.join(" ")}`);
  say(find("#step"), whole(state.global_step));
  say(find("#rate"), rate(state.steps_per_second));
  const share = job.last_step ? Math.min(1, (state.global_step ?? 0) / job.last_step) : null;
  const left = share != null && state.steps_per_second > 0
    ? (job.last_step - state.global_step) / state.steps_per_second : null;
  say(find("#left-what"), left == null ? "running for" : `left, of ${whole(job.last_step)} steps`);
  say(find("#left"), lasting(left ?? state.now - job.started));
  find("#bar").hidden = share == null;
  if (share != null) find("#bar i").style.width = width(share);
  chart(find("#rates"), state.rates, 130, clock, (value) => `${rate(value)}/s`);
  keyed(find("#findings"), state.findings, (text) => text, () => make("li"), say);
}

function showScalars(state) {
  const section = find("#scalars");
  section.classList.toggle("is-empty", !state.scalars.length);
  const filter = find("#filter");
  filter.hidden = state.scalars.length < 7;
  const wanted = filter.value.toLowerCase();
  const weight = ({ tag }) => /loss|cost/i.test(tag) ? 0 : /accura|auc|precision/i.test(tag) ? 1 : /global_step/.test(tag) ? 3 : 2;
  const name = ({ run, tag }) => run ? `${run} · ${tag}` : tag;
  const shown = state.scalars.filter((each) => name(each).toLowerCase().includes(wanted));
  shown.sort((a, b) => weight(a) - weight(b) || name(a).localeCompare(name(b)));
  keyed(find(".charts", section), shown, name, (item) => {
    const figure = make("figure", "chart");
    figure.append(make("figcaption", "", make("span", "", name(item)), make("b")), make("div", "plot"));
    return figure;
  }, (figure, item) => {
    say(find("b", figure), short(item.points.at(-1)?.[1]));
    chart(find(".plot", figure), item.points, shown.length > 3 ? 84 : 150, (step) => whole(step), short);
  });
}

const sorting = { by: null, down: true };

function order(tasks) {
  const trouble = (task) => task.state.startsWith("failed") || (!task.up && task.address && task.state === "running") ? 0 : task.straggler ? 1 : 2;
  if (!sorting.by) return [...tasks].sort((a, b) => trouble(a) - trouble(b));
  const sign = sorting.down ? -1 : 1;
  const value = (task) => task[sorting.by] ?? 0;
  return [...tasks].sort((a, b) => sign * (typeof value(a) === "string"
    ? value(a).localeCompare(value(b), "en", { numeric: true }) : value(a) - value(b)));
}

function showTasks(state) {
  const states = {};
  for (const task of state.tasks) states[task.state] = (states[task.state] ?? 0) + 1;
  say(find("#count"), Object.entries(states).map(([name, count]) => `${count} ${name}`).join(", "));
  for (const head of document.querySelectorAll("th[data-sort]")) {
    if (head.dataset.sort === sorting.by) head.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  keyed(find("#tasks tbody"), order(state.tasks), (task) => task.task, (task) => {
    const row = make("tr");
    row.tabIndex = 0;
    row.open = () => openLog(task.task);
    for (const kind of ["task", "doing", "strip", "number", "number wide", "number", "number", "number wide", "number wide", "number wide"]) row.append(make("td", kind));
    const svg = drawn("svg", { viewBox: "0 0 180 12", preserveAspectRatio: "none" });
    row.cells[2].append(svg);
    return row;
  }, (row, task) => {
    const bad = task.state.startsWith("failed") || (!task.up && task.state === "running");
    row.className = `${task.up ? "up" : ""} ${bad ? "bad" : ""} ${task.straggler ? "straggler" : ""}`;
    const words = task.state === "running" || task.state === "unknown" ? task.doing : task.state;
    const told = task.straggler ? `straggler: ${task.straggler}` : words;
    const cells = row.cells;
    say(cells[0], task.task);
    say(cells[1], told || task.state);
    cells[1].dataset.tip = [told, task.straggler ? `now: ${words}` : "", task.address, task.uptime == null ? "" : `up for ${lasting(task.uptime)}`].filter(Boolean).join("\n");
    strip(cells[2].firstChild, task.strip);
    say(cells[3], task.up ? rate(task.rate) : "");
    say(cells[4], task.steps == null ? "" : whole(task.steps));
    say(cells[5], task.up ? percent(task.cpu) : "");
    say(cells[6], task.memory ? bytes(task.memory) : "");
    say(cells[7], task.up ? bytes(task.received) : "");
    say(cells[8], task.up ? bytes(task.sent) : "");
    say(cells[9], task.restarts ? String(task.restarts) : "");
  });
}

function meter(name) {
  return make("div", "meter", make("span", "", name, make("b")), make("div", "track", make("i")));
}

function setMeter(element, text, share, high = false) {
  say(find("b", element), text);
  find("i", element).style.width = width(share);
  find(".track", element).classList.toggle("high", high);
}

function showServers(state) {
  const section = find("#servers");
  section.classList.toggle("is-empty", !state.ps.length);
  const sum = (key) => state.ps.reduce((total, each) => total + each[key], 0);
  const [kept, traffic] = [sum("bytes"), sum("sent") + sum("received")];
  keyed(find(".list", section), state.ps, (each) => each.task, (each) => {
    const details = make("details");
    details.open = state.ps.length <= 2;
    details.append(make("summary", "", make("b", "", each.task), meter("CPU"), meter("traffic"), meter("variables")), make("div", "variables"));
    return details;
  }, (details, each) => {
    const [cpu, flow, size] = details.querySelectorAll(".meter");
    const alone = state.ps.length === 1;
    setMeter(cpu, `${percent(each.cpu)} · ${bytes(each.memory)}`, each.cpu, each.cpu > 0.9);
    setMeter(flow, `${bytes(each.sent + each.received)}/s`, (each.sent + each.received) / (traffic || 1));
    const share = each.bytes / (kept || 1);
    setMeter(size, alone ? bytes(each.bytes) : `${bytes(each.bytes)} · ${percent(share)}`, share, !alone && kept > 1e7 && share > 2 / 3);
    const rows = [
      ...each.variables.map((v) => [v.name, `${v.dtype} [${v.shape.join(", ")}]`, bytes(v.bytes)]),
      ...each.queues.map((q) => [q.name, "queue", `${q.size} of ${q.capacity < 1e6 ? q.capacity : "∞"}`]),
      ...each.rounds.map((r) => [r.name, `round ${r.step}`, `${r.count} of ${r.required ?? "?"}`]),
    ];
    if (each.count > each.variables.length) rows.push([`and ${each.count - each.variables.length} more variables`, "", ""]);
    const list = find(".variables", details);
    const flat = rows.flatMap((row, i) => row.map((text, j) => [`${i}/${j}`, text]));
    keyed(list, flat, ([key]) => key, ([key]) => key.endsWith("2") ? make("b") : make("span", key.endsWith("1") ? "shape" : ""), (cell, [, text]) => {
      say(cell, text);
      cell.dataset.tip = text;
    });
  });
}

let shows = "bytes";

function showMatrix(state) {
  const section = find("#matrix");
  const { rows: workers, columns: servers, cells } = state.matrix;
  const grid = find(".grid", section);
  section.classList.toggle("is-empty", !workers.length || !servers.length);
  const dense = workers.length > 16;
  const value = shows === "bytes" ? (cell) => cell.up + cell.down : (cell) => cell.waits;
  const text = shows === "bytes" ? (cell) => `${bytes(value(cell))}/s` : (cell) => percent(value(cell));
  const most = Math.max(shows === "bytes" ? 1 : 0.01, ...cells.flat().map(value));
  grid.style.gridTemplateColumns = `max-content repeat(${workers.length}, minmax(0, 1fr))`;
  grid.style.gap = dense ? "1px" : "2px";
  const every = dense ? Math.ceil(workers.length / 6) : 1;
  const items = [{ key: "corner", kind: "name", text: "" }];
  workers.forEach((worker, i) => items.push({ key: `c${worker}`, kind: "head", text: i % every ? "" : worker }));
  servers.forEach((server, j) => {
    items.push({ key: `r${server}`, kind: "name", text: server });
    workers.forEach((worker, i) => items.push({ key: `${server}/${worker}`, kind: "cell", cell: cells[i][j], worker, server }));
  });
  keyed(grid, items, (item) => item.key, (item) => {
    const element = make("div", item.kind);
    if (item.kind === "cell") element.append(make("i"), make("b"));
    return element;
  }, (element, item) => {
    if (item.kind !== "cell") return say(element, item.text);
    const { cell } = item;
    const share = value(cell) / most;
    element.className = `cell ${dense ? "dense" : ""} ${share > 0.55 ? "strong" : ""}`;
    element.firstChild.style.opacity = value(cell) ? 0.12 + 0.88 * share : 0;
    say(element.lastChild, dense ? "" : text(cell));
    element.dataset.tip = `${item.worker} → ${item.server}: ${bytes(cell.up)}/s\n${item.server} → ${item.worker}: ${bytes(cell.down)}/s\nsteps wait ${percent(cell.waits)} of the time`;
  });
  say(find(".note", section), shows === "bytes"
    ? `Values that steps hand over, per second; the highest is ${bytes(most)}/s.`
    : `Share of the time in which a worker's steps wait for a parameter server; the highest is ${percent(most)}.`);
}

function showPlacement(state) {
  const section = find("#placement");
  section.classList.toggle("is-empty", !state.placement.length);
  const total = (each) => Object.values(each.scopes).reduce((a, b) => a + b, 0);
  const most = Math.max(1, ...state.placement.map(total));
  keyed(find(".list", section), state.placement, (each) => each.task, (each) =>
    make("div", "placed", make("b", "", each.task), make("div", "scopes"), make("span")),
  (row, each) => {
    say(row.lastChild, whole(total(each)));
    const scopes = Object.entries(each.scopes);
    row.children[1].style.width = width(Math.max(0.08, total(each) / most));
    keyed(row.children[1], scopes, ([name]) => name, () => make("i"), (element, [name, count]) => {
      const index = scopes.findIndex(([other]) => other === name);
      element.style.flex = `${count} 1 0`;
      element.style.background = `color-mix(in srgb, var(--accent) ${Math.max(16, 100 - index * 22)}%, var(--faint))`;
      element.classList.toggle("weak", index > 2);
      say(element, name);
      element.dataset.tip = `${name}: ${count} nodes on ${each.task}`;
    });
  });
}

function showEvents(state) {
  const section = find("#events");
  section.classList.toggle("is-empty", !state.events.length);
  const items = state.events.slice(0, 100);
  keyed(find("ol", section), items, (each) => `${each.time}/${each.task}/${each.kind}/${each.text}`, (each) =>
    make("li", each.kind, make("time", "", clock(each.time)), make("b", "", each.kind), make("span", "", each.task), make("span", "", each.text)), () => {});
}

// -- Logs ------------------------------------------------------------------------------------

let logOf = null;

async function openLog(task) {
  logOf = task;
  find("#log").hidden = false;
  say(find("#log h2 span"), `Log of ${task}`);
  find("#log pre").textContent = "";
  await refreshLog();
  find("#log pre").focus();
}

function closeLog() {
  logOf = null;
  find("#log").hidden = true;
}

async function refreshLog() {
  if (!logOf) return;
  const asked = logOf;
  const answer = await ask(`log?task=${encodeURIComponent(asked)}`);
  if (logOf !== asked) return;
  const pre = find("#log pre");
  say(pre, (await answer.text()) || "It has written nothing.");
  if (find("#follow").checked) pre.scrollTop = pre.scrollHeight;
}

// -- Asking ----------------------------------------------------------------------------------

let token = sessionStorage.getItem("token") ?? "";

const ask = (path) => fetch(path, { cache: "no-store", headers: token ? { Authorization: `Bearer ${token}` } : {} });

let last = null;

function show(state) {
  last = state;
  find("#door").hidden = true;
  find("#main").hidden = false;
  for (const part of [showHead, showScalars, showTasks, showServers, showMatrix, showPlacement, showEvents]) part(state);
}

async function look() {
  try {
    const answer = await ask("state.json");
    if (answer.status === 401) {
      find("#main").hidden = true;
      find("#door").hidden = false;
      say(find("#refused"), token ? "That is not the job's token." : "");
      token = "";
      return;
    }
    show(await answer.json());
    document.body.classList.remove("stale");
    await refreshLog();
  } catch {
    document.body.classList.add("stale");
    if (last) say(find("#state"), "this page's launcher is gone");
  }
  setTimeout(look, 1000);
}

// -- What people do --------------------------------------------------------------------------

find("#door").addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("#token").value.trim();
  sessionStorage.setItem("token", token);
  look();
});

find("#tasks thead").addEventListener("click", ({ target }) => {
  const by = target.dataset.sort;
  if (!by || !last) return;
  const words = by === "task" || by === "doing";
  if (sorting.by !== by) Object.assign(sorting, { by, down: !words });
  else if (sorting.down === !words) sorting.down = !sorting.down;
  else sorting.by = null;
  showTasks(last);
});
find("#tasks tbody").addEventListener("click", ({ target }) => target.closest("tr").open());
find("#tasks tbody").addEventListener("keydown", (event) => {
  if (event.key === "Enter") event.target.closest("tr").open();
});
find("#close").addEventListener("click", closeLog);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") closeLog(); });
find("#filter").addEventListener("input", () => { if (last) showScalars(last); });
find(".switch").addEventListener("click", ({ target }) => {
  if (!target.dataset.shows) return;
  shows = target.dataset.shows;
  for (const button of target.parentElement.children) button.setAttribute("aria-pressed", String(button === target));
  if (last) showMatrix(last);
});
addEventListener("resize", () => { if (last) show(last); });

const root = document.documentElement;
const isDark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
if (localStorage.getItem("theme")) root.dataset.theme = localStorage.getItem("theme");
find("#theme").addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem("theme", root.dataset.theme);
});

const tip = find("#tip");
document.addEventListener("pointerover", ({ target }) => {
  const owner = target.closest?.("[data-tip]");
  tip.hidden = !owner?.dataset.tip;
  if (!tip.hidden) tip.textContent = owner.dataset.tip;
});
document.addEventListener("pointermove", ({ clientX, clientY }) => {
  if (tip.hidden) return;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(clientX + 12, innerWidth - box.width - 8))}px`;
  tip.style.top = `${clientY + 18 + box.height > innerHeight ? clientY - box.height - 10 : clientY + 18}px`;
});

look();
