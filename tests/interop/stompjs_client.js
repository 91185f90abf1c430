// stompjs against a broker: node stompjs_client.js HOST PORT SCENARIO tcp|websocket. Says one line for each step, "done"
// at the end. PORT: of a listener for that.
"use strict";
const { Client } = require("@stomp/stompjs");
const { TCPWrapper } = require("@stomp/tcp-wrapper");
const WebSocket = require("ws");

const [host, port, scenario, transport] = process.argv.slice(2);
const name = `stompjs.${transport}.${scenario}`;
const SAFE = { ack: "client-individual" };
const DURABLE = { ...SAFE, id: "archive", durable: "true", "auto-delete": "false" };

function check(holds, what) {
  if (!holds) throw new Error(`it does not hold that ${what}`);
  console.log(what);
}

function socket() {
  if (transport === "tcp") return new TCPWrapper(host, Number(port));
  return new WebSocket(`ws://${host}:${port}/ws`, ["v12.stomp", "v11.stomp"]);
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// A promise of the first thing that is put, and of the ones behind it.
class Inbox {
  constructor() {
    this.there = [];
    this.wanted = [];
  }
  put(one) {
    const take = this.wanted.shift();
    if (take) take(one);
    else this.there.push(one);
  }
  next() {
    if (this.there.length) return Promise.resolve(this.there.shift());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("nothing came within 10 s")), 10000);
      this.wanted.push((one) => {
        clearTimeout(timer);
        resolve(one);
      });
    });
  }
}

// An ERROR that no scenario has asked for.
function failed(frame) {
  console.error(frame.body);
  process.exit(1);
}

let receipts = 0;
const open = [];

function connect(options = {}) {
  return new Promise((resolve) => {
    const client = new Client({
      webSocketFactory: socket,
      heartbeatIncoming: 300,
      heartbeatOutgoing: 300,
      reconnectDelay: 100,
      onConnect: () => resolve(client),
      onStompError: failed,
      ...options,
    });
    open.push(client);
    client.activate();
  });
}

// Resolves with the broker's RECEIPT for what `say` says with that header.
function receipted(client, say) {
  return new Promise((resolve) => {
    const receipt = `r${++receipts}`;
    client.watchForReceipt(receipt, resolve);
    say({ receipt });
  });
}

const publish = (client, destination, body, headers = {}) =>
  receipted(client, (more) => client.publish({ destination, body, headers: { ...headers, ...more } }));

async function subscribe(client, destination, headers = SAFE) {
  const inbox = new Inbox();
  await receipted(client, (more) => {
    inbox.subscription = client.subscribe(destination, (message) => inbox.put(message), { ...headers, ...more });
  });
  return inbox;
}

// Replies come on no subscription of ours: the broker makes the temp queue for the request.
function asker() {
  const replies = new Inbox();
  return connect({ onUnhandledMessage: (message) => replies.put(message) }).then((client) => ({ client, replies }));
}

async function admin(one, request) {
  const headers = { "reply-to": "/temp-queue/answers", "correlation-id": "a" };
  one.client.publish({ destination: "/admin", body: JSON.stringify(request), headers });
  return JSON.parse((await one.replies.next()).body);
}

const SCENARIOS = {
  // at the broker of test_login.py
  async login() {
    const client = await connect({ connectHeaders: { login: "shop", passcode: "cor:rect horse" } });
    await publish(client, `/queue/${name}`, "x");
    check(true, "a user gets in");
    const wrong = { connectHeaders: { login: "shop", passcode: "wrong" }, reconnectDelay: 0 };
    const error = await new Promise((resolve) => connect({ ...wrong, onStompError: resolve }));
    check(error.headers.code === "forbidden", "another one is refused");
  },
  async queue() {
    const client = await connect();
    const text = "zwölf Boxkämpfer: € and \\ \n";
    await publish(client, `/queue/${name}`, text, { colour: "red:\\" });
    const inbox = await subscribe(client, `/queue/${name}`);
    const first = await inbox.next();
    check(first.body === text && first.headers.colour === "red:\\", "a message comes unchanged");
    first.nack();
    const second = await inbox.next();
    check(second.headers.redelivered === "true", "after a NACK it comes again, marked");
    second.ack();
  },

  async transaction() {
    const client = await connect();
    const inbox = await subscribe(client, `/queue/${name}`);
    const aborted = client.begin();
    client.publish({ destination: `/queue/${name}`, body: "no", headers: { transaction: aborted.id } });
    aborted.abort();
    const committed = client.begin();
    client.publish({ destination: `/queue/${name}`, body: "yes", headers: { transaction: committed.id } });
    committed.commit();
    const message = await inbox.next();
    check(message.body === "yes", "what is committed comes, what is aborted does not");
    message.ack();
  },

  async exchange() {
    const client = await connect();
    const errors = await subscribe(client, `/exchange/amq.topic/${name}.*.error`, { ack: "auto" });
    const all = await subscribe(client, `/exchange/amq.topic/${name}.#`, { ack: "auto" });
    await publish(client, `/exchange/amq.topic/${name}.disk.warning`, "1");
    await publish(client, `/exchange/amq.topic/${name}.disk.error`, "2");
    check((await errors.next()).body === "2", "a pattern lets through what matches it");
    check((await all.next()).body === "1" && (await all.next()).body === "2", "# lets through everything");
    const direct = await subscribe(client, `/exchange/amq.direct/${name}`);
    await publish(client, `/exchange/amq.direct/${name}`, "3");
    const message = await direct.next();
    check(message.headers.destination === `/exchange/amq.direct/${name}`, "it says where it was sent to");
    message.ack();
  },

  async declared() {
    const one = await asker();
    const requests = [
      { do: "declare", exchange: name, type: "direct" },
      { do: "declare", queue: `${name}.queue`, persistent: false, expires_ms: 60000 },
      { do: "bind", exchange: name, key: "k", queue: `${name}.queue` },
    ];
    for (const request of requests) {
      check((await admin(one, request)).ok, `${request.do} is answered`);
    }
    await publish(one.client, `/exchange/${name}/k`, "x");
    await publish(one.client, `/exchange/${name}/other`, "y");
    const described = await admin(one, { do: "describe", queue: `${name}.queue` });
    check(described.messages === 1, "what matches is in the queue, and nothing else");
    check((await admin(one, { do: "describe", exchange: name })).unrouted === 1, "the other one is counted");
    check((await admin(one, { do: "delete", exchange: name })).deleted === 1, "the exchange is deleted");
  },

  async mandatory() {
    let refuse;
    const refused = new Promise((resolve) => (refuse = resolve));
    const client = await connect({ reconnectDelay: 0, onStompError: (frame) => refuse(frame) });
    client.publish({ destination: `/exchange/amq.direct/${name}`, body: "x", headers: { mandatory: "true" } });
    check((await refused).headers.code === "no-subscriber", "what nobody would get is refused");
  },

  async durable() {
    const address = `/topic/${name}.#`;
    const first = await connect();
    await subscribe(first, address, DURABLE);
    await first.deactivate();
    const sender = await connect();
    await publish(sender, `/topic/${name}.a`, "while you were away");
    const second = await connect();
    const inbox = await subscribe(second, address, DURABLE);
    const message = await inbox.next();
    check(message.body === "while you were away", "a durable subscription collects while nobody is there");
    message.ack();
    await receipted(second, (more) => inbox.subscription.unsubscribe({ durable: "true", ...more }));
    await publish(sender, `/topic/${name}.a`, "after the end");
    const again = await subscribe(second, address, DURABLE);
    await publish(sender, `/topic/${name}.a`, "anew");
    const next = await again.next();
    check(next.body === "anew", "UNSUBSCRIBE with durable:true is its end");
    next.ack();
    await receipted(second, (more) => again.subscription.unsubscribe({ durable: "true", ...more }));
  },

  async delay() {
    const client = await connect();
    const inbox = await subscribe(client, `/queue/${name}`);
    const began = Date.now();
    await publish(client, `/queue/${name}`, "later", { delay: "400" });
    await publish(client, `/queue/${name}`, "now");
    check(Date.now() - began < 350, "the receipt does not wait for the delay");
    const now = await inbox.next();
    now.ack();
    const later = await inbox.next();
    later.ack();
    check(now.body === "now" && later.body === "later", "what is delayed lets the others pass");
    check(Date.now() - began >= 395, "it does not come before its time");
  },

  async "deliver-at"() {
    const client = await connect();
    const inbox = await subscribe(client, `/queue/${name}`);
    const at = Date.now() + 400;
    await publish(client, `/queue/${name}`, "later", { "deliver-at": String(at) });
    (await inbox.next()).ack();
    check(Date.now() >= at - 5, "it does not come before its time");
  },

  async "nack-delay"() {
    const client = await connect();
    const inbox = await subscribe(client, `/queue/${name}`);
    await publish(client, `/queue/${name}`, "x");
    const first = await inbox.next();
    const began = Date.now();
    first.nack({ delay: "400" });
    const again = await inbox.next();
    again.ack();
    check(again.headers["redelivery-count"] === "1", "it comes again, counted");
    check(Date.now() - began >= 395, "after the delay that the NACK asked for");
  },

  async "request-reply"() {
    const server = await connect();
    server.subscribe(
      `/queue/${name}`,
      (request) => {
        const headers = { "correlation-id": request.headers["correlation-id"] };
        server.publish({ destination: request.headers["reply-to"], body: request.body.toUpperCase(), headers });
        request.ack();
      },
      SAFE,
    );
    const one = await asker();
    for (const word of ["one", "two", "three"]) {
      const headers = { "reply-to": "/temp-queue/answers", "correlation-id": word };
      one.client.publish({ destination: `/queue/${name}`, body: word, headers });
    }
    for (const word of ["one", "two", "three"]) {
      const reply = await one.replies.next();
      check(reply.body === word.toUpperCase() && reply.headers["correlation-id"] === word, `${word} is answered`);
    }
  },

  async reconnect() {
    const inbox = new Inbox();
    const client = new Client({
      webSocketFactory: socket,
      reconnectDelay: 100,
      onStompError: failed,
      onConnect: () => {
        client.subscribe(`/queue/${name}`, (message) => inbox.put(message), SAFE);
        inbox.put("connected");
      },
    });
    open.push(client);
    client.activate();
    check((await inbox.next()) === "connected", "it is connected");
    client.publish({ destination: `/queue/${name}`, body: "x" });
    check((await inbox.next()).headers.redelivered === "false", "a message comes, and is not acked");
    client.forceDisconnect();
    check((await inbox.next()) === "connected", "it has connected again by itself");
    const again = await inbox.next();
    check(again.headers.redelivered === "true", "the message comes again, marked");
    again.ack();
  },

  async bodies() {
    const client = await connect({ forceBinaryWSFrames: true });
    const inbox = await subscribe(client, `/queue/${name}`);
    const every = Uint8Array.from({ length: 70000 }, (_, at) => at % 256);
    await receipted(client, (headers) =>
      client.publish({ destination: `/queue/${name}`, binaryBody: every, headers }),
    );
    const binary = await inbox.next();
    check(Buffer.compare(Buffer.from(binary.binaryBody), Buffer.from(every)) === 0, "each byte comes, NUL too");
    binary.ack();
    const text = "\u0000 zwölf € \u{1f40e} \n".repeat(5000);
    await publish(client, `/queue/${name}`, text);
    const message = await inbox.next();
    check(message.body === text, "text comes with NUL and what is beyond 16 bits");
    message.ack();
  },

  // a frame in many messages of WebSocket
  async split() {
    const client = await connect({ splitLargeFrames: true, maxWebSocketChunkSize: 1000 });
    const inbox = await subscribe(client, `/queue/${name}`);
    const text = "€".repeat(100000);
    await publish(client, `/queue/${name}`, text);
    const message = await inbox.next();
    check(message.body === text, "a frame that was split comes whole");
    message.ack();
  },

  // several frames in a message of WebSocket, and one in pieces, as text and as bytes
  async together() {
    const raw = new WebSocket(`ws://${host}:${port}/stomp`, ["v10.stomp"]);
    const inbox = new Inbox();
    raw.on("message", (data, isBinary) => inbox.put([String(data), isBinary]));
    raw.on("close", (code) => inbox.put(code));
    await new Promise((resolve) => raw.on("open", resolve));
    check(raw.protocol === "v10.stomp" && raw.extensions === "", "the subprotocol is agreed on, and no compression");
    const sends = ["1", "2", "3"].map((id) => `SEND\ndestination:/queue/${name}\nreceipt:${id}\n\n${id}\0`).join("\n");
    raw.send(`CONNECT\naccept-version:1.2\nhost:h\n\n\0${sends}`);
    check((await inbox.next())[0].startsWith("CONNECTED\n"), "CONNECT is answered");
    const receipts = [await inbox.next(), await inbox.next(), await inbox.next()];
    check(receipts.every(([text, isBinary]) => isBinary && text.startsWith("RECEIPT\n")), "each SEND has its RECEIPT");
    const end = Buffer.from("DISCONNECT\nreceipt:end\n\n\0");
    raw.send(end.subarray(0, 5));
    raw.send(end.subarray(5, 20), { fin: false });
    raw.send(end.subarray(20), { fin: true });
    check((await inbox.next())[0].startsWith("RECEIPT\nreceipt-id:end\n"), "what came in pieces is read");
    check((await inbox.next()) === 1000, "behind DISCONNECT it is closed in order");
    const client = await connect();
    const kept = await subscribe(client, `/queue/${name}`);
    for (const body of ["1", "2", "3"]) {
      const message = await kept.next();
      check(message.body === body, `${body} is there`);
      message.ack();
    }
  },

  // its own heart-beats and the broker's, for longer than either would wait
  async "heart-beats"() {
    let closed = false;
    const client = await connect({ reconnectDelay: 0, onWebSocketClose: () => (closed = true) });
    await sleep(2500);
    check(!closed && client.connected, "who says and hears heart-beats stays connected");
    const silent = new WebSocket(`ws://${host}:${port}/ws`);
    const heard = new Inbox();
    silent.on("open", () => silent.send("CONNECT\naccept-version:1.2\nhost:h\nheart-beat:300,300\n\n\0"));
    silent.on("message", (data) => data.length === 1 && (silent.beats = (silent.beats || 0) + 1));
    silent.on("close", (code) => heard.put(code));
    check((await heard.next()) > 1000 && silent.beats > 1, "who says none hears some, and is closed");
  },

  async closed() {
    const client = await connect({ reconnectDelay: 0 });
    const inbox = await subscribe(client, `/queue/${name}`);
    const ended = new Promise((resolve) => (client.onWebSocketClose = (event) => resolve(event.code)));
    const told = new Promise((resolve) => (client.onStompError = (frame) => resolve(frame.body)));
    inbox.subscription.unsubscribe({ id: "no-such-one" });
    client.publish({ destination: "/nothing/here", body: "x" });
    check((await told).length > 10, "an ERROR says what was wrong");
    check([1002, 1008].includes(await ended), "and a close frame follows it");
  },
};

async function main() {
  if (!SCENARIOS[scenario]) throw new Error(`no scenario ${scenario}`);
  await SCENARIOS[scenario]();
  await sleep(50); // the last ACK shall be with the broker
  for (const client of open) await client.deactivate();
  console.log("done");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
