"""The promises of README.md and docs/PROTOCOL.md seen from outside: real broker, real sockets, a test a sentence."""
