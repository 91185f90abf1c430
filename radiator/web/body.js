// The body of a message: as text, as JSON, or as bytes; shown in part, and downloaded whole.

import { html, useEffect, useMemo, useRef, useState } from "./vendor/htm-preact.js";
import { asHex, bytes, count, many } from "./format.js";
import { Code, Empty, Trouble } from "./parts.js";
import { bytesOf, save, textOf, wholeBody } from "./whole.js";

const SHOWN_BYTES = 256 * 1024;
const SHOWN_MAX = 1024 * 1024; // what "Show all" shows
const DEPTH_MAX = 20; // what is nested deeper is not indented further

// of: an object with a `body`, if its bytes are UTF-8, or a `body_base64`, and `body_bytes` if it is cut. queue: the one
// that has the message `message_id`, from which the rest is fetched; none: it is whole.
export function Body({ of, queue }) {
  const here = useMemo(() => bytesOf(of), [of.body, of.body_base64]);
  const [whole, setWhole] = useState(null);
  const [chosen, choose] = useState(null);
  const size = of.body_bytes ?? here.length;
  const data = useMemo(() => whole ?? beginning(here), [here, whole]);
  const views = useMemo(() => viewsOf(data, data.length === size), [data]);
  const [name, text] = views.find(([one]) => one === chosen) ?? views[0];
  if (size === 0) return html`<${Empty}>The body is empty.</${Empty}>`;
  const isHere = whole !== null || here.length === size;
  return html`<div class="bar views" role="group" aria-label="Show the body as">
      ${views.map(([one]) => html`<button key=${one} aria-pressed=${one === name} class=${one === name ? "primary" : ""} onClick=${() => choose(one)}>${one}</button>`)}
      ${isHere ? html`<button onClick=${() => save(new Blob([whole ?? here]), fileOf(of))}>Download</button>` : html`<${Rest} of=${of} queue=${queue} show=${setWhole} />`}
      <span class="muted">${many(size, "byte")}${size > data.length ? `, of which the first ${count(data.length)} are shown` : ""}</span>
    </div>
    <${Code} label="Body" text=${text} />`;
}

const fileOf = (message) => `${message.message_id ?? "body"}.bin`;

// The beginning, without a character that would be cut in two.
function beginning(data) {
  if (data.length <= SHOWN_BYTES) return data;
  let end = SHOWN_BYTES;
  while (end > SHOWN_BYTES - 4 && (data[end] & 0xc0) === 0x80) end -= 1;
  return data.subarray(0, end);
}

function viewsOf(data, isWhole) {
  const text = textOf(data);
  const hex = ["Hex", asHex(data)];
  if (text === undefined) return [hex];
  const json = isWhole ? indented(text) : null;
  return [...(json === null ? [] : [["JSON", json]]), ["Text", text], hex];
}

// The rest of a body that is cut: fetched part by part, until this is closed.
function Rest({ of, queue, show }) {
  const [state, setState] = useState({ got: null, problem: null });
  const ended = useRef(null);
  useEffect(() => () => ended.current?.abort(), []);
  const fetched = async (use) => {
    const own = (ended.current = new AbortController());
    setState({ got: 0, problem: null });
    try {
      const blob = await wholeBody(queue, of.message_id, (got) => setState({ got, problem: null }), own.signal);
      setState({ got: null, problem: null });
      await use(blob);
    } catch (problem) {
      if (!own.signal.aborted) setState({ got: null, problem });
    }
  };
  const stop = () => {
    ended.current.abort();
    setState({ got: null, problem: null });
  };
  if (state.got !== null) {
    return html`<progress aria-label="How much of the body has arrived" max=${of.body_bytes} value=${state.got}></progress>
      <span>${bytes(state.got)} of ${bytes(of.body_bytes)}</span><button onClick=${stop}>Stop</button>`;
  }
  return html`${of.body_bytes <= SHOWN_MAX && html`<button onClick=${() => fetched(async (blob) => show(new Uint8Array(await blob.arrayBuffer())))}>Show all</button>`}
    <button onClick=${() => fetched((blob) => save(blob, fileOf(of)))}>Download</button>
    ${state.problem && html`<${Trouble} of=${state.problem} />`}`;
}

// JSON, indented: only its spaces change, numbers stay as they were written. null: it is not JSON.
function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, DEPTH_MAX))}`;
  return text.replace(/"(?:[^"\\]|\\.)*"|[[{]\s*[\]}]|\s+|[[\]{},:]/g, (one) => {
    if (one[0] === '"') return one;
    if (one.trim() === "") return "";
    if (one.length > 1) return one[0] + one.at(-1);
    if (one === ":") return ": ";
    if (one === ",") return `,${line()}`;
    const isBegin = one === "[" || one === "{";
    depth += isBegin ? 1 : -1;
    return isBegin ? `${one}${line()}` : `${line()}${one}`;
  });
}
