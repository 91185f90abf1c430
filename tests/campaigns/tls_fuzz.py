"""S51: bytes by chance at a port with TLS and at the login behind it: nobody gets in by them, and nothing is kept.

A case is a connection to a real broker. Its records are those of a true client, changed: bits, bytes and lengths, cut,
doubled, in another order, with records of another connection or of none between them; the first flight, the second, or
what follows the handshake. Or the handshake is right, and CONNECT is not: logins, passcodes, hosts, versions and
heart-beats of every kind, once or several times, very long, with NULs, escapes and bytes that are no text, in any
number of records; behind a wrong one stands a SEND.

Who has said the right login is let in, who has not is not, and no SEND behind a wrong one is carried out. Each
connection is closed when its client has said everything. Beside that a client that does nothing wrong is served, and
the broker's memory grows by GROWTH_MAX_BYTES at most.
"""

import contextlib
import socket
import ssl
from random import Random

from radiator.auth.scrypt import Cost, made
from tests.campaigns.bystander import Bystander, Meter, Operator, in_pieces, upright
from tests.campaigns.campaign import Campaign, Run
from tests.tls_broker import ENCRYPTED, TlsBroker

SECRET = "cor:rect horse"
NEVER = "never"  # the queue that what is refused would make
GROWTH_MAX_BYTES = 8 << 20
WARM = 150  # connections that are not measured: what is made once is made by them
WAIT_S = 20.0
LARGE = (16_384, 16_640, 16_641, 65_535)  # what a record may have, and more
CONFIG = f"""{ENCRYPTED}
[limits]
connect_timeout_s = 3
[create]
queues = true
[user.ann]
password = "{made(SECRET.encode(), bytes(16), Cost(ln=10))}"
role = "operator"
"""
RIGHT = f"CONNECT\naccept-version:1.2\nhost:h\nlogin:ann\npasscode:{SECRET}\n\n\0".encode()
BEHIND = f"SEND\ndestination:/queue/{NEVER}\n\nx\0".encode()

# ---- records


class Caller:
    """A true client by ssl.MemoryBIO at a socket of its own; what it would say may be changed on the way."""

    def __init__(self, broker: TlsBroker, context: ssl.SSLContext) -> None:
        self.socket = socket.create_connection((broker.host, broker.tls_port), WAIT_S)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.sent_bytes = 0

    def step(self) -> bool:
        """Whether its handshake is over, by what it has heard."""
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def flight(self) -> bytes:
        """What it would send next, once it has something to say."""
        while not self.step() and not self._out.pending:
            self.hear()
        return self._out.read()

    def hear(self) -> None:
        data = self.socket.recv(65_536)
        if not data:
            raise ConnectionAbortedError
        self._in.write(data)

    def shake(self) -> None:
        is_over = False
        while not is_over:
            is_over = self.step()
            if flight := self._out.read():
                self.send(flight)
            elif not is_over:
                self.hear()

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()

    def send(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        self.socket.sendall(data)

    def rest(self) -> bytes:
        """It has nothing more to say: what the broker has said until it closed, as far as it can be read."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while data := self.socket.recv(65_536):
                self._in.write(data)
        heard = b""
        with contextlib.suppress(ssl.SSLError):
            while piece := self._tls.read(65_536):
                heard += piece
        return heard


def records(data: bytes) -> list[bytes]:
    found = []
    while data:
        end = 5 + int.from_bytes(data[3:5], "big")
        found.append(data[:end])
        data = data[end:]
    return found


def foreign(chance: Random) -> bytes:
    """A record that was never agreed on."""
    size = chance.choice((0, 1, 2, 40, 300, *LARGE)) if chance.random() < 0.1 else chance.randrange(200)
    kind = chance.choice((20, 21, 22, 23, 24, chance.randrange(256)))
    version = chance.choice((b"\3\3", b"\3\1", b"\3\4", b"\2\0", chance.randbytes(2)))
    return bytes([kind]) + version + size.to_bytes(2, "big") + chance.randbytes(chance.choice((size, size // 2)))


def changed(chance: Random, data: bytes) -> bytes:
    """A true client's records, but for something."""
    some = records(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        if not some:
            break
        at, how = chance.randrange(len(some)), chance.randrange(8)
        one = bytearray(some[at])
        if how == 0:
            one[chance.randrange(len(one))] ^= 1 << chance.randrange(8)
        elif how == 1:
            one[chance.randrange(len(one))] = chance.randrange(256)
        elif how == 2:
            length = chance.choice((0, 1, 16_640, min(len(one), 65_535), 65_535, chance.randrange(65_536)))
            one[3:5] = length.to_bytes(2, "big")
        elif how == 3:
            del one[chance.randrange(len(one)) :]
        elif how == 4:
            place = chance.randrange(len(one))
            one[place:place] = chance.randbytes(chance.randrange(1, 200))
        some[at] = bytes(one) or b"\x16"
        if how == 5:
            some.insert(at, some[at])
        elif how == 6:
            some.insert(at, foreign(chance))
        elif how == 7:
            chance.shuffle(some)
            some.append(foreign(chance))
    return b"".join(some)


def hostile(run: Run, broker: TlsBroker, context: ssl.SSLContext, other: bytes) -> int:
    """Records that no client means. other: those of another connection."""
    chance = run.chance
    caller = Caller(broker, context)
    with caller.socket, contextlib.suppress(ConnectionError):
        stage = chance.randrange(4)
        if stage == 3:
            caller.shake()
            size = chance.choice((1, 10, 100, 1_000, 40_000 if chance.random() < 0.2 else 100))
            data = caller.encrypted(b"CONNECT\n" + b"a" * size) + chance.choice((b"", other))
        elif stage == 2:
            caller.send(caller.flight())
            data = caller.flight()
        else:
            first = caller.flight()
            data = chance.choice((first, first, first + other, chance.randbytes(1000), foreign(chance)))
        for piece in in_pieces(changed(chance, data), chance):
            caller.send(piece)
        if (heard := caller.rest()).startswith(b"CONNECTED"):
            run.violation(f"Who has said no login was let in by records of stage {stage}: {heard[:200]!r}.")
    return caller.sent_bytes


# ---- logins

NAMES = ("login", "passcode", "host", "heart-beat", "accept-version", "Login", "login ", "user", "content-length", "")
VALUES = (
    "ann", "bob", "", " ", "ann ", "Ann", "ann\\n", "a\\cb", "\\", "\\x", "\\0", "1.2", "1.0,1.1,1.2", "9", "0,0",
    "1,1", "-1,-1", "99999999999,1", "cor", "cor:rect", "cor\\crect", "ä", "\ud83d", "%s%n", "$scrypt$ln=31$x$y", "*",
)  # fmt: skip


def header(chance: Random) -> bytes:
    name, value = chance.choice(NAMES), chance.choice(VALUES)
    line = f"{name}:{value}".encode("utf-8", "surrogatepass")
    how = chance.randrange(16)
    if how == 0:
        line = line + chance.randbytes(chance.randrange(1, 30))
    elif how == 1:
        line += b"x" * chance.choice((100, 100, 1000, 1024, 8192))
    elif how == 2:
        line = line.replace(b":", chance.choice((b"", b"::", b"\0", b":\r", b"\\c")))
    return line


def login(chance: Random) -> tuple[bytes, bool]:
    """A CONNECT, or what is meant for one; and whether it is a right one. A wrong one does not have SECRET."""
    kind = chance.random()
    if kind < 0.1:
        return RIGHT, True
    if kind < 0.3:  # nothing is wrong with it but who says it
        wrong = f"login:{chance.choice(('ann', 'bob'))}\npasscode:{chance.choice(('cor', 'a b', SECRET[:-1]))}"
        return f"CONNECT\naccept-version:1.2\nhost:h\n{wrong}\n\n\0".encode(), False
    lines = [header(chance) for _ in range(200 if chance.random() < 0.01 else chance.randrange(9))]
    if chance.random() < 0.7:
        lines += [b"accept-version:1.2", b"host:h"]
        chance.shuffle(lines)
    command = chance.choice((b"CONNECT", b"CONNECT", b"CONNECT", b"STOMP", b"connect", b"SEND", b"\0CONNECT", b""))
    end = chance.choice((b"\n", b"\n", b"\n", b"\r\n"))
    whole = end.join([command, *lines, b"", chance.choice((b"", b"", b"body"))])
    return chance.choice((b"", b"", b"\n", b"\r\n\n")) + whole + chance.choice((b"\0", b"\0", b"\0\0", b"")), False


def stranger(run: Run, broker: TlsBroker, context: ssl.SSLContext) -> int:
    """A right handshake, and a login by chance."""
    chance = run.chance
    frame, is_right = login(chance)
    caller = Caller(broker, context)
    with caller.socket, contextlib.suppress(ConnectionError):
        caller.shake()
        for piece in in_pieces(frame + (b"" if is_right else BEHIND * chance.randrange(3)), chance):
            caller.send(caller.encrypted(piece))
        heard = caller.rest()
        if heard.startswith(b"CONNECTED") is not is_right:
            run.violation(f"{frame[:2000]!r} was answered {heard[:200]!r}.")
    return caller.sent_bytes


def one_recorded(broker: TlsBroker, context: ssl.SSLContext) -> bytes:
    """The records of a client that logs in."""
    caller = Caller(broker, context)
    with caller.socket:
        caller.shake()
        data = caller.encrypted(RIGHT)
        caller.send(data)
        assert caller.rest().startswith(b"CONNECTED"), "the right login is not let in"
    return data


def fuzz(run: Run) -> None:
    calls = 0
    with (
        TlsBroker(run.directory, CONFIG) as broker,
        upright(run, broker),
        Bystander(broker, is_operator=True) as bystander,
    ):
        context = ssl.create_default_context(cafile=broker.ca_file)
        old = ssl.create_default_context(cafile=broker.ca_file)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        other = one_recorded(broker, context)
        meter = None
        while not run.is_over:
            its = run.chance.choice((context, context, old))
            run.case(hostile(run, broker, its, other) if run.chance.random() < 0.6 else stranger(run, broker, its))
            calls += 1
            if calls == WARM:
                meter = Meter(broker.pid)
            if meter is not None and calls % 100 == 0 and meter.look() > GROWTH_MAX_BYTES:
                run.violation(f"After {calls} connections the broker has grown by {meter.growth_bytes >> 20} MiB.")
        one_recorded(broker, context)
        operator = Operator(broker, is_unix=True)
        if NEVER in operator.stats()["queues"]:
            run.violation("A SEND behind a login that was refused has been carried out.")
        operator.close()
        bystander.wait()
        if bystander.p99_ms() > bystander.p99_max_ms:
            run.violation(
                f"A client that does nothing wrong waits {bystander.p99_ms():.0f} ms, at the 99th percentile."
            )
        run.figures |= {
            "connections": calls,
            "KiB grown": (meter.look() if meter else 0) >> 10,
            "ms a bystander's p99": round(bystander.p99_ms()),
        }


CAMPAIGNS = (
    Campaign(
        number="S51",
        name="tls-fuzz",
        title="records and logins by chance at a port with TLS",
        unit="bytes",
        run=fuzz,
        cases=(600_000, 10_000_000, 100_000_000),
        mutants=("tls-closed-keeps-its-buffers", "any-password-fits", "frame-before-the-verdict"),
        mutant_cases=3_000_000,
        quick_mutants=3,
        needs=("linux", "openssl"),
        is_timed=True,
    ),
)
