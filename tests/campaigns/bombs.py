"""S4: too long. Every limit at its value and one past it, in random configurations, and streams without an end.

One past it gets an ERROR and a close, even where the rest never comes. Of what never becomes a frame the broker holds
no more than the limit, however much is sent: judged by what the system says of its memory, while a client that does
nothing wrong is served. It does not see what the kernel holds.
"""

import contextlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Bystander, Meter, Operator, in_pieces, upright
from tests.campaigns.campaign import Campaign, Run

MIB = 1 << 20
VERSIONS = ("1.0", "1.1", "1.2")

# ---- a limit and one past it ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bounds:
    """One configuration."""

    frame_bytes: int
    header_bytes: int
    headers: int

    @property
    def config(self) -> str:
        return (
            f"[limits]\nmax_frame_bytes = {self.frame_bytes}\nmax_header_bytes = {self.header_bytes}\n"
            f"max_headers = {self.headers}\nmax_batch_bytes = {max(MIB, self.frame_bytes)}\n"
            "[create]\nqueues = true\ntopics = true\n"
        )


ANSWERED_WITHIN_S = 4.0
CONNECT_MAX_BYTES = 8192  # what a stranger may say, whatever the configuration allows
ID_MAX_BYTES = 1024
DEDUP_ID_MAX_BYTES = 255
NAME_MAX_BYTES = 255
PREFETCH_COUNT_MAX = 65_535
HEAD = b"SEND\nreceipt:1\ndestination:/queue/x\n"


def padded(start: bytes, end: bytes, size: int) -> bytes:
    return start + b"x" * (size - len(start) - len(end)) + end


def whole_frame(bounds: Bounds, over: int) -> bytes:
    return padded(HEAD + b"\n", b"\0", bounds.frame_bytes + over)


def frame_with_length(bounds: Bounds, over: int) -> bytes:
    size = bounds.frame_bytes + over - len(HEAD) - len(b"content-length:000000\n\n\0")
    return HEAD + b"content-length:%06d\n\n" % size + b"x" * size + b"\0"


def announced_length(bounds: Bounds, over: int) -> bytes:
    """One past it is refused when it is announced: the body never comes."""
    whole = frame_with_length(bounds, over)
    return whole if not over else whole[: whole.index(b"\n\n") + 2]


def header_block(bounds: Bounds, over: int) -> bytes:
    return padded(HEAD + b"pad:", b"\n\n", bounds.header_bytes + over) + b"body\0"


def header_name(bounds: Bounds, over: int) -> bytes:
    return padded(HEAD, b":\n\n", bounds.header_bytes + over) + b"body\0"


def endless_header(bounds: Bounds, over: int) -> bytes:
    """One past it is refused before its blank line is seen."""
    whole = header_block(bounds, over)
    return whole if not over else whole[: bounds.header_bytes + over - 2] + b"xx"


def many_headers(bounds: Bounds, over: int) -> bytes:
    more = bounds.headers + over - HEAD.count(b":")
    return HEAD + b"".join(b"%x:\n" % number for number in range(more)) + b"\nbody\0"


def same_header(bounds: Bounds, over: int) -> bytes:
    return HEAD + b"a:\n" * (bounds.headers + over - HEAD.count(b":")) + b"\nbody\0"


def kept_id(bounds: Bounds, over: int) -> bytes:
    return b"BEGIN\nreceipt:1\ntransaction:%b\n\n\0" % (b"t" * (ID_MAX_BYTES + over))


def subscription_id(bounds: Bounds, over: int) -> bytes:
    return b"SUBSCRIBE\nreceipt:1\ndestination:/queue/nothing\nid:%b\n\n\0" % (b"s" * (ID_MAX_BYTES + over))


def dedup_id(bounds: Bounds, over: int) -> bytes:
    return HEAD + b"dedup-id:%b\n\nbody\0" % (b"d" * (DEDUP_ID_MAX_BYTES + over))


def destination_name(bounds: Bounds, over: int) -> bytes:
    return b"SEND\nreceipt:1\ndestination:/queue/%b\n\nbody\0" % (b"n" * (NAME_MAX_BYTES + over))


def prefetch_count(bounds: Bounds, over: int) -> bytes:
    head = b"SUBSCRIBE\nreceipt:1\nid:1\ndestination:/queue/nothing\nack:client\n"
    return head + b"prefetch-count:%d\n\n\0" % (PREFETCH_COUNT_MAX + over)


def opening(bounds: Bounds, over: int) -> bytes:
    most = min(CONNECT_MAX_BYTES - 1, bounds.header_bytes)  # its NUL counts
    return padded(b"CONNECT\naccept-version:1.2\nhost:x\npad:", b"\n\n", most + over) + b"\0"


SHAPES: tuple[Callable[[Bounds, int], bytes], ...] = (
    whole_frame, frame_with_length, announced_length, header_block, header_name, endless_header, many_headers,
    same_header, kept_id, subscription_id, dedup_id, destination_name, prefetch_count, opening,
)  # fmt: skip


def answer_to(broker: BrokerProcess, version: str, pieces: list[bytes], is_opening: bool) -> str:
    """The command of the first frame that comes back; after an ERROR the broker must close."""
    with Wire((broker.host, broker.port), version) as wire:
        if not is_opening:
            wire.connect()
        for piece in pieces:
            with contextlib.suppress(ConnectionError):
                wire.send_raw(piece)
        try:
            answer = wire.read_frame(ANSWERED_WITHIN_S).command
            if answer == "ERROR" and not wire.is_closed():
                return "ERROR, and the connection goes on"
            return answer
        except Gone:
            return "a close without a word"
        except TimeoutError:
            return "nothing"


def try_limit(run: Run, broker: BrokerProcess, bounds: Bounds, shape: Callable[[Bounds, int], bytes]) -> None:
    is_opening = shape is opening
    version = run.chance.choice(VERSIONS)
    wanted = "CONNECTED" if is_opening else "RECEIPT"
    for over, right in ((0, wanted), (1, "ERROR")):
        data = shape(bounds, over)
        if version == "1.2" and not over and shape is many_headers:
            data = data.replace(b"\n", b"\r\n")
        answer = answer_to(broker, version, in_pieces(data, run.chance), is_opening)
        if answer != right:
            run.violation(
                f"{shape.__name__} {'one past its limit' if over else 'at its limit'} in {version} got {answer}, not "
                f"{right}. {bounds}; {len(data)} bytes beginning {data[:120]!r}"
            )
    run.case()


# ---- without an end ---------------------------------------------------------------------------------------------

STREAM_MIB = {"quick": 256, "nightly": 1024, "release": 4096}
CHUNK_BYTES = 1 << 18
TAKEN_MAX_BYTES = 12 * MIB  # of one stream: what is dropped after an ERROR, and what two systems' buffers hold
MEMORY_GROWTH_MAX_BYTES = 8 * MIB

STREAMS: tuple[tuple[str, bytes, bytes], ...] = (
    ("a command without an end, before CONNECT", b"", b"a"),
    ("a CONNECT without an end", b"CONNECT\naccept-version:1.2\nhost:", b"a"),
    ("a CONNECT of headers without an end", b"CONNECT\n", b"a:b\n"),
    ("a command without an end", b"+", b"a"),
    ("a header name without an end", b"+SEND\n", b"a"),
    ("a header without an end", b"+SEND\ndestination:/queue/x\na:", b"a"),
    ("headers without an end", b"+SEND\ndestination:/queue/x\n", b"a:b\n"),
    ("one header without an end", b"+SEND\n", b"\\c:\\n\n"),
    ("a body without an end", b"+SEND\ndestination:/queue/x\n\n", b"a"),
    ("a body longer than the frame may be", b"+SEND\ndestination:/queue/x\ncontent-length:99999999999\n\n", b"a"),
)


def stream(
    run: Run, broker: BrokerProcess, operator: Operator, meter: Meter, case: str, start: bytes, unit: bytes
) -> int:
    """Sends it until the broker has had enough: how many bytes that took. Its beginning is read by itself."""
    chunk = unit * (CHUNK_BYTES // len(unit))
    taken = 0
    with Wire((broker.host, broker.port)) as wire:
        if start.startswith(b"+"):
            wire.connect()
            start = start[1:]
        wire.socket.settimeout(20)
        try:
            wire.send_raw(start + unit)
            operator.stats()  # answered after what was there before is read
            while taken <= TAKEN_MAX_BYTES:
                wire.send_raw(chunk)
                taken += len(chunk)
                meter.look()
        except TimeoutError:
            run.violation(f"{case}: after {taken} bytes it is neither read nor closed.")
        except ConnectionError:
            return taken
    run.violation(f"{case}: {taken} bytes of it were taken.")
    return taken


def streams(run: Run, broker: BrokerProcess) -> None:
    """So many bytes that never become a frame: the broker's memory stays as it was."""
    total = STREAM_MIB[run.level] * MIB
    if run.is_hunt:
        total //= 32
    operator = Operator(broker)
    meter = Meter(broker.pid)
    left = list(STREAMS)  # each at least once
    sent = 0
    with Bystander(broker) as bystander:
        while sent < total or left:
            answer, start, unit = left.pop() if left else run.chance.choice(STREAMS)
            sent += stream(run, broker, operator, meter, answer, start, unit) + CHUNK_BYTES
            if meter.look() > MEMORY_GROWTH_MAX_BYTES:
                run.violation(f"{answer}: memory grew by {meter.growth_bytes} bytes.")
                break
    run.figures["MiB without an end"] = sent // MIB
    run.figures["memory grew by KiB"] = meter.growth_bytes // 1024
    run.figures["bystander's longest round, ms"] = round(max(bystander.times_ms, default=0.0), 1)
    operator.close()


def bombs(run: Run) -> None:
    rounds = 0
    while not run.is_over:
        bounds = Bounds(
            frame_bytes=run.chance.choice((16_384, 65_536, 300_000)) + run.chance.randrange(100),
            header_bytes=run.chance.choice((1500, 9000, 15_000)) + run.chance.randrange(100),
            headers=run.chance.choice((8, 100, 256)) + run.chance.randrange(10),
        )
        directory = run.directory / str(rounds)
        directory.mkdir()
        with BrokerProcess(directory, bounds.config) as broker, upright(run, broker):
            for shape in run.chance.sample(SHAPES, len(SHAPES)):
                try_limit(run, broker, bounds, shape)
            if rounds == 0:
                streams(run, broker)
        shutil.rmtree(directory)
        rounds += 1


CAMPAIGNS = (
    Campaign(
        number="S4",
        name="bombs",
        title="each limit of a frame and one past it; commands, headers and bodies without an end",
        unit="limits",
        run=bombs,
        cases=(70, 2_800, 50_000),
        mutants=(
            "header-limit-off-by-one",
            "headers-limit-off-by-one",
            "body-limit-off-by-one",
            "kept-id-off-by-one",
            "connect-without-bound",
            "header-block-without-bound",
        ),
        mutant_cases=42,
        quick_mutants=4,
        needs=("linux",),
        is_waiting=True,
    ),
)
