// The body of a message: as text, as JSON, or as bytes.

import { html, useMemo, useState } from "./vendor/htm-preact.js";
import { asHex, bytes } from "./format.js";
import { Code, Empty } from "./parts.js";

const SHOWN_BYTES = 64 * 1024;
const DEPTH_MAX = 20; // what is nested deeper is not moved further to the right

// of: what has a `body`, where its bytes are UTF-8, or a `body_base64`, and `body_bytes` where it is cut.
export function Body({ of }) {
  const { body, body_base64, body_bytes } = of;
  const data = useMemo(() => bytesOf(of), [body, body_base64]);
  const views = useMemo(() => viewsOf(body, data), [data]);
  const [chosen, choose] = useState(null);
  const [name, text] = views.find(([one]) => one === chosen) ?? views[0];
  const size = body_bytes ?? data.length;
  const shown = Math.min(data.length, SHOWN_BYTES);
  if (size === 0) return html`<${Empty}>The body is empty.</${Empty}>`;
  return html`<div class="bar views" role="group" aria-label="Show the body as">
      ${views.map(([one]) => html`<button key=${one} aria-pressed=${one === name} onClick=${() => choose(one)}>${one}</button>`)}
      <span class="muted">${bytes(size)}${size > shown ? `, of which the first ${bytes(shown)} are shown` : ""}</span>
    </div>
    <${Code} label="Body" text=${text} />`;
}

function bytesOf({ body, body_base64 }) {
  if (isText(body)) return new TextEncoder().encode(body);
  return Uint8Array.from(atob(body_base64 ?? ""), (one) => one.charCodeAt(0));
}

const isText = (body) => body !== null && body !== undefined;

function viewsOf(body, data) {
  const hex = ["Hex", asHex(data.subarray(0, SHOWN_BYTES))];
  if (!isText(body)) return [hex];
  const json = data.length > SHOWN_BYTES ? null : indented(body);
  return [...(json === null ? [] : [["JSON", json]]), ["Text", body.slice(0, SHOWN_BYTES)], hex];
}

// Only its spaces change: numbers stay as they were written, whatever JavaScript makes of them. null: it is no JSON.
export function indented(text) {
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
