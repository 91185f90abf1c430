// The nodes that this one is linked to, and what waits for them.

import { html } from "../vendor/htm-preact.js";
import { pathOf, useAsked } from "../api.js";
import { Act } from "../actions.js";
import { bytes, count, duration, many, seen } from "../format.js";
import { Asked, Code, Empty, Name, Pages, QueueLink, State, Table } from "../parts.js";

const SHOWN = 100; // rows of a table
const DRAWN = 24; // nodes of a ring of the map
const NODE = `[node]
name = "a"
listen = "peers://10.0.0.1:61614"
secret_file = "cluster.secret"          # head -c 32 /dev/urandom | base64 > cluster.secret; chmod 600 cluster.secret
[peer."b"]
address = "peers://10.0.0.2:61614"

[tls]
certificate = "a.pem"
key = "a.key"
peer_ca = "ca.pem"

[queue."work"]
scope = "cluster"                       # at every node`;

const FEELS = { up: "good", handshake: "busy", refused: "needs", down: "needs" };
const feels = (peer) => FEELS[peer.state] ?? "needs";

export default function Nodes({ query }) {
  const asked = useAsked("/v1/peers", 2000);
  return html`<h1>Nodes</h1>
    ${asked.problem?.code === "no-node" ? html`<${Alone} of=${asked.problem} />` : html`
      <${Asked} of=${asked}>${(answer) => html`<${Known} of=${answer} first=${Number(query.get("first") ?? 0)} again=${asked.again} />`}</${Asked}>`}`;
}

function Alone({ of }) {
  return html`<${Empty}>${seen(of.message)} Linked with other nodes it hands messages to their consumers. For that, config.toml names this node and its peers; then restart it. <code>docs/CLUSTER.md</code> has the rest.</${Empty}>
    <${Code} label="Into config.toml" text=${NODE} />`;
}

function Known({ of, first, again }) {
  const { node, peers, nodes } = of;
  const far = nodes.filter((one) => one.hops > 1).sort((one, other) => one.hops - other.hops || (one.name < other.name ? -1 : 1));
  const page = peers.slice(first, first + SHOWN);
  return html`
    ${node ? html`<${Here} of=${of} again=${again} />` : html`<p>The configuration of this broker no longer has a [node]. This is what the broker still keeps for other nodes.</p>`}
    ${peers.length > 0 && html`<${Picture} of=${of} far=${far} />`}
    ${!peers.length && html`<${Empty}>This node has no peers: the configuration names none, and no node is linked.</${Empty}>`}
    ${peers.length > 0 && html`<section class="part"><h2>${many(peers.length, "link")}</h2>
      <${Sentences} of=${page} />
      <${Table} label="Links" columns=${LINKS(again)} rows=${page} keyOf=${(one) => one.name} />
      <${Pages} first=${first} size=${SHOWN} all=${peers.length} /></section>`}
    ${far.length > 0 && html`<section class="part"><h2>Reached through others</h2>
      <${Table} label="Reached through others" columns=${FAR} rows=${far.slice(0, SHOWN)} keyOf=${(one) => one.name} />
      ${far.length > SHOWN && html`<p class="muted">${`and ${count(far.length - SHOWN)} more`}</p>`}</section>`}`;
}

// ---- this node

function Here({ of, again }) {
  const { node, draining } = of;
  return html`<div class="bar"><span>This is node <b><${Name} of=${node} /></b>${draining ? html` <${State} feels="busy">draining</${State}>` : ""}</span>
    ${draining ? html`<${StopDrain} node=${node} again=${again} />` : html`<${Drain} node=${node} again=${again} />`}</div>`;
}

const left = ({ left, stays }) => `${many(left, "message")} ${left === 1 ? "is" : "are"} still to be handed over, ${many(stays, "message")} ${stays === 1 ? "stays" : "stay"} on its disk`;

function Drain({ node, again }) {
  return html`<${Act} label="Drain…" title=${`Drain node ${seen(node)}`} isDangerous typed=${node} done=${again}
    make=${() => ({ cli: ["drain"], call: { method: "POST", path: "/v1/drain", body: {} } })}
    said=${(answer) => `Draining: ${left(answer)}.`}>
    <p>This node hands its messages of queues of scope cluster, and the copies in its outboxes, to the other nodes, and takes none from them. Messages of other queues stay on its disk. Clients may still send to it: point them elsewhere first. “Stop draining” ends this, and so does a restart.</p>
  </${Act}>`;
}

function StopDrain({ node, again }) {
  return html`
    <${Act} label="How far…" title=${`How far the drain of ${seen(node)} is`} done=${again}
      make=${() => ({ cli: ["drain"], call: { method: "POST", path: "/v1/drain", body: {} } })}
      said=${(answer) => (answer.left ? `${left(answer)}.` : `Nothing is left to hand over: this node may be stopped. ${many(answer.stays, "message")} of other queues ${answer.stays === 1 ? "stays" : "stay"}.`)}>
      <p>The drain goes on, and the answer says how many messages are left.</p>
    </${Act}>
    <${Act} label="Stop draining…" title=${`Stop draining node ${seen(node)}`} done=${again}
      make=${() => ({ cli: ["drain", "--stop"], call: { method: "POST", path: "/v1/drain", body: { stop: true } } })}
      said=${(answer) => `The drain is stopped: ${many(answer.left, "message")} of queues of scope cluster ${answer.left === 1 ? "stays" : "stay"} here.`}>
      <p>This node keeps the messages that it still has, and takes messages from other nodes again.</p>
    </${Act}>`;
}

// ---- the map

const WIDE = 520;
const HIGH = 330;

// This node in the middle, those that it is linked to around it, and outside those that are reached through them.
function Picture({ of, far }) {
  const near = of.peers.slice(0, DRAWN).map((one, nth, all) => placed(one, 0.5, nth / all.length));
  const byName = Object.fromEntries(near.map((one) => [one.name, one]));
  const outer = Object.entries(Object.groupBy(far.slice(0, DRAWN), (one) => one.via)).flatMap(([via, all]) =>
    all.map((one, nth) => placed(one, 0.95, (byName[via]?.part ?? 0) + (nth - (all.length - 1) / 2) / Math.max(12, far.length))));
  const isFlat = near.length <= 2 && outer.length <= 2; // all stand beside each other
  const hidden = of.peers.length + far.length - near.length - outer.length;
  const words = near.map((one) => `${one.name}: ${one.state}`).join(", ");
  return html`<figure class="card map">
    <svg viewBox=${isFlat ? `0 ${HIGH / 2 - 40} ${WIDE} 110` : `0 0 ${WIDE} ${HIGH + 30}`} role="img" aria-label=${seen(`Links of ${of.node || "this broker"}: ${words}`)}>
      ${outer.map((one) => byName[one.via] && html`<line key=${one.name} class="far" x1=${byName[one.via].x} y1=${byName[one.via].y} x2=${one.x} y2=${one.y} />`)}
      ${near.map((one) => html`<line key=${one.name} class=${feels(one)} x1=${WIDE / 2} y1=${HIGH / 2} x2=${one.x} y2=${one.y} />`)}
      ${outer.map((one) => html`<${Spot} key=${one.name} at=${one} kind="far" title=${one.name} note=${`${one.hops} links`} />`)}
      ${near.map((one) => html`<${Spot} key=${one.name} at=${one} kind=${feels(one)} title=${one.name} note=${one.state} more=${waiting(one)} />`)}
      <${Spot} at=${{ x: WIDE / 2, y: HIGH / 2 }} kind="here" title=${of.node || "here"} note=${of.draining ? "draining" : "this node"} />
    </svg>
    ${hidden > 0 && html`<figcaption class="muted">${`${many(hidden, "node")} more ${hidden === 1 ? "is" : "are"} in the tables.`}</figcaption>`}
  </figure>`;
}

// out: how far from the middle, 0 to 1; part: of a turn, from the right
function placed(node, out, part) {
  const angle = 2 * Math.PI * part;
  return { ...node, part, x: (WIDE / 2) * (1 + 0.9 * out * Math.cos(angle)), y: (HIGH / 2) * (1 + 0.85 * out * Math.sin(angle)) };
}

function waiting(peer) {
  const inTransfer = peer.in_doubt + peer.outbox;
  const lag = peer.lag_ms ? `lag ${duration(peer.lag_ms)}` : "";
  return [lag, inTransfer ? `${count(inTransfer)} waiting` : ""].filter(Boolean).join(", ");
}

function Spot({ at, kind, title, note, more }) {
  const text = seen(title);
  return html`<g class=${`spot ${kind}`}><title>${`${text}: ${[note, more].filter(Boolean).join(", ")}`}</title>
    <circle cx=${at.x} cy=${at.y} r="22" />
    <text class="node" x=${at.x} y=${at.y + 4}>${text.length > 6 ? `${text.slice(0, 5)}…` : text}</text>
    <text class="note" x=${at.x} y=${at.y + 37}>${note}</text>
    ${more && html`<text class="note" x=${at.x} y=${at.y + 51}>${more}</text>`}
  </g>`;
}

// ---- links

// what has no column: why a link is not up, what is declared otherwise, whose copies are not kept
function Sentences({ of }) {
  const rows = of.flatMap((peer) => [
    ...(peer.cause ? [[peer.name, peer.cause]] : []),
    ...(peer.copies_kept ? [] : [[peer.name, `No copies are kept for it until it is linked (${many(peer.outbox_dropped, "copy", "copies")} dropped).`]]),
    ...(peer.outbox_blocked ? [[peer.name, `Its outbox is full, and ${many(peer.outbox_blocked, "producer waits", "producers wait")}.`]] : []),
    ...Object.entries(peer.declared_otherwise).sort().map(([, sentence]) => [peer.name, sentence]),
  ]);
  if (!rows.length) return null;
  return html`<div class="card"><ul class="needs">${rows.slice(0, SHOWN).map(([name, sentence], nth) => html`<li key=${nth}><span class="place"><${Name} of=${name} /></span><span>${seen(sentence)}</span></li>`)}</ul></div>`;
}

const LINKS = (again) => [
  { key: "name", title: "Node", cell: (one) => html`<${Name} of=${one.name} />${one.address && html`<br /><small class="muted wide">${seen(one.address)}</small>`}` },
  { key: "state", title: "State", cell: (one) => html`<${State} feels=${feels(one)}>${seen(one.state)}</${State}>` },
  { key: "since", title: "Since", right: true, wide: true, cell: (one) => duration(one.since_s * 1000) },
  { key: "lag", title: "Lag", right: true, wide: true, cell: (one) => (one.lag_ms ? duration(one.lag_ms) : "–") },
  { key: "doubt", title: "In doubt", right: true, cell: (one) => count(one.in_doubt) },
  { key: "outbox", title: "Outbox", right: true, wide: true, cell: outbox },
  { key: "handed", title: "Handed over", right: true, wide: true, cell: (one) => count(one.handed_over) },
  { key: "taken", title: "Taken in", right: true, wide: true, cell: (one) => count(one.taken_in) },
  { key: "acts", title: html`<span class="unseen">Acts</span>`, cell: (one) => html`<${Acts} of=${one} again=${again} />` },
];

function outbox(peer) {
  if (peer.outbox_max_bytes === null) return count(peer.outbox);
  return html`<${QueueLink} name=${`$outbox/${peer.name}`} label=${count(peer.outbox)} /><br /><small class="muted">${`${bytes(peer.outbox_bytes)} of ${bytes(peer.outbox_max_bytes)}`}</small>`;
}

const FAR = [
  { key: "name", title: "Node", cell: (one) => html`<${Name} of=${one.name} />` },
  { key: "hops", title: "Links away", right: true, cell: (one) => count(one.hops) },
  { key: "via", title: "Via", cell: (one) => html`<${Name} of=${one.via} />` },
];

// ---- what is kept for a node that is away

// a name may begin with a dash
const command = (words, name) => ["peer", ...words, ...(name.startsWith("-") ? ["--"] : []), name];

function Acts({ of, again }) {
  if (of.state === "up" && of.copies_kept) return null;
  const name = of.name;
  const call = (what, body) => ({ method: "POST", path: pathOf("peers", name, what), body });
  return html`<div class="acts">
    <${Act} label="Release…" title=${`Release what is in doubt with node ${seen(name)}`} isDangerous typed=${name} disabled=${!of.in_doubt} done=${again}
      make=${() => ({ cli: command(["release", "--force"], name), call: call("release", { force: true }) })}
      said=${(answer) => `${many(answer.released, "message")} that ${answer.released === 1 ? "was" : "were"} in doubt with node ${name} may be delivered to others now.`}>
      <p>${`${many(of.in_doubt, "message")} ${of.in_doubt === 1 ? "was" : "were"} offered to that node and not confirmed. Release them only if the node is gone for good: they are ready again here, and each may be processed twice if the node has had it, or comes back. If it may come back with its store, wait: the link then settles what is in doubt.`}</p>
    </${Act}>
    ${of.copies_kept && html`<${Act} label="Drop…" title=${`Drop the copies for node ${seen(name)}`} isDangerous typed=${name} done=${again}
      make=${() => ({ cli: command(["drop", "--force"], name), call: call("drop", { force: true }) })}
      said=${(answer) => `${many(answer.dropped, "copy", "copies")} that waited for node ${name} ${answer.dropped === 1 ? "is" : "are"} deleted, and none are kept for it until it is linked again.`}>
      <p>${`${many(of.outbox, "copy", "copies")} of fanouts and topics ${of.outbox === 1 ? "waits" : "wait"} for that node. They are deleted, and none are kept until it is linked again, or until “Keep”: it never gets what is sent meanwhile. Producers that wait for its outbox go on.`}</p>
    </${Act}>`}
    ${!of.copies_kept && html`<${Act} label="Keep…" title=${`Keep copies for node ${seen(name)} again`} done=${again}
      make=${() => ({ cli: command(["keep"], name), call: call("keep", {}) })}
      said=${(answer) => `Copies are kept for node ${name} ${answer.changed ? "again from now on" : "as they were already"}.`}>
      <p>From now on copies wait in its outbox again. What was dropped meanwhile does not come back.</p>
    </${Act}>`}
  </div>`;
}
