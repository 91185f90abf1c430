"""Requests over HTTP: who may make them, what is read of them, and what is answered."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "http-answer-as-page",
        "A browser takes refusals for pages, with all that they repeat of what was asked.",
        function="responses:PROBLEM",
        old='PROBLEM = b"application/problem+json"',
        new='PROBLEM = b"text/html"',
    ),
    Mutant(
        "events-last-event-id-ignored",
        "A browser that comes back to a log begins where `from` says, and not behind what it has.",
        function="_start",
        old="if last:",
        new="if last and False:",
    ),
    Mutant(
        "events-of-any-number-of-partitions",
        "One stream of events reads all partitions of a log, however many, and each event has a place in all of them.",
        function="of_log",
        old="offsets_max=HTTP_EVENTS_PARTITIONS,",
        new="offsets_max=PARTITIONS_MAX,",
    ),
    Mutant(
        "events-with-requests-between",
        "Requests behind a stream of events are carried out, and answered in the middle of it.",
        function="WebSession.receive",
        old="if self._is_over or self._stream is not None:",
        new="if self._is_over:",
    ),
    Mutant(
        "events-place-before-the-disk",
        "A stream of events says that it begins behind records that a crash may still take.",
        function="LogKind.subscribe",
        old="offsets = {index: min(one.next, one.partition.committed) for index, one in reader.cursors.items()}",
        new="offsets = {index: one.next for index, one in reader.cursors.items()}",
    ),
    Mutant(
        "http-chunk-size-by-int",
        "The size of a chunk is whatever Python takes for a number: signs, spaces and underscores too.",
        function="Body._begin_chunk",
        old="""
            if not digits or not _HEX.issuperset(digits):
                raise _no_size(digits)
            self._left = int(digits, 16)
        """,
        new="""
            try:
                self._left = abs(int(digits, 16))
            except ValueError:
                raise _no_size(digits) from None
        """,
    ),
    Mutant(
        "http-first-login-for-all",
        "Every request of a connection is made in the name of who made its first.",
        function="Recognition.begin",
        old="if self._known is not None and authorization == self._authorization:",
        new="if self._known is not None:",
    ),
    Mutant(
        "http-forgets-the-key",
        "The Idempotency-Key of a message says nothing: what is published again is stored again.",
        function="publishing:_raw",
        old="headers[of_message] = value",
        new="""
            if of_message != _DEDUP_ID:
                headers[of_message] = value
        """,
    ),
    Mutant(
        "http-get-changes",
        "What is asked for by GET, as any link does, is done as if it were posted.",
        function="found_route",
        old='route = found.get("GET" if head.method == "HEAD" else head.method)',
        new="""
            route = found.get("GET" if head.method == "HEAD" else head.method)
            route = route or (found.get("POST") if head.method == "GET" else None)
        """,
    ),
    Mutant(
        "http-head-like-the-last",
        "A head that is as long as the one before it on its connection is taken for the same.",
        function="WebSession._begin",
        old="if self._let_in is None or self._let_in.data != data:",
        new="if self._let_in is None or len(self._let_in.data) != len(data):",
    ),
    Mutant(
        "http-header-unescaped",
        "A line feed in a header of a message that came as JSON begins another header, or ends the frame's.",
        function="send_of",
        old='lines.append(b"%b:%b\\n" % (escape(name, ESCAPING_ALL), escape(value, ESCAPING_ALL)))',
        new='lines.append(b"%b:%b\\n" % (name, value))',
    ),
    Mutant(
        "http-origin-reflected",
        "Whatever page asks is told that it may read the answer.",
        function="allowed_origin",
        old="""
            if origin is None or _is_own(head, origin) or origin.decode("latin-1").lower() not in web.origins:
        """,
        new="if origin is None:",
    ),
    Mutant(
        "http-pipelined-without-bound",
        "As many requests of one connection are on their way as its client sends.",
        function="WebSession._begin",
        old="if self._slots and (len(self._slots) >= HTTP_PIPELINED or self._slots[-1].is_last or self._is_alone()):",
        new="if self._slots and (self._slots[-1].is_last or self._is_alone()):",
    ),
    Mutant(
        "http-size-after-keeping",
        "A body is kept whole before its size is compared with what it may have.",
        function="Body._begin_chunk",
        old="""
            if self.size + self._left > self._most:
                raise self._too_large()
            self.size += self._left
        """,
        new="""
            self.size += self._left
            if self.size > self._most and not self._left:
                raise self._too_large()
        """,
    ),
    Mutant(
        "http-slow-body-without-clock",
        "A body may take as long as its client likes.",
        function="WebSession.buffered_bytes",
        old="return len(self._data) + (self._reading.read_bytes if self._reading is not None else 0)",
        new="return len(self._data)",
    ),
    Mutant(
        "http-two-lengths",
        "Chunks are read where the request says a length too, so that a proxy may see the end of its body elsewhere.",
        function="Body.__init__",
        old="if self.is_chunked and given is not None:",
        new="if False:",
        also=(
            Edit(
                function="Body.__init__",
                old="self.size = 0 if given is None else int(given)",
                new="self.size = 0 if given is None or self.is_chunked else int(given)",
            ),
            Edit(
                function="parse_head",
                old="parser = httptools.HttpRequestParser(found)",
                new="""
                    parser = httptools.HttpRequestParser(found)
                    parser.set_dangerous_leniencies(lenient_chunked_length=True)
                """,
            ),
        ),
    ),
    Mutant(
        "cookie-behind-its-logout",
        "A session of a browser goes on when its user has logged out.",
        function="browser_session:log_out",
        old="request.recognition.forget(request.head)",
        new="pass",
    ),
    Mutant(
        "cookie-by-a-form",
        "A form on any page can post what its browser adds a cookie to.",
        function="Recognition.begin",
        old="check_form(head)",
        new="pass",
    ),
    Mutant(
        "cookie-of-any-page",
        "A cookie logs in what the page of another site asks.",
        function="Recognition._key_of",
        old="return key_of(head, self.is_encrypted) if is_own_page(head) else None",
        new="return key_of(head, self.is_encrypted)",
    ),
    Mutant(
        "login-for-the-connection",
        "Who logs in by the body of a request has logged in its whole connection.",
        function="Recognition.log_in",
        old="return self.login.begin(self.transport, name, secret)",
        new="""
            found = self.login.begin(self.transport, name, secret)
            self._is_kept = True
            head = RequestHead("GET", b"/", b"", {}, "1.1")
            return self._recognised(head, found) if isinstance(found, Principal) else found
        """,
    ),
    Mutant(
        "session-of-another-user",
        "Whoever knows the name of a session of STOMP over HTTP reads it and ends it.",
        function="HttpTunnels._carry_out",
        old="if tunnel is None or tunnel.principal != principal:",
        new="if tunnel is None:",
    ),
    Mutant(
        "lease-of-another-user",
        "Whoever knows the token of a lease settles it.",
        function="Leases.settle",
        old="owner = self.owners.get(self.authorization.lease_owner(connection))",
        new="""
            numbers = {int(b"0" + one.lease.partition(b".")[0], 16) for one in command.settlements}
            owner = next((one for one in self.owners.values() if numbers & one.leases.keys()), None)
        """,
    ),
)
