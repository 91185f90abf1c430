// One connection: who it is, what it is subscribed to, and what it waits for.

import { html } from "../vendor/htm-preact.js";
import { pathOf, useAsked } from "../api.js";
import { Act } from "../actions.js";
import { bytes, count, duration, many, seen } from "../format.js";
import { Address, Asked, Empty, Facts, Name, Sentence, Table, To } from "../parts.js";
import { go } from "../route.js";
import { disconnect } from "./connections.js";

const CHANNELS_SHOWN = 200;

export default function Connection({ path }) {
  const [number] = path;
  const asked = useAsked(pathOf("connections", number), 2000);
  const columns = [
    { key: "id", title: "Subscription", cell: (row) => html`<${Name} of=${row.id} />` },
    { key: "destination", title: "Destination", cell: (row) => html`<${Address} of=${row.destination} />` },
    { key: "ack", title: "Ack", wide: true, cell: (row) => seen(row.ack) },
    { key: "consumer", title: "Consumer", wide: true, cell: (row) => (row.consumer ? html`<${Name} of=${row.consumer} />` : "–") },
    { key: "unacked", title: "Unacked", right: true, cell: (row) => count(row.unacked) },
    { key: "window", title: "Window", right: true, cell: (row) => (row.window === null ? "no bound" : count(row.window)) },
    { key: "stands", title: "State", cell: (row) => (row.stands ? html`<span class=${`verdict ${row.stands === "has-room" ? "good" : "busy"}`}>${seen(row.stands)}</span>` : "–") },
  ];
  return html`
    <h1>Connection ${seen(number)}</h1>
    <${Asked} of=${asked}>${(answer) => html`
      ${answer.blocked && html`<p class="trouble"><${Sentence} of=${answer.blocked} /></p>`}
      <section class="card"><${Facts} rows=${[
        ["User", html`<${Name} of=${answer.user} />`],
        ["Recognised by", seen(answer.recognised_by)],
        ["From", html`<${Name} of=${answer.address} />`],
        ["Protocol", seen(answer.protocol)],
        answer.channel_of !== null && ["Channel of", html`<${Connected} to=${answer.channel_of} />`],
        ["TLS", answer.tls ? seen(answer.tls) : "none"],
        ["Client", answer.client ? seen(answer.client) : "has not named itself"],
        ["Connected for", duration(answer.age_ms)],
        ["Unacked", count(answer.unacked)],
        ["Not read yet", bytes(answer.outbox_bytes)],
        ["Open transactions", count(answer.transactions)],
        ["Memory", bytes(answer.memory_bytes)],
      ]} /></section>
      <div class="bar"><${Act} ...${disconnect(number, () => go(["connections"]))} /></div>
      ${answer.channel_list.length > 0 && html`<h2>Channels</h2>
        <p>${answer.channel_list.slice(0, CHANNELS_SHOWN).map((one) => html`<${Connected} to=${one} /> `)}</p>
        ${answer.channels > CHANNELS_SHOWN && html`<p class="muted">These are the first ${CHANNELS_SHOWN} of ${many(answer.channels, "channel")}.</p>`}`}
      <h2>Subscriptions</h2>
      ${answer.subscription_list.length ? html`<${Table} label="Subscriptions" columns=${columns} rows=${answer.subscription_list} keyOf=${(row, nth) => nth} />` : html`<${Empty}>It has no subscription.</${Empty}>`}
      ${answer.subscriptions > answer.subscription_list.length && html`<p class="muted">These are the first ${answer.subscription_list.length} of ${many(answer.subscriptions, "subscription")}.</p>`}`}</${Asked}>
    <p><${To} path=${["connections"]}>All connections</${To}></p>`;
}

function Connected({ to }) {
  return html`<${To} path=${["connections", String(to)]}>connection ${to}</${To}>`;
}
