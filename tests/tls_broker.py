"""A real broker with a listener that encrypts, and a CA of its own."""

import re
import signal
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from tests.acceptance.wire import Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.certificates import Authority, MadePair

ENCRYPTED = (
    SERVER.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "stomps://127.0.0.1:0"')
    + '[tls]\ncertificate = "server.pem"\nkey = "server.key"\n'
)
CONFIG = ENCRYPTED + "[limits]\nconnect_timeout_s = 1\nmax_connections = 3\n" + EVERYTHING_MAY_BE_CREATED


class TlsBroker(BrokerProcess):
    """With a CA of its own."""

    def __init__(self, directory: Path, config_text: str = CONFIG, program: Sequence[str] = ("-m", "radiator")) -> None:
        self.authority = Authority(directory)
        self.authority.pair("server")
        super().__init__(directory, config_text, program)

    def start(self) -> Self:
        begun = len(self.log.splitlines())
        super().start()
        self.wait_for_log("listening address=stomps://", since=begun)
        return self

    @property
    def tls_address(self) -> str:
        return f"stomps://localhost:{self.tls_port}"

    @property
    def ca_file(self) -> str:
        return str(self.authority.certificate)

    @property
    def tls_port(self) -> int:
        found = re.findall(r"listening address=stomps://127.0.0.1:(\d+)", self.log)
        assert found, self.log
        return int(found[-1])

    def wire(self, client: ssl.SSLContext | None = None) -> Wire:
        wire = Wire((self.host, self.tls_port))
        context = client or ssl.create_default_context(cafile=self.authority.certificate)
        wire.socket = context.wrap_socket(wire.socket, server_hostname="localhost")
        return wire

    def connected(self) -> Wire:
        wire = self.wire()
        wire.connect()
        return wire

    def replaced(self, made: MadePair) -> None:
        made.key.rename(self.directory / "server.key")
        made.certificate.rename(self.directory / "server.pem")

    def hang_up(self, event: str) -> str:
        since = len(self.log.splitlines())
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)
        return self.wait_for_log(f" {event}", since=since)
