"""S37: requests to /admin for long answers, of 10,000 queues and much else, asked in floods; and stops in the middle.

Judged by a client that does nothing wrong meanwhile, which is served within a second whatever is asked, and most often
within less time than one long answer takes; by how long an operator waits for a short answer beside a hundred who read
none, and by how long a SIGTERM takes. It does not judge
what the answers say (T8d), nor how long a turn takes: both do tests/core/test_answers.py.
"""

import contextlib
import select
import socket
import time

from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess
from tests.campaigns.bystander import Bystander, Operator, upright
from tests.campaigns.campaign import Campaign, Run

QUEUES = 9900
BINDINGS = 2000
MESSAGES = 1000
FURNISHED_WITHIN_S = 120.0
ASKED_AT_ONCE = (40, 300)
ROUNDS = 60
OTHERS_WAIT_MAX_MS = 1000.0
LONGEST_ROUNDS = 3  # of ROUNDS may take longer than a whole answer: a disk has its moments
DO_NOT_READ = 100
SHORT_REQUESTS = ({"do": "describe", "queue": "q5"}, {"do": "why", "queue": "full"}, {"do": "describe", "queue": "q6"})
OPERATOR_WAITS_MAX_S = 5.0
STOPPED_ASKERS = 120
STOPS_WITHIN_S = 5.0
CONFIG = "[create]\nqueues = true\n[limits]\nmax_destinations = 20000\n"
CONNECT = b"CONNECT\naccept-version:1.2\nhost:flood\n\n\0"
BINDING = '{"do":"bind","exchange":"wide","key":"k%d","queue":"q1"}'
REQUESTS = (
    '{"do":"stats"}',
    '{"do":"queues"}',
    '{"do":"stats","section":"queues","limit":1000}',
    '{"do":"describe","exchange":"wide"}',
    '{"do":"describe","queue":"q1"}',
    '{"do":"why","queue":"q1"}',
    '{"do":"peek","queue":"full","count":1000}',
    '{"do":"declare","queue":"q1"}',
    '{"do":"declare","queue":"in-memory","persistent":false}',
    '{"do":"move","from":"q1","to":"q2"}',
)
KINDS = len(REQUESTS) + 1  # of floods


def asking(body: str, count: int = 1) -> bytes:
    return b"SEND\ndestination:/admin\nreply-to:/temp-queue/a\n\n%b\0" % body.encode() * count


class Asker:
    """A client that asks for a great deal at once, and reads the answers or does not."""

    def __init__(self, broker: BrokerProcess) -> None:
        self._socket = socket.create_connection((broker.host, broker.port), 10)
        self._socket.sendall(CONNECT)
        assert self._socket.recv(4096).startswith(b"CONNECTED")
        self._socket.setblocking(False)

    def ask(self, data: bytes) -> None:
        """As much of it as is taken without waiting."""
        with contextlib.suppress(BlockingIOError):
            self._socket.send(data)

    def read(self, for_s: float) -> None:
        """What comes, and that it is no ERROR."""
        until_s = time.monotonic() + for_s
        while (left_s := until_s - time.monotonic()) > 0:
            if select.select((self._socket,), (), (), left_s)[0]:
                data = self._socket.recv(1 << 20)
                assert data and not data.startswith(b"ERROR"), f"an asker was told {data[:300]!r}"

    def close(self) -> None:
        self._socket.close()


def furnish(broker: BrokerProcess) -> None:
    """Queues, and of bindings and messages enough for long answers."""
    with Wire((broker.host, broker.port)) as wire:
        wire.connect()
        for number in range(QUEUES):
            wire.send_raw(unheard(f'{{"do":"declare","queue":"q{number}"}}'))
        wire.send_raw(unheard('{"do":"declare","exchange":"wide"}'))
        for number in range(BINDINGS):
            wire.send_raw(unheard(BINDING % number))
        for _ in range(MESSAGES):
            wire.send_raw(b"SEND\ndestination:/queue/full\n\n%b\0" % (b"x" * 1000))
        operator = Operator(broker)
        deadline_s = time.monotonic() + FURNISHED_WITHIN_S
        while operator.ask({"do": "stats", "section": "queues", "after": "f", "limit": 1})["queues"] == {} or (
            operator.ask({"do": "describe", "queue": "full"}).get("messages") != MESSAGES
        ):
            assert time.monotonic() < deadline_s, "what the campaign asks about is not there in time"
            time.sleep(0.1)
        operator.close()


def unheard(body: str) -> bytes:
    return b"SEND\ndestination:/admin\n\n%b\0" % body.encode()


def whole_answer_ms(broker: BrokerProcess) -> float:
    """How long the broker takes for one of the longest answers where nobody else asks: in one turn it would hold up
    everybody for that long, on a fast machine too.
    """
    operator = Operator(broker)
    times_s = []
    for _ in range(3):
        began_s = time.monotonic()
        assert operator.ask({"do": "queues"})["ok"]
        times_s.append(time.monotonic() - began_s)
    operator.close()
    return sorted(times_s)[1] * 1000


def ask_for_much(run: Run, broker: BrokerProcess, body: str, whole_ms: float) -> None:
    askers = [Asker(broker) for _ in range(run.chance.choice((1, 1, 4)))]
    count = run.chance.choice(ASKED_AT_ONCE)
    with Bystander(broker) as bystander:
        for asker in askers:
            asker.ask(asking(body, count))
        if run.chance.random() < 0.5:
            for asker in askers:
                asker.read(0.5)
        judge_bystander(run, bystander, f"{len(askers)} clients asked {body} {count} times each", whole_ms)
    for asker in askers:
        asker.close()
    run.case()


def ask_and_not_read(run: Run, broker: BrokerProcess, whole_ms: float) -> None:
    """Many ask for all queues, and an operator for one of them."""
    operator = Operator(broker)
    with Bystander(broker) as bystander:
        askers = [Asker(broker) for _ in range(DO_NOT_READ)]
        for asker in askers:
            asker.ask(asking(run.chance.choice(REQUESTS[:2]), ASKED_AT_ONCE[0]))
        for request in SHORT_REQUESTS:
            began_s = time.monotonic()
            try:
                assert operator.ask(request)["ok"]
            except TimeoutError:
                run.violation(f"No answer came to {request} beside {DO_NOT_READ} clients who do not read theirs.")
                break
            took_s = time.monotonic() - began_s
            run.figures["an operator waited s"] = max(
                float(run.figures.get("an operator waited s", 0)), round(took_s, 2)
            )
            if took_s > OPERATOR_WAITS_MAX_S:
                run.violation(
                    f"The answer to {request} took {took_s:.1f} s beside {DO_NOT_READ} who do not read theirs."
                )
        judge_bystander(run, bystander, f"{DO_NOT_READ} clients asked for all queues and did not read", whole_ms)
    for asker in askers:
        asker.close()
    operator.close()
    run.case()


def judge_bystander(run: Run, bystander: Bystander, meanwhile: str, whole_ms: float) -> None:
    bystander.wait(ROUNDS - len(bystander.times_ms), 60)
    times_ms = bystander.times_ms
    longest_ms = max(times_ms, default=0)
    run.figures["another waited ms"] = max(float(run.figures.get("another waited ms", 0)), round(longest_ms, 1))
    if longest_ms > OTHERS_WAIT_MAX_MS or len(times_ms) < ROUNDS:
        run.violation(f"While {meanwhile}, another client waited {longest_ms:.0f} ms, and had {len(times_ms)} rounds.")
    elif (often_ms := sorted(times_ms)[-LONGEST_ROUNDS - 1]) > whole_ms:
        run.violation(
            f"While {meanwhile}, another client waited {often_ms:.0f} ms or longer {LONGEST_ROUNDS + 1} times; a whole "
            f"answer takes {whole_ms:.0f} ms."
        )


def stop_in_the_middle(run: Run, broker: BrokerProcess) -> None:
    """With long answers that are waited for, and as much that was read and is not carried out."""
    askers = [Asker(broker) for _ in range(STOPPED_ASKERS)]
    for number, asker in enumerate(askers):
        # the broker takes so much of each at once, and of all together 8 MiB
        asker.ask((asking(REQUESTS[number % 2]) if number < 4 else asking(BINDING % 1)) * 1000)
    began_s = time.monotonic()
    status = broker.stop()
    took_s = time.monotonic() - began_s
    run.figures["a stop took s"] = max(float(run.figures.get("a stop took s", 0)), round(took_s, 2))
    if took_s > STOPS_WITHIN_S or status != 0:
        run.violation(f"SIGTERM took {took_s:.1f} s while requests waited; its exit status is {status}.")
    for asker in askers:
        asker.close()


def ask_and_stop(run: Run) -> None:
    with BrokerProcess(run.directory, CONFIG) as broker, upright(run, broker):
        furnish(broker)
        whole_ms = whole_answer_ms(broker)
        run.figures["a whole answer takes ms"] = round(whole_ms)
        while not run.is_over:
            for body in run.chance.sample(REQUESTS, len(REQUESTS)):
                if not run.is_over:
                    ask_for_much(run, broker, body, whole_ms)
            if not run.is_over:
                ask_and_not_read(run, broker, whole_ms)
            stop_in_the_middle(run, broker)
            broker.start()


CAMPAIGNS = (
    Campaign(
        number="S37",
        name="answers",
        title=f"requests to /admin for long answers of {QUEUES} queues, and stops in the middle",
        unit="floods",
        run=ask_and_stop,
        cases=(KINDS, 5 * KINDS, 100 * KINDS),
        mutants=("answers-in-one-turn", "answers-in-one-line", "stop-waits-for-requests"),
        mutant_cases=KINDS,
        needs=("linux",),
        is_timed=True,
    ),
)
