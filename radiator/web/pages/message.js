// What has become of a message, and of what it came from and went on as: its story, from the journal.

import { html, useEffect, useState } from "../vendor/htm-preact.js";
import { useAsked, withQuery } from "../api.js";
import { SameByHand, behindDashes } from "../actions.js";
import { WHY_DEAD } from "../dead.js";
import { bytes, count, duration, many, moment, seen } from "../format.js";
import { Address, Code, Empty, More, Name, QueueLink, To, Trouble } from "../parts.js";
import { go } from "../route.js";

const SHOWN = 200; // events of one page
const JOURNAL_ON = "[journal]\nenabled = true";

// ---- what was asked for

// by the key in the page's address: its name, its parameter in the API, and the words of the CLI
const KINDS = {
  id: { title: "message-id", parameter: "message", words: (text) => behindDashes(text) },
  trace: { title: "trace id", parameter: "trace", words: (text) => [`--trace=${text}`] },
  correlation: { title: "correlation-id", parameter: "correlation_id", words: (text) => [`--correlation-id=${text}`] },
};

// The query of this page for what was pasted, which may be any of the three.
export function understood(pasted) {
  const text = pasted.trim();
  const [, parent] = /^[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/i.exec(text) ?? [];
  if (parent) return { trace: parent.toLowerCase() };
  if (/^[0-9a-f]{32}$/i.test(text)) return { trace: text.toLowerCase() };
  if (/^[0-9A-Za-z_.]+-[0-9]{1,10}-[0-9]{1,20}$/.test(text)) return { id: text };
  return text ? { correlation: text } : {};
}

export default function Messages({ query }) {
  const kind = Object.keys(KINDS).find((one) => query.get(one));
  const text = kind ? query.get(kind) : "";
  return html`
    <h1>Find a message</h1>
    <${Search} text=${text} />
    ${kind ? html`<${Found} key=${`${kind} ${text}`} kind=${kind} text=${text} after=${query.get("after")} />` : html`<${Unasked} />`}`;
}

function Search({ text }) {
  const [typed, setTyped] = useState(text);
  useEffect(() => setTyped(text), [text]);
  const search = (event) => {
    event.preventDefault();
    go(["messages"], understood(typed));
  };
  return html`<form class="bar" onSubmit=${search}>
    <input type="search" data-filter aria-label="A message-id, trace id, traceparent or correlation-id" placeholder="message-id, trace id or correlation-id   /" value=${typed} maxlength="255" onInput=${(event) => setTyped(event.target.value)} autocomplete="off" spellcheck=${false} />
    <button class="primary">Find</button>
  </form>`;
}

function Unasked() {
  return html`<${Empty}>This page says what became of a message: when it was accepted, who had it, whether it came back, and how it ended. Paste its message-id, the trace id or the whole traceparent that it was sent with, or its correlation-id (for a Celery task, the task's id).</${Empty}>`;
}

// Asked for only once, since the broker searches its whole journal for it.
function Found({ kind, text, after }) {
  const path = withQuery("/v1/explain", { [KINDS[kind].parameter]: text, after, limit: SHOWN });
  const asked = useAsked(path, 0);
  const { answer, problem } = asked;
  if (!answer && !problem) return html`<p class="muted" role="status">The broker searches its journal…</p>`;
  return html`
    ${problem && problem.code !== "unreachable" && html`<${Trouble} of=${problem} />`}
    ${problem?.code === "no-journal" && html`<p>Write this into config.toml and restart the broker: the journal has everything that happens from then on.</p><${Code} label="Into config.toml" text=${JOURNAL_ON} />`}
    ${problem?.code !== "no-journal" && html`<${Otherwise} kind=${kind} text=${text} />`}
    ${answer && html`<${Story} of=${answer} kind=${kind} text=${text} after=${after} again=${asked.again} />`}
    <${SameByHand} clis=${[["explain", "--config", "config.toml", ...KINDS[kind].words(text)]]} calls=${[{ method: "GET", path }]} />`;
}

function Otherwise({ kind, text }) {
  const others = Object.keys(KINDS).filter((one) => one !== kind);
  return html`<p class="muted">This was taken for a ${KINDS[kind].title}. Look for it as a ${others.map((one, nth) => html`${nth ? " or a " : ""}<${To} key=${one} path=${["messages"]} query=${{ [one]: text }}>${KINDS[one].title}</${To}>`)} instead.</p>`;
}

// ---- the story

function Story({ of, kind, text, after, again }) {
  const { events } = of;
  const rows = lanes(events);
  const last = events[events.length - 1];
  return html`
    ${of.is_cut && html`<p class="trouble">The story has more messages than the broker shows at once: these are the first.</p>`}
    ${after && html`<p class="muted">${`Events behind number ${count(Number(after))} of the journal. `}<${To} path=${["messages"]} query=${{ [kind]: text }}>From its beginning</${To}></p>`}
    ${!events.length && html`<${Empty}>The journal has no more events of this message.</${Empty}>`}
    ${events.length > 0 && html`
      <section class="card" aria-label="Messages of the story"><h2>${many(rows.filter((one) => one.last).length, "message")}</h2>
        <ul class="lanes">${rows.map((row) => html`<${Lane} key=${row.id} of=${row} isSought=${kind === "id" && row.id === text} hasMore=${of.has_more} />`)}</ul></section>
      <section class="card" aria-label="Time line"><h2>Time line</h2>
        <${TimeLine} events=${events} rows=${rows} /></section>`}
    <div class="bar">
      ${of.has_more && html`<${More} after=${last.seq}>What came next</${More}>`}
      <button onClick=${again}>Look again</button>
      <span class="muted">The journal may have more events by now.</span>
    </div>`;
}

// One row for each message, parents before children: {id, label, depth, how, first, last}. A fanout message has no events
// of its own: it has a row for the sake of its copies.
function lanes(events) {
  const all = new Map();
  const row = (id) => all.get(id) ?? all.set(id, { id, parent: "", how: "", first: null, last: null }).get(id);
  for (const one of events) {
    const own = row(one.message_id);
    own.first ??= one;
    own.last = one;
    if (one.event === "fanout-copy") join(own, row(one.other_id), "copy");
    else if (one.event === "accepted" && one.other_id) join(own, row(one.other_id), one.reason);
    else if (one.other_id) join(row(one.other_id), own, one.event);
  }
  const found = [];
  const put = (own, depth) => {
    if (own.label) return;
    Object.assign(own, { label: String(found.length + 1), depth });
    found.push(own);
    for (const other of all.values()) if (other.parent === own.id) put(other, depth + 1);
  };
  for (const own of all.values()) if (!all.has(own.parent)) put(own, 0);
  for (const own of all.values()) put(own, 0); // none may be missing, whatever the events say
  return found;
}

function join(child, parent, how) {
  if (child.parent || child.id === parent.id) return;
  child.parent = parent.id;
  child.how = how;
}

const HOW = { copy: "copy", "dead-letter": "dead letter", "dead-lettered": "dead letter", moved: "moved", released: "released" };

function Lane({ of, isSought, hasMore }) {
  const { id, label, depth, how, first, last } = of;
  return html`<li class=${`lane depth-${Math.min(depth, 5)}`}>
    <b class="lane-label">${label}</b>
    <span><${To} path=${["messages"]} query=${{ id }}><${Name} of=${id} /></${To}>${isSought ? " (this one)" : ""}
      ${how && html` <span class="verdict busy">${seen(HOW[how] ?? how)}</span>`}
      ${first?.queue && html` in <${QueueLink} name=${first.queue} />`}
      <span class="lane-end">${last ? (hasMore ? "The story goes on below." : html`<${End} of=${last} />`) : first ? "" : "The journal has no events of this message."}
        ${last && !hasMore && !GONE[last.event] && last.event !== "delayed" && html` <${QueueLink} name=${last.queue} query=${{ message: id }} label="Look at it" />`}</span></span>
  </li>`;
}

// ---- where it is, as far as the journal says

const GONE = {
  expired: () => "It expired, and is deleted.",
  dropped: () => "It was dropped, and is deleted.",
  purged: () => "It was purged, and is deleted.",
  deleted: () => "It was deleted with its queue.",
  "dead-lettered": () => "It has left the queue as a dead letter.",
  moved: () => "It has left the queue: it was moved.",
  "checked-out": (one) => html`It has left: the group <${Name} of=${one.client} /> has it checked out.`,
  acked: (one) => (one.reason === "handed-over" ? html`It has left: <${Client} of=${one.client} /> has it, and has a journal of its own.` : "It has left the queue: it was acked."),
};
const THERE = {
  delivered: (one) => html`According to the journal, <${Client} of=${one.client} /> has it, and has not acked it.`,
  delayed: (one) => `According to the journal, it is delayed until ${moment(one.number)}.`,
  "set-aside": () => "According to the journal, it is set aside for consumers of this node.",
};

function End({ of }) {
  const said = GONE[of.event] ?? THERE[of.event];
  return html`${said ? said(of) : "According to the journal, it is ready in its queue."}`;
}

// ---- time line

function TimeLine({ events, rows }) {
  const byId = new Map(rows.map((row) => [row.id, row]));
  return html`<ol class="time-line">${events.map((one, nth) => {
    const row = byId.get(one.message_id);
    return html`<li key=${one.seq} class=${`depth-${Math.min(row.depth, 5)}`}>
      <span class="time">${moment(one.ms)}<small>${nth ? since(one.ms - events[nth - 1].ms) : ""}</small></span>
      <b class="lane-label" title=${seen(one.message_id)}>${row.label}</b>
      <span class="what"><${Sentence} of=${one} /> <small>${one.attempt > 0 && `attempt ${count(one.attempt + 1)}, `}${bytes(one.bytes)}${one.node && html`, on node <${Name} of=${one.node} />`}</small></span>
    </li>`;
  })}</ol>`;
}

const since = (ms) => (ms < 0 ? `the clock went back by ${duration(-ms)}` : `+${duration(ms)}`);

// `12/sub-1`, `node/b`, `user/ann` of an event
function Client({ of }) {
  const [, kind, rest] = /^([^/]*)\/(.*)$/s.exec(of) ?? [];
  if (kind === "node") return html`<${To} path=${["nodes"]}>node <${Name} of=${rest} /></${To}>`;
  if (kind === "user") return html`a lease of the user <${Name} of=${rest} />`;
  if (kind) return html`connection ${seen(kind)}, subscription <${Name} of=${rest} />`;
  return of ? html`<${Name} of=${of} />` : "somebody";
}

const Other = ({ id }) => html`<${To} path=${["messages"]} query=${{ id }}><${Name} of=${id} /></${To}>`;
const Place = ({ of }) => (of.startsWith("/") ? html`<${Address} of=${of} />` : html`<${QueueLink} name=${of} />`);

// how a message that was not sent came to be accepted
const CAME = {
  "dead-letter": (one) => html`, as the dead letter of <${Other} id=${one.other_id} /> in <${Place} of=${one.other_queue} />`,
  moved: (one) => html`, moved from <${Place} of=${one.other_queue} />, where it was <${Other} id=${one.other_id} />`,
  released: (one) => html`, released by the checkout <${Place} of=${one.other_queue} />`,
  "handed-over": (one) => html`, handed over by <${Client} of=${one.client} />`,
};

function accepted(one) {
  return html`Accepted into <${QueueLink} name=${one.queue} />${one.address && html`, sent to <${Address} of=${one.address} />`}
    ${CAME[one.reason]?.(one) ?? (one.reason && `, ${seen(one.reason)}`)}
    ${one.traceparent && html`, in the trace <${To} path=${["messages"]} query=${understood(one.traceparent)}><${Name} of=${one.traceparent} /></${To}>`}
    ${one.correlation_id && html`, with the correlation-id <${To} path=${["messages"]} query=${{ correlation: one.correlation_id }}><${Name} of=${one.correlation_id} /></${To}>`}.`;
}

const ACKED = {
  written: (one) => html`Written to <${Client} of=${one.client} />, which counts as acked (ack:auto).`,
  "handed-over": (one) => html`Handed over to <${Client} of=${one.client} />, which has it on its disk.`,
};
const RETURNED = {
  lost: (one) => html`Came back: <${Client} of=${one.client} /> was lost.`,
  "ack-timeout": (one) => html`Came back: <${Client} of=${one.client} /> had it for longer than the ack timeout, or its lease.`,
  unused: (one) => html`Came back, uncounted: the broker has ended <${Client} of=${one.client} />.`,
};

// each event of docs/JOURNAL.md
const SENTENCES = {
  accepted,
  "fanout-copy": (one) => html`It is one of ${many(one.number, "copy", "copies")} of the fanout message <${Other} id=${one.other_id} />, sent to <${Address} of=${one.address} />.`,
  delayed: (one) => `Delayed until ${moment(one.number)}.`,
  due: () => "Its delay has ended.",
  delivered: (one) => html`Delivered to <${Client} of=${one.client} />${one.attempt > 0 && `, redelivery ${count(one.attempt)}`}.`,
  acked: (one) => ACKED[one.reason]?.(one) ?? html`Acked by <${Client} of=${one.client} />.`,
  nacked: (one) => html`${one.reason === "rejected" ? "Rejected (requeue:false)" : "Nacked"} by <${Client} of=${one.client} />.`,
  returned: (one) => RETURNED[one.reason]?.(one) ?? html`Came back from <${Client} of=${one.client} />.`,
  "set-aside": () => "Set aside: no link can carry it to another node; consumers of this node get it.",
  expired: () => "Expired: its time to live had ended, and there is no dead-letter queue.",
  "dead-lettered": (one) => html`Dead-lettered, since ${WHY_DEAD[one.reason] ?? seen(one.reason)}, into <${Place} of=${one.other_queue} />${one.address && ` by ${seen(one.address)}`}${one.other_id && html` as <${Other} id=${one.other_id} />`}.`,
  dropped: (one) => `Dropped, since ${WHY_DEAD[one.reason] ?? seen(one.reason)}, and ${["unrouted", "cycle"].includes(one.reason) ? "it is no dead letter" : "there is no dead-letter queue"}.`,
  purged: () => "Purged by an operator.",
  moved: (one) => html`Moved by an operator into <${Place} of=${one.other_queue} />${one.other_id && html` as <${Other} id=${one.other_id} />`}.`,
  "checked-out": (one) => html`Checked out by the group <${Name} of=${one.client} />, into <${Place} of=${one.other_queue} />.`,
  started: (one) => `The broker has started (its last run had ended ${seen(one.reason)}), with ${many(one.number, "message")} in the queue.`,
  deleted: (one) => `The queue was deleted, and ${many(one.number, "message")} with it.`,
};

function Sentence({ of }) {
  const said = SENTENCES[of.event];
  return said ? html`${said(of)}` : html`${seen([of.event, of.queue, of.client, of.reason].filter(Boolean).join(" "))}`;
}
