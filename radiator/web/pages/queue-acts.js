// What can be done with one queue. Each is the properties of an Act (actions.js).

import { html } from "../vendor/htm-preact.js";
import { pathOf } from "../api.js";
import { behindDashes, queueWord, refuse } from "../actions.js";
import { many } from "../format.js";

const OVERFLOWS = ["block", "reject", "drop-oldest", "dead-letter"].map((one) => [one, one]);

// fields that are numbers in config.toml, by the same names
const NUMBERS = new Set(["max_messages", "max_redeliveries", "message_ttl_ms", "ack_timeout_s"]);

export function declareQueue(done) {
  return {
    label: "Declare…",
    title: "Declare a queue",
    done,
    fields: [
      { name: "name", label: "Name", required: true },
      { name: "persistent", label: "On the disk", type: "checkbox", value: true, hint: "Otherwise its messages are in memory, and gone after a restart." },
      { name: "max_messages", label: "At most this many messages", type: "number", min: 1, placeholder: "no bound" },
      { name: "overflow", label: "What a SEND does when it is full", type: "select", options: OVERFLOWS, value: "block" },
      { name: "dead_letter", label: "Dead letters go to the queue", hint: "It is created if it does not exist. Without one, a message is redelivered without bound, and a message that is rejected or expires is dropped." },
      { name: "max_redeliveries", label: "Dead letter after this many redeliveries", type: "number", min: 0, placeholder: "16" },
      { name: "ack_timeout_s", label: "A consumer must ack within this many seconds", placeholder: "no bound", type: "number", min: 1 },
    ],
    make: ({ name, ...values }) => {
      if (!name) refuse("Name the queue.");
      const body = {};
      const cli = ["declare", "queue", queueWord(name)];
      for (const [key, value] of Object.entries(values)) {
        if (value === "" || (key === "persistent" && value) || (key === "overflow" && value === "block")) continue;
        body[key] = NUMBERS.has(key) ? Number(value) : value;
        cli.push(`--${key.replaceAll("_", "-")}=${value}`);
      }
      return { cli: values.dead_letter ? [...cli, "--create"] : cli, call: { method: "PUT", path: pathOf("queues", name), body } };
    },
    said: (answer) => ["The queue exists, as declared.", ...(answer.warnings ?? [])].join(" "),
    children: html`<p>The queue survives a restart. config.toml can declare it too, with more settings.</p>`,
  };
}

export function publish(name, done) {
  return {
    label: "Publish…",
    title: "Publish a message",
    kind: "primary",
    done,
    fields: [
      { name: "body", label: "Body", type: "textarea" },
      { name: "type", label: "Content-Type", value: "text/plain", list: "types" },
      { name: "headers", label: "Headers", type: "textarea", rows: 3, placeholder: "name: value", hint: "One on each line." },
    ],
    make: ({ body, type, headers }) => {
      const given = headersOf(headers);
      if (type) given["content-type"] = type;
      const options = Object.entries(given).map(([key, value]) => `--header=${key}:${value}`);
      const cli = ["send", ...options, ...behindDashes(`/queue/${name}`, body)];
      const call = { method: "POST", path: pathOf("queues", name, "messages"), body: { messages: [{ body, headers: given }] } };
      return body === "-" ? { call } : { cli, call }; // on the command line it is standard input
    },
    said: (answer) => (answer.ids.length ? `The message ${answer.ids[0]} is stored.` : "It was stored before: its dedup-id is known."),
  };
}

function headersOf(text) {
  const found = [];
  for (const line of text.split("\n").filter((one) => one.trim())) {
    const at = line.indexOf(":");
    if (at < 1) refuse(`The line “${line}” is not a header: write name: value.`);
    found.push([line.slice(0, at).trim(), line.slice(at + 1).trim()]);
  }
  return Object.fromEntries(found);
}

export function purge(name, done) {
  return {
    label: "Purge…",
    title: "Purge the queue",
    isDangerous: true,
    typed: name,
    done,
    make: () => ({ cli: ["purge", queueWord(name)], call: { method: "POST", path: pathOf("queues", name, "purge"), body: {} } }),
    said: (answer) => `${many(answer.purged, "message")} removed.`,
    children: html`<p>All messages are deleted for good, except those that are unacked.</p>`,
  };
}

export function move(name, done) {
  return {
    label: "Move…",
    title: "Move messages to another queue",
    done,
    fields: [
      { name: "to", label: "To the queue", required: true },
      { name: "count", label: "At most", type: "number", min: 1, hint: "Without a number: all that are ready now." },
      { name: "create", label: "Create that queue if it does not exist", type: "checkbox", value: false },
    ],
    make: ({ to, count, create }) => {
      if (!to) refuse("Name the queue that they move to.");
      const body = { to, create, ...(count ? { count: Number(count) } : {}) };
      const cli = ["move", queueWord(name), queueWord(to), ...(count ? ["--count", count] : []), ...(create ? ["--create"] : [])];
      return { cli, call: { method: "POST", path: pathOf("queues", name, "move"), body } };
    },
    said: (answer) => `${many(answer.moved, "message")} moved.`,
    children: html`<p>The oldest ready messages go first. Each is always in exactly one of the two queues.</p>`,
  };
}

export function remove(name, done) {
  return {
    label: "Delete…",
    title: "Delete the queue",
    isDangerous: true,
    typed: name,
    done,
    fields: [{ name: "used", label: "Even if it has consumers", type: "checkbox", value: false }],
    make: ({ used }) => ({
      cli: ["delete", "queue", queueWord(name), ...(used ? ["--used"] : [])],
      call: { method: "DELETE", path: `${pathOf("queues", name)}${used ? "?if_unused=false" : ""}` },
    }),
    said: (answer) => `The queue is deleted, with ${many(answer.deleted, "message")}.`,
    children: html`<p>The queue is deleted for good, with all its messages. The broker refuses this for a queue that config.toml declares.</p>`,
  };
}

// ids: only those messages; none: all that are ready
export function sendBack(name, ids, done) {
  const isAll = !ids.length;
  return {
    label: isAll ? "Send all back…" : "Send back…",
    title: isAll ? "Send all dead letters back" : `Send ${many(ids.length, "dead letter")} back`,
    done,
    make: () => ({
      cli: ["return", queueWord(name), ...ids.map((id) => `--message=${id}`)],
      call: { method: "POST", path: pathOf("queues", name, "return"), body: isAll ? {} : { message_ids: ids } },
    }),
    said: (answer) => answer.sentence ?? `${many(answer.returned, "message")} went back; ${answer.stayed} stayed.`,
    children: html`<p>Each message goes back to the queue that it came from, and its redeliveries are counted from 0 again. If that queue is gone or full, the message stays here.</p>`,
  };
}
