// Sends one message to an address.

import { html } from "./vendor/htm-preact.js";
import { Act, behindDashes, refuse } from "./actions.js";
import { many } from "./format.js";

const FIELDS = [
  { name: "body", label: "Body", type: "textarea" },
  { name: "type", label: "Content type", value: "text/plain; charset=utf-8" },
  { name: "headers", label: "Headers", type: "textarea", rows: 3, hint: "One a line, such as colour: blue" },
];

// to(values): {address, path} of the destination; fields: what it needs besides the message.
export function Publish({ to, fields = [], children, done }) {
  const make = (values) => {
    const { address, path } = to(values);
    const headers = [...(values.type ? [["content-type", values.type]] : []), ...headersIn(values.headers)];
    const message = { body: values.body, headers: Object.fromEntries(headers) };
    const options = headers.map(([name, value]) => `--header=${name}:${value}`);
    return {
      cli: values.body === "-" ? undefined : ["send", ...options, ...behindDashes(address, values.body)], // `-`: standard input
      call: { method: "POST", path, body: { messages: [message] } },
    };
  };
  const said = ({ ids }) => (ids.length ? `Stored ${many(ids.length, "copy", "copies")}: ${ids.slice(0, 3).join(", ")}${ids.length > 3 ? ", …" : ""}.` : "The message was accepted, but nothing was stored: no destination gets it, or its dedup-id is already known.");
  return html`<${Act} label="Publish…" title="Publish a message" fields=${[...fields, ...FIELDS]} make=${make} said=${said} done=${done}>${children}</${Act}>`;
}

function headersIn(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf(":");
    if (at < 1) refuse(`${line} is not a header: write NAME: VALUE.`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
}
