// Users: what each has in use, and what each may.

import { html, useState } from "../vendor/htm-preact.js";
import { pathOf, useAsked, withQuery } from "../api.js";
import { bytes, count } from "../format.js";
import { Asked, Choice, Empty, More, Name, Sentence, Table, byName } from "../parts.js";
import { href, replaceQuery } from "../route.js";
import { SameByHand, behindDashes } from "../actions.js";

const PAGE = 100;
const RIGHTS = ["read", "write", "declare", "see", "admin"];
const OF_BROKER = "admin"; // the only right that is not on a destination

export default function Users({ query }) {
  const asked = useAsked(withQuery("/v1/users", { after: query.get("after"), limit: PAGE }), 5000, true);
  const use = (used, most, how) => (most === null ? how(used) : `${how(used)} of ${how(most)}`);
  const columns = [
    { key: "name", title: "User", cell: ([name]) => html`<${Name} of=${name} />` },
    { key: "connections", title: "Connections", right: true, cell: ([name, row]) => html`<a href=${href(["connections"], { user: name })}>${use(row.connections, row.max_connections, count)}</a>` },
    { key: "subscriptions", title: "Subscriptions", right: true, wide: true, cell: ([, row]) => use(row.subscriptions, row.max_subscriptions, count) },
    { key: "destinations", title: "Destinations", right: true, wide: true, cell: ([, row]) => use(row.destinations, row.max_destinations, count) },
    { key: "unacked", title: "Unacked", right: true, cell: ([, row]) => use(row.unacked_bytes, row.max_unacked_bytes, bytes) },
    { key: "memory", title: "Memory", right: true, wide: true, cell: ([, row]) => use(row.memory_bytes, row.max_memory_bytes, bytes) },
    { key: "stored", title: "Stored", right: true, wide: true, cell: ([, row]) => use(row.stored_bytes, row.max_stored_bytes, bytes) },
    { key: "blocked", title: "Waits", right: true, cell: ([, row]) => count(row.blocked) },
  ];
  return html`
    <h1>Users</h1>
    <${May} query=${query} />
    <h2>In use</h2>
    <${Asked} of=${asked} empty=${(answer) => (Object.keys(answer.users).length ? undefined : html`<${Empty}>No user has anything in use. Without a [user."NAME"] in config.toml, everybody who can reach the broker may do everything; docs/SECURITY.md says how to have users.</${Empty}>`)}>${(answer) => html`
      <${Table} label="Users" columns=${columns} rows=${byName(answer.users)} keyOf=${([name]) => name} />
      ${Object.keys(answer.users).length === PAGE && html`<${More} after=${byName(answer.users).at(-1)[0]} />`}`}</${Asked}>`;
}

// "May X write Y?"
function May({ query }) {
  const [values, setValues] = useState({ user: query.get("user") ?? "", right: query.get("right") ?? "write", destination: query.get("destination") ?? "" });
  const given = { user: query.get("user"), right: query.get("right") ?? "write", destination: query.get("destination") };
  const on = given.right === OF_BROKER ? [] : [given.destination];
  const isWhole = given.user && on.every(Boolean);
  const call = isWhole ? withQuery(pathOf("users", given.user, "may"), { right: given.right, destination: on[0] }) : null;
  const asked = useAsked(call, 0);
  const set = (name) => (event) => setValues({ ...values, [name]: event.target.value });
  const ask = (event) => {
    event.preventDefault();
    const before = location.hash;
    replaceQuery(values);
    if (location.hash === before) asked.again();
  };
  return html`<section class="card" aria-label="May a user do that?">
    <h2>May a user do that?</h2>
    <form class="bar" onSubmit=${ask}>
      <label>User <input value=${values.user} onInput=${set("user")} required autocomplete="off" /></label>
      <label>Right <${Choice} of=${RIGHTS} value=${values.right} set=${(right) => setValues({ ...values, right })} /></label>
      ${values.right === OF_BROKER ? "of the broker as a whole" : html`<label>On <input value=${values.destination} onInput=${set("destination")} required placeholder="/queue/orders" autocomplete="off" /></label>`}
      <button class="primary">Ask</button>
    </form>
    ${call && html`<${Asked} of=${asked}>${(answer) => html`<p><span class=${`verdict ${answer.allowed ? "good" : "needs"}`}>${answer.allowed ? "yes" : "no"}</span> <${Sentence} of=${answer.sentence} /></p>`}</${Asked}>
      <${SameByHand} clis=${[["may", ...behindDashes(given.user, given.right, ...on)]]} calls=${[{ method: "GET", path: call }]} />`}
  </section>`;
}
