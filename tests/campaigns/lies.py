"""S5: frames whose content-length is a lie. What lies behind the lie is never carried out as a frame of its own.

A table of lies, each in the three versions, cut at random places, on SEND and on CONNECT, with and without right frames
before them; and a second frame hidden where a reader that believes the lie, or another that does not, would see it.
"""

from dataclasses import dataclass
from random import Random

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Operator, in_pieces, upright
from tests.campaigns.campaign import Campaign, Run

FRAME_MAX_BYTES = 1 << 16
CLOSES_WITHIN_S = 3.0
LEFT_SHARE = 0.8  # of those that wait: the client leaves before the deadline, which costs half a second
CONFIG = f"""\
[limits]
max_frame_bytes = {FRAME_MAX_BYTES}
connect_timeout_s = 0.5
[create]
queues = true
"""
BODY = b"hello"
STOLEN = b"SEND\ndestination:/queue/stolen\n\nstolen\0"

REFUSED, WAITS, TAKEN = "refused", "waits for more", "taken"


@dataclass(frozen=True, slots=True)
class Lie:
    """lengths: the values of its content-length headers. body: what stands behind the blank line, its NUL included.

    what: becomes of a SEND with it. taken: the body that is accepted where it is TAKEN. not_in: versions where the
    value means something else.
    """

    lengths: tuple[bytes, ...]
    body: bytes
    what: str
    taken: bytes = b""
    not_in: tuple[str, ...] = ()


def lie(length: bytes | str, what: str = REFUSED, body: bytes = BODY + b"\0", not_in: tuple[str, ...] = ()) -> Lie:
    return Lie((length if isinstance(length, bytes) else length.encode(),), body, what, not_in=not_in)


# 1.0's own examples pad values, so its readers trim spaces
PADDED = ("1.0",)

TABLE = (
    # no number of octets
    lie(""), lie("-0"), lie("-1"), lie("-5"), lie("+5"), lie("+0"), lie("--5"), lie("5-"), lie("5+0"),
    lie("0x5"), lie("0b101"), lie("0o5"), lie("5h"), lie("five"), lie("NaN"), lie("inf"), lie("-inf"), lie("null"),
    lie("1e1"), lie("5e0"), lie("5."), lie("5.0"), lie(".5"), lie("5,0"), lie("5;0"), lie("5,5"), lie("5 5"),
    lie("1_0"), lie("5_"), lie("5%"), lie("%35"), lie("$5"), lie("(5)"), lie('"5"'), lie("'5'"), lie("5\t"),
    lie(" 5", not_in=PADDED), lie("5 ", not_in=PADDED), lie(" 5 ", not_in=PADDED), lie("\t5"), lie("\x0b5"),
    lie("\x855"), lie("5\u00a0"), lie("\u2003" + "5"), lie("\u200b5"), lie("\ufeff5"),
    lie("\u0665"), lie("\u06f5"), lie("\uff15"), lie("\u0967"), lie("\u00b2"), lie("\u2464"), lie("\u216e"), lie("五"),
    lie(b"\xb5"), lie(b"5\xff"), lie("5\\n"), lie("5\\c"), lie("5:5"), lie("\\c5"), lie("5\r5"),
    # too large
    lie(str(FRAME_MAX_BYTES)), lie(str(2**31 - 1)), lie(str(2**31)), lie(str(2**32)), lie(str(2**32 + 5)),
    lie(str(2**63 - 1)), lie(str(2**63)), lie(str(2**64)), lie(str(2**64 + 5)), lie("9" * 19), lie("9" * 400),
    lie("0" * 400 + "5"), lie("0" * 19 + "5"),
    # shorter than the body: no NUL where it must be
    lie("0"), lie("1"), lie("4"), lie("3"), lie("0", body=STOLEN), lie("4", body=b"hello" + STOLEN),
    lie("5", body=b"hello\n\0"), lie("5", body=b"hello\r\n\0"), lie("5", body=b"hello" + STOLEN),
    lie("00", body=b"x\0"), lie("5", body=b"hello \0"),
    # longer than the body: what follows is the rest of the body, or is waited for
    lie("6", body=b"hello\0" + STOLEN), lie("7", body=b"hello\0\n" + STOLEN), lie("20", body=b"hello\0" + STOLEN),
    lie("1000", WAITS), lie(str(FRAME_MAX_BYTES - 1000), WAITS), lie("1000", WAITS, b"hello\0" + STOLEN),
    Lie((b"%d" % (6 + len(STOLEN) - 1),), BODY + b"\0" + STOLEN, TAKEN, BODY + b"\0" + STOLEN[:-1]),
    Lie((b"%d" % (6 + len(STOLEN)),), BODY + b"\0" + STOLEN, WAITS),
    # two of them
    Lie((b"5", b"6"), BODY + b"\0", REFUSED), Lie((b"6", b"5"), BODY + b"\0", REFUSED),
    Lie((b"5", b"5000"), BODY + b"\0", REFUSED), Lie((b"0", b"%d" % len(STOLEN)), b"\0" + STOLEN, REFUSED),
    Lie((b"%d" % len(STOLEN), b"0"), b"\0" + STOLEN, REFUSED), Lie((b"5", b"-1"), BODY + b"\0", REFUSED),
    Lie((b"5", b""), BODY + b"\0", REFUSED), Lie((b"5", b"five"), BODY + b"\0", REFUSED),
    Lie((b"5", b"5", b"6"), BODY + b"\0", REFUSED),
    # the truth, told in odd ways
    Lie((b"5",), BODY + b"\0", TAKEN, BODY), Lie((b"05",), BODY + b"\0", TAKEN, BODY),
    Lie((b"5", b"5"), BODY + b"\0", TAKEN, BODY), Lie((b"5", b"005"), BODY + b"\0", TAKEN, BODY),
    Lie((b"0",), b"\0", TAKEN), Lie((b"6",), b"hel\0lo\0", TAKEN, b"hel\0lo"),
    Lie((b"%d" % len(STOLEN),), STOLEN + b"\0", TAKEN, STOLEN),
)  # fmt: skip


def send(case: Lie, version: str, name: bytes) -> bytes:
    """A SEND with that lie. name: of the header, which may be written otherwise."""
    lengths = b"".join(b"%b:%b\n" % (name, length) for length in case.lengths)
    return b"SEND\n" + lengths + b"destination:/queue/taken\nreceipt:lie\n\n" + case.body


def end_of(wire: Wire) -> tuple[str, str]:
    """What the broker said last before it closed, and of which frame it was a RECEIPT."""
    last = ("", "")
    try:
        while True:
            got = wire.read_frame(CLOSES_WITHIN_S)
            last = got.command, got.get("receipt-id") or ""
    except Gone:
        return last
    except TimeoutError:
        return ("nothing: it goes on listening", "")


def send_lie(run: Run, broker: BrokerProcess, operator: Operator, case: Lie, version: str) -> None:
    """One of them, a right frame before it perhaps, and a frame to steal behind it."""
    chance = run.chance
    what = TAKEN if version in case.not_in else case.what
    is_left = what == WAITS and chance.random() < LEFT_SHARE
    before = 0 if is_left else chance.randrange(3)  # who leaves may not have been heard
    right = b"SEND\ndestination:/queue/taken\ncontent-length:5\n\nright\0\n" * before
    data = right + send(case, version, b"content-length") + (b"" if what == TAKEN else STOLEN)
    context = f"content-length {case.lengths} with {case.body[:60]!r} in {version}, {before} right frames before it"
    accepted = operator.stats()["queues"]["taken"]["accepted"]
    with Wire((broker.host, broker.port), version) as wire:
        wire.connect()
        if what == WAITS:
            # nothing may come of what is not whole; then the deadline of a frame closes it
            data = data[: -len(STOLEN)]
        for piece in in_pieces(data, chance):
            try:
                wire.send_raw(piece)
            except ConnectionError:
                break
        if what == TAKEN:
            wire.send_raw(b"DISCONNECT\nreceipt:end\n\n\0")
        last = ("", "") if is_left else end_of(wire)
    wanted = {REFUSED: [("ERROR", "lie"), ("ERROR", "")], WAITS: [("", "")], TAKEN: [("RECEIPT", "end")]}[what]
    if last not in wanted:
        run.violation(f"{context}: it should be {what}, and the last that was said is {last}.")
    queues = operator.stats()["queues"]
    if set(queues) != {"taken"}:
        run.violation(f"{context}: what was hidden behind it was carried out; there are queues {sorted(queues)}.")
    count = queues["taken"]["accepted"] - accepted
    if count != before + (what == TAKEN):
        run.violation(f"{context}: {count} messages were accepted.")
    run.case()


def lie_in_connect(run: Run, broker: BrokerProcess, operator: Operator, case: Lie, version: str) -> None:
    """The same before anybody is known: nothing behind it counts, and nobody is let in by two readings of one frame."""
    lengths = b"".join(b"content-length:%b\n" % length for length in case.lengths)
    opening = b"CONNECT\naccept-version:%b\nhost:x\n" % version.encode() + lengths + b"\n" + case.body
    with Wire((broker.host, broker.port), version) as wire:
        for piece in in_pieces(opening + (STOLEN if case.what == REFUSED else b""), run.chance):
            try:
                wire.send_raw(piece)
            except ConnectionError:
                break
        if case.what == REFUSED:
            last = end_of(wire)[0]
            # a first frame has no version yet: a padded number is told by what follows
            if last not in ("ERROR", ""):
                run.violation(f"CONNECT with content-length {case.lengths} and {case.body!r} was answered {last}.")
    queues = operator.stats()["queues"]
    if set(queues) != {"taken"}:
        run.violation(f"CONNECT with content-length {case.lengths}: there are queues {sorted(queues)}.")
    run.case()


def table_of(chance: Random) -> list[tuple[Lie, str, bool]]:
    """Every lie in every version, and in CONNECT, in random order."""
    cases = [(case, version, False) for case in TABLE for version in ("1.0", "1.1", "1.2")]
    cases += [(case, chance.choice(("1.0", "1.1", "1.2")), True) for case in TABLE if case.what != WAITS]
    chance.shuffle(cases)
    return cases


def lies(run: Run) -> None:
    with BrokerProcess(run.directory, CONFIG) as broker, upright(run, broker):
        operator = Operator(broker)
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            wire.send("/queue/taken", "so that it is there")
        cases: list[tuple[Lie, str, bool]] = []
        while not run.is_over:
            cases = cases or table_of(run.chance)
            case, version, is_opening = cases.pop()
            (lie_in_connect if is_opening else send_lie)(run, broker, operator, case, version)
        check_bodies(run, broker)
        operator.close()


def check_bodies(run: Run, broker: BrokerProcess) -> None:
    """What was accepted are whole bodies of right frames, and no pieces of others."""
    right = {b"so that it is there", b"right", *(case.taken for case in TABLE if case.what == TAKEN), BODY}
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        wire.send("/queue/taken", "the end")
        wire.subscribe("/queue/taken", ack="auto")
        while (message := wire.message()).body != b"the end":
            if message.body not in right:
                run.violation(f"A message was made of what is none: {message}.")


CAMPAIGNS = (
    Campaign(
        number="S5",
        name="lies",
        title=f"{len(TABLE)} lies about content-length, with a frame hidden behind each",
        unit="frames",
        run=lies,
        cases=(450, 20_000, 200_000),
        mutants=(
            "smuggling-after-content-length",
            "content-length-read-by-int",
            "two-content-lengths",
            "negative-content-length",
        ),
        mutant_cases=450,
        quick_mutants=2,
        needs=("linux",),
        is_waiting=True,
    ),
)
