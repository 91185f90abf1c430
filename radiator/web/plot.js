// Live plots, by uPlot. What a plot shows is said in words too, for those who cannot see it.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";

const HEIGHT = 130;

function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function useTheme() {
  const [at, setAt] = useState(0);
  useEffect(() => {
    const changed = () => setAt((n) => n + 1);
    const media = matchMedia("(prefers-color-scheme: dark)");
    media.addEventListener("change", changed);
    addEventListener("radiator-theme", changed);
    return () => {
      media.removeEventListener("change", changed);
      removeEventListener("radiator-theme", changed);
    };
  }, []);
  return at;
}

// times: in seconds since the epoch, ascending. series: {label, color (of a CSS variable), values}; format: of a value.
export function Plot({ title, times, series, format }) {
  const box = useRef(null);
  const plot = useRef(null);
  const [at, setAt] = useState(null); // where the pointer is
  const theme = useTheme();
  const names = series.map((one) => one.label).join();
  useEffect(() => {
    const width = () => Math.max(120, box.current.clientWidth);
    const axis = { stroke: color("--muted"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const made = new uPlot({
      width: width(),
      height: HEIGHT,
      legend: { show: false },
      cursor: { points: { size: 5 }, drag: { x: false, y: false }, sync: { key: "radiator" } },
      scales: { y: { range: (_, low, high) => [0, Math.max(high ?? 0, 1) * 1.1] } },
      axes: [{ ...axis, size: 26, space: 70, values: (_, ticks) => ticks.map(clock) }, { ...axis, size: 58, space: 28, values: (_, ticks) => once(ticks.map(format)) }],
      series: [{}, ...series.map((one) => ({ label: one.label, stroke: color(one.color), width: 1.5, points: { show: false, filter: alone, size: 4, fill: color(one.color) }, spanGaps: false }))],
      hooks: { setCursor: [(self) => setAt(self.cursor.idx ?? null)] },
    }, [times, ...series.map((one) => one.values)], box.current);
    plot.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: width(), height: HEIGHT }));
    watch.observe(box.current);
    return () => {
      watch.disconnect();
      made.destroy();
    };
  }, [theme, names]);
  useEffect(() => {
    plot.current?.setData([times, ...series.map((one) => one.values)]);
  }, [times, ...series.map((one) => one.values)]);
  const last = times.length - 1;
  const shown = at !== null && at <= last ? at : last;
  const words = series.map((one) => `${one.label} ${shownValue(one.values[last], format)} now, at most ${format(most(one.values))}`).join("; ");
  return html`<figure class="plot">
    <figcaption><b>${title}</b> ${series.map((one) => html`<span key=${one.label} class="key"><i class=${`swatch ${one.color.slice(2)}`}></i>${one.label} <b>${shownValue(one.values[shown], format)}</b></span>`)}
      ${shown !== last && shown >= 0 && html`<span class="muted">${clock(times[shown])}</span>`}</figcaption>
    <div ref=${box} role="img" aria-label=${last < 0 ? `${title}: nothing yet` : `${title}: ${words}`}></div>
  </figure>`;
}

// The values between two gaps: no line leads to them, so they need a point.
function alone(plot, series) {
  const values = plot.data[series];
  const isGap = (at) => values[at] === null || values[at] === undefined;
  const found = values.flatMap((_, at) => (!isGap(at) && isGap(at - 1) && isGap(at + 1) ? [at] : []));
  return found.length ? found : null;
}

// only the first of ticks that read the same, as fractions of a count do
const once = (texts) => texts.map((text, nth) => (text === texts[nth - 1] ? "" : text));

const shownValue = (value, format) => (value === null || value === undefined ? "–" : format(value));

function most(values) {
  let found = 0;
  for (const value of values) if (value > found) found = value;
  return found;
}

function clock(s) {
  const at = new Date(s * 1000);
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}
