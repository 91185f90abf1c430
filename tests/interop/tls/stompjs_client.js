// stompjs over TLS: node stompjs_client.js HOST PORT CA LOGIN PASSCODE. One message goes out and comes back: "done".
"use strict";
const { readFileSync } = require("fs");
const tls = require("tls");
const { Client } = require("@stomp/stompjs");
const { TCPWrapper } = require("@stomp/tcp-wrapper");

const [host, port, caFile, login, passcode] = process.argv.slice(2);

function end(reason) {
  console.error(String(reason));
  process.exit(1);
}

class TlsWrapper extends TCPWrapper {
  getSocket(port, host) {
    return tls.connect({ port, host, servername: host, ca: readFileSync(caFile) });
  }
}

const client = new Client({
  webSocketFactory: () => new TlsWrapper(host, Number(port)),
  connectHeaders: { login, passcode },
  reconnectDelay: 0,
  onWebSocketError: (event) => end(event.message),
  onStompError: (frame) => end(frame.body),
  onConnect: () => {
    client.subscribe("/queue/stompjs", (message) => {
      if (message.body !== "hello") end(message.body);
      console.log("done");
      process.exit(0);
    });
    client.publish({ destination: "/queue/stompjs", body: "hello" });
  },
});
client.activate();
setTimeout(() => end("nothing came within 10 s"), 10000);
