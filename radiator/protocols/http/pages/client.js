// Radiator's client for pages: HTTP, and server-sent events read by fetch, so that a login can be sent.
// What it does and promises: docs/HTTP.md, "In the browser".

const RETRY_STATUSES = [429, 503]; // nothing of what they refuse has happened
const RETRY_MIN_MS = 100;
const RETRY_MAX_MS = 5000;

export class RadiatorError extends Error {
  constructor({ status, code, detail }) {
    super(detail);
    this.name = "RadiatorError";
    this.status = status;
    this.code = code;
    this.detail = detail;
  }
}

export function connect(options = {}) {
  return new Radiator(options);
}

class Radiator {
  #url;
  #headers;
  #retries;

  constructor(options) {
    only(options, "url", "user", "password", "token", "retries");
    const { url = location.origin, user, password, token, retries = 5 } = options;
    this.#url = String(url).replace(/\/+$/, "");
    this.#headers = {};
    if (token !== undefined) this.#headers.Authorization = `Bearer ${token}`;
    else if (user !== undefined) this.#headers.Authorization = `Basic ${base64(utf8(`${user}:${password ?? ""}`))}`;
    this.#retries = retries;
  }

  async publish(address, body, options = {}) {
    only(options, "headers", "idempotencyKey", "signal");
    const { headers, idempotencyKey, signal } = options;
    return this.publishAll(address, [{ body, headers, idempotencyKey }], { signal });
  }

  async publishAll(address, messages, options = {}) {
    only(options, "signal");
    const { signal } = options;
    return this.#post(`${pathOf(address, "messages")}${keyOf(address)}`, { messages: messages.map(asMember) }, signal);
  }

  async receive(queue, options = {}) {
    only(options, "max", "waitMs", "leaseMs", "signal");
    const { max, waitMs, leaseMs, signal } = options;
    const asked = { max, wait_ms: waitMs, lease_ms: leaseMs };
    const found = await this.#post(pathOf(queue, "receive"), asked, signal);
    return (found?.messages ?? []).map(withBytes);
  }

  async settle(settlements, options = {}) {
    only(options, "signal");
    const { signal } = options;
    const asked = settlements.map((one) => {
      only(one, "lease", "action", "delayMs", "leaseMs");
      return { lease: one.lease, action: one.action, delay_ms: one.delayMs, lease_ms: one.leaseMs };
    });
    return (await this.#post("/v1/settle", { settlements: asked }, signal)).verdicts;
  }

  // Until `signal` is aborted. Rejects with what the broker refuses, what onMessage throws, and with the first failure
  // to reach the broker; later ones are tried again.
  async events(address, options = {}) {
    only(options, "from", "partition", "onMessage", "signal");
    const { from, partition, onMessage, signal } = options;
    return this.#events(pathOf(address, "events"), { from, partition }, onMessage, signal);
  }

  // The broker's own numbers, as GET /v1/stats/events has them, like `events`.
  async stats(options = {}) {
    only(options, "everyS", "onStats", "signal");
    const { everyS, onStats, signal } = options;
    return this.#events("/v1/stats/events", { every_s: everyS }, onStats, signal);
  }

  async #events(resource, parameters, onMessage, signal) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) if (value !== undefined) query.set(name, value);
    const path = `${resource}${query.size ? `?${query}` : ""}`;
    const place = { id: "" };
    let wasOpen = false;
    let waitMs = RETRY_MIN_MS;
    while (!signal?.aborted) {
      try {
        const headers = place.id ? { "Last-Event-ID": place.id } : {};
        const response = await this.#fetch(path, { headers, signal });
        wasOpen = true;
        waitMs = RETRY_MIN_MS;
        await readEvents(response.body, place, onMessage);
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof Failed) throw error.cause;
        if (error instanceof RadiatorError ? !RETRY_STATUSES.includes(error.status) : !wasOpen) throw error;
      }
      await pause(waitMs, signal);
      waitMs = Math.min(2 * waitMs, RETRY_MAX_MS);
    }
  }

  async #post(path, members, signal) {
    const headers = { "Content-Type": "application/json" };
    const response = await this.#fetch(path, { method: "POST", headers, body: JSON.stringify(members), signal });
    return response.status === 204 ? null : response.json();
  }

  async #fetch(path, { headers, ...asked }) {
    for (let retries = 0; ; retries += 1) {
      const response = await fetch(this.#url + path, {
        ...asked, headers: { ...this.#headers, ...headers }, cache: "no-store", credentials: "omit",
      });
      if (response.ok) return response;
      const error = await refusal(response);
      if (!RETRY_STATUSES.includes(response.status) || retries >= this.#retries) throw error;
      await pause(1000 * (Number(response.headers.get("Retry-After")) || 1), asked.signal);
      asked.signal?.throwIfAborted();
    }
  }
}

// A misspelt option would be left out without a word.
function only(options, ...names) {
  const unknown = Object.keys(options).find((one) => !names.includes(one));
  if (unknown !== undefined) throw new TypeError(`${unknown} is no option here: it must be one of ${names.join(", ")}.`);
}

// what onMessage has thrown, which is no failure of the connection
class Failed extends Error {}

async function readEvents(body, place, onMessage) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      let searched = Math.max(0, text.length - 1);
      text += value;
      for (let end; (end = text.indexOf("\n\n", searched)) >= 0; searched = 0) {
        await take(text.slice(0, end), place, onMessage);
        text = text.slice(end + 2);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The place moves on when onMessage is done with the message.
async function take(event, place, onMessage) {
  const fields = {};
  for (const line of event.split("\n")) {
    const at = line.indexOf(": ");
    if (at > 0) fields[line.slice(0, at)] = line.slice(at + 2);
  }
  if (fields.event === "refused") throw new RadiatorError(JSON.parse(fields.data));
  if (fields.data !== undefined) {
    const message = withBytes(JSON.parse(fields.data));
    if (fields.id !== undefined) message.lastEventId = fields.id;
    try {
      await onMessage?.(message);
    } catch (error) {
      throw new Failed("onMessage", { cause: error });
    }
  }
  if (fields.id !== undefined) place.id = fields.id;
}

async function refusal(response) {
  try {
    return new RadiatorError(await response.json());
  } catch {
    const detail = `The answer has the status ${response.status}, and is not from Radiator.`;
    return new RadiatorError({ status: response.status, code: "protocol", detail });
  }
}

const KINDS = { queue: "queues", fanout: "fanouts", exchange: "exchanges", topic: "topics", log: "logs" };

function split(address) {
  const [, kind, name] = /^\/([^/]+)\/([^]+)$/.exec(address) ?? [];
  if (!(kind in KINDS)) throw new TypeError(`${address} is no address such as /queue/NAME, /topic/NAME, /log/NAME.`);
  const slash = kind === "exchange" ? name.indexOf("/") : -1;
  return slash < 0 ? [KINDS[kind], name, ""] : [KINDS[kind], name.slice(0, slash), name.slice(slash + 1)];
}

function pathOf(address, what) {
  const [kind, name] = split(address);
  return `/v1/${kind}/${encodeURIComponent(name)}/${what}`;
}

function keyOf(address) {
  const [, , key] = split(address);
  return key ? `?key=${encodeURIComponent(key)}` : "";
}

function asMember(message) {
  only(message, "body", "headers", "idempotencyKey");
  const { body, headers, idempotencyKey } = message;
  const all = { ...headers };
  if (idempotencyKey !== undefined) all["idempotency-key"] = idempotencyKey;
  if (typeof body === "string") return { headers: all, body };
  if (body instanceof ArrayBuffer) return { headers: all, body_base64: base64(new Uint8Array(body)) };
  if (ArrayBuffer.isView(body)) {
    return { headers: all, body_base64: base64(new Uint8Array(body.buffer, body.byteOffset, body.byteLength)) };
  }
  return { headers: all, json: body ?? null };
}

function withBytes({ body_base64, ...message }) {
  if (body_base64 === undefined) return message;
  return { ...message, body: Uint8Array.from(atob(body_base64), (one) => one.charCodeAt(0)) };
}

function utf8(text) {
  return new TextEncoder().encode(text);
}

function base64(bytes) {
  let text = "";
  for (const one of bytes) text += String.fromCharCode(one);
  return btoa(text);
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    }
    if (signal?.aborted) done();
    else signal?.addEventListener("abort", done);
  });
}
