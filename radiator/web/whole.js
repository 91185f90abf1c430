// The whole body of a message of a queue, which the broker has in parts.

import { get, pathOf, withQuery } from "./api.js";

// The bytes of an object with a `body`, if they are UTF-8, or a `body_base64`.
export function bytesOf({ body, body_base64 }) {
  if (body !== null && body !== undefined) return new TextEncoder().encode(body);
  return Uint8Array.from(atob(body_base64 ?? ""), (one) => one.charCodeAt(0));
}

// The text of these bytes; undefined: they are not text.
export function textOf(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return undefined;
  }
}

// The body as a Blob. got(bytes): called after each part. Throws once the signal is aborted, or the message has left.
export async function wholeBody(queue, messageId, got, signal) {
  const parts = [];
  let size = 0;
  for (;;) {
    const { messages: [part] } = await get(withQuery(pathOf("queues", queue, "peek"), { message: messageId, from: size }), signal);
    const data = bytesOf(part);
    parts.push(data);
    size += data.length;
    got(size);
    if (size >= part.body_bytes || !data.length) return new Blob(parts, { type: "application/octet-stream" });
  }
}

export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
