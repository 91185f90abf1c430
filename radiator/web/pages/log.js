// One log: why it moves or not, its partitions, groups and readers, its records, and its settings.

import { html } from "../vendor/htm-preact.js";
import { Act } from "../actions.js";
import { pathOf, useAsked } from "../api.js";
import { bytes, count, many, moment } from "../format.js";
import { Asked, Code, Empty, Facts, Name, Pages, Table, Tabs, To, Verdict } from "../parts.js";
import { Groups } from "../positions.js";
import { Publish } from "../publish.js";
import { ReadLog } from "../records.js";
import { go } from "../route.js";

const ROWS = 50;
const TABS = [["groups", "Partitions and groups"], ["read", "Read"], ["settings", "Settings"]];
const DEFAULTS = { partitions: 1, partition_key: null, retention_ms: 604800000, retention_bytes: null, schema: null };

export default function Log({ path: [name], query }) {
  const asked = useAsked(pathOf("logs", name), 2000);
  const why = useAsked(pathOf("logs", name, "why"), 2000);
  const tab = query.get("tab") ?? TABS[0][0];
  const to = () => ({ address: `/log/${name}`, path: pathOf("logs", name, "messages") });
  return html`<h1>Log <${Name} of=${name} /></h1>
    <${Asked} of=${asked}>${(log) => html`
      <${Why} of=${why.answer} log=${log} />
      <div class="bar">
        <${Publish} to=${to} done=${asked.again}><p>The record goes to the partition of its header <code>partition-key</code>, or to any.</p></${Publish}>
        <${Delete} name=${name} /></div>
      <${Tabs} tabs=${TABS} current=${tab} path=${["logs", name]} />
      ${tab === "groups" && html`<${Partitions} name=${name} of=${log.partitions} query=${query} />
        <${Groups} name=${name} log=${log} query=${query} /><${Consumers} of=${why.answer} />`}
      ${tab === "read" && html`<${ReadLog} name=${name} log=${log} query=${query} />`}
      ${tab === "settings" && html`<${Settings} name=${name} of=${log.settings} />`}`}</${Asked}>`;
}

function Why({ of, log }) {
  if (!of) return null;
  const { retention_ms, retention_bytes } = log.settings;
  return html`<section class="card why" aria-label="Why">
    <p><${Verdict} of=${of.verdict} /> <${Name} of=${of.sentence} /></p>
    <${Facts} rows=${[
      ["Records", count(of.records)],
      ["Readers", count(of.readers)],
      ["Groups", count(of.groups)],
      ["Keeps records for", retention_ms === null ? "any time" : hours(retention_ms)],
      ["Keeps at most", retention_bytes === null ? "any size" : bytes(retention_bytes)],
    ]} /></section>`;
}

const hours = (ms) => (ms % 86400000 ? `${count(ms / 3600000)} h` : many(ms / 86400000, "day"));

function Partitions({ name, of, query }) {
  const first = Number(query.get("first") ?? 0) || 0;
  const rows = of.next.map((next, nth) => ({ nth, next, first: of.first[nth], bytes: of.bytes[nth], begin_ms: of.first_ms[nth], end_ms: of.last_ms[nth] }));
  const columns = [
    { key: "nth", title: "Partition", cell: ({ nth }) => nth },
    { key: "first", title: "First", right: true, wide: true, cell: (row) => row.first },
    { key: "next", title: "Next", right: true, cell: ({ next }) => next },
    { key: "records", title: "Records", right: true, cell: (row) => count(row.next - row.first) },
    { key: "bytes", title: "Bytes", right: true, wide: true, cell: (row) => bytes(row.bytes) },
    { key: "begin", title: "First accepted", wide: true, cell: ({ begin_ms }) => moment(begin_ms) },
    { key: "end", title: "Last accepted", wide: true, cell: ({ end_ms }) => moment(end_ms) },
    { key: "read", title: html`<span class="unseen">Read</span>`, cell: (row) => html`<${To} path=${["logs", name]} query=${{ tab: "read", partition: row.nth, from: `${row.nth}:${row.first}` }} aria-label=${`Read partition ${row.nth}`}>Read</${To}>` },
  ];
  return html`<section class="part" aria-label="Partitions"><h2>Partitions</h2>
    <${Table} label="Partitions" columns=${columns} rows=${rows.slice(first, first + ROWS)} keyOf=${({ nth }) => nth} />
    <${Pages} first=${first} size=${ROWS} all=${rows.length} /></section>`;
}

function Consumers({ of }) {
  if (!of) return null;
  const columns = [
    { key: "connection", title: "Connection", cell: (one) => html`<${To} path=${["connections", String(one.connection)]}>${one.connection}</${To}>` },
    { key: "subscription", title: "Subscription", cell: (one) => html`<${Name} of=${one.subscription} />` },
    { key: "stands", title: "State", cell: (one) => html`<${Name} of=${one.stands} />` },
    { key: "unacked", title: "Unacked", right: true, cell: (one) => count(one.unacked) },
    { key: "window", title: "Window", right: true, wide: true, cell: (one) => (one.window === null ? "no bound" : count(one.window)) },
    { key: "outbox", title: "Not read yet", right: true, wide: true, cell: (one) => bytes(one.outbox_bytes) },
  ];
  const all = of.consumer_list;
  return html`<section class="part" aria-label="Readers"><h2>Readers</h2>
    ${all.length
      ? html`<${Table} label="Readers" columns=${columns} rows=${all} keyOf=${(one) => `${one.connection} ${one.subscription}`} />`
      : html`<${Empty}>No consumer reads it now.</${Empty}>`}
    ${of.readers > all.length && html`<p class="muted">${`The first ${all.length} of ${count(of.readers)}.`}</p>`}</section>`;
}

// ---- settings

function Settings({ name, of }) {
  const rows = Object.entries(of);
  const columns = [
    { key: "name", title: "Setting", cell: ([key]) => key },
    { key: "value", title: "Value", cell: ([, value]) => html`<${Name} of=${value ?? "none"} />` },
    { key: "default", title: "Default", wide: true, cell: ([key]) => String(DEFAULTS[key] ?? "none") },
  ];
  return html`<section aria-label="Settings">
    <p>As a table of config.toml. What has its default need not be written there.</p>
    <${Code} label="config.toml" text=${toml(name, of)} />
    <${Table} label="Settings" columns=${columns} rows=${rows} keyOf=${([key]) => key} /></section>`;
}

function toml(name, settings) {
  const given = Object.entries(settings).filter(([key, value]) => value !== DEFAULTS[key]);
  return [`[log.${JSON.stringify(name)}]`, ...given.map(([key, value]) => `${key} = ${JSON.stringify(value ?? 0)}`)].join("\n"); // retention_ms = 0: none
}

function Delete({ name }) {
  const make = () => ({ cli: ["delete", `/log/${name}`], call: { method: "DELETE", path: pathOf("logs", name) } });
  const said = ({ deleted }) => {
    go(["logs"]);
    return `The log is deleted, with ${many(deleted, "record")}.`;
  };
  return html`<${Act} label="Delete…" title="Delete this log" isDangerous typed=${name} make=${make} said=${said}>
    <p>The log is deleted for good, with all its records and the positions of its groups. The broker refuses this while a consumer reads the log, or if config.toml declares it.</p></${Act}>`;
}
