"""STOMP 1.0, 1.1 and 1.2: tables (spec), frames, an incremental parser, the server's session and the client's."""
