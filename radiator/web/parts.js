// The parts that pages are made of. Text of the broker and its clients is only ever set as text.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact.js";
import { count, seen } from "./format.js";
import { href, replaceQuery } from "./route.js";

// ---- text

export function Name({ of }) {
  return html`<bdi class="name">${seen(of)}</bdi>`;
}

// A sentence of the broker, in which commands are between `.
export function Sentence({ of }) {
  return html`<span>${String(of).split("`").map((part, nth) => (nth % 2 ? html`<code key=${nth}>${seen(part)}</code>` : seen(part)))}</span>`;
}

export function To({ path, query, children, ...more }) {
  return html`<a href=${href(path, query)} ...${more}>${children}</a>`;
}

// The target of a fanout or a binding: NAME of a queue, or /log/NAME.
export function Target({ of }) {
  return /^\/(log|queue|exchange)\//.test(of) ? html`<${Address} of=${of} />` : html`<${QueueLink} name=${of} />`;
}

export function QueueLink({ name, query, label }) {
  return html`<${To} path=${["queues", name]} query=${query}>${label ?? html`<${Name} of=${name} />`}</${To}>`;
}

// An address such as /queue/orders, as a link to its page if there is one.
const PAGE_OF_KIND = { queue: "queues", exchange: "exchanges", fanout: "exchanges", log: "logs", topic: null };

export function Address({ of }) {
  const [, kind, rest] = /^\/([a-z]+)\/(.*)$/s.exec(of) ?? [];
  const page = Object.hasOwn(PAGE_OF_KIND, kind) && PAGE_OF_KIND[kind];
  if (!page) return html`<${Name} of=${of} />`;
  const name = kind === "exchange" ? rest.split("/")[0] : rest;
  const path = page === "exchanges" ? [page, kind, name] : [page, name];
  return html`<${To} path=${path}><${Name} of=${of} /></${To}>`;
}

// Verdicts by how much they need a person: "good", "busy", "needs".
const GOOD = new Set(["moving", "empty", "done"]);
const BUSY = new Set(["loading", "storing", "waking", "delayed", "unacked", "checked-out", "in-doubt", "asked-elsewhere"]);

export function Verdict({ of }) {
  if (!of) return html`<span class="muted">–</span>`;
  const how = GOOD.has(of) ? "good" : BUSY.has(of) ? "busy" : "needs";
  return html`<span class=${`verdict ${how}`}>${seen(of)}</span>`;
}

// Another word for a state; feels: "good", "busy" or "needs".
export function State({ feels, children }) {
  return html`<span class=${`verdict ${feels}`}>${children}</span>`;
}

// ---- what is listed by name

// The rows of an object by their names, as [name, row], in the broker's order, which `after` continues: by code points.
// (JavaScript has its own order for names that are numbers.)
export function byName(rows) {
  return Object.entries(rows).sort(([a], [b]) => inOrder(a, b));
}

export function inOrder(a, b) {
  const [left, right] = [Array.from(a), Array.from(b)];
  const at = left.findIndex((one, nth) => one !== right[nth]);
  if (at < 0) return left.length - right.length;
  return at < right.length ? left[at].codePointAt(0) - right[at].codePointAt(0) : 1;
}

// ---- states of what is asked for

// In an element of its own: when a part's top level changes, Preact may move the part before earlier siblings.
export function Asked({ of, children, empty }) {
  const { answer, problem } = of;
  return html`<div class="asked">
    ${answer === undefined && problem === undefined && html`<p class="muted" role="status">Loading…</p>`}
    ${problem !== undefined && problem.code !== "unreachable" && html`<${Trouble} of=${problem} />`}
    ${answer !== undefined && (empty?.(answer) ?? children(answer))}</div>`;
}

export function Trouble({ of }) {
  return html`<p class="trouble" role="alert"><${Sentence} of=${of.message} /></p>`;
}

export function Empty({ children }) {
  return html`<p class="empty">${children}</p>`;
}

// ---- numbers

export function Tile({ title, value, note, path, query, alert }) {
  const inside = html`<span class="tile-title">${title}</span><span class="tile-value">${value}</span>
    ${note && html`<span class="tile-note">${note}</span>`}`;
  const kind = `tile${alert ? " alert" : ""}`;
  return path ? html`<a class=${kind} href=${href(path, query)}>${inside}</a>` : html`<div class=${kind}>${inside}</div>`;
}

// rows: [name, value] each; undefined values are left out
export function Facts({ rows }) {
  const given = rows.filter((row) => row && row[1] !== undefined);
  return html`<dl class="facts">${given.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// ---- tables

// columns: {key, title, cell(row), sort (its name for the server; none: cannot be sorted by), right, wide (left out on
// a narrow page)}. sort: "ready" or "-ready"; onSort(next).
export function Table({ label, columns, rows, keyOf, sort, onSort, rowClass }) {
  const head = columns.map((one) => {
    const isSorted = one.sort && sort?.replace(/^-/, "") === one.sort;
    const isDown = isSorted && sort.startsWith("-");
    const kind = `${one.right ? "right" : ""} ${one.wide ? "wide" : ""}`;
    if (!one.sort) return html`<th key=${one.key} scope="col" class=${kind}>${one.title}</th>`;
    const next = isSorted ? (isDown ? one.sort : `-${one.sort}`) : one.right ? `-${one.sort}` : one.sort;
    return html`<th key=${one.key} scope="col" class=${kind} aria-sort=${isSorted ? (isDown ? "descending" : "ascending") : "none"}>
      <button class="sort" onClick=${() => onSort(next)}>${one.title}<span aria-hidden="true">${isSorted ? (isDown ? " ▾" : " ▴") : ""}</span></button>
    </th>`;
  });
  return html`<div class="scrolls" role="region" aria-label=${label} tabindex="0"><table>
    <caption class="unseen">${label}</caption>
    <thead><tr>${head}</tr></thead>
    <tbody>${rows.map((row, nth) => html`<tr key=${keyOf(row, nth)} class=${rowClass?.(row) ?? ""}>
      ${columns.map((one) => html`<td key=${one.key} class=${`${one.right ? "right" : ""} ${one.wide ? "wide" : ""}`}>${one.cell(row, nth)}</td>`)}
    </tr>`)}</tbody>
  </table></div>`;
}

// Pages by number: of the rows first..first + size of all. The place is in the URL.
export function Pages({ first, size, all, name = "first" }) {
  if (all <= size && !first) return null;
  const last = Math.min(first + size, all);
  const to = (at) => replaceQuery({ [name]: at > 0 ? String(at) : "" });
  return html`<nav class="pages" aria-label="Pages">
    <button disabled=${first <= 0} onClick=${() => to(Math.max(0, first - size))}>Previous</button>
    <span>${count(all && first + 1)} to ${count(last)} of ${count(all)}</span>
    <button disabled=${last >= all} onClick=${() => to(first + size)}>Next</button>
  </nav>`;
}

// Pages by name, where the server lists what comes after a name: the way back is the browser's.
export function More({ after, children = "Next page", name = "after" }) {
  return html`<nav class="pages" aria-label="Pages"><button onClick=${() => { location.hash = withAfter(name, after); }}>${children}</button></nav>`;
}

function withAfter(name, after) {
  const [path, text = ""] = location.hash.split("?", 2);
  const query = new URLSearchParams(text);
  query.set(name, after);
  return `${path}?${query}`;
}

// ---- input

// A filter whose text is in the URL. `/` leads to it (app.js).
export function Filter({ query, name = "text", label = "Filter", placeholder = "Filter" }) {
  const given = query.get(name) ?? "";
  const [text, setText] = useState(given);
  const timer = useRef(0);
  const last = useRef(given);
  useEffect(() => {
    if (given !== last.current) {
      last.current = given; // by Back, or by a link
      setText(given);
    }
  }, [given]);
  const typed = (event) => {
    const value = event.target.value;
    setText(value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      last.current = value;
      replaceQuery({ [name]: value, first: "", after: "" });
    }, 250);
  };
  return html`<input type="search" data-filter aria-label=${label} placeholder=${`${placeholder}   /`} value=${text} maxlength="255" onInput=${typed} autocomplete="off" spellcheck=${false} />`;
}

// A choice of one of several words.
export function Choice({ of, value, set, label }) {
  return html`<select aria-label=${label} value=${value} onChange=${(event) => set(event.target.value)}>
    ${of.map((one) => html`<option key=${one} value=${one} selected=${one === value}>${one}</option>`)}</select>`;
}

export function Tabs({ tabs, current, query = {}, path }) {
  return html`<nav class="tabs" aria-label="Parts of this page">${tabs.map(([name, title]) => html`
    <a key=${name} href=${href(path, { ...query, tab: name === tabs[0][0] ? "" : name })} aria-current=${name === current ? "page" : undefined}>${title}</a>`)}</nav>`;
}

function Copy({ text, label = "Copy" }) {
  const [isDone, setDone] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copiedByHand(text); // without https there is no clipboard
    }
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button class="copy" onClick=${copy}>${isDone ? "Copied" : label}</button>`;
}

function copiedByHand(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

export function Code({ text, label }) {
  return html`<div class="code"><pre tabindex="0" aria-label=${label}><code>${seenLines(text)}</code></pre><${Copy} text=${text} /></div>`;
}

function seenLines(text) {
  return String(text).split("\n").map(seen).join("\n");
}

// ---- messages to the reader

let say = () => {};

export function tell(sentence, isTrouble = false) {
  say({ sentence, isTrouble, at: Date.now() });
}

const TOLD_MS = 8000;

export function Told() {
  const [told, setTold] = useState([]);
  say = (one) => {
    setTold((old) => [...old, one].slice(-4));
    setTimeout(() => setTold((old) => old.filter((other) => other !== one)), one.isTrouble ? 3 * TOLD_MS : TOLD_MS);
  };
  return html`<div class="told" role="status" aria-live="polite">${told.map((one) => html`
    <p key=${one.at} class=${one.isTrouble ? "trouble" : ""}><${Sentence} of=${one.sentence} />
      <button class="plain" aria-label="Close" onClick=${() => setTold(told.filter((other) => other !== one))}>×</button></p>`)}</div>`;
}
