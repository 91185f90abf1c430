// stompit against a broker: node stompit_client.js HOST PORT QUEUE. Says one line for each step, and "done" at the end.
"use strict";
const stompit = require("stompit");

const [host, port, queue] = process.argv.slice(2);
const body = Buffer.from(Array.from({ length: 70000 }, (_, index) => index % 256));

function connect(more) {
  const options = { host, port: Number(port), connectHeaders: { host: "/", "heart-beat": "300,300", ...more } };
  return new Promise((resolve, reject) => {
    stompit.connect(options, (error, client) => (error ? reject(error) : resolve(client)));
  });
}

// Resolves with the broker's RECEIPT.
function send(client, headers, data) {
  return new Promise((resolve, reject) => {
    client.on("error", reject);
    const frame = client.send({ destination: queue, ...headers }, { onReceipt: resolve });
    frame.end(data);
  });
}

// The next message of a new subscription, with its body.
function receive(client, headers) {
  return new Promise((resolve, reject) => {
    const subscription = client.subscribe({ destination: queue, ack: "client-individual", ...headers }, (error, message) => {
      if (error) return reject(error);
      const parts = [];
      message.on("data", (part) => parts.push(part));
      message.on("end", () => resolve({ message, subscription, body: Buffer.concat(parts) }));
    });
  });
}

function check(holds, what) {
  if (!holds) throw new Error(what);
  console.log(what);
}

async function main() {
  const sender = await connect({});
  const headers = { "content-type": "application/octet-stream", "content-length": body.length, colour: "red:\\\n" };
  await send(sender, headers, body);
  check(true, "a binary message of 70000 bytes is receipted");

  const reader = await connect({});
  const first = await receive(reader, { id: "1" });
  check(first.body.equals(body), "it comes unchanged");
  check(first.message.headers.colour === "red:\\\n", "its headers come unchanged");
  check(first.message.headers.redelivered === "false", "it is not marked as redelivered");
  first.subscription.unsubscribe();
  reader.nack(first.message);

  const second = await receive(reader, { id: "2" });
  check(second.message.headers.redelivered === "true", "after a NACK it comes again, marked");
  reader.ack(second.message);
  second.subscription.unsubscribe();

  const aborted = sender.begin();
  aborted.send({ destination: queue }).end("never");
  aborted.abort();
  const transaction = sender.begin();
  transaction.send({ destination: queue }).end("in the transaction");
  await new Promise((resolve) => transaction.commit({ onReceipt: resolve }));
  const third = await receive(reader, { id: "3", ack: "auto" });
  check(third.body.toString() === "in the transaction", "what is committed comes, what is aborted does not");

  await new Promise((resolve) => setTimeout(resolve, 1500));
  await send(sender, {}, "still here");
  check(true, "heart-beats keep a silent connection");

  const refused = await connect({});
  const error = await new Promise((resolve) => {
    refused.on("error", resolve);
    // stompit 1.0 on Node 14 and newer throws it a second time, from the frame that it was reading
    process.once("uncaughtException", resolve);
    refused.send({ destination: "/nowhere/x" }).end("x");
  });
  check(String(error.message).includes("/nowhere/x"), "a refusal is an error");

  await new Promise((resolve) => sender.disconnect(resolve));
  await new Promise((resolve) => reader.disconnect(resolve));
  console.log("done");
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
