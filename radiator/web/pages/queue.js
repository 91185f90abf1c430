// One queue: why its messages move or not, what it holds, who has what, and what can be done.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { pathOf, useAsked, withQuery } from "../api.js";
import { Act, queueWord } from "../actions.js";
import { Body } from "../body.js";
import { WHY_DEAD } from "../dead.js";
import { bytes, count, duration, many, moment, rate, seen } from "../format.js";
import { useHistory } from "../history.js";
import { Asked, Code, Empty, Facts, More, Name, Sentence, Table, Tabs, To, Verdict } from "../parts.js";
import { Plot } from "../plot.js";
import { go, href } from "../route.js";
import { move, publish, purge, remove, sendBack } from "./queue-acts.js";

const TABS = [["", "Messages"], ["unacked", "Unacked"], ["consumers", "Consumers"], ["bindings", "Bindings"], ["settings", "Settings"]];
const DEAD = "original-destination";

export default function Queue({ path, query }) {
  const [name] = path;
  const tab = query.get("tab") ?? "";
  const why = useAsked(pathOf("queues", name, "why"), 2000);
  const [acts, setActs] = useState(0); // counts actions from here, after each of which the messages are fetched again
  const again = () => {
    why.again();
    setActs((n) => n + 1);
  };
  const gone = why.problem?.status === 404;
  const Part = Object.hasOwn(PARTS, tab) ? PARTS[tab] : Messages;
  return html`
    <h1>Queue <${Name} of=${name} /></h1>
    <${Asked} of=${why}>${(answer) => html`<${Why} of=${answer} name=${name} />`}</${Asked}>
    ${gone && html`<p><${To} path=${["queues"]}>All queues</${To}></p>`}
    ${why.answer && !gone && html`
      <div class="bar">
        <${Act} ...${publish(name, again)} />
        <${Act} ...${move(name, again)} />
        <${Act} ...${purge(name, again)} />
        <${Act} ...${remove(name, () => go(["queues"]))} />
      </div>
      <${Rates} name=${name} />
      <${Tabs} tabs=${TABS} current=${tab} path=${["queues", name]} />
      <${Part} key=${`${name} ${tab} ${query.get("message")}`} name=${name} query=${query} why=${why.answer} acts=${acts} again=${again} />`}`;
}

function Why({ of, name }) {
  const { answer } = useDescribed(name);
  const active = answer?.active_consumer;
  return html`<section class="card why" aria-label="Why">
    <p><${Verdict} of=${of.verdict} /> <${Sentence} of=${of.sentence} /></p>
    <${Facts} rows=${[
      ["Ready", count(of.ready)],
      ["Unacked", count(of.unacked)],
      ["Delayed", count(of.delayed)],
      of.checked_out > 0 && ["Checked out", count(of.checked_out)],
      ["Consumers", count(of.consumers)],
      ["Oldest ready", duration(of.oldest_ms)],
      ["Size", bytes(of.bytes)],
      (of.max_messages || of.max_bytes) && ["Bounds", [of.max_messages && many(of.max_messages, "message"), of.max_bytes && bytes(of.max_bytes)].filter(Boolean).join(", ")],
      of.blocked > 0 && ["Producers that wait", count(of.blocked)],
      of.next_due_ms && ["Next delayed is due", moment(of.next_due_ms)],
      of.active_keys !== null && ["Active keys", count(of.active_keys)],
      ["Accepted", `${count(of.accepted)}: ${[["acked", of.acked], ["expired", of.expired], ["dropped", of.dropped], ["purged or moved", of.purged], ["dead letters", of.dead_lettered]].filter(([, n]) => n).map(([what, n]) => `${count(n)} ${what}`).join(", ") || "none has left"}`],
      !of.adds_up && ["Ledger", html`<b class="trouble">does not add up: run radiator check</b>`],
      of.damaged > 0 && ["Damaged", html`<b class="trouble">${many(of.damaged, "message")} cannot be read</b>`],
      ["Kept", of.persistent ? "on the disk" : "in memory"],
      answer?.exclusive_to && ["Exclusive to", html`<${To} path=${["connections", String(answer.exclusive_to)]}>connection ${answer.exclusive_to}</${To}>, and ends with it`],
      answer?.settings.auto_delete && ["Auto-delete", "it is deleted with its last consumer"],
      answer?.settings.max_priority && ["Priorities", `0 to ${answer.settings.max_priority}`],
      answer?.settings.single_active_consumer && ["Single active consumer", active ? html`<${Name} of=${active.subscription} /> of <${To} path=${["connections", String(active.connection)]}>connection ${active.connection}</${To}>` : "nobody for now"],
    ]} />
  </section>`;
}

function Rates({ name }) {
  const { columns } = useHistory(pathOf("queues", name, "history"), 5000);
  if (!(columns?.times.length > 1)) return null; // one sample makes no line
  const found = (key, label, color) => columns[key] && { label, color, values: columns[key] };
  const perSecond = (key, label, color) => columns[key] && { label, color, values: columns[key].map((one) => (one === null ? null : (one * 1000) / columns.every_ms)) };
  const plot = (title, format, series) => {
    const given = series.filter(Boolean);
    return given.length ? html`<${Plot} title=${title} times=${columns.times} format=${format} series=${given} />` : null;
  };
  return html`<section class="plots" aria-label="The last hour">
    ${plot("In and out", rate, [perSecond("in", "in/s", "--plot-1"), perSecond("out", "out/s", "--plot-2")])}
    ${plot("Messages", count, [found("ready", "ready", "--plot-1"), found("unacked", "unacked", "--plot-3"), found("delayed", "delayed", "--plot-4")])}
  </section>`;
}

// ---- messages

function Messages({ name, query, why, acts, again }) {
  return query.get("message")
    ? html`<${Single} name=${name} id=${query.get("message")} again=${again} />`
    : html`<${Oldest} name=${name} query=${query} why=${why} acts=${acts} again=${again} />`;
}

// One message, found by its message-id wherever it is in the queue.
function Single({ name, id, again }) {
  const asked = useAsked(withQuery(pathOf("queues", name, "peek"), { message: id }), 0);
  const looked = () => {
    asked.again();
    again();
  };
  return html`
    <div class="bar"><button onClick=${looked}>Look again</button><${To} path=${["queues", name]}>The oldest messages</${To}></div>
    <${Asked} of=${asked}>${({ messages: [one] }) => html`
      <div class="messages"><${Message} of=${one} queue=${name} isOpenFirst=${true} done=${looked} /></div>`}</${Asked}>`;
}

function Oldest({ name, query, why, acts, again }) {
  const shown = Math.min(Number(query.get("count")) || 20, 200);
  const asked = useAsked(withQuery(pathOf("queues", name, "peek"), { count: shown }), 0);
  const [chosen, setChosen] = useState(new Set());
  const held = why.messages;
  const look = () => {
    asked.again();
    setChosen(new Set());
  };
  useEffect(() => {
    if (acts) look();
  }, [acts]);
  const isEmpty = asked.answer?.messages.length === 0;
  useEffect(() => {
    if (isEmpty && held > 0) look(); // the first one has come
  }, [isEmpty, held]);
  return html`
    <div class="bar"><button onClick=${again}>Look again</button>
      <span class="muted">Looking changes nothing: no message is taken, marked or moved.</span></div>
    <${Asked} of=${asked} empty=${(answer) => (answer.messages.length ? undefined : html`<${Empty}>There is no message to look at.</${Empty}>`)}>${(answer) => {
      const dead = answer.messages.filter(isDead);
      const choose = (id, isChosen) => {
        const next = new Set(chosen);
        if (isChosen) next.add(id);
        else next.delete(id);
        setChosen(next);
      };
      return html`
        ${dead.length > 0 && html`<div class="bar card"><span>These are dead letters. Choose those to send back, or send all back.</span>
          ${chosen.size > 0 && html`<${Act} ...${sendBack(name, [...chosen], again)} />`}
          <${Act} ...${sendBack(name, [], again)} /></div>`}
        <div class="messages">${answer.messages.map((one) => html`<${Message} key=${one.message_id} of=${one} queue=${name} isChosen=${chosen.has(one.message_id)} choose=${isDead(one) ? (is) => choose(one.message_id, is) : null} done=${again} />`)}</div>
        ${held > answer.messages.length && html`<p class="muted">These are the oldest ${answer.messages.length} of ${count(held)}.
          ${shown < 200 && html` <a href=${href(["queues", name], { count: Math.min(shown * 5, 200) })}>Show more</a>`}</p>`}`;
    }}</${Asked}>`;
}

const headerOf = (message, name) => message.headers.find(([key]) => key === name)?.[1];
const isDead = (message) => headerOf(message, DEAD) !== undefined;

function Message({ of, queue, isChosen, choose, done, isOpenFirst = false }) {
  const [isOpen, setOpen] = useState(isOpenFirst);
  const reason = headerOf(of, "dead-letter-reason");
  return html`<article class="message card" aria-label=${`Message ${of.message_id}`}>
    <div class="bar">
      ${choose && html`<input type="checkbox" aria-label=${`Choose ${of.message_id}`} checked=${isChosen} onChange=${(event) => choose(event.target.checked)} />`}
      <button class="plain" aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}><code>${of.message_id}</code></button>
      <span class="verdict busy">${seen(of.state)}</span>
      ${of.redelivery_count > 0 && html`<span>${many(of.redelivery_count, "redelivery", "redeliveries")}</span>`}
      ${reason && html`<span class="verdict needs">${seen(reason)}</span>`}
      ${isDead(of) && html`<span>from <${Name} of=${headerOf(of, DEAD)} />${WHY_DEAD[reason] && `: ${WHY_DEAD[reason]}`}</span>`}
      <span class="grow"></span>
      <span class="muted">${moment(of.timestamp)} · ${bytes(of.size)}</span>
    </div>
    ${isOpen ? html`<${Opened} of=${of} queue=${queue} done=${done} />` : html`<p class="glimpse">${glimpse(of)}</p>`}
  </article>`;
}

function glimpse(message) {
  if (message.body === null) return `${many(message.body_bytes, "byte")} that are not text`;
  return seen(message.body.slice(0, 200)) + (message.body.length > 200 ? " …" : "");
}

function Opened({ of, queue, done }) {
  return html`
    <${Facts} rows=${[
      ["Sent to", html`<${Name} of=${of.destination} />`],
      ["Accepted", moment(of.timestamp)],
      ["Expires", of.expires ? moment(of.expires) : "never"],
      ["Redelivered", of.redelivered ? `yes, ${many(of.redelivery_count, "time")} counted` : "no"],
    ]} />
    <div class="bar"><${To} path=${["messages"]} query=${{ id: of.message_id }}>Its story</${To}>
      ${isDead(of) && html`<${Act} ...${sendBack(queue, [of.message_id], done)} />`}</div>
    ${of.headers.length > 0 && html`<${Table} label="Headers" rows=${of.headers} keyOf=${(row, nth) => nth} columns=${[
      { key: "name", title: "Header", cell: ([name]) => html`<code>${seen(name)}</code>` },
      { key: "value", title: "Value", cell: ([, value]) => html`<${Name} of=${value} />` },
    ]} />`}
    <${Body} of=${of} queue=${queue} />`;
}

// ---- who has what

function Unacked({ name, query, again }) {
  const asked = useAsked(withQuery(pathOf("queues", name, "unacked"), { after: query.get("after"), limit: 50 }), 2000);
  const done = () => {
    asked.again();
    again();
  };
  const columns = [
    { key: "id", title: "Message", cell: (row) => html`<${To} path=${["messages"]} query=${{ id: row.message_id }}><code>${row.message_id}</code></${To}>` },
    { key: "who", title: "With", cell: (row) => html`<${Holder} of=${row} />` },
    { key: "since", title: "Since", right: true, cell: (row) => duration(row.age_ms) },
    { key: "due", title: "Until", right: true, wide: true, cell: (row) => (row.due_ms ? moment(row.due_ms) : "no time is set") },
    { key: "count", title: "Redeliveries", right: true, wide: true, cell: (row) => count(row.redelivery_count) },
    { key: "size", title: "Size", right: true, wide: true, cell: (row) => bytes(row.size) },
    { key: "act", title: html`<span class="unseen">Acts</span>`, cell: (row) => (row.due_ms ? html`<${Act} ...${extend(name, row, done)} />` : "") },
  ];
  return html`<${Asked} of=${asked} empty=${(answer) => (answer.unacked.length ? undefined : html`<${Empty}>Nothing is unacked: no consumer has a message of this queue.</${Empty}>`)}>${(answer) => html`
    <${Table} label="Unacked messages" columns=${columns} rows=${answer.unacked} keyOf=${(row) => row.message_id} />
    ${answer.next !== null && html`<${More} after=${answer.next} />`}
    <p class="muted">${many(answer.count, "message")}, longest out first.</p>`}</${Asked}>`;
}

function Holder({ of }) {
  const who = [of.user && of.user !== "anyone" && seen(of.user), of.consumer && seen(of.consumer), of.subscription && `subscription ${seen(of.subscription)}`].filter(Boolean).join(", ");
  if (of.connection === null) return html`${of.is_leased ? "a lease" : "nobody"} ${who && `of ${who}`}`;
  return html`<${To} path=${["connections", String(of.connection)]}>connection ${of.connection}</${To}> ${who} <span class="muted">${seen(of.address ?? "")}</span>`;
}

function extend(name, row, done) {
  return {
    label: "Extend…",
    title: "Give the consumer more time",
    done,
    fields: [{ name: "seconds", label: "Seconds from now", type: "number", min: 1, value: "60" }],
    make: ({ seconds }) => ({
      cli: ["extend", queueWord(name), row.message_id, seconds],
      call: { method: "POST", path: pathOf("queues", name, "unacked", "extend"), body: { message_id: row.message_id, seconds: Number(seconds) } },
    }),
    said: (answer) => `It may be unacked until ${moment(answer.due_ms)}.`,
    children: html`<p>The message <code>${row.message_id}</code> comes back, and counts as redelivered, when its time has passed.</p>`,
  };
}

function Consumers({ name, why }) {
  const named = useAsked(withQuery(pathOf("queues", name, "consumers"), { limit: 100 }), 3000);
  const columns = [
    { key: "connection", title: "Connection", cell: (row) => html`<${To} path=${["connections", String(row.connection)]}>${row.connection}</${To}>` },
    { key: "subscription", title: "Subscription", wide: true, cell: (row) => html`<${Name} of=${row.subscription} />` },
    { key: "name", title: "Name", cell: (row) => (row.name ? html`<${Name} of=${row.name} />` : "–") },
    { key: "stands", title: "State", cell: (row) => html`<span class=${`verdict ${row.stands === "has-room" ? "good" : "busy"}`}>${seen(row.stands)}</span>` },
    { key: "priority", title: "Priority", right: true, wide: true, cell: (row) => String(row.priority) },
    { key: "unacked", title: "Unacked", right: true, cell: (row) => count(row.unacked) },
    { key: "window", title: "Window", right: true, cell: (row) => (row.window === null ? "no bound" : count(row.window)) },
    { key: "outbox", title: "Not read yet", right: true, wide: true, cell: (row) => bytes(row.outbox_bytes) },
  ];
  const rows = why.consumer_list;
  const registered = (named.answer?.consumers ?? []).filter((one) => one.connection === null);
  return html`
    ${rows.length ? html`<${Table} label="Consumers" columns=${columns} rows=${rows} keyOf=${(row) => `${row.connection} ${row.subscription}`} />` : html`<${Empty}>Nobody is subscribed.</${Empty}>`}
    ${why.consumers > rows.length && html`<p class="muted">These are the first ${rows.length} of ${count(why.consumers)}.</p>`}
    ${registered.length > 0 && html`<h3>Registered, and not subscribed now</h3>
      <${Table} label="Registered consumers" rows=${registered} keyOf=${(row) => row.name} columns=${[
        { key: "name", title: "Name", cell: (row) => html`<${Name} of=${row.name} />` },
        { key: "ready", title: "Ready", cell: (row) => (row.draining ? "is drained" : row.ready ? "yes" : "no") },
        { key: "left", title: "Forgotten in", right: true, cell: (row) => duration(row.lease_left_ms) },
      ]} />`}`;
}

function useDescribed(name) {
  return useAsked(pathOf("queues", name), 5000);
}

function Bindings({ name }) {
  return html`<${Asked} of=${useDescribed(name)} empty=${(answer) => (answer.bindings.length ? undefined : html`<${Empty}>No exchange leads here.</${Empty}>`)}>${(answer) => html`
    <${Table} label="Bindings" rows=${answer.bindings} keyOf=${(row) => `${row.exchange} ${row.key}`} columns=${[
      { key: "exchange", title: "Exchange", cell: (row) => html`<${To} path=${["exchanges", "exchange", row.exchange]}><${Name} of=${row.exchange} /></${To}>` },
      { key: "key", title: "Key", cell: (row) => html`<code>${seen(row.key)}</code>` },
    ]} />
    ${answer.bindings_count > answer.bindings.length && html`<p class="muted">These are the first ${answer.bindings.length} of ${count(answer.bindings_count)}.</p>`}`}</${Asked}>`;
}

function Settings({ name }) {
  return html`<${Asked} of=${useDescribed(name)}>${(answer) => html`
    <p class="muted">As a table of config.toml. What has its default need not be written there.</p>
    <${Code} label="Settings" text=${asToml(name, answer.settings)} />`}</${Asked}>`;
}

const DEFAULTS = {
  persistent: true, overflow: "block", max_redeliveries: 16, dedup_window_s: 0, exclusive: false, single_active_consumer: false, auto_delete: false,
  redelivery_delay_ms: 0, redelivery_delay_factor: 2, redelivery_delay_max_ms: 3600000, scope: "node", partition_window: 1, bounds_count: "stored",
};

function asToml(name, settings) {
  const lines = [`[queue.${JSON.stringify(name)}]`];
  for (const [key, value] of Object.entries(settings)) {
    if (value === null || value === DEFAULTS[key]) continue;
    lines.push(`${key} = ${JSON.stringify(value)}`);
  }
  return lines.join("\n");
}

const PARTS = { unacked: Unacked, consumers: Consumers, bindings: Bindings, settings: Settings };
