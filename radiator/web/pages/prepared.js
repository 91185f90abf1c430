// Transactions that are prepared and not ended, and what groups have checked out of queues.

import { html } from "../vendor/htm-preact.js";
import { useAsked, withQuery } from "../api.js";
import { Act, refuse } from "../actions.js";
import { bytes, count, duration, many, seen } from "../format.js";
import { Asked, Empty, Filter, More, Name, Pages, QueueLink, State, Table } from "../parts.js";

const SHOWN = 100; // rows of a table

export default function Prepared({ query }) {
  return html`<h1>Prepared and checked out</h1><${Transactions} query=${query} /><${CheckedOut} after=${query.get("checkout")} />`;
}

// ---- prepared transactions

function Transactions({ query }) {
  const asked = useAsked("/v1/prepared", 3000);
  return html`<section class="part">
    <h2>Prepared transactions</h2>
    <${Asked} of=${asked}>${(answer) => (answer.count ? html`<${Listed} of=${answer} query=${query} again=${asked.again} />` : html`<${NonePrepared} />`)}</${Asked}></section>`;
}

function NonePrepared() {
  return html`<${Empty}>No transaction is prepared. When a program sends COMMIT with a <code>prepare</code> name, as a Spark sink does for each task, its messages are here until it commits or aborts, or <code>prepared_max_s</code> have passed.</${Empty}>`;
}

function Listed({ of, query, again }) {
  const text = query.get("text") ?? "";
  const first = Number(query.get("first") ?? 0);
  const found = of.prepared.filter((one) => one.name.includes(text));
  const beyond = of.count - of.prepared.length;
  return html`
    <div class="bar"><${Filter} query=${query} label="Part of a name" /><${AbortAll} text=${text} again=${again} /></div>
    ${beyond > 0 && html`<p class="muted">${`The broker lists the first ${count(of.prepared.length)} of ${count(of.count)}.`}</p>`}
    ${found.length === 0 && html`<${Empty}>None of these names contains that.</${Empty}>`}
    ${found.length > 0 && html`<${Table} label="Prepared transactions" columns=${columns(again)} rows=${found.slice(first, first + SHOWN)} keyOf=${(one, nth) => `${one.name} ${one.is_committed} ${one.name ? "" : nth}`} />`}
    <${Pages} first=${first} size=${SHOWN} all=${found.length} />`;
}

const columns = (again) => [
  { key: "name", title: "Name", cell: (one) => (one.name ? html`<${Name} of=${one.name} />` : html`<span class="muted">from before a restart</span>`) },
  { key: "state", title: "State", cell: (one) => (one.is_committed ? html`<${State} feels=${one.waits ? "needs" : "good"}>committed</${State}>` : html`<${State} feels="busy">prepared</${State}>`) },
  { key: "messages", title: "Messages", right: true, wide: true, cell: (one) => count(one.messages) },
  { key: "bytes", title: "Size", right: true, wide: true, cell: (one) => bytes(one.bytes) },
  { key: "applied", title: "Applied", right: true, wide: true, cell: (one) => count(one.applied) },
  { key: "age", title: "Age", right: true, wide: true, cell: (one) => duration(one.age_ms) },
  { key: "waits", title: "Waits", wide: true, cell: (one) => (one.waits ? seen(one.waits) : one.is_committed ? "" : "for its commit") },
  { key: "acts", title: html`<span class="unseen">Acts</span>`, cell: (one) => !one.is_committed && html`<div class="acts"><${Commit} of=${one} again=${again} /><${Abort} of=${one} again=${again} /></div>` },
];

const APP = [
  { name: "app", label: "App", required: true, hint: "Whose version it is. The program that has prepared it knows: of Spark txnAppId, or the query’s id, with the digest of the destination behind it." },
  { name: "version", label: "Version", type: "number", min: 0, required: true, hint: "Higher than the last that was committed for this app." },
];

function Commit({ of, again }) {
  const make = ({ app, version }) => {
    if (!app) refuse("Say for which app.");
    if (!/^[0-9]{1,15}$/.test(version)) refuse("The version is a whole number from 0 to 999999999999999.");
    const cli = ["prepared", `--commit=${of.name}`, `--app=${app}`, `--version=${version}`];
    return { cli, call: { method: "POST", path: "/v1/prepared/commit", body: { prepared: [of.name], app, version: Number(version) } } };
  };
  const said = (answer) => (answer.committed ? `Committed: ${many(answer.messages, "message")} will be in their destinations.` : "That version, or a higher one, was committed before: what was prepared here is discarded, and none of it is sent.");
  return html`<${Act} label="Commit…" title="Commit a prepared transaction" fields=${APP} typed=${seen(of.name)} make=${make} said=${said} done=${again}>
    <p>${`This puts what is prepared here, ${many(of.messages, "message")}, into the destinations, each message once. The program that prepared it normally does so, together with the other parts of its batch; by hand, this part appears alone. The version is then used up: a later commit of it by the program only discards what it names.`}</p>
  </${Act}>`;
}

function Abort({ of, again }) {
  return html`<${Act} label="Abort…" title="Abort a prepared transaction" isDangerous typed=${seen(of.name)} done=${again}
    make=${() => ({ cli: ["prepared", `--abort=${of.name}`], call: { method: "POST", path: "/v1/prepared/abort", body: { prepared: [of.name] } } })}
    said=${(answer) => (answer.aborted ? `Aborted: nothing of its ${many(of.messages, "message")} was sent.` : "It was no longer prepared: nothing was aborted.")}>
    <p>${`Its ${many(of.messages, "message")} (${bytes(of.bytes)}) are discarded: none of them is ever sent.`}</p>
  </${Act}>`;
}

function AbortAll({ text, again }) {
  const fields = [
    { name: "prefix", label: "All whose names begin with", value: text, required: true, hint: "spark- are those of Spark sinks: abort them only while no batch is running." },
    { name: "refuse", label: "Refuse new transactions with such names for this many seconds", type: "number", min: 0, max: 3600, value: "0" },
  ];
  const make = ({ prefix, refuse: refuse_s }) => {
    if (!prefix) refuse("Say how the names begin.");
    if (!(Number(refuse_s) >= 0 && Number(refuse_s) <= 3600 && Number.isInteger(Number(refuse_s)))) refuse("The seconds are a whole number from 0 to 3600.");
    const call = { method: "POST", path: "/v1/prepared/abort", body: { prefix, refuse_s: Number(refuse_s) } };
    return { cli: ["prepared", `--abort-all=${prefix}`, ...(Number(refuse_s) ? [`--refuse-s=${refuse_s}`] : [])], call };
  };
  return html`<${Act} label="Abort many…" title="Abort all whose names begin with a text" isDangerous typed="abort" fields=${fields} make=${make} done=${again}
    said=${(answer) => `${many(answer.aborted, "transaction")} aborted: nothing of ${answer.aborted === 1 ? "it" : "them"} was sent.`}>
    <p>What is committed stays. Nothing of the others is ever sent.</p>
  </${Act}>`;
}

// ---- checked out

const CHECKOUTS = "$checkout/"; // what a group has is a log of that name: $checkout/QUEUE/GROUP

// A page of what groups have, by the names of those logs; after: of the last one of the page before.
export function useCheckouts(after, everyMs) {
  const asked = useAsked(withQuery("/v1/logs", { after: after || CHECKOUTS, limit: SHOWN }), everyMs, true);
  if (!asked.answer) return { ...asked, rows: [], next: "" };
  const names = Object.keys(asked.answer.logs);
  const own = names.filter((name) => name.startsWith(CHECKOUTS));
  const rows = own.map((name) => {
    const at = name.lastIndexOf("/");
    return { log: name, queue: name.slice(CHECKOUTS.length, at), group: name.slice(at + 1), ...asked.answer.logs[name] };
  });
  return { ...asked, rows, next: own.length === SHOWN ? own[SHOWN - 1] : "" };
}

function CheckedOut({ after }) {
  const found = useCheckouts(after, 3000);
  return html`<section class="part">
    <h2>Checked out</h2>
    <${Asked} of=${found}>${() => html`
      ${found.rows.length ? html`<${Checkouts} of=${found} />` : html`<${Empty}>No group has messages checked out of a queue. A Spark query that reads a queue with <code>mode=checkout</code> would have its messages here until its batch is done.</${Empty}>`}
      ${found.next && html`<${More} name="checkout" after=${found.next} />`}`}</${Asked}></section>`;
}

export function Checkouts({ of }) {
  const rows = [
    { key: "queue", title: "Queue", cell: (one) => html`<${QueueLink} name=${one.queue} />` },
    { key: "group", title: "Group", cell: (one) => html`<${Name} of=${one.group} />` },
    { key: "records", title: "Messages", right: true, wide: true, cell: (one) => count(one.records) },
    { key: "bytes", title: "Size", right: true, wide: true, cell: (one) => bytes(one.bytes) },
    { key: "readers", title: "Readers", right: true, wide: true, cell: (one) => count(one.readers) },
    { key: "acts", title: html`<span class="unseen">Acts</span>`, cell: (one) => html`<${Release} of=${one} again=${of.again} />` },
  ];
  return html`<${Table} label="Checked out" columns=${rows} rows=${of.rows} keyOf=${(one) => one.log} />`;
}

function Release({ of, again }) {
  const address = `/queue/${of.queue}`;
  return html`<${Act} label="Release…" title="Release what a group has checked out" isDangerous typed=${seen(of.group)} done=${again}
    make=${() => ({ cli: ["release", "--", address, of.group], call: { method: "POST", path: "/v1/admin", body: { do: "checkout-release", queue: address, group: of.group } } })}
    said=${(answer) => `${many(answer.released, "message")} of the group ${of.group} went back to ${of.queue}; the group has ended.`}>
    <p>${`Its ${many(of.records, "message")} go back to the end of the queue, each once, and the group ends. Do this only for a group that is gone for good: what it has read and not acked is processed again. The broker refuses it while a consumer reads them.`}</p>
  </${Act}>`;
}
