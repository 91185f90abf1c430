// The broker itself: the settings in force, every bound and how near it is, the end of the log, the disk.

import { html } from "../vendor/htm-preact.js";
import { useAsked, withQuery } from "../api.js";
import { Act } from "../actions.js";
import { bytes, count, duration, moment, seen } from "../format.js";
import { Asked, Choice, Empty, Facts, Filter, Name, Sentence, Table, Tabs } from "../parts.js";
import { replaceQuery } from "../route.js";

const TABS = [["", "Bounds"], ["configuration", "Configuration"], ["log", "Log"], ["disk", "Disk"]];
const LEVELS = ["debug", "info", "warning", "error"];

export default function Broker({ query }) {
  const tab = query.get("tab") ?? "";
  const Part = Object.hasOwn(PARTS, tab) ? PARTS[tab] : Bounds;
  return html`
    <h1>Broker</h1>
    <div class="bar"><${Act} ...${reload()} /></div>
    <${Tabs} tabs=${TABS} current=${tab} path=${["broker"]} />
    <${Part} query=${query} />`;
}

function reload() {
  return {
    label: "Reload config.toml…",
    title: "Reload the configuration",
    fields: [{ name: "dry_run", label: "Only say what would change", type: "checkbox", value: true }],
    make: ({ dry_run }) => ({ cli: ["reload", ...(dry_run ? ["--dry-run"] : [])], call: { method: "POST", path: "/v1/reload", body: { dry_run } } }),
    said: ({ applied, changes, warnings }) => {
      const list = changes.map((one) => `${one.setting}: ${JSON.stringify(one.old)} → ${JSON.stringify(one.new)}${one.takes_effect === "restart" ? " (at the next start)" : ""}`);
      return [applied ? "The configuration is in force." : "Nothing was changed.", list.length ? `${applied ? "What has changed" : "What would change"}: ${list.join("; ")}.` : "The file changes nothing: it says what is already in force.", ...warnings].join(" ");
    },
    children: html`<p>The broker reads config.toml again. If the file has a mistake, nothing changes, and the answer says what is wrong.</p>`,
  };
}

const amount = (value, unit) => (unit === "bytes" ? bytes(value) : `${count(value)}${unit && value !== null ? ` ${value === 1 ? unit.replace(/s$/, "") : unit}` : ""}`);

function Bounds() {
  const asked = useAsked("/v1/bounds", 3000);
  const columns = [
    { key: "name", title: "Bound", cell: (row) => html`<code>${seen(row.name)}</code>` },
    { key: "used", title: "In use", right: true, cell: (row) => (row.used === null ? "–" : amount(row.used, row.unit)) },
    { key: "limit", title: "Limit", right: true, cell: (row) => (row.limit === null ? "none" : amount(row.limit, row.unit)) },
    { key: "meter", title: "Use", wide: true, cell: (row) => html`<${Meter} of=${row} />` },
    { key: "reached", title: "What happens there", wide: true, cell: (row) => html`<${Sentence} of=${row.reached} />` },
  ];
  return html`<${Asked} of=${asked}>${(answer) => html`<${Table} label="Bounds" columns=${columns} rows=${answer.bounds} keyOf=${(row) => row.name} />`}</${Asked}>`;
}

function Meter({ of: { name, used, limit } }) {
  if (used === null || !limit) return "";
  return html`<meter aria-label=${`${name}: use`} min="0" max=${limit} value=${Math.min(used, limit)} high=${limit * 0.8} optimum="0"></meter>`;
}

function Configuration({ query }) {
  const asked = useAsked("/v1/configuration", 15000);
  const text = (query.get("text") ?? "").toLowerCase();
  const columns = [
    { key: "name", title: "Setting", cell: (row) => html`<code>${seen(settingOf(row))}</code>` },
    { key: "value", title: "In force", cell: (row) => html`<${Value} of=${row.value} isGiven=${!row.is_default} />` },
    { key: "default", title: "By default", wide: true, cell: (row) => (row.is_default ? html`<span class="muted">the same</span>` : html`<${Value} of=${row.default} />`) },
  ];
  return html`
    <div class="bar"><${Filter} query=${query} label="Filter the settings" placeholder="Part of a setting" /></div>
    <${Asked} of=${asked}>${(answer) => {
      const rows = answer.configuration.filter((row) => settingOf(row).toLowerCase().includes(text));
      return html`<p class="muted">${answer.path ? html`From <${Name} of=${answer.path} />. ` : "Without a file. "}Values that differ from the default are bold.</p>
        ${rows.length ? html`<${Table} label="Configuration" columns=${columns} rows=${rows} keyOf=${settingOf} />` : html`<${Empty}>No setting has a name that contains that.</${Empty}>`}`;
    }}</${Asked}>`;
}

function settingOf({ section, of, name }) {
  return `[${section}${of === null ? "" : `.${JSON.stringify(of)}`}] ${name}`;
}

function Value({ of, isGiven }) {
  const text = html`<code class="name">${seen(typeof of === "string" ? of : JSON.stringify(of))}</code>`;
  return isGiven ? html`<b>${text}</b>` : text;
}

function Log({ query }) {
  const level = query.get("level") ?? "info";
  const asked = useAsked(withQuery("/v1/log", { level, limit: 200 }), 2000, true);
  const columns = [
    { key: "time", title: "Time", cell: (row) => html`<span class="moment">${moment(row.time_ms)}</span>` },
    { key: "level", title: "Level", wide: true, cell: (row) => html`<span class=${`verdict ${row.level === "info" || row.level === "debug" ? "busy" : "needs"}`}>${seen(row.level)}</span>` },
    { key: "event", title: "Event", cell: (row) => html`<b>${seen(row.event)}</b> <span class="name">${Object.entries(row.fields).map(([name, value]) => html`<span key=${name}><span class="muted">${seen(name)}=</span>${seen(value)} </span>`)}</span>` },
  ];
  return html`
    <div class="bar"><label>From the level <${Choice} of=${LEVELS} value=${level} set=${(value) => replaceQuery({ level: value === "info" ? "" : value })} /></label>
      <span class="muted">These are the last lines, the newest first. docs/OPERATING.md says what each event means, and what to do.</span></div>
    <${Asked} of=${asked} empty=${(answer) => (answer.lines.length ? undefined : html`<${Empty}>The log has no such line.</${Empty}>`)}>${(answer) => html`
      <${Table} label="Log" columns=${columns} rows=${[...answer.lines].reverse()} keyOf=${(row) => row.number} />`}</${Asked}>`;
}

function Disk() {
  const asked = useAsked("/v1/disk", 3000);
  return html`<${Asked} of=${asked}>${(answer) => html`<section class="card"><${Facts} rows=${Object.entries(answer).filter(([name]) => name !== "ok").map(([name, value]) => [
    name.replaceAll("_", " ").replace(/ bytes$/, ""),
    typeof value === "number" ? (/bytes|size|_min$/.test(name) ? bytes(value) : /_ms$/.test(name) ? duration(value) : count(value)) : html`<${Name} of=${typeof value === "object" ? JSON.stringify(value) : value} />`,
  ])} /></section>`}</${Asked}>`;
}

const PARTS = { configuration: Configuration, log: Log, disk: Disk };
