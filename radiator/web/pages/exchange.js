// One exchange, with its bindings and where a key leads; or one fanout, with its children.

import { html, useState } from "../vendor/htm-preact.js";
import { Act, behindDashes, refuse } from "../actions.js";
import { pathOf, useAsked, withQuery } from "../api.js";
import { count, many } from "../format.js";
import { Asked, Empty, Facts, Filter, Name, Pages, QueueLink, Table, Target } from "../parts.js";
import { Publish } from "../publish.js";
import { go, replaceQuery } from "../route.js";

const ROWS = 100;

export default function Page({ path: [kind, name], query }) {
  if (kind === "exchange" && name) return html`<${Exchange} name=${name} query=${query} />`;
  if (kind === "fanout" && name) return html`<${Fanout} name=${name} query=${query} />`;
  return html`<h1>There is no such page</h1><p>Its address would be #/exchanges/exchange/NAME or #/exchanges/fanout/NAME. <a href="#/exchanges">All exchanges and fanouts</a></p>`;
}

const firstOf = (query) => Number(query.get("first") ?? 0) || 0;

function Exchange({ name, query }) {
  const asked = useAsked(pathOf("exchanges", name), 3000);
  const key = { name: "key", label: "Key", value: query.get("key") ?? "" };
  const to = (values) => ({
    address: values.key ? `/exchange/${name}/${values.key}` : `/exchange/${name}`,
    path: withQuery(pathOf("exchanges", name, "messages"), { key: values.key }),
  });
  return html`<h1>Exchange <${Name} of=${name} /></h1>
    <${Asked} of=${asked}>${(one) => html`
      <section class="card"><${Facts} rows=${[
        ["Type", one.type],
        ["Accepted", count(one.accepted)],
        ["Unrouted", count(one.unrouted)],
        ["Bindings", count(one.bindings_count)],
        ["Survives a restart", one.durable ? "yes" : "no"],
        ["Deleted with its last binding", one.auto_delete ? "yes" : "no"],
        ...(one.alternate ? [["What it routes nowhere goes to", html`<${Target} of=${`/exchange/${one.alternate}`} />`]] : []),
        ...(one.internal ? [["Clients may send to it", "no"]] : []),
        one.alternate && ["What it routes nowhere goes to", html`<${Target} of=${`/exchange/${one.alternate}`} />`],
        one.internal && ["It gets messages only from other exchanges, and dead letters", "yes"],
      ]} />
        <div class="bar"><${Publish} to=${to} fields=${[key]} done=${asked.again}><p>The message goes into each queue whose binding matches the key. If none does, it goes nowhere.</p></${Publish}>
          <${Bind} name=${name} type=${one.type} done=${asked.again} /><${Delete} kind="exchange" name=${name} /></div></section>
      <${Route} name=${name} query=${query} />
      <${Bindings} name=${name} of=${one} query=${query} done=${asked.again} />`}</${Asked}>`;
}

// ---- where a key goes

function Route({ name, query }) {
  const [key, setKey] = useState(query.get("key") ?? "");
  const isAsked = query.has("key") || query.has("ask");
  const asked = useAsked(isAsked ? `${pathOf("exchanges", name, "route")}?key=${encodeURIComponent(query.get("key") ?? "")}` : null, 5000);
  const ask = (event) => {
    event.preventDefault();
    replaceQuery({ key, ask: key ? "" : "1" }); // an empty key is not in the address
  };
  const columns = [
    { key: "destination", title: "Goes to", cell: ({ destination }) => html`<${Target} of=${destination} />` },
    { key: "key", title: "By the binding", cell: (one) => html`<${Name} of=${one.key || "(empty)"} />` },
    { key: "through", title: "Through", wide: true, cell: ({ through }) => through.map((one) => html`<${Target} key=${one} of=${one} /> `) },
  ];
  return html`<section class="card part" aria-label="Where a key goes"><h2>Where would this key go?</h2>
    <form class="bar" onSubmit=${ask}><label>Key <input value=${key} maxlength="255" onInput=${(event) => setKey(event.target.value)} autocomplete="off" spellcheck=${false} /></label>
      <button>Ask</button> <span class="muted">Nothing is sent.</span></form>
    ${isAsked && html`<${Asked} of=${asked}>${({ targets, count: all, sentence }) => html`<p><${Name} of=${sentence} /></p>
      ${targets.length > 0 && html`<${Table} label="Targets" columns=${columns} rows=${targets.slice(0, ROWS)} keyOf=${(one, nth) => nth} />`}
      ${all > Math.min(ROWS, targets.length) && html`<p class="muted">${`The first ${Math.min(ROWS, targets.length)} of ${count(all)}.`}</p>`}`}</${Asked}>`}
  </section>`;
}

// ---- bindings

function Bindings({ name, of, query, done }) {
  const text = (query.get("text") ?? "").toLowerCase();
  const rows = of.bindings.filter((one) => one.key.toLowerCase().includes(text) || one.queue.toLowerCase().includes(text));
  const first = firstOf(query);
  const columns = [
    { key: "key", title: "Key", cell: ({ key }) => html`<${Name} of=${key || "(empty)"} />` },
    { key: "queue", title: "Goes to", cell: ({ queue }) => html`<${Target} of=${queue} />` },
    { key: "unbind", title: html`<span class="unseen">Acts</span>`, right: true, cell: (one) => html`<${Unbind} name=${name} of=${one} done=${done} />` },
  ];
  return html`<section class="part" aria-label="Bindings"><h2>Bindings</h2>
    ${of.bindings_count === 0 && html`<${Empty}>Nothing is bound to it, so messages sent to it go nowhere.</${Empty}>`}
    ${of.bindings_count > 0 && html`<div class="bar"><${Filter} query=${query} label="Filter by key or queue" /></div>
      <${Table} label="Bindings" columns=${columns} rows=${rows.slice(first, first + ROWS)} keyOf=${(one) => JSON.stringify([one.key, one.queue])} />
      <${Pages} first=${first} size=${ROWS} all=${rows.length} />`}
    ${of.bindings_count > of.bindings.length && html`<p class="muted">${`These are the first ${count(of.bindings.length)} of ${count(of.bindings_count)}: the broker does not list more.`}</p>`}
  </section>`;
}

const HINTS = { direct: "Exactly the same key.", topic: "Words between dots; * is one word, # any number.", fanout: "The key does not matter: any key matches.", headers: 'Arguments as JSON, such as {"format":"pdf","x-match":"all"}.' };
const wordOf = (queue) => (queue.startsWith("/") ? queue : `/queue/${queue}`);

function Bind({ name, type, done }) {
  const fields = [
    { name: "key", label: "Key", hint: HINTS[type] },
    { name: "queue", label: "Queue", required: true, hint: "A queue that exists, a log as /log/NAME, or an exchange as /exchange/NAME." },
  ];
  const make = ({ key, queue }) => {
    if (!queue) refuse("Name a queue.");
    return {
      cli: ["bind", ...behindDashes(`/exchange/${name}`, key, wordOf(queue))],
      call: { method: "POST", path: pathOf("exchanges", name, "bindings"), body: { key, queue } },
    };
  };
  const said = ({ created }) => (created ? "It is bound." : "It was bound already.");
  return html`<${Act} label="Bind…" title="Bind a queue, a log or an exchange" fields=${fields} make=${make} said=${said} done=${done}>
    <p>From now on, messages that are sent to this exchange with a matching key go there too.</p></${Act}>`;
}

function Unbind({ name, of: { key, queue }, done }) {
  const make = () => ({
    cli: ["unbind", ...behindDashes(`/exchange/${name}`, key, wordOf(queue))],
    call: { method: "DELETE", path: `${pathOf("exchanges", name, "bindings")}?${new URLSearchParams({ key, queue })}` },
  });
  return html`<${Act} label="Unbind…" title="Remove this binding" isDangerous make=${make} said=${({ deleted }) => `${many(deleted, "binding")} removed.`} done=${done}>
    <p>What is sent with the key <b><${Name} of=${key || "(empty)"} /></b> no longer goes to <b><${Name} of=${queue} /></b> by this binding. Messages that are in the queue stay. The broker refuses this for a binding of config.toml.</p></${Act}>`;
}

// ---- a fanout

function Fanout({ name, query }) {
  const asked = useAsked(pathOf("fanouts", name), 3000);
  const to = () => ({ address: `/fanout/${name}`, path: pathOf("fanouts", name, "messages") });
  const first = firstOf(query);
  const columns = [{ key: "name", title: "Copies go to", cell: (one) => html`<${Target} of=${one} />` }];
  return html`<h1>Fanout <${Name} of=${name} /></h1>
    <${Asked} of=${asked}>${({ children, outboxes, accepted }) => html`
      <section class="card"><${Facts} rows=${[["Accepted", count(accepted)], ["Children", count(children.length)], ["Outboxes", count(outboxes.length)]]} />
        <div class="bar"><${Publish} to=${to} done=${asked.again}><p>Each child of the fanout gets a copy.</p></${Publish}><${Delete} kind="fanout" name=${name} /></div></section>
      <section class="part" aria-label="Children"><h2>Children</h2>
        <${Table} label="Children" columns=${columns} rows=${children.slice(first, first + ROWS)} keyOf=${(one) => one} />
        <${Pages} first=${first} size=${ROWS} all=${children.length} /></section>
      <section class="part" aria-label="Outboxes"><h2>Outboxes</h2>
        ${outboxes.length === 0 && html`<${Empty}>No other node gets copies.</${Empty}>`}
        ${outboxes.length > 0 && html`<p>Copies wait here for other nodes.</p><ul class="plain">${outboxes.slice(0, ROWS).map((one) => html`<li key=${one}><${QueueLink} name=${one} /></li>`)}</ul>`}</section>`}</${Asked}>`;
}

// ---- the end of one

function Delete({ kind, name }) {
  const make = () => ({ cli: ["delete", `/${kind}/${name}`], call: { method: "DELETE", path: pathOf(`${kind}s`, name) } });
  const said = () => {
    go(["exchanges"], { tab: kind === "fanout" ? "fanouts" : "" });
    return `The ${kind} is deleted.`;
  };
  return html`<${Act} label="Delete…" title=${`Delete this ${kind}`} isDangerous typed=${name} make=${make} said=${said}>
    <p>${kind === "exchange" ? "Its bindings are deleted with it; the queues stay." : "Its children stay, with their messages."} The broker refuses this where config.toml declares it.</p></${Act}>`;
}
