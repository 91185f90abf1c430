// All exchanges and fanouts: what is sent to them, and how many lead on.

import { html } from "../vendor/htm-preact.js";
import { Act, refuse } from "../actions.js";
import { pathOf, useAsked, withQuery } from "../api.js";
import { count } from "../format.js";
import { Asked, Empty, Filter, More, Name, Table, Tabs, Target, To, byName } from "../parts.js";

const ROWS = 100;
const CHILDREN = 5; // of a row
const TABS = [["exchanges", "Exchanges"], ["fanouts", "Fanouts"]];

export default function Exchanges({ query }) {
  const tab = query.get("tab") === "fanouts" ? "fanouts" : "exchanges";
  const [match, after] = [query.get("match"), query.get("after")];
  const asked = useAsked(withQuery(`/v1/${tab}`, { match, after, limit: ROWS }), 3000);
  const [Rows, Declare] = tab === "fanouts" ? [FanoutRows, DeclareFanout] : [ExchangeRows, DeclareExchange];
  const empty = (answer) => (Object.keys(answer[tab]).length ? undefined : html`<${Nothing} tab=${tab} isFiltered=${match || after} />`);
  return html`<h1>Exchanges and fanouts</h1>
    <${Tabs} tabs=${TABS} current=${tab} path=${["exchanges"]} />
    <div class="bar"><${Filter} query=${query} name="match" label="A pattern of names: news.* is one more word, news.# any number" placeholder="Names like news.#" />
      <span class="grow"></span><${Declare} done=${asked.again} /></div>
    <${Asked} of=${asked} empty=${empty}>${(answer) => html`<${Rows} rows=${byName(answer[tab])} />`}</${Asked}>`;
}

function Nothing({ tab, isFiltered }) {
  if (isFiltered) return html`<${Empty}>${`No ${tab} match, or there are no more. `}<${To} path=${["exchanges"]} query=${{ tab: tab === "fanouts" ? tab : "" }}>All ${tab}</${To}></${Empty}>`;
  return html`<${Empty}>${tab === "fanouts" ? "No fanout yet. A fanout puts a copy of each message into all of its queues and logs." : "No exchange that you may see."}</${Empty}>`;
}

function ExchangeRows({ rows }) {
  const columns = [
    { key: "name", title: "Name", cell: ([name]) => html`<${To} path=${["exchanges", "exchange", name]}><${Name} of=${name} /></${To}>` },
    { key: "type", title: "Type", cell: ([, one]) => one.type },
    { key: "bindings", title: "Bindings", right: true, wide: true, cell: ([, one]) => count(one.bindings) },
    { key: "accepted", title: "Accepted", right: true, cell: ([, one]) => count(one.accepted) },
    { key: "unrouted", title: "Unrouted", right: true, cell: ([, one]) => count(one.unrouted) },
    { key: "durable", title: "Survives a restart", wide: true, cell: ([, one]) => (one.durable ? "yes" : "no") },
    { key: "auto", title: "Deleted with its last binding", wide: true, cell: ([, one]) => (one.auto_delete ? "yes" : "no") },
  ];
  return html`<${Table} label="Exchanges" columns=${columns} rows=${rows} keyOf=${([name]) => name} /><${Next} rows=${rows} />`;
}

function FanoutRows({ rows }) {
  const columns = [
    { key: "name", title: "Name", cell: ([name]) => html`<${To} path=${["exchanges", "fanout", name]}><${Name} of=${name} /></${To}>` },
    { key: "children", title: "Copies go to", cell: ([, { children }]) => html`<${Children} of=${children} />` },
    { key: "accepted", title: "Accepted", right: true, cell: ([, one]) => count(one.accepted) },
  ];
  return html`<${Table} label="Fanouts" columns=${columns} rows=${rows} keyOf=${([name]) => name} /><${Next} rows=${rows} />`;
}

function Children({ of }) {
  return html`<ul class="plain">${of.slice(0, CHILDREN).map((one) => html`<li key=${one}><${Target} of=${one} /></li>`)}
    ${of.length > CHILDREN && html`<li class="muted">${`and ${count(of.length - CHILDREN)} more`}</li>`}</ul>`;
}

function Next({ rows }) {
  return rows.length === ROWS ? html`<${More} after=${rows[ROWS - 1][0]} />` : null;
}

// ---- declaring

const said = (kind) => ({ created, warnings = [] }) => [created ? `The ${kind} is declared.` : `The ${kind} was there already, with these settings.`, ...warnings].join(" ");

function DeclareExchange({ done }) {
  const fields = [
    { name: "name", label: "Name", required: true },
    { name: "type", label: "Type", type: "select", value: "direct", options: [["direct", "direct: exactly the same key"], ["topic", "topic: keys with * and # for words"], ["fanout", "fanout: any key"], ["headers", "headers: headers of the message"]] },
    { name: "durable", label: "It survives a restart, as do its bindings to persistent queues", type: "checkbox", value: true },
    { name: "auto_delete", label: "Delete it with its last binding", type: "checkbox", value: false },
  ];
  const make = ({ name, ...settings }) => {
    if (!name) refuse("An exchange needs a name.");
    const options = Object.entries(settings).map(([key, value]) => `--${key.replace("_", "-")}=${value}`);
    return { cli: ["declare", "exchange", `/exchange/${name}`, ...options], call: { method: "PUT", path: pathOf("exchanges", name), body: settings } };
  };
  return html`<${Act} label="Declare an exchange…" title="Declare an exchange" fields=${fields} make=${make} said=${said("exchange")} done=${done}>
    <p>A message that is sent to /exchange/NAME/KEY goes into each queue that is bound with a matching key.</p></${Act}>`;
}

function DeclareFanout({ done }) {
  const fields = [
    { name: "name", label: "Name", required: true },
    { name: "children", label: "Copies go to", type: "textarea", rows: 4, hint: "Queues, one a line; a log as /log/NAME." },
    { name: "create", label: "Create the queues that do not exist", type: "checkbox", value: false },
  ];
  const make = ({ name, children: text, create }) => {
    const children = text.split("\n").map((one) => one.trim()).filter(Boolean);
    if (!name) refuse("A fanout needs a name.");
    if (!children.length) refuse("A fanout leads to at least one queue or log.");
    const targets = children.map((one) => (one.startsWith("/") ? one : `/queue/${one}`));
    return {
      cli: ["declare", "fanout", `/fanout/${name}`, ...targets, ...(create ? ["--create"] : [])],
      call: { method: "PUT", path: `${pathOf("fanouts", name)}?create=${create}`, body: { children } },
    };
  };
  return html`<${Act} label="Declare a fanout…" title="Declare a fanout" fields=${fields} make=${make} said=${said("fanout")} done=${done}>
    <p>Each of them gets a copy of every message that is sent to it, in one transaction.</p></${Act}>`;
}
