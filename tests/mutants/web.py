"""The web: who is let in, and WebSockets."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "events-counted-as-records",
        "Of what waits for readers of events the records are counted, however much more JSON makes of them.",
        function="of_log",
        old="encoded_bytes=event_bytes,",
        new="",
    ),
    Mutant(
        "websocket-frames-in-no-turn",
        "Of each client that sends many small frames some are read whenever any have come, and not in its turn.",
        function="WebSocketSession.receive",
        old="if self._floods and not is_its_turn:",
        new="if False:",
    ),
    Mutant(
        "costly-steps-at-once",
        "Steps of sessions that take long are all made at once, however many connections have one.",
        function="CostlySteps._run",
        old="while self._waiting and now_s < began_s + COSTLY_S:",
        new="while self._waiting:",
    ),
    Mutant(
        "host-not-checked",
        "A request is answered by whatever name the broker was asked for.",
        function="check_host",
        old="if value in _HOSTS_KNOWN:",
        new="if value:",
    ),
    Mutant(
        "metrics-for-everybody",
        "Whoever has a login reads all numbers, and with them the names of queues and users.",
        function="ROWS",
        old='Row(asked.ReadStats, "`stats`", "`see` on everything", lambda c: _everywhere(SEE)),',
        new='Row(asked.ReadStats, "`stats`", "`see` on everything"),',
    ),
    Mutant(
        "openapi-without-a-route",
        "The OpenAPI document leaves out something that is there.",
        function="document",
        old="if route.operation is not None:",
        new='if route.operation is not None and route.path != ("metrics",):',
    ),
    Mutant(
        "origin-not-checked",
        "A page of any site may open a WebSocket here.",
        function="check_origin",
        old='if not _is_own(head, origin) and origin.decode("latin-1").lower() not in web.origins:',
        new="if not origin:",
    ),
    Mutant(
        "readiness-behind-a-login",
        "A load balancer that has no login is not told whether the broker is ready.",
        function="Recognition.is_stranger",
        old="return self._find(self._key_of(head)) is None",
        new="return False",
    ),
    Mutant(
        "readiness-told-to-all",
        "Whoever has a login reads the names of nodes and listeners in the reasons of readiness.",
        function="ready",
        old="reasons = []",
        new="reasons = found",
    ),
    Mutant(
        "readiness-without-links",
        "A broker counts as ready while a node of the list is not linked.",
        function="readiness:reasons_of",
        old="if peer.state != UP:",
        new="if peer.state != UP and peer.cause is None:",
    ),
    Mutant(
        "websocket-connect-without-bound",
        "A message with CONNECT may be as long as any.",
        function="WebSocketSession.receive",
        old="""
            if not self.is_open and len(ws.reader.buffer) > CONNECT_MAX_BYTES:
                ws.fail(CloseCode.MESSAGE_TOO_BIG, "the message with CONNECT is too long")
        """,
        new="",
    ),
    Mutant(
        "websocket-fragments-without-bound",
        "A message may have any number of frames.",
        function="WebSocketSession._take",
        old="if self._fragments > WEBSOCKET_FRAGMENTS:",
        new="if self._fragments < 0:",
    ),
    Mutant(
        "websocket-reads-behind-a-failure",
        "What follows a text that is no UTF-8 in the same read is carried out.",
        function="WebSocketSession.receive",
        old="break",
        new="continue",
    ),
    Mutant(
        "websocket-size-not-compared",
        "A message's length is compared with its bound behind the message, when it has been kept.",
        function="WebSocketSession.__init__",
        old="self._ws = Protocol(SERVER, state=State.OPEN, max_size=limits.max_frame_bytes + WEBSOCKET_MORE_BYTES)",
        new="""
            self._ws = Protocol(SERVER, state=State.OPEN, max_size=None)
            self._size_max = limits.max_frame_bytes + WEBSOCKET_MORE_BYTES
        """,
        also=(
            Edit(function="WebSocketSession", old='"_session",', new='"_session", "_size_max",'),
            Edit(
                function="WebSocketSession._take",
                old="data = bytes(frame.data)",
                new="""
                    data = bytes(frame.data)
                    if len(data) > self._size_max:
                        self._ws.fail(CloseCode.MESSAGE_TOO_BIG, "too long")
                        return False
                """,
            ),
        ),
    ),
    Mutant(
        "websocket-text-not-checked",
        "A text message may have any bytes.",
        function="WebSocketSession._take",
        old="if self._is_text:",
        new="if self._is_text and self._is_over:",
    ),
)
