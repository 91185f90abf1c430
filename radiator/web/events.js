// Server-sent events, read by fetch, so that a refusal has its sentence and a reader can end when it has enough.

import { Problem } from "./api.js";

const LENGTH_MAX = 8 * 1024 * 1024; // of one stream, so that a log of large records does not fill the browser

// Gives each event to take({id, message}) until that returns true. Returns "enough", "ended" by the broker, or "large"
// if more than LENGTH_MAX came. Throws a Problem if the broker refuses, and what fetch throws.
export async function readEvents(path, signal, take) {
  const answer = await fetch(path, { signal, cache: "no-store" });
  if (!answer.ok) throw refusal(answer.status, await answer.text());
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let taken = 0;
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return "ended";
      let searched = Math.max(0, text.length - 1);
      text += value;
      for (let end; (end = text.indexOf("\n\n", searched)) >= 0; searched = 0) {
        taken += end;
        if (taken > LENGTH_MAX) return "large";
        if (take(eventOf(text.slice(0, end)))) return "enough";
        text = text.slice(end + 2);
      }
      if (taken + text.length > LENGTH_MAX) return "large";
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function eventOf(lines) {
  const fields = {};
  for (const line of lines.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  if (fields.event === "refused") throw refusal(0, fields.data);
  return { id: fields.id, message: fields.data === undefined ? undefined : JSON.parse(fields.data) };
}

function refusal(status, text) {
  try {
    const found = JSON.parse(text);
    return new Problem(found.status, found.code, found.detail);
  } catch {
    return new Problem(status, "", `The broker answered with the status ${status}.`);
  }
}
