"""The link between nodes. docs/PROTOCOL.md, "The link between nodes", has its bytes."""
