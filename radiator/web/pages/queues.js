// All queues, as many at once as one can look through: the server filters, sorts and pages.

import { html, useState } from "../vendor/htm-preact.js";
import { pathOf, useAsked, withQuery } from "../api.js";
import { Act, queueWord, refuse } from "../actions.js";
import { bytes, count, duration, many, rate } from "../format.js";
import { Asked, Empty, Filter, Pages, QueueLink, Table, To, Verdict } from "../parts.js";
import { replaceQuery } from "../route.js";
import { declareQueue } from "./queue-acts.js";

const PAGE = 50;

export default function Queues({ query }) {
  const [chosen, setChosen] = useState(new Set());
  const first = Number(query.get("first")) || 0;
  const sort = query.get("sort") ?? "name";
  const filter = query.get("filter") ?? "";
  const path = withQuery("/v1/queue-table", { text: query.get("text"), sort, first: first || "", count: PAGE, filter });
  const asked = useAsked(path, 2000, true);
  const choose = (name, isChosen) => {
    const next = new Set(chosen);
    if (isChosen) next.add(name);
    else next.delete(name);
    setChosen(next);
  };
  const columns = [
    { key: "choose", title: html`<span class="unseen">Chosen</span>`, cell: (row) => html`<input type="checkbox" aria-label=${`Choose ${row.name}`} checked=${chosen.has(row.name)} onChange=${(event) => choose(row.name, event.target.checked)} />` },
    { key: "name", title: "Name", sort: "name", cell: (row) => html`<${QueueLink} name=${row.name} />` },
    { key: "verdict", title: "Why", cell: (row) => html`<span title=${row.sentence}><${Verdict} of=${row.dead && row.verdict === "no-consumer" ? "dead-letters" : row.verdict} />${row.is_full && html` <${Verdict} of="full" />`}</span>` },
    { key: "ready", title: "Ready", sort: "ready", right: true, cell: (row) => count(row.ready) },
    { key: "unacked", title: "Unacked", sort: "unacked", right: true, cell: (row) => count(row.unacked) },
    { key: "delayed", title: "Delayed", sort: "delayed", right: true, wide: true, cell: (row) => count(row.delayed) },
    { key: "in", title: "In/s", sort: "in", right: true, cell: (row) => rate(row.in_per_s) },
    { key: "out", title: "Out/s", sort: "out", right: true, cell: (row) => rate(row.out_per_s) },
    { key: "consumers", title: "Consumers", sort: "consumers", right: true, wide: true, cell: (row) => count(row.consumers) },
    { key: "oldest", title: "Oldest", sort: "oldest", right: true, wide: true, cell: (row) => duration(row.oldest_ms) },
    { key: "bytes", title: "Size", sort: "bytes", right: true, wide: true, cell: (row) => bytes(row.bytes) },
  ];
  const done = () => {
    setChosen(new Set());
    asked.again();
  };
  return html`
    <h1>Queues</h1>
    <div class="bar">
      <${Filter} query=${query} label="Filter by a part of the name" placeholder="Part of the name" />
      <label><input type="checkbox" checked=${filter === "needs"} onChange=${(event) => replaceQuery({ filter: event.target.checked ? "needs" : "", first: "" })} /> only those that need you</label>
      <span class="grow"></span>
      <${Act} ...${declareQueue(done)} />
    </div>
    ${chosen.size > 0 && html`<${Chosen} names=${[...chosen]} done=${done} clear=${() => setChosen(new Set())} />`}
    <${Asked} of=${asked} empty=${(answer) => (answer.queues.length ? undefined : html`<${None} of=${answer} query=${query} />`)}>${(answer) => html`
      <${Table} label="Queues" columns=${columns} rows=${answer.queues} keyOf=${(row) => row.name} sort=${sort} onSort=${(next) => replaceQuery({ sort: next, first: "" })} />
      <${Pages} first=${first} size=${PAGE} all=${answer.count} />
      <p class="muted">${answer.count === answer.all ? `${many(answer.all, "queue")}.` : `${count(answer.count)} of ${many(answer.all, "queue")}.`}</p>`}</${Asked}>`;
}

function None({ of, query }) {
  if (query.get("first")) return html`<${Empty}>This page is past the last queue. <${To} path=${["queues"]}>To the first queues</${To}></${Empty}>`;
  if (query.get("filter") && !query.get("text")) return html`<p class="well">No queue needs you.</p>`;
  if (of.all) return html`<${Empty}>None of the ${many(of.all, "queue")} has a name that contains that.</${Empty}>`;
  return html`<${Empty}>There is no queue yet. A SEND to /queue/NAME creates one if [create] allows it; so does Declare. <${To} path=${[]}>The overview</${To}> has a first message to send.</${Empty}>`;
}

// ---- for many at once

function Chosen({ names, done, clear }) {
  const typed = names.length === 1 ? names[0] : many(names.length, "queue");
  const list = html`<ul class="chosen">${names.slice(0, 10).map((name) => html`<li key=${name}><${QueueLink} name=${name} /></li>`)}</ul>
    ${names.length > 10 && html`<p class="muted">and ${names.length - 10} more</p>`}`;
  const sum = (answers, key) => answers.reduce((all, one) => all + one[key], 0);
  const forEach = (cli, call) => () => ({ clis: names.map(cli), calls: names.map(call) });
  return html`<div class="bar card" role="group" aria-label="With those that are chosen">
    <b>${many(names.length, "queue")} chosen</b>
    <${Act} label="Purge…" title=${`Purge ${typed}`} isDangerous typed=${typed} done=${done}
      make=${forEach((name) => ["purge", queueWord(name)], (name) => ({ method: "POST", path: pathOf("queues", name, "purge"), body: {} }))}
      said=${(answers) => `${many(sum(answers, "purged"), "message")} removed from ${many(answers.length, "queue")}.`}>
      <p>All messages are deleted for good, except those that are unacked.</p>${list}</${Act}>
    <${Act} label="Move…" title=${`Move the messages of ${typed}`} typed=${typed} done=${done}
      fields=${[{ name: "to", label: "To the queue", required: true, hint: "The queue must exist." }]}
      make=${({ to }) => {
        if (!to) refuse("Name the queue that they move to.");
        return forEach((name) => ["move", queueWord(name), queueWord(to)], (name) => ({ method: "POST", path: pathOf("queues", name, "move"), body: { to, create: false } }))();
      }}
      said=${(answers) => `${many(sum(answers, "moved"), "message")} moved.`}>
      <p>All ready messages move to another queue, the oldest first, and each is always in exactly one of the two.</p>${list}</${Act}>
    <${Act} label="Delete…" title=${`Delete ${typed}`} isDangerous typed=${typed} done=${done}
      make=${forEach((name) => ["delete", "queue", queueWord(name)], (name) => ({ method: "DELETE", path: pathOf("queues", name) }))}
      said=${(answers) => `${many(answers.length, "queue")} deleted with ${many(sum(answers, "deleted"), "message")}.`}>
      <p>They are deleted for good, with all their messages. The broker refuses this for a queue that has consumers, or that config.toml declares.</p>${list}</${Act}>
    <button class="plain" onClick=${clear}>Choose none</button>
  </div>`;
}
