"""The transport that kombu loads."""

import time
from typing import Any

from amqp.exceptions import ConnectionError as AMQPConnectionError
from amqp.exceptions import RecoverableConnectionError
from kombu.exceptions import ChannelError
from kombu.transport.base import Transport as BaseTransport
from kombu.utils.compat import detect_environment

import radiator
from radiator.client.address import DEFAULT_TLS_PORT
from radiator.integrations.kombu import options
from radiator.integrations.kombu.address import address_of
from radiator.integrations.kombu.channel import Channel
from radiator.integrations.kombu.connection import SharedConnection
from radiator.integrations.kombu.failures import ConnectionLost
from radiator.model.settings import EXCHANGE_TYPES, PORT

CONNECT_TIMEOUT_S = 10.0  # where kombu gives none
CONNECT_AGAIN_S = 0.1
HEART_BEAT_S = 30.0  # what the broker is asked for if kombu gives none


class Transport(BaseTransport):
    """The transport for kombu. Its broker_transport_options are in options.py."""

    default_port = PORT
    is_tls = False
    driver_type = "stomp"
    driver_name = "radiator"

    connection_errors = (AMQPConnectionError, OSError)
    channel_errors = (ChannelError,)
    recoverable_connection_errors = (RecoverableConnectionError, OSError)
    recoverable_channel_errors = ()

    implements = BaseTransport.implements.extend(
        asynchronous=True, heartbeats=True, exchange_type=frozenset(EXCHANGE_TYPES)
    )

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        if detect_environment() != "default":
            # Under gevent and eventlet a worker waits in drain_events, which checks them itself. Where heart-beats are
            # said to be offered Celery waits 0.1 s for those of another connection too, between any two tasks.
            self.implements = self.implements.extend(heartbeats=False)

    def driver_version(self) -> str:
        return radiator.__version__

    @property
    def default_connection_params(self) -> dict[str, Any]:
        return {"hostname": "127.0.0.1", "port": self.default_port, "virtual_host": "/"}

    # ---- connections

    def establish_connection(self) -> SharedConnection:
        """Connects. Raises ConnectionLost, which kombu retries; OperationRefused if the address is invalid, and
        Forbidden if the login is wrong.
        """
        asked = self.client
        own = options.read(asked.transport_options or {})
        address = address_of(asked, self.is_tls, own.plain_login)
        connect_timeout_s = asked.connect_timeout or CONNECT_TIMEOUT_S
        # Celery gives up a publish after 0.4 s: with no other address to try, a restart of the broker is waited for
        end_s = time.monotonic() + (connect_timeout_s if len(asked.alt or ()) < 2 else 0)
        while True:
            try:
                connection = SharedConnection(
                    asked,
                    address,
                    connect_timeout_s=connect_timeout_s,
                    answer_timeout_s=own.answer_timeout_s,
                    heart_beat_s=asked.heartbeat or HEART_BEAT_S,
                )
                break
            except ConnectionLost:
                if time.monotonic() + CONNECT_AGAIN_S >= end_s:
                    raise
                time.sleep(CONNECT_AGAIN_S)
        connection.confirms = own.confirm_publish
        connection.keeps_replies = own.persistent_replies
        return connection

    def verify_connection(self, connection: SharedConnection) -> bool:
        return connection.connected or connection.owes_its_loss

    def close_connection(self, connection: SharedConnection) -> None:
        connection.close()

    def _collect(self, connection: SharedConnection | None) -> None:
        """Drops a connection: kombu calls it in a child of a fork, whose parent keeps the connection, and
        after a loss.
        """
        if connection is not None:
            connection.collect()

    def create_channel(self, connection: SharedConnection) -> Channel:
        return Channel(connection)

    def close_channel(self, channel: Channel) -> None:
        channel.close()

    # ---- what comes

    def drain_events(self, connection: SharedConnection, timeout: float | None = None, **_: Any) -> None:
        connection.drain_events(timeout)

    def register_with_event_loop(self, connection: SharedConnection, loop: Any) -> None:
        connection.join_loop(loop)

    # ---- heart-beats

    def get_heartbeat_interval(self, connection: SharedConnection) -> float:
        return connection.broker.heart_beat_s[1]

    def heartbeat_check(self, connection: SharedConnection, rate: float = 2) -> None:
        connection.check_heart_beats()

    def qos_semantics_matches_spec(self, connection: SharedConnection) -> bool:
        """False: here a prefetch count always holds for all consumers of a channel together, existing ones included, as
        AMQP's `global`.
        """
        return False


class SSLTransport(Transport):
    """The transport over TLS, `radiators://`; the name is kombu's for such a class."""

    default_port = DEFAULT_TLS_PORT
    is_tls = True
