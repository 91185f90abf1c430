"""Real workers at a real broker, what may happen to them, and books over it."""

import re
import signal
import threading
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any, Self
from uuid import uuid4

from celery import Celery

from radiator.client import Address, Client
from radiator.model.errors import RadiatorError
from tests.broker_process import SERVER, BrokerProcess
from tests.integrations.celery.books import Books
from tests.integrations.celery.other_programs import AS_TEXT, post_task
from tests.integrations.celery.publisher import publisher, task
from tests.integrations.celery.secured import url_of, users_of
from tests.integrations.celery.worker_process import WorkerProcess
from tests.nodes.proxy import BACK, Proxy
from tests.tls_broker import ENCRYPTED, TlsBroker

CONFIG = "[create]\nqueues = false\ntopics = false\n"
LISTENING = SERVER.replace('"stomp://127.0.0.1:0"', '"stomp://127.0.0.1:0", "http://127.0.0.1:0", "amqp://127.0.0.1:0"')
QUEUE = "jobs"
# what is published over HTTP again, since its answer was lost, is stored once
DEDUPLICATED = f'[queue."{QUEUE}"]\ndedup_window_s = 3600\n'
OVER_HTTP = 3  # one in so many
# beside what runs when it is killed: jobs that had ended, and whose ACK was not with the broker yet
ACKS_ON_THE_WAY = 2
ANSWERED_WITHIN_S = 20.0


def until(is_done: Callable[[], Any], timeout_s: float) -> bool:
    end_s = time.monotonic() + timeout_s
    while not is_done():
        if time.monotonic() >= end_s:
            return False
        time.sleep(0.02)
    return True


def waits_for_itself(dump: str) -> bool:
    """Whether a worker of amqp:// that was told to stop cold is writing a frame within the writing of another one."""
    return "in on_cold_shutdown" in dump and len(re.findall(r'method_framing\.py", line \d+ in write_frame', dump)) == 2


class Crew:
    """`with Crew(directory, 2) as crew:` has everything running; all of it ends with the block.

    Everybody reaches the broker through a proxy, so that it may come back at another port, and connections be cut.
    Jobs are acked when they have ended, and given back where their child process was killed. is_secured: by TLS, and
    as the users of docs/CELERY.md. tables: of config.toml, for the broker. options: of each worker's command line.
    """

    def __init__(
        self,
        directory: Path,
        workers: int,
        *,
        concurrency: int = 2,
        pools: tuple[str, ...] = ("prefork",),
        is_secured: bool = False,
        tables: str = "",
        options: tuple[str, ...] = (),
        scheme: str = "radiator",
        has_web: bool = False,
    ):
        directory.mkdir(exist_ok=True)
        self.broker: BrokerProcess
        urls = {"web": "", "worker": ""}
        self.has_web, self._scheme = has_web, scheme
        self.posted = 0  # over HTTP
        self.waited_for_themselves = 0  # workers
        self.web = Proxy(lambda: self._port("http"))
        if is_secured:
            self.broker = broker = TlsBroker(directory, ENCRYPTED + CONFIG + users_of(QUEUE))
            self.proxy = Proxy(lambda: broker.tls_port)
            urls = {user: url_of(user, self.proxy.port, broker.ca_file) for user in urls}
        elif scheme == "amqp":
            self.broker = BrokerProcess(directory, LISTENING + CONFIG + DEDUPLICATED + tables)
            self.proxy = Proxy(lambda: self._port("amqp"))
            urls = dict.fromkeys(urls, f"amqp://guest:guest@127.0.0.1:{self.proxy.port}//")
        else:
            self.broker = BrokerProcess(directory, (LISTENING + CONFIG + DEDUPLICATED if has_web else CONFIG) + tables)
            self.proxy = Proxy(lambda: self.broker.port)
        self.books = Books(directory / "book")
        self.workers = [
            WorkerProcess(
                self.proxy.port,
                self.books.path,
                pool=pools[number % len(pools)],
                concurrency=concurrency,
                name=f"w{number}",
                queues=QUEUE,
                url=urls["worker"],
                options=options,
            )
            for number in range(workers)
        ]
        self._publisher = publisher(self.proxy.port, url=urls["web"])
        self.app: Celery

    def __enter__(self) -> Self:
        self.broker.start()
        self.app = self._publisher.__enter__()
        try:
            for worker in self.workers:
                worker.spawn()
            for worker in self.workers:
                worker.wait_until_ready()
        except BaseException:
            print(self.logs())
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.kill()
        self._publisher.__exit__(None, None, None)
        self.broker.kill()
        self.proxy.close()
        self.web.close()

    def _port(self, scheme: str) -> int:
        """Of that listener; 0, or one that is gone, where the broker does not listen."""
        found = re.findall(rf"listening address={scheme}://127.0.0.1:(\d+)", self.broker.log)
        return int(found[-1]) if found else 0

    @property
    def _operators_address(self) -> Address | str:
        """Where everything may be asked."""
        return Address.unix(self.broker.unix_path) if isinstance(self.broker, TlsBroker) else self.broker.address

    # ---- work

    def publish(self, numbers: range, seconds: float = 0.0, keys: int = 0) -> None:
        """Returns once the broker has confirmed each. keys: job N has the key N modulo that; 0: none has one."""
        for number in numbers:
            self.books.published.add(number)
            given = {"radiator_key": number % keys} if keys else {}
            if self.has_web and number % OVER_HTTP == 0:
                self.post(number, seconds)
            else:
                task(self.app, "job", number, seconds).apply_async(queue=QUEUE, ignore_result=True, **given)

    def post(self, number: int, seconds: float = 0.0) -> None:
        """Over HTTP, again and again until it is answered. Each try is a task with an id of its own: that none of them
        is stored beside another, the books see. Workers of radiator:// get headers that are text, too.
        """
        headers = {f"message-{name}": text for name, text in AS_TEXT.items()} if self._scheme == "radiator" else {}
        headers |= {"Idempotency-Key": str(uuid4())}
        self.posted += 1
        end_s = time.monotonic() + ANSWERED_WITHIN_S
        while True:
            try:
                post_task(self.web.port, QUEUE, "job", number, seconds, headers=headers)
            except (OSError, HTTPException):
                if time.monotonic() >= end_s:
                    raise
                self.books.unanswered += 1
                time.sleep(0.02)
            else:
                return

    def lose_while_posting(self, numbers: range, lose: Callable[[], None], loses_answer: bool = False) -> None:
        """One publish after another over HTTP, while the broker or its connections are lost; until all are answered.

        loses_answer: the first is stored by then, which nobody tells its program.
        """
        failed: list[Exception] = []

        def post_all() -> None:
            try:
                for number in numbers:
                    self.post(number)
            except (OSError, HTTPException, AssertionError) as error:
                failed.append(error)

        self.books.published.update(numbers)
        posting = threading.Thread(target=post_all)
        if loses_answer:
            self.web.silence(BACK)
        posting.start()
        try:
            if loses_answer:
                until(lambda: numbers[0] in self.books.begun(), ANSWERED_WITHIN_S / 4)
            lose()
        finally:
            self.web.heal()
            posting.join()
        if failed:
            raise failed[0]

    def is_done(self) -> bool:
        return self.books.published <= self.books.done()

    def is_empty(self) -> bool:
        """Nothing is left in the queue, unacked included."""
        try:
            with Client(self._operators_address) as client:
                return bool(client.admin({"do": "describe", "queue": QUEUE})["messages"] == 0)
        except RadiatorError:
            return False

    # ---- what may happen

    def kill_a_worker(self, chance: Random) -> None:
        """With all its children, as if its machine had died; another one comes in its place."""
        worker = chance.choice(self.workers)
        worker.kill()
        self.books.excused[worker.signature] += self.books.running(worker.signature) + ACKS_ON_THE_WAY
        worker.start()

    def kill_a_child(self, chance: Random) -> None:
        """One process of a prefork pool: the worker gives its job back, and has another child made."""
        worker = chance.choice([one for one in self.workers if one.is_prefork])
        if worker.kill_child(chance):
            self.books.excused[worker.signature] += 1 + ACKS_ON_THE_WAY

    def stop_a_worker(self, chance: Random) -> None:
        """A warm shutdown: what runs is ended and acked, what waits goes back.

        So does what a child has begun without the worker's having read so, at most one job of each child: Celery drops
        it, whatever the transport, does not ack it, and waits 30 s for the child that waits for it.
        """
        worker = chance.choice(self.workers)
        code = worker.stop()
        self.books.excused[worker.signature] += min(self.books.unread(worker.signature), worker.concurrency)
        assert code == 0, f"{worker.name} ended with {code}:\n{worker.log}"
        worker.start()

    def stop_a_worker_cold(self, chance: Random) -> None:
        """What runs goes back too.

        Celery cancels the consumers in its handler of the signal. py-amqp, where that has interrupted it in writing an
        ACK, waits for the lock that it holds itself, for ever: such a worker is killed, and counted.
        """
        worker = chance.choice(self.workers)
        self.books.excused[worker.signature] += worker.concurrency + ACKS_ON_THE_WAY
        worker.signal(signal.SIGQUIT)
        try:
            worker.wait()
        except AssertionError as error:
            if self._scheme != "amqp" or not waits_for_itself(str(error)):
                raise
            self.waited_for_themselves += 1
            worker.kill()
        worker.start()

    def cut(self) -> None:
        """All connections end at once; the workers go on."""
        self._excuse_everybody()
        for proxy in (self.proxy, self.web):
            proxy.cut(with_reset=True)

    def restart_broker(self, is_killed: bool) -> None:
        self._excuse_everybody()
        if is_killed:
            self.broker.kill()
        else:
            assert self.broker.stop() == 0, self.broker.log
        for proxy in (self.proxy, self.web):
            proxy.cut()
        self.broker.start()

    def lose_connections(self, _: Random) -> None:
        self.cut()

    def lose_broker(self, _: Random) -> None:
        self.restart_broker(is_killed=True)

    def _excuse_everybody(self) -> None:
        """What runs now is given to somebody else while it is done to its end here."""
        for worker in self.workers:
            self.books.excused[worker.signature] += worker.concurrency + ACKS_ON_THE_WAY

    # ---- the judgement

    def faults(self, timeout_s: float) -> list[str]:
        """Once everything is done, or cannot be waited for any longer."""
        until(self.is_done, timeout_s)
        found = self.books.faults()
        if not until(self.is_empty, 10.0):
            found.append(f"left: the queue is not empty, though {len(self.books.published)} jobs are done")
        if not self.broker.is_running or "Traceback" in self.broker.log:
            found.append(f"the broker: {self.broker.log[-2000:]}")
        return found

    def logs(self, lines: int = 15) -> str:
        logs = [(one.name, one.log) for one in self.workers] + [("broker", self.broker.log)]
        return "\n".join("\n".join([f"--- {name}", *log.splitlines()[-lines:]]) for name, log in logs)
