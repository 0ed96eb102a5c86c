// The few things that the pages do besides htmx: the time control, and charts of what a table says.
"use strict";

const DAY = 86400; // seconds

function timeControl() {
  const slider = document.getElementById("slider");
  const field = document.getElementById("at");
  if (!slider || !field) return;
  const begun = Number(slider.dataset.begun) * 1000;
  const shown = Number(slider.dataset.shown) * 1000; // also where "6h" was typed
  const span = Math.max(Date.now() - begun, 1);
  if (!Number.isNaN(shown)) slider.value = String(Math.round(((shown - begun) / span) * 1000));
  slider.hidden = false;
  slider.addEventListener("input", () => {
    const part = Number(slider.value) / 1000;
    // The first moment of the log is in the log: round up to the whole second.
    const at = new Date(Math.ceil((begun + part * span) / 1000) * 1000);
    field.value = part >= 1 ? "" : at.toISOString().replace(".000Z", "Z");
  });
  slider.addEventListener("change", () => slider.form.requestSubmit());
}

async function drawCharts() {
  for (const place of document.querySelectorAll("[data-chart]")) {
    if (place.firstChild || typeof uPlot === "undefined") continue;
    const query = new URLSearchParams(location.search);
    query.set("by", place.dataset.by);
    const answer = await fetch(`${place.dataset.chart}?${query}`);
    if (!answer.ok || place.firstChild) continue;
    const { rows, since, until } = await answer.json();
    const ink = getComputedStyle(document.body).color;
    const hours = new Map(rows.map((row) => [Date.parse(row.by.day) / 1000, row.run_hours]));
    const known = [...hours.keys()].sort((one, other) => one - other);
    // The days that were asked for, from the first of them on which something ran if they are many.
    const last = Date.parse(until) / 1000 - DAY;
    const first = Math.max(Date.parse(since) / 1000, Math.min(known[0], last - 6 * DAY));
    const days = [];
    for (let day = first; day <= last; day += DAY) days.push(day);
    const lines = { stroke: "#8884", width: 1 };
    const date = (seconds) => new Date(seconds * 1000).toISOString().slice(0, 10);
    const options = {
      width: Math.max(place.clientWidth, 280),
      height: 220,
      padding: [null, 44, null, null], // room for the last date
      legend: { show: false },
      cursor: { drag: { x: false, y: false } },
      scales: { x: { time: false, range: (_, low, high) => [low - DAY, high + DAY] }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.05] } },
      axes: [
        { stroke: ink, grid: { show: false }, ticks: lines, incrs: [1, 7, 30, 90, 365].map((count) => count * DAY), space: 100, values: (_, found) => found.map(date) },
        { stroke: ink, grid: lines, ticks: lines, label: "run hours" },
      ],
      series: [{}, { label: "run hours", stroke: "#2f6bb0", fill: "#2f6bb0aa", points: { show: false }, paths: uPlot.paths.bars({ size: [0.7, 60] }) }],
    };
    const chart = new uPlot(options, [days, days.map((day) => hours.get(day) ?? 0)], place);
    new ResizeObserver(() => chart.setSize({ width: Math.max(place.clientWidth, 280), height: 220 })).observe(place);
  }
}

// What somebody has opened stays open when the page is fetched again.
htmx.config.morphIgnore.push("open");

// What is shown moves with the log, and the footer with it.
document.addEventListener("position", (event) => {
  document.getElementById("position").textContent = event.detail.data;
});

timeControl();
drawCharts();
