"""Where a Connection of kombu leads to, with which login and which TLS files."""

import ipaddress
import os
import ssl
from collections.abc import Mapping
from typing import Any

from radiator.client import Address
from radiator.client.address import DEFAULT_PORT, DEFAULT_TLS_PORT
from radiator.integrations.kombu.failures import OperationRefused

PLAIN, TLS = "radiator", "radiators"  # the schemes of URLs
# what kombu's users call it: in broker_use_ssl, and with `ssl_` before it in the query of a URL
_FILES = {"ca_certs": "ca_file", "certfile": "certificate", "keyfile": "key"}
_VERIFIED: dict[str, tuple[Any, ...]] = {
    "cert_reqs": (ssl.CERT_REQUIRED, "CERT_REQUIRED", "required"),
    "check_hostname": (True,),
}
_IN_URL = "ssl_"


def address_of(asked: Any, is_tls: bool, plain_login: bool) -> Address:
    """asked: kombu's Connection; plain_login: of the transport's options. Raises OperationRefused if it cannot be
    right, in a sentence without the password.
    """
    if (asked.virtual_host or "/") != "/":
        raise OperationRefused(f"Radiator has no virtual hosts: leave {asked.virtual_host!r} out of the broker's URL.")
    host = asked.hostname or "127.0.0.1"
    password = asked.password() if callable(asked.password) else asked.password
    port = int(asked.port or (DEFAULT_TLS_PORT if is_tls else DEFAULT_PORT))
    files = _files(asked.ssl)
    if not is_tls:
        _check_plain(asked, Address(host, port), bool(password), plain_login)
        return Address(host, port, asked.userid or "", password or "")
    return Address(host, port, asked.userid or "", password or "", is_tls=True, **files)


def _files(given: Any) -> dict[str, str]:
    """The TLS files that broker_use_ssl, or the URL's query, names."""
    if not given or given is True:
        return {}
    if not isinstance(given, Mapping):
        raise OperationRefused(f"broker_use_ssl is of type {type(given).__name__}: it must be True or a dict.")
    found: dict[str, str] = {}
    for key, value in given.items():
        name = str(key).removeprefix(_IN_URL)
        if name in _FILES:
            if value is not None:
                found[_FILES[name]] = _path(key, value)
        elif name not in _VERIFIED:
            known = ", ".join([*_FILES, *_VERIFIED])
            raise OperationRefused(f"broker_use_ssl has {key!r}, which is not known: it may have {known}.")
        elif value not in _VERIFIED[name]:
            raise OperationRefused(
                f"broker_use_ssl has {key!r} = {value!r}: the broker's certificate and its name are always verified. "
                "Leave it out, and give the CA that has signed the certificate as ca_certs."
            )
    return found


def _path(key: object, value: object) -> str:
    if isinstance(value, str | os.PathLike):
        return os.fspath(value)
    raise OperationRefused(f"broker_use_ssl has {key!r} of type {type(value).__name__}: it must be the path of a file.")


def _check_plain(asked: Any, where: Address, has_password: bool, plain_login: bool) -> None:
    """Refuses to send without TLS what was meant for it."""
    of_list = [str(one) for one in asked.alt or ()]
    if asked.ssl and not any(one.startswith(f"{TLS}://") for one in of_list):
        raise OperationRefused(
            f"broker_use_ssl is given, and {where} has no TLS: write {TLS}://HOST:PORT, or name "
            "radiator.kombu:SSLTransport as broker_transport."
        )
    # where the class is named as broker_transport, kombu does not pass on the scheme of the URL
    if has_password and not plain_login and asked.transport_cls != PLAIN and not _is_this_machine(where.host):
        raise OperationRefused(
            f"The password for {where} is not sent, since broker_transport names a transport without TLS, whatever "
            "the URL's scheme is. For TLS name radiator.kombu:SSLTransport; or import radiator.kombu, write "
            f"{TLS}:// and leave broker_transport out. To send it in the clear say "
            'broker_transport_options = {"plain_login": True}.'
        )


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
