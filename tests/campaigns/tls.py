"""S44: TLS below a connection, against what a network and a hostile client make of its bytes.

A case is one of these. Messages of every size go both ways, in pieces of every size, while the client reads when it
likes: what arrives is what was sent, and nothing stays with a transport whose sender has nothing left. A client's bytes
are changed, cut, doubled or made up, in the handshake or behind it: the transport takes a prefix of what was meant, or
ends with an OSError and one line in the log, and nothing else. Clients shake hands at once: only so many steps are made
in one turn. Files of a certificate and a key are put together by chance: only those that belong together, with a key
that is its owner's, are taken. Certificates of clients have subjects and names by chance: they stand for the user who
has exactly that one. Nodes dial each other by hosts of chance, with CAs of chance: the handshake comes to its end where
the certificate comes from that CA and has that name, and nowhere else, and both ends know the same certificate; harmed
bytes of the other end change nothing of that.
"""

import contextlib
import ssl
from dataclasses import dataclass
from pathlib import Path

import gevent

from radiator.model.errors import ConfigError
from radiator.model.limits import HANDSHAKES_PER_TURN, TLS_UNSENT_BYTES, WRITE_BYTES
from radiator.model.settings import TlsSettings
from radiator.model.users import User
from radiator.server.certificate import subject_text, user_of
from radiator.server.tls import TlsListeners
from radiator.server.tls_pair import load_pair
from tests.campaigns.campaign import Campaign, Run
from tests.certificates import Authority, MadePair
from tests.server.shell import KeptLog
from tests.server.tls_pipe import Ends, Pipe

MODES = (0o400, 0o440, 0o600, 0o640, 0o604, 0o644, 0o660, 0o666)
PARTS = ("CN=ops", "O=Shop", "ops", "Shop", "CN=ops,O=Shop", "ops.shop.example", "CN=ops\\,O=Shop")
ISSUER = ((("commonName", "Trial ca"),),)  # two CAs can have one name, and number as they like
KINDS = {"CN": "commonName", "O": "organizationName", "OU": "organizationalUnitName"}


@dataclass(frozen=True)
class Shown:
    """What a node shows. hosts: those that it names."""

    pair: MadePair
    authority: Authority
    hosts: tuple[str, ...]
    is_valid: bool = True


class House:
    """What all cases share: it takes openssl 0.1 s to make."""

    def __init__(self, directory: Path) -> None:
        self.authority, self.other = authority, other = Authority(directory), Authority(directory / "other")
        self.pairs = [authority.pair(name) for name in ("one", "two", "three")]
        local = ("localhost", "127.0.0.1")
        self.of_nodes = [
            Shown(self.pairs[0], authority, local),
            Shown(other.pair("four"), other, local),
            Shown(authority.pair("five", names="DNS:a.example,IP:10.0.0.1"), authority, ("a.example", "10.0.0.1")),
            Shown(authority.pair("six", names="DNS:*.b.example"), authority, ("x.b.example",)),
            Shown(authority.pair("seven", "/CN=a.example", "DNS:*.a.example"), authority, ("b.a.example",)),
            Shown(authority.pair("eight", days=-1), authority, local, is_valid=False),
            Shown(authority.pair("nine", "/CN=localhost", names=""), authority, ()),
        ]
        self.client = ssl.create_default_context(cafile=authority.certificate)
        self.log = KeptLog()
        self.listeners = TlsListeners(gevent.get_hub().loop, load_pair(settings(self.pairs[0])), [], self.log)

    def pipe(self, is_shaken: bool = True) -> Pipe:
        made = Pipe(self.listeners, self.client)
        if is_shaken:
            gevent.sleep(0)
            made.shake()
        return made


def settings(pair: MadePair) -> TlsSettings:
    return TlsSettings(certificate=pair.certificate, key=pair.key)


def size(run: Run) -> int:
    return run.chance.choice((0, 1, 2, 1000, 16_383, 16_384, 16_385, 70_000, 300_000)) + run.chance.randrange(3)


def stream(run: Run, house: House) -> None:
    """Both ways at once, in any pieces."""
    pipe = house.pipe()
    to_broker, to_client = run.chance.randbytes(size(run)), run.chance.randbytes(size(run))
    to_broker = to_broker.replace(b"-", b"+")  # b"-" alone is how a pipe says that nothing has come
    pipe.tls.write(to_broker)
    wire, heard, got, sent = pipe.output.read(), b"", b"", 0
    while wire or sent < len(to_client):
        piece = wire[: run.chance.randrange(1, 30_000)]
        wire = wire[pipe.socket.send(piece) if piece else 0 :]
        if piece:
            with contextlib.suppress(BlockingIOError):
                heard += pipe.transport.receive(65_536)
        try:
            sent += pipe.transport.send(to_client[sent:]) if sent < len(to_client) else 0
        except BlockingIOError:
            got += pipe.client_reads()
    if heard != to_broker:
        run.violation(f"Of {len(to_broker)} bytes to the broker {len(heard)} came, and the socket has no more.")
    if got + pipe.client_reads() != to_client:
        run.violation(f"Of {len(to_client)} bytes to the client not all came, though all counted as taken.")
    pipe.close()


def broken(run: Run, data: bytes) -> bytes:
    """The same, but for something."""
    chance, at = run.chance, run.chance.randrange(len(data) + 1)
    how = chance.randrange(5)
    if how == 0:
        return data[:at] + chance.randbytes(chance.randrange(1, 50)) + data[at:]
    if how == 1:
        return data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
    if how == 2:
        return data[:at] + data[: chance.randrange(len(data) + 1)]
    return data + chance.randbytes(100) if how == 3 else chance.randbytes(chance.randrange(1, 3000))


def hostile(run: Run, house: House) -> None:
    """Bytes that no client means."""
    is_shaken = run.chance.random() < 0.5
    pipe = house.pipe(is_shaken)
    meant = b"m" * run.chance.randrange(1, 40_000)
    if is_shaken:
        pipe.tls.write(meant)
    else:
        with contextlib.suppress(ssl.SSLWantReadError):
            pipe.tls.do_handshake()
    lines, data, heard = len(house.log.lines), broken(run, pipe.output.read()), b""
    try:
        while data:
            data = data[pipe.socket.send(data) :]
            gevent.sleep(0)
            heard += pipe.transport.receive(65_536)
            pipe.client_takes()
    except BlockingIOError:
        pass
    except OSError:
        pass  # the connection is closed
    if heard and not (is_shaken and meant.startswith(heard)):
        run.violation(f"The broker would take {heard[:40]!r} for what a client has said.")
    if len(house.log.lines) > lines + 1:
        run.violation(f"One connection caused {len(house.log.lines) - lines} lines in the log.")
    if len(pipe.transport._unsent) > TLS_UNSENT_BYTES + WRITE_BYTES:
        run.violation(f"{len(pipe.transport._unsent)} bytes are kept for a client that does not read.")
    pipe.close()


def crowd(run: Run, house: House) -> None:
    """More clients than one turn has steps for."""
    pipes = [house.pipe(is_shaken=False) for _ in range(HANDSHAKES_PER_TURN + run.chance.randrange(1, 6))]
    for pipe in pipes:
        try:
            pipe.tls.do_handshake()
        except ssl.SSLWantReadError:
            pipe.client_sends()
    gevent.sleep(0.001)  # a turn of its own
    for pipe in pipes:
        pipe.receive()
    answered = 0
    for pipe in pipes:
        pipe.client_takes()
        answered += pipe.input.pending > 0
        pipe.close()
    if answered > HANDSHAKES_PER_TURN:
        run.violation(f"{answered} handshakes were answered in one turn; at most {HANDSHAKES_PER_TURN} may be.")


def files(run: Run, house: House) -> None:
    """Certificate and key, put together by chance."""
    certificate, key, mode = run.chance.choice(house.pairs), run.chance.choice(house.pairs), run.chance.choice(MODES)
    key.key.chmod(mode)
    is_right = certificate is key and not mode & 0o037
    try:
        load_pair(TlsSettings(certificate=certificate.certificate, key=key.key))
        if not is_right:
            run.violation(f"A key of mode {mode:04o}, of {key.key.name}, was taken for {certificate.certificate.name}.")
    except ConfigError as refused:
        if is_right:
            run.violation(f"A right pair was refused: {refused}")
    finally:
        key.key.chmod(0o600)


NAMES_AT_ONCE = 10  # each takes some microseconds, and most say nothing


def names(run: Run, house: House) -> None:
    """Who a client's certificate stands for."""
    chance = run.chance
    for _ in range(NAMES_AT_ONCE):
        subject = [
            [(KINDS[chance.choice(["CN", "O", "OU"])], chance.choice(PARTS))] for _ in range(chance.randrange(3))
        ]
        dns = [("DNS", chance.choice(PARTS)) for _ in range(chance.randrange(3))]
        wanted = chance.choice((*PARTS, "O=Shop,CN=ops"))
        shown = {
            "subject": subject,
            "subjectAltName": dns,
            "issuer": ISSUER,
            "serialNumber": chance.choice(("01", "02")),
        }
        found = user_of(shown, [User(name="user", certificate=wanted)])
        is_meant = (
            wanted == subject_text(subject) if "=" in wanted else wanted.lower() in [name.lower() for _, name in dns]
        )
        if (found is not None) is not is_meant:
            run.violation(f"{wanted!r} of a user, and a certificate with {subject} and {dns}: {found}.")


def nodes(run: Run, house: House) -> None:
    """A node judges the certificate that it is shown."""
    chance = run.chance
    shown, authority = chance.choice(house.of_nodes), chance.choice((house.authority, house.other))
    host = chance.choice(("localhost", "127.0.0.1", "a.example", "b.a.example", "x.b.example", "10.0.0.1", "::1"))
    of = TlsSettings(certificate=shown.pair.certificate, key=shown.pair.key, peer_ca=authority.certificate)
    is_right = authority is shown.authority and host in shown.hosts and shown.is_valid
    ends = Ends(of, house.log, host)
    case = f"The certificate of {shown} was judged by {authority.certificate}, dialled by {host!r}"
    try:
        ends.shake()
        if not is_right:
            run.violation(f"{case}, and taken.")
        if ends.dialler.certificate_sha256 != ends.acceptor.certificate_sha256:
            run.violation(f"{case}: the two ends have seen two certificates.")
    except OSError as refused:
        if is_right:
            run.violation(f"{case}, and refused: {refused}")
    finally:
        ends.close()


def answers(run: Run, house: House) -> None:
    """Bytes that no node means, in the handshake with one that was dialled."""
    shown = run.chance.choice(house.of_nodes)
    of = TlsSettings(certificate=shown.pair.certificate, key=shown.pair.key, peer_ca=shown.authority.certificate)
    ends = Ends(of, house.log)
    with contextlib.suppress(BlockingIOError):
        gevent.sleep(0)
        ends.acceptor.receive(65_536)  # its answer is on the way, and is taken from there
    data = broken(run, ends.intercepted())
    try:
        while data:
            data = data[ends.inject(data[: run.chance.randrange(1, 5000)]) :]
            with contextlib.suppress(BlockingIOError):
                if heard := ends.dialler.receive(65_536):
                    run.violation(f"A node would take {heard[:40]!r} for what another one has said.")
                break
    except OSError:
        pass  # the connection is closed
    is_right = shown.is_valid and "localhost" in shown.hosts
    if ends.dialler.says_first and (
        not is_right or ends.dialler.certificate_sha256 != ends.acceptor.certificate_sha256
    ):
        run.violation(f"After harmed bytes the certificate of {shown} was taken.")
    ends.close()


CASES = (stream, hostile, crowd, files, names, nodes, answers)


def tls(run: Run) -> None:
    house = House(run.directory)
    while not run.is_over:
        run.chance.choice(CASES)(run, house)
        run.case()


CAMPAIGNS = (
    Campaign(
        number="S44",
        name="tls",
        title="TLS below a connection: streams in pieces, hostile bytes, crowds of handshakes, wrong files and names",
        unit="cases",
        run=tls,
        cases=(1500, 30_000, 300_000),
        mutants=(
            "tls-pair-not-checked", "tls-one-record-a-read", "tls-counts-what-it-keeps", "tls-handshakes-unbounded",
            "tls-key-for-everybody", "tls-name-passes-for-subject", "tls-issuer-and-serial", "link-tls-not-verified",
            "link-tls-name-not-verified",
        ),
        mutant_cases=300,
        quick_mutants=9,
        needs=("openssl",),
    ),
)  # fmt: skip
