"""Sockets, threads, timers, signals, the log, and the disk's thread."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "carry-on-in-memory",
        "A commit that fails is passed over: the broker goes on in memory, and sends its receipts.",
        function="committer",
        old="store.commit(batch.writes)",
        new="""
            try:
                store.commit(batch.writes)
            except Exception:
                pass
        """,
    ),
    Mutant(
        "connection-leak",
        "A connection that is over stays in the table of all sockets.",
        function="ServerConnection.close",
        old="del self._shared.by_number[self.number]",
        new="",
    ),
    Mutant(
        "connection-limit-off",
        "There is no limit of connections: they are accepted as long as the system has files.",
        function="Places.is_full",
        old="is_full = len(self._connected) >= self.connections_max",
        new="is_full = False",
    ),
    Mutant(
        "dependency-loaded-by-name",
        "At its first notification the broker loads another package, by its name.",
        function="notify",
        old='path = environment.get("NOTIFY_SOCKET", "")',
        new="""
            with contextlib.suppress(ImportError):
                __import__("packaging.version")
            path = environment.get("NOTIFY_SOCKET", "")
        """,
    ),
    Mutant(
        "exit-without-last-commit",
        "A stop waits for the commit that is on its way, and not for what was accepted behind it.",
        function="Server._wind_up",
        old="""
            while not (self._dispatcher.is_stopped and self._dispatcher.is_at_rest):
                if time.monotonic() >= at_once_s and not self._dispatcher.is_stopped:
                    self._inbox.stop(at_once=True)
                    at_once_s = inf
                gevent.sleep(_STOP_LOOK_S)
        """,
        new="",
    ),
    Mutant(
        "frame-deadline-off",
        "A client that stops in the middle of a frame is waited for for ever.",
        function="ServerConnection._silence_max_s",
        old="""
            if self._session.buffered_bytes:
                return min(self._session.silence_max_s, self._shared.limits.connect_timeout_s)
        """,
        new="",
    ),
    Mutant(
        "frame-time-per-byte",
        "Each byte of a frame gives it the whole time anew.",
        function="FrameClock.read",
        old="if not self._held_bytes or held_bytes != self._held_bytes + size:",
        new="if held_bytes:",
    ),
    Mutant(
        "half-open-takes-places",
        "A connection takes a place of clients as soon as it is accepted.",
        function="Connections._admit_client",
        old="places.enter(number, transport.network)",
        new="places.connect(number)",
    ),
    Mutant(
        "half-open-without-bound",
        "As many sockets that say nothing are accepted as come.",
        function="Connections._evict",
        old="if number is None:",
        new="if True:",
    ),
    Mutant(
        "handler-changes-state",
        "A signal's handler closes all connections at once, in the midst of whatever is being done.",
        function="Server.run",
        old="gevent.signal_handler(number, self._on_signal, number)",
        new="signal.signal(number, lambda number, _: self._connections.close() or self._on_signal(number))",
    ),
    Mutant(
        "hang-up-ends",
        "SIGHUP ends the broker, as it ends any program that says nothing about it.",
        function="Server.run",
        old="gevent.signal_handler(signal.SIGHUP, self._rereader.ask)",
        new="signal.signal(signal.SIGHUP, signal.SIG_DFL)",
    ),
    Mutant(
        "inline-commit",
        "A batch is committed on the hub's own thread, and everybody waits for the disk.",
        function="Worker.submit",
        old="""
            self._job = job
            self._go.release()
        """,
        new="""
            self._answer = self._work(job)
            self._done.send()
        """,
    ),
    Mutant(
        "log-client-limit-off",
        "One client may cause as many lines as all together.",
        function="EventLog.write",
        old='if level != "error" and client and self._is_left_out(client, event):',
        new="if False:",
    ),
    Mutant(
        "log-not-cut",
        "A value of the log may be as long as a client likes.",
        function="shown",
        old="text = value[:LOG_VALUE_CHARACTERS]",
        new="text = value",
    ),
    Mutant(
        "log-rate-limit-off",
        "Every event is told, however many there are in a second, and whoever causes them.",
        function="EventLog.write",
        old='if level != "error" and client and self._is_left_out(client, event):',
        new="if False:",
        also=(
            Edit(
                function="EventLog.write",
                old='if level != "error" and self._is_flood(event, int(now_s)):',
                new="if False:",
            ),
        ),
    ),
    Mutant(
        "log-unescaped",
        "What a client said stands in the log in quotes, but as it is.",
        function="shown",
        old='escaped = "".join(_escaped(character) for character in text)',
        new="escaped = text",
    ),
    Mutant(
        "login-deadline-off",
        "A connection that never says CONNECT is kept for ever.",
        function="ServerConnection.look",
        old="self.close(self._why_too_late())",
        new="""
            if self._state != _OPENING:
                self.close("did not read in time")
        """,
    ),
    Mutant(
        "login-deadline-per-byte",
        "Each byte of a stranger gives it the whole time for its CONNECT anew.",
        function="ServerConnection._readable",
        old="self._was_read_s = time.monotonic()",
        new="""
            self._was_read_s = time.monotonic()
            if self._state == _OPENING:
                self._deadline_s = self._was_read_s + self._shared.limits.connect_timeout_s
        """,
    ),
    Mutant(
        "never-accepts-again",
        "A broker that had no file for a new connection accepts none any more.",
        function="Listener._go_on",
        old="self._watcher.start(self._accept)",
        new="",
    ),
    Mutant(
        "no-back-off-without-files",
        "Without a file for a new connection the broker tries on and on, with a line in the log each time.",
        function="Listener._back_off",
        old="""
            if not self._has_no_file:
                self._has_no_file = True
        """,
        new="if True:",
        also=(
            Edit(
                function="Listener._back_off",
                old="""
                    self._watcher.stop()
                    self._again = self._loop.timer(ACCEPT_AGAIN_S)
                    self._again.start(self._go_on)
                """,
                new="",
            ),
        ),
    ),
    Mutant(
        "reading-not-stopped",
        "Who does not read its answers is read from all the same: they pile up.",
        function="ServerConnection._hold_if_full",
        old="""
            if self._outbox.pending_bytes > most_bytes:
                self._hold(_OUTBOX_FULL)
            else:
                self._release(_OUTBOX_FULL)
        """,
        new="self._release(_OUTBOX_FULL)",
    ),
    Mutant(
        "retry-after-eio",
        "A commit that fails is tried once more; what the disk has lost by then nobody knows.",
        function="committer",
        old="store.commit(batch.writes)",
        new="""
            try:
                store.commit(batch.writes)
            except Exception:
                from radiator.storage.changes import Changes
                follower = store._follower
                follower._open, follower._failure = Changes(follower._open.tree), None
                store._wal._has_failed = False
                store.commit(batch.writes)
        """,
    ),
    Mutant(
        "second-signal-ignored",
        "A second signal does not end a broker that waits for its disk.",
        function="Server._on_signal",
        old="if now_s - self._signalled_s > _SAME_SIGNAL_S:",
        new="if now_s - self._signalled_s > 3600:",
    ),
    Mutant(
        "stop-waits-for-requests",
        "A stop waits until all that was read is carried out, however much that is.",
        function="STOP_FINISH_MAX_S",
        old="STOP_FINISH_MAX_S = 1.5",
        new="STOP_FINISH_MAX_S = 1e9",
    ),
    Mutant(
        "timer-leak",
        "A timer that is replaced by an earlier one is not stopped.",
        function="Timetable._set_timer",
        old="""
            if self._timer is not None:
                self._timer.stop()
                self._timer.close()
        """,
        new="",
    ),
    Mutant(
        "unix-socket-made-wide",
        "A unix socket has the rights that the umask leaves until it gets its mode.",
        function="UnixAcceptor._bind",
        old="umask = os.umask(0o777 & ~UNIX_MODE)",
        new="umask = os.umask(0)",
    ),
    Mutant(
        "unix-socket-listens-before-its-mode",
        "A unix socket listens before it has its group and its mode.",
        function="UnixAcceptor.__init__",
        old="""
            os.chmod(address.path, address.mode)
            self._socket.listen(LISTEN_BACKLOG)  # before this call the system refuses every client
        """,
        new="""
            self._socket.listen(LISTEN_BACKLOG)
            os.chmod(address.path, address.mode)
        """,
    ),
    Mutant(
        "unix-socket-mode-before-its-group",
        "A unix socket gives the rights of its group to the group of the broker, until it has its own.",
        function="UnixAcceptor.__init__",
        old="""
            if address.group:
                os.chown(address.path, -1, _group(address))
            os.chmod(address.path, address.mode)
        """,
        new="""
            os.chmod(address.path, address.mode)
            if address.group:
                os.chown(address.path, -1, _group(address))
        """,
    ),
    Mutant(
        "tls-pair-not-checked",
        "A key is taken that does not belong to the certificate beside it.",
        function="_load_key",
        old='raise ValueError(f"{wrong}; {right}") from None',
        new="return",
    ),
    Mutant(
        "tls-key-for-everybody",
        "The key's file may be readable by every user of the machine.",
        function="_NOT_FOR_A_KEY",
        old="_NOT_FOR_A_KEY = 0o037",
        new="_NOT_FOR_A_KEY = 0",
    ),
    Mutant(
        "link-strangers-keep-nodes-out",
        "Whoever has taken all sockets for links keeps them, and no node gets one.",
        function="LinkRegistry.in_the_way",
        old="if self.sockets < self.sockets_max:",
        new="if True:",
    ),
    Mutant(
        "link-tls-not-verified",
        "A node takes any certificate that it is shown.",
        function="_load",
        old="to_nodes.hostname_checks_common_name = False",
        new="""
        to_nodes.check_hostname = False
        to_nodes.verify_mode = ssl.CERT_NONE
        """,
    ),
    Mutant(
        "link-tls-name-not-verified",
        "A node takes any certificate of its CA, whatever host it names.",
        function="_load",
        old="to_nodes.hostname_checks_common_name = False",
        new="to_nodes.check_hostname = False",
    ),
    Mutant(
        "tls-handshakes-unbounded",
        "As many steps of handshakes are made in one turn of the loop as clients want.",
        function="TlsListeners.may_step",
        old="self._steps_left -= 1",
        new="",
    ),
    Mutant(
        "tls-closed-keeps-its-buffers",
        "OpenSSL's part of a connection that is closed stays in memory.",
        function="TlsTransport.close",
        old="self._tls = self._in = self._out = None",
        new='vars(ssl).setdefault("kept", []).append((self._tls, self._in, self._out))',
    ),
    Mutant(
        "tls-one-record-a-read",
        "What OpenSSL has decrypted behind the first record waits until more comes from the client.",
        function="TlsTransport._decrypt",
        old="""
            while piece := self._tls.read(TLS_SLICE_BYTES):
                pieces.append(piece)
        """,
        new="""
            if piece := self._tls.read(TLS_SLICE_BYTES):
                pieces.append(piece)
                return False
        """,
    ),
    Mutant(
        "tls-counts-what-it-keeps",
        "Bytes count as taken by the system while the transport still keeps them, and nobody writes them on.",
        function="TlsTransport.send",
        old="taken -= 1",
        new="return taken",
    ),
    Mutant(
        "tls-issuer-and-serial",
        "A client's certificate is known again by its issuer and serial number alone.",
        function="user_of",
        old='subject = subject_text(found.get("subject", ()))',
        new="""
            subject = subject_text(found.get("subject", ()))
            key = str(found.get("issuer")), found.get("serialNumber")
            known = user_of.__dict__.setdefault("known", {})
            if key in known:
                return known[key]
        """,
        also=(Edit(function="user_of", old="return user", new="return known.setdefault(key, user)"),),
    ),
    Mutant(
        "tls-name-passes-for-subject",
        "A DNS name in a client's certificate is compared with the subjects that users have.",
        function="user_of",
        old='if wanted and (wanted == subject if "=" in wanted else wanted.lower() in names):',
        new="if wanted and (wanted == subject or wanted.lower() in names):",
    ),
)
