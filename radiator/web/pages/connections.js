// Who is connected, and what each connection waits for.

import { html } from "../vendor/htm-preact.js";
import { pathOf, useAsked, withQuery } from "../api.js";
import { Act } from "../actions.js";
import { bytes, count, duration, many, seen } from "../format.js";
import { Asked, Empty, Filter, More, Name, Table, To } from "../parts.js";

const PAGE = 100;

export default function Connections({ query }) {
  const path = withQuery("/v1/connections", { user: query.get("user"), after: query.get("after"), limit: PAGE });
  const asked = useAsked(path, 2000, true);
  const columns = [
    { key: "number", title: "Number", right: true, cell: (row) => html`<${To} path=${["connections", String(row.number)]}>${row.number}</${To}>` },
    { key: "user", title: "User", cell: (row) => html`<${Name} of=${row.user} />` },
    { key: "address", title: "From", wide: true, cell: (row) => html`<${Name} of=${row.address} />` },
    { key: "protocol", title: "Protocol", wide: true, cell: (row) => `${seen(row.protocol)}${row.channel_of === null ? "" : ` of ${row.channel_of}`}${row.tls ? `, ${seen(row.tls)}` : ""}` },
    { key: "client", title: "Client", wide: true, cell: (row) => (row.client ? html`<span class="clip" title=${row.client}>${seen(row.client)}</span>` : "–") },
    { key: "age", title: "For", right: true, cell: (row) => duration(row.age_ms) },
    { key: "subscriptions", title: "Subscriptions", right: true, wide: true, cell: (row) => count(row.subscriptions) },
    { key: "unacked", title: "Unacked", right: true, cell: (row) => count(row.unacked) },
    { key: "outbox", title: "Not read yet", right: true, wide: true, cell: (row) => bytes(row.outbox_bytes) },
    { key: "blocked", title: "Waits for", cell: (row) => (row.blocked ? html`<span class="verdict needs">blocked</span> ${seen(row.blocked)}` : "") },
    { key: "act", title: html`<span class="unseen">Acts</span>`, cell: (row) => html`<${Act} ...${disconnect(row.number, () => asked.again())} />` },
  ];
  return html`
    <h1>Connections</h1>
    <div class="bar"><${Filter} query=${query} name="user" label="Only this user's" placeholder="User" /></div>
    <${Asked} of=${asked} empty=${(answer) => (answer.connections.length ? undefined : html`<${Empty}>${query.get("user") ? "That user has no connection." : "There are no more connections."}</${Empty}>`)}>${(answer) => html`
      <${Table} label="Connections" columns=${columns} rows=${answer.connections} keyOf=${(row) => row.number} />
      ${answer.connections.length === PAGE && html`<${More} after=${String(answer.connections.at(-1).number)} />`}
      <p class="muted">${many(answer.count, "connection")} in all.</p>`}</${Asked}>`;
}

export function disconnect(number, done) {
  return {
    label: "Close…",
    title: `Close connection ${number}`,
    isDangerous: true,
    done,
    make: () => ({ cli: ["disconnect", String(number)], call: { method: "DELETE", path: pathOf("connections", String(number)) } }),
    said: () => `Connection ${number} is closed.`,
    children: html`<p>The client is told who closed the connection, and may connect again at once. The connection's channels are closed with it; an AMQP channel is closed alone. Its unacked messages go back to their queues, as when a connection is lost.</p>`,
  };
}
