// What needs attention, and the traffic: now, and in the last hour.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { useAsked, useLink } from "../api.js";
import { bytes, count, duration, quoted, rate, seen } from "../format.js";
import { useHistory } from "../history.js";
import { Asked, Code, QueueLink, Sentence, Tabs, Tile, To, Trouble, Verdict } from "../parts.js";
import { Plot } from "../plot.js";

const latest = (values) => values?.[values.length - 1];

export default function Overview({ query }) {
  const history = useHistory("/v1/history", 2000);
  const attention = useAsked("/v1/attention", 3000);
  const columns = history.columns;
  return html`
    <h1>Overview</h1>
    <${Needs} of=${attention} />
    <${First} columns=${columns} query=${query} />
    ${history.problem && history.problem.code !== "unreachable" && html`<${Trouble} of=${history.problem} />`}
    ${columns && html`<${Tiles} of=${columns} /><${Plots} of=${columns} />`}`;
}

function Tiles({ of }) {
  const oldest = useAsked("/v1/queue-table?sort=-oldest&count=1", 5000);
  return html`<section class="tiles" aria-label="Now">
    <${Tile} title="Ready" value=${count(latest(of.ready))} path=${["queues"]} query=${{ sort: "-ready" }} />
    <${Tile} title="Unacked" value=${count(latest(of.unacked))} path=${["queues"]} query=${{ sort: "-unacked" }} />
    <${Tile} title="Delayed" value=${count(latest(of.delayed))} path=${["queues"]} query=${{ sort: "-delayed" }} />
    <${Tile} title="Oldest ready" value=${duration(oldest.answer?.queues[0]?.oldest_ms)} path=${["queues"]} query=${{ sort: "-oldest" }} />
    <${Tile} title="Connections" value=${count(latest(of.connections))} path=${["connections"]} />
    <${Tile} title="Waiting for room" value=${count(latest(of.parked))} path=${["connections"]} alert=${latest(of.parked) > 0} />
    <${Tile} title="Memory" value=${bytes(latest(of.memory_bytes))} path=${["broker"]} />
  </section>`;
}

function Plots({ of }) {
  const ms = (value) => duration(value);
  return html`<section class="plots" aria-label="The last hour">
    <${Plot} title="In" times=${of.times} format=${rate} series=${[{ label: "messages/s", color: "--plot-1", values: of.in }]} />
    <${Plot} title="Out" times=${of.times} format=${rate} series=${[{ label: "acked/s", color: "--plot-2", values: of.out }]} />
    <${Plot} title="Stored" times=${of.times} format=${count} series=${[{ label: "messages", color: "--plot-1", values: of.stored }, { label: "unacked", color: "--plot-3", values: of.unacked }]} />
    <${Plot} title="Receipts" times=${of.times} format=${ms} series=${[{ label: "p50", color: "--plot-2", values: of.receipt_p50_ms }, { label: "p99", color: "--plot-3", values: of.receipt_p99_ms }]} />
  </section>`;
}

// ---- needs you

const PLACES = {
  queue: (name) => ["queues", name],
  log: (name) => ["logs", name],
  node: () => ["nodes"],
  peer: () => ["nodes"],
  broker: () => ["broker"],
  certificate: () => ["broker"],
  connections: () => ["connections"],
};

function Needs({ of }) {
  return html`<section class="card" aria-label="Needs you">
    <h2>Needs you</h2>
    <${Asked} of=${of}>${(answer) => html`<${Items} of=${answer} />`}</${Asked}>
  </section>`;
}

function Items({ of }) {
  if (!of.items.length) return html`<p class="well">Nothing needs attention.</p>`;
  const all = Object.values(of.counts ?? {}).reduce((sum, n) => sum + n, 0);
  return html`<ul class="needs">${of.items.map((one) => html`<li key=${`${one.kind} ${one.name} ${one.verdict}`}>
      <${Verdict} of=${one.verdict} />
      <${To} path=${(PLACES[one.kind] ?? PLACES.broker)(one.name)} class="place">${seen(one.name || one.kind)}</${To}>
      <${Sentence} of=${one.sentence} /></li>`)}</ul>
    ${all > of.items.length && html`<p class="muted">${`These are the worst ${of.items.length} of ${all}. `}<${To} path=${["queues"]} query=${{ filter: "needs" }}>All queues that need you</${To}></p>`}`;
}

// ---- the first five minutes

const SNIPPETS = [["python", "Python"], ["curl", "curl"], ["browser", "Browser"]];
const NOTES = {
  python: "Run it with the Python that has the client: .venv/bin/python of the checkout.",
  curl: "The second line receives the message under a lease of 30 seconds. POST /v1/settle acks it; otherwise the message comes back after that time.",
  browser: "Paste it into the developer tools of this page, or into a module of a site that origins in [http] lists.",
};

function First({ columns, query }) {
  const queues = useAsked("/v1/queues?limit=1", 2000);
  const { stomp, user } = useLink();
  const [state, setState] = useState("unknown");
  const found = queues.answer?.queues;
  useEffect(() => {
    if (found && state === "unknown") setState(found.length ? "closed" : "open"); // once open it stays open
  }, [found]);
  if (state !== "open" || !found || !columns || !stomp) return null;
  const kind = query.get("tab") ?? "python";
  return html`<section class="card" aria-label="Begin">
    <h2>${found.length ? "The first queue is here" : "No queue yet: send the first message"}</h2>
    ${found.length > 0 && html`<p class="well">The broker has the queue <${QueueLink} name=${found[0].name} />, with its messages on the disk.</p>`}
    <${Tabs} tabs=${SNIPPETS} current=${kind} path=${[]} />
    <${Code} text=${snippet(kind, stomp, user)} label=${`Send and receive with ${kind}`} />
    <p class="muted">${NOTES[kind] ?? NOTES.python} What you send appears on this page by itself.
      <button class="plain" onClick=${() => setState("closed")}>Close</button></p>
  </section>`;
}

// user: the one who must log in; null: nobody must
function snippet(kind, stomp, user) {
  if (kind === "curl") {
    const login = user === null ? "" : ` --user ${quoted(user)}`;
    return `curl --fail${login} -H 'Content-Type: text/plain' -d 'hello' ${location.origin}/v1/queues/greetings/messages
curl --fail${login} -X POST ${location.origin}/v1/queues/greetings/receive`;
  }
  if (kind === "browser") {
    const login = user === null ? "" : `, user: ${JSON.stringify(user)}, password: prompt("Password")`;
    return `const { connect } = await import("${location.origin}/client.js");
const broker = connect({ url: "${location.origin}"${login} });
await broker.publish("/queue/greetings", "hello"); // done when it is on the disk
for (const { body, lease } of await broker.receive("/queue/greetings")) {
  console.log(body);
  await broker.settle([{ lease, action: "ack" }]);
}`;
  }
  const [imported, login] = user === null ? ["", ""] : ["from getpass import getpass\n\n", `, user=${JSON.stringify(user)}, password=getpass()`];
  return `${imported}from radiator.client import Client

with Client("${stomp}"${login}) as client:
    client.send("/queue/greetings", "hello")  # returns with the RECEIPT: the message is on the disk
    client.subscribe("/queue/greetings", ack="client-individual")
    for message in client.messages(timeout_s=1):
        print(message.body.decode())
        client.ack(message)`;
}
