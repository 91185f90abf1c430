"""The methods of the class connection; methods.py says how they are written."""

from typing import NamedTuple

from radiator.protocols.amqp.spec import (
    NO_ARGUMENTS,
    REPLY_SUCCESS,
    Bit,
    Long,
    LongString,
    Octet,
    Short,
    ShortString,
    Table,
)


class ConnectionStart(NamedTuple):
    """connection.start"""

    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: Table = NO_ARGUMENTS
    mechanisms: LongString = b"PLAIN"
    locales: LongString = b"en_US"


class ConnectionStartOk(NamedTuple):
    """connection.start-ok"""

    client_properties: Table = NO_ARGUMENTS
    mechanism: ShortString = "PLAIN"
    response: LongString = b""
    locale: ShortString = "en_US"


class ConnectionSecure(NamedTuple):
    """connection.secure"""

    challenge: LongString = b""


class ConnectionSecureOk(NamedTuple):
    """connection.secure-ok"""

    response: LongString = b""


class ConnectionTune(NamedTuple):
    """connection.tune"""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionTuneOk(NamedTuple):
    """connection.tune-ok"""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


class ConnectionOpen(NamedTuple):
    """connection.open"""

    virtual_host: ShortString = "/"
    capabilities: ShortString = ""
    insist: Bit = False


class ConnectionOpenOk(NamedTuple):
    """connection.open-ok"""

    known_hosts: ShortString = ""


class ConnectionClose(NamedTuple):
    """connection.close"""

    reply_code: Short = REPLY_SUCCESS
    reply_text: ShortString = ""
    class_id: Short = 0
    method_id: Short = 0


class ConnectionCloseOk(NamedTuple):
    """connection.close-ok"""


class ConnectionBlocked(NamedTuple):
    """connection.blocked"""

    reason: ShortString = ""


class ConnectionUnblocked(NamedTuple):
    """connection.unblocked"""


class ConnectionUpdateSecret(NamedTuple):
    """connection.update-secret"""

    new_secret: LongString = b""
    reason: ShortString = ""


class ConnectionUpdateSecretOk(NamedTuple):
    """connection.update-secret-ok"""
