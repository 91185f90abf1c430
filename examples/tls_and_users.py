"""TLS and users: a broker with a certificate, and three programs of which each may do what its rules say.

    python examples/tls_and_users.py

It starts a broker of its own, with certificates for a trial, and refuses what is not granted: no password, a wrong one,
an address without a right, a broker that nobody vouches for. docs/PRODUCTION.md does the same for a broker that stays.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from own_broker import started

from radiator.client import Client, ConnectionLost, Refusal

# shop and billing are programs, with tokens. ops is a person's program, known by its certificate.
CONFIG = """\
[server]
listen = ["stomps://127.0.0.1:0"]
data_dir = "data"
map_size = "1GiB"

[tls]
certificate = "tls/server.pem"
key = "tls/server.key"
client_ca = "tls/ca.pem"
client_certificates = "optional"  # a client without one logs in

[queue."orders"]

[user."shop"]
tokens = [{ sha256 = "SHOP" }]
write = ["/queue/orders"]

[user."billing"]
tokens = [{ sha256 = "BILLING" }]
read = ["/queue/orders"]

[user."ops"]
certificate = "CN=ops"
role = "operator"
"""


def radiator(*arguments: str) -> str:
    """What that command prints."""
    return subprocess.run(
        [sys.executable, "-m", "radiator", *arguments], check=True, capture_output=True, text=True
    ).stdout


def use(address: str, tls: Path, shop: str, billing: str) -> None:
    ca_file = str(tls / "ca.pem")

    with Client(address, user="shop", password=shop, ca_file=ca_file) as client:
        client.send("/queue/orders", b"one book")
        print("shop has sent an order")
        try:
            client.subscribe("/queue/orders")
        except Refusal as refused:
            print(f"shop may not read it: {refused}")

    with Client(address, user="billing", password=billing, ca_file=ca_file) as client:
        client.subscribe("/queue/orders", ack="client-individual")
        order = client.receive(5.0)
        assert order is not None
        client.ack(order)
        print(f"billing has got {order.body.decode()}")

    own = {"certificate": str(tls / "ops.pem"), "key": str(tls / "ops.key")}
    with Client(address, ca_file=ca_file, **own) as client:
        queue = client.admin({"do": "describe", "queue": "orders"})
        print(f"ops, by its certificate, sees {queue['messages']} messages in orders")

    for who, password in (("shop", "a guess"), ("nobody", "a guess")):
        try:
            Client(address, user=who, password=password, ca_file=ca_file)
        except Refusal as refused:
            print(f"{who} with a guess: {refused}")
    try:
        Client(address, user="shop", password=shop)  # the CAs of the system do not know this broker
    except ConnectionLost as lost:
        print(f"without the CA nothing is said to it: {lost}")


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory(prefix="radiator-") as directory:
        place = Path(directory)
        radiator("certificates", str(place / "tls"), "--client", "ops")
        shop, billing = (json.loads(radiator("token", "--json")) for _ in range(2))
        config = CONFIG.replace("SHOP", shop["sha256"]).replace("BILLING", billing["sha256"])
        with started(place, config) as address:
            use(address, place / "tls", shop["token"], billing["token"])
    print("done")


if __name__ == "__main__":
    main()
