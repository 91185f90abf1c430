"""T14: no greenlet switches inside the core of a real broker under load, and nothing enters it while it is inside.

A switch is told by greenlet's own trace; in a callback of the hub gevent refuses it, and the broker fails. The core is
Broker.turn and seal, the session with its parser, and the outbox. What cannot be interrupted needs no locks, and what
tests/sim proves of a turn holds in the real process. It sees what this load does: sends, transactions, fanouts, topics,
ACKs, lost connections, refusals, admin requests and a clean stop.
"""

import re

from tests.acceptance.wire import Gone, Wire
from tests.broker_process import EVERYTHING_MAY_BE_CREATED, SERVER, BrokerProcess
from tests.campaigns.campaign import Campaign, Run

WATCHED = ("-m", "tests.campaigns.watched")
CONFIG = f"""{SERVER}
{EVERYTHING_MAY_BE_CREATED}
[fanout.f]
children = ["x", "y"]
"""
SENDS = 30


def round_of_everything(address: tuple[str, int], number: int) -> None:
    with (
        Wire(address) as producer,
        Wire(address, ("1.0", "1.1", "1.2")[number % 3]) as consumer,
        Wire(address) as other,
    ):
        for wire in (producer, consumer, other):
            wire.connect()
        consumer.subscribe("/queue/q", ack="client")
        other.subscribe("/topic/t.#", ack="auto")
        receipts = [producer.begin_ask("SEND", {"destination": "/queue/q"}, b"x" * 100 * n) for n in range(SENDS)]
        for receipt in receipts:
            producer.await_receipt(receipt)
        for _ in range(SENDS // 2):
            consumer.ack(consumer.message())
        producer.ask("BEGIN", {"transaction": "t"})
        producer.send("/fanout/f", "both", {"transaction": "t"})
        producer.send("/topic/t.u", "now", {"transaction": "t"})
        producer.ask("COMMIT", {"transaction": "t"})
        assert other.message().body == b"now"
        other.send("/admin", '{"do": "stats"}', {"reply-to": "/temp-queue/answers"})
        other.message()
        other.send_frame("SEND", {"no": "destination"})
        other.refusal()
        # the consumer is lost with a message out


def watch(run: Run) -> None:
    broker = BrokerProcess(run.directory, CONFIG, WATCHED)
    try:
        broker.start()
        while not run.is_over and "WATCHED" not in broker.log:
            try:
                round_of_everything((broker.host, broker.port), run.done)
            except (Gone, OSError) as failed:
                # gevent itself ends a callback of the hub that would switch
                run.violations.append(f"The broker failed under the load: {failed!r}\n{broker.log[-2000:]}")
                return
            run.case()
        assert broker.stop() == 0, broker.log
    finally:
        broker.kill()
        for line in [line for line in broker.log.splitlines() if line.startswith("WATCHED")][:10]:
            if "the end" not in line:
                run.violations.append(line)
    end = re.search(r"WATCHED the end: (\d+) calls, (\d+) switches", broker.log)
    assert end is not None, f"nothing was watched: {broker.log}"
    calls, switches = int(end[1]), int(end[2])
    run.figures |= {"calls into the core": calls, "switches outside it": switches}
    # few: nearly everything runs in callbacks of the hub
    assert run.violations or (calls > SENDS * run.done and switches > 0), f"too little was watched: {end[0]}"


CAMPAIGNS = (
    Campaign(
        number="T14",
        name="switches",
        title="greenlet switches and second entries inside the core of a real broker, which there must not be",
        unit="rounds",
        run=watch,
        cases=(20, 1000, 20_000),
        mutants=("sleep-in-the-core", "log-call-in-the-core", "sleep-in-the-session", "core-entered-twice"),
        mutant_cases=5,
        quick_mutants=3,
        limit_s=(60, 1800, 6 * 3600),
    ),
)
