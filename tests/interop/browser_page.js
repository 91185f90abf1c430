// stompjs in a browser: the page /?SCENARIO&PORT of test_browser.py, at a broker's /ws. Says each step to its site.
"use strict";
const [scenario, port] = location.search.slice(1).split("&");
const queue = `/queue/browser.${scenario}`;
const SAFE = { ack: "client-individual" };

const say = (what) => fetch("/said", { method: "POST", body: JSON.stringify(what) });
window.addEventListener("error", (event) => say({ error: String(event.message) }));
window.addEventListener("unhandledrejection", (event) => say({ error: String(event.reason) }));

function connect(onConnect, more = {}) {
  const client = new StompJs.Client({
    brokerURL: `ws://127.0.0.1:${port}/ws`,
    reconnectDelay: 200,
    onStompError: (frame) => say({ error: frame.body }),
    onConnect: () => onConnect(client),
    ...more,
  });
  client.activate();
  return client;
}

const bytesOf = (text) => new TextEncoder().encode(text);
const same = (some, others) => some.length === others.length && some.every((byte, at) => byte === others[at]);

// How many of 200 messages with NUL and UTF-8 have come back as they were sent, half of them as bytes.
function exchange() {
  const COUNT = 200;
  const body = (number) => `${number}\0zwölf € \u{1f40e}\n`.repeat(1 + (number % 50));
  let isEvalRefused = false;
  try {
    new Function("return 1")();
  } catch {
    isEvalRefused = true;
  }
  let came = 0, right = 0, receipts = 0;
  const done = () => came === COUNT && receipts === COUNT && say({ right, receipts, isEvalRefused });
  connect((client) => {
    client.subscribe(queue, (message) => {
      right += same(message.binaryBody, bytesOf(body(came)));
      came++;
      message.ack();
      done();
    }, SAFE);
    for (let number = 0; number < COUNT; number++) {
      client.watchForReceipt(`r${number}`, () => {
        receipts++;
        done();
      });
      const what = number % 2 ? { body: body(number) } : { binaryBody: bytesOf(body(number)) };
      client.publish({ destination: queue, headers: { receipt: `r${number}` }, ...what });
    }
  });
}

// Whether this site may open a WebSocket there.
function origin() {
  const webSocket = new WebSocket(`ws://127.0.0.1:${port}/stomp`, ["v12.stomp"]);
  webSocket.onopen = () => say({ isOpen: true, protocol: webSocket.protocol, extensions: webSocket.extensions });
  webSocket.onclose = (event) => say({ isOpen: false, code: event.code });
}

// All that comes, over however many connections: each number once it has been acked, and whenever it is connected.
function reconnect() {
  connect((client) => {
    client.subscribe(queue, (message) => {
      message.ack();
      say({ number: Number(message.body) });
    }, SAFE);
    say({ isConnected: true });
  });
}

({ exchange, origin, reconnect })[scenario]();
