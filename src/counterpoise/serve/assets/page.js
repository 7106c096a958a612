// The live page: it reads the stream of /live, and sends the labels of reviewed alerts.
"use strict";

const find = (id) => document.getElementById(id);
const percent = (x) => (x === null || x === undefined ? "none yet" : `${(100 * x).toFixed(1)}%`);
const number = (x) => Number(x).toLocaleString("en", { maximumFractionDigits: 3 });
let token = sessionStorage.getItem("token") || "";
let last = "";

function headers(more) {
  return token ? { Authorization: `Bearer ${token}`, ...more } : { ...more };
}

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function setRows(body, rows) {
  body.replaceChildren(...rows.map((cells) => {
    const row = element("tr");
    row.append(element("th", cells[0]), element("td", cells[1]));
    row.firstChild.scope = "row";
    return row;
  }));
}

// Draw up to two series; text beside the plot has their last values.
function draw(id, minutes, series, format) {
  const svg = find(id), width = 300, height = 100;
  const values = minutes.flatMap((one) => series.map(([key]) => one[key] ?? 0));
  const top = Math.max(1e-9, ...values);
  svg.setAttribute("viewBox", `0 -3 ${width} ${height + 6}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...series.map(([key], k) => {
    const points = minutes.map((one, i) => [i, one[key]]).filter((point) => point[1] !== null);
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    const step = width / Math.max(1, minutes.length - 1);
    if (points.length === 1) points.push([points[0][0] || 1, points[0][1]]);
    line.setAttribute("class", k ? "two" : "one");
    line.setAttribute("points", points.map(([i, y]) =>
      `${(i * step).toFixed(1)},${(height - (height * y) / top).toFixed(1)}`).join(" "));
    return line;
  }));
  const now = minutes[minutes.length - 1];
  const parts = series.map(([key, name], k) =>
    element("span", `${name}: ${format(now[key])}`, k ? "second" : "first"));
  const text = parts.map((part) => part.textContent).join(", ");
  svg.setAttribute("aria-label", `Lines over the last ${minutes.length} minutes. ${text}`);
  const caption = find(`${id}-text`);
  caption.replaceChildren(...parts.flatMap((part, k) => (k ? [", ", part] : [part])));
}

function describe(alert, data) {
  const share = alert[`proba_stream_${data.positive}`];
  const reasons = [];
  for (let k = 1; alert[`reason_${k}`]; k += 1) {
    reasons.push(`${alert[`reason_${k}`]} (${percent(alert[`share_${k}`])})`);
  }
  const why = reasons.length ? `, because of ${reasons.join(", ")}` : "";
  return `${alert[data.id]}: risk ${percent(share)}${why}`;
}

async function sendLabel(data, id, name, row) {
  row.querySelectorAll("button").forEach((button) => { button.disabled = true; });
  const body = JSON.stringify({ [data.id]: id, [data.label]: name });
  const answer = await fetch("/label", {
    method: "POST", body, headers: headers({ "Content-Type": "application/json" }),
  });
  const content = await answer.json();
  find("result").textContent = answer.ok
    ? `${id} is labeled ${name}: ${content.result}` : content.detail;
  if (answer.ok) row.remove();
}

function showQueue(data) {
  const shown = JSON.stringify([data.alerts, Object.keys(data.classes)]);
  if (shown === last) return;  // the focus stays where it is
  last = shown;
  const rows = data.alerts.map((alert) => {
    const row = element("li"), id = alert[data.id];
    row.append(element("span", describe(alert, data)));
    for (const name of Object.keys(data.classes)) {
      const button = element("button", name);
      button.setAttribute("aria-label", `Label ${id} as ${name}`);
      button.addEventListener("click", () => sendLabel(data, id, name, row));
      row.append(button);
    }
    return row;
  });
  find("queue").replaceChildren(...(rows.length ? rows : [element("li", "No alert waits.")]));
}

function show(data) {
  find("state").textContent = `model ${data.version}`;
  const facts = [
    ["pending events", data.pending], ["labels that wait", data.waiting], ["learned events", data.learned],
  ];
  find("numbers").replaceChildren(...facts.flatMap(([name, value]) =>
    [element("dt", name), element("dd", number(value))]));
  draw("events", data.minutes, [["events", "events"], ["labels", "labels"]], number);
  draw("scores", data.minutes, [["g_mean", "G-mean"], ["precision", "precision of alerts"]], percent);
  draw("risks", data.minutes, [["risk", "predicted"], ["observed", "observed"]], percent);
  setRows(find("coefficients"), data.coefficients.map(([name, value]) => [name, number(value)]));
  const total = Object.values(data.classes).reduce((sum, n) => sum + n, 0) || 1;
  const classes = Object.entries(data.classes).map(([name, n]) => [`class ${name}`, percent(n / total)]);
  const ages = Object.entries(data.ages).map(([name, n]) => [`pending ${name}`, number(n)]);
  setRows(find("classes"), [...classes, ...ages]);
  showQueue(data);
}

async function follow() {
  const answer = await fetch("/live", { headers: headers() });
  if (answer.status === 401) {
    find("login").hidden = false;
    find("state").textContent = "give a token";
    return false;
  }
  if (!answer.ok) throw new Error(String(answer.status));
  find("login").hidden = true;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return true;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      if (part.startsWith("data: ")) show(JSON.parse(part.slice(6)));
    }
  }
}

async function run() {
  for (;;) {
    try {
      if (!(await follow())) return;
    } catch {
      find("state").textContent = "the service does not answer; trying again";
    }
    await new Promise((resolve) => { setTimeout(resolve, 1000); });
  }
}

find("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("token").value;
  sessionStorage.setItem("token", token);
  run();
});
run();
