"""STOMP: frames, headers, numbers, and what a session allows when."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "blank-line-cut-in-two",
        "A blank line of which a read brings only the first half is not seen.",
        function="Parser._is_hopeless",
        old=r'held.find(b"\n\n", start - 1) < 0',
        new=r'held.find(b"\n\n", start) < 0',
    ),
    Mutant(
        "body-limit-off-by-one",
        "A frame with a content-length may have one byte more than max_frame_bytes.",
        function="Parser._body_end_by_length",
        old="if head_bytes + length + 1 > self._max_frame_bytes:",
        new="if head_bytes + length > self._max_frame_bytes:",
    ),
    Mutant(
        "connect-without-bound",
        "A stranger may say as much before CONNECT is whole as a client may in any frame.",
        function="Parser.__init__",
        old="""
            self._max_frame_bytes = min(limits.max_frame_bytes, CONNECT_MAX_BYTES)
            self._max_header_bytes = min(limits.max_header_bytes, CONNECT_MAX_BYTES)
        """,
        new="""
            self._max_frame_bytes = limits.max_frame_bytes
            self._max_header_bytes = limits.max_header_bytes
        """,
    ),
    Mutant(
        "content-length-read-by-int",
        "A content-length is what int() takes for a number: signs, spaces, underscores, digits of any script.",
        function="Parser._content_length",
        old="""
            if not value.isdigit():
                raise BrokenFrame(f"content-length {shown(value)} is not a number of octets: digits only.")
        """,
        new="""
            try:
                return int(value.decode())
            except ValueError:
                raise BrokenFrame(f"content-length {shown(value)} is not a number of octets: digits only.") from None
        """,
    ),
    Mutant(
        "crlf-in-every-version",
        "CR LF ends a line in every version, not only in 1.2.",
        function="Parser.speak",
        old="self._reads_crlf = version == V1_2",
        new="self._reads_crlf = True",
    ),
    Mutant(
        "delay-without-bound",
        "A delay of any length is taken.",
        function="StompSession._send",
        old='number(headers, b"delay", 0, TIME_MAX_MS),',
        new='number(headers, b"delay", 0, 10**18),',
    ),
    Mutant(
        "durable-may-delete-itself",
        "SUBSCRIBE with both durable:true and auto-delete:true is taken.",
        function="_check_stays",
        old='if flag(headers, b"auto-delete", absent=False) and asking:',
        new='if flag(headers, b"auto-delete", absent=False) and not headers:',
    ),
    Mutant(
        "escape-missing-when-relayed",
        "What a 1.0 client says goes to clients of other versions without escapes.",
        function="converted",
        old=r'lines.append(b"%b:%b\n" % (escape(name, receiver), escape(value, receiver)))',
        new=(
            r'lines.append(b"%b:%b\n" % (name, value) if sender == V1_0 else b"%b:%b\n" % (escape(name, receiver),'
            " escape(value, receiver)))"
        ),
    ),
    Mutant(
        "frames-before-connect-accepted",
        "What a stranger says before CONNECT is carried out, as from an anonymous client.",
        function="StompSession.__init__",
        old="self._parser = Parser(limits, CONNECT_COMMANDS)",
        new="self._parser = Parser(limits, CLIENT_COMMANDS[V1_2])",
        also=(
            Edit(
                function="StompSession.receive",
                old="commands.append(self._connect(frame))",
                new="""
                    commands.append(Open(self._connection, closes_at=self.closes_at, principal=self._principal))
                    if frame.command in CONNECT_COMMANDS:
                        self._connect(frame)
                    else:
                        self._state, self.is_open = _OPEN, True
                        commands.append(self._command(frame))
                """,
            ),
        ),
    ),
    Mutant(
        "goes-on-after-an-error",
        "What follows a broken frame is read and carried out.",
        function="StompSession._fail",
        old="self._state = _ENDED",
        new="",
    ),
    Mutant(
        "header-block-without-bound",
        "A header block whose blank line does not come is held without a bound.",
        function="Parser._is_hopeless",
        old="and len(held) < self._max_header_bytes",
        new="",
    ),
    Mutant(
        "header-limit-off-by-one",
        "A header block may have one byte more than max_header_bytes.",
        function="Parser._frame",
        old="if body_start - position > self._max_header_bytes:",
        new="if body_start - position > self._max_header_bytes + 1:",
    ),
    Mutant(
        "headers-limit-off-by-one",
        "A frame may have one header more than max_headers.",
        function="Parser._headers",
        old="if len(lines) > self._limits.max_headers:",
        new="if len(lines) > self._limits.max_headers + 1:",
    ),
    Mutant(
        "headers-not-checked-for-utf8",
        "Headers that are no UTF-8 are taken and sent on.",
        function="Parser._headers",
        old="if not block.isascii():",
        new="if not block.isascii() and self._version is None:",
    ),
    Mutant(
        "heart-beat-floor-off",
        "A client gets heart-beats as often as it asks for, whatever the operator allows.",
        function="agreed_s",
        old="return max(can_ms, want_ms) / 1000 if can_ms and want_ms else 0.0",
        new="return want_ms / 1000 if can_ms and want_ms else 0.0",
    ),
    Mutant(
        "inexpressible-header-relayed",
        "A value with a line feed goes to 1.0 clients as it is: what stands behind it becomes a header of its own.",
        function="converted",
        old=r'if receiver == V1_0 and (b"\n" in name or b":" in name or b"\n" in value):',
        new=r'if receiver == V1_0 and (b"\n" in name or b":" in name):',
    ),
    Mutant(
        "kept-id-off-by-one",
        "An id or transaction may have one byte more than it should.",
        function="check_ids",
        old="if value is not None and len(value) > ID_MAX_BYTES:",
        new="if value is not None and len(value) > ID_MAX_BYTES + 1:",
    ),
    Mutant(
        "names-normalised",
        "Addresses are tidied up like paths: /queue/a/../b becomes another queue.",
        function="address",
        old="if wrong := address_mistake(text):",
        new="""
            text = __import__("posixpath").normpath(text)
            if wrong := address_mistake(text):
        """,
    ),
    Mutant(
        "negative-content-length",
        "A content-length may be negative.",
        function="Parser._content_length",
        old="if not value.isdigit():",
        new='if not value.lstrip(b"-").isdigit():',
    ),
    Mutant(
        "negative-heart-beat",
        "A negative number is taken in heart-beat.",
        function="_NUMBERS",
        old='_NUMBERS = re.compile(rb"([0-9]{1,10}),([0-9]{1,10})", re.ASCII)',
        new='_NUMBERS = re.compile(rb"(-?[0-9]{1,10}),(-?[0-9]{1,10})", re.ASCII)',
    ),
    Mutant(
        "owned-header-not-stripped",
        "A sender may say redelivered itself, and the receiver gets it beside the broker's.",
        function="HOP_HEADERS",
        old='b"redelivered",',
        new="",
    ),
    Mutant(
        "passcode-logged",
        "Who says CONNECT twice gets its headers back in the ERROR, and they stand in the log.",
        function="StompSession._second_connect",
        old='raise Violation(f"A second {frame.command.decode()}: this connection is already connected.")',
        new=(
            'raise Violation(f"A second {frame.command.decode()} {frame.headers}: this connection is already'
            ' connected.")'
        ),
    ),
    Mutant(
        "second-connect-accepted",
        "A second CONNECT is answered like the first, and may change the version.",
        function="StompSession.receive",
        old="if self._state == _OPEN:",
        new="""
            if self.is_open and frame.command in CONNECT_COMMANDS:
                self._connect(frame)
            elif self._state == _OPEN:
        """,
    ),
    Mutant(
        "sleep-in-the-session",
        "The session lets other greenlets run between two frames of one read.",
        function="StompSession.receive",
        old="if self._state == _OPEN:",
        new="""
            __import__("gevent").sleep(0)
            if self._state == _OPEN:
        """,
    ),
    Mutant(
        "smuggling-after-content-length",
        "The octet after a body of a known length may be any, not only NUL: the sender and we see different frames.",
        function="Parser._body_end_by_length",
        old="if data[end] != 0:",
        new="if False:",
    ),
    Mutant(
        "two-content-lengths",
        "Of two different content-lengths the first counts, and nobody is told.",
        function="Parser._body_end_by_length",
        old="if len(headers) != len(lines):",
        new="if len(headers) > len(lines):",
    ),
    Mutant(
        "unescape-missing",
        "Values of headers are not unescaped.",
        function="Parser._unescaped",
        old="headers.setdefault(unescape(name, version), unescape(value, version))",
        new="headers.setdefault(unescape(name, version), value)",
    ),
)
