"""What contract and docs/PROTOCOL.md promise, seen from outside: a real broker, real sockets, one test for each sentence."""
