"""A network between client and broker that can be cut, and can swallow what the broker answers."""

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Proxy:
    """`address` leads to the broker at host and port, which may be changed. accepted: connections so far."""

    def __init__(self, host: str, port: int) -> None:
        self.upstream = (host, port)
        self.accepted = 0
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"stomp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._is_refusing = False
        self._is_muted = False
        self._muted_for_good: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    # ---- what may happen to it

    def cut(self) -> None:
        """All connections are gone, with what was on its way."""
        with self._changed:
            pairs, self._pairs = self._pairs, set()
            if self._is_muted:
                # what one of their threads has read already stays swallowed
                self._muted_for_good |= pairs
            self._is_muted = False
        for pair in pairs:
            for one in pair:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                one.close()

    def refuse(self, is_refusing: bool) -> None:
        """New connections are closed at once, or no more."""
        with self._changed:
            self._is_refusing = is_refusing

    def mute(self) -> None:
        """Until the next cut, what the broker says is swallowed."""
        with self._changed:
            self._is_muted = True

    def wait_for(self, accepted: int, timeout_s: float = 10) -> None:
        """Until there were so many connections."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.accepted >= accepted, timeout_s), f"only {self.accepted} came"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # close alone would not wake who accepts
        self._listener.close()
        self.cut()

    # ---- within

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            pair: tuple[socket.socket, socket.socket] | None = None
            with contextlib.suppress(OSError):
                pair = None if self._is_refusing else (client, socket.create_connection(self.upstream))
            with self._changed:
                self.accepted += 1
                self._changed.notify_all()
                if pair is not None:
                    self._pairs.add(pair)
            if pair is None:
                client.close()
                continue
            broker = pair[1]
            for source, target, is_answer in ((client, broker, False), (broker, client, True)):
                threading.Thread(target=self._carry, args=(pair, source, target, is_answer), daemon=True).start()

    def _carry(
        self, pair: tuple[socket.socket, socket.socket], source: socket.socket, target: socket.socket, is_answer: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if not (is_answer and (self._is_muted or pair in self._muted_for_good)):
                    target.sendall(data)
        with self._changed:
            self._pairs.discard(pair)
        for one in pair:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
