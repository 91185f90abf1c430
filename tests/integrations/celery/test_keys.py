"""Tasks with the same key are done in order, one at a time, by any number of workers, as docs/CELERY.md says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery, chain, group

from radiator.integrations.kombu.failures import OperationRefused
from tests.broker_process import BrokerProcess
from tests.integrations.celery.books import ID
from tests.integrations.celery.crew import CONFIG, QUEUE, Crew, until
from tests.integrations.celery.publisher import publisher, task
from tests.integrations.celery.test_losses import books
from tests.integrations.celery.worker_process import WorkerProcess

KEYS, TASKS = 20, 20  # of each key
KEYED = f'[queue."{QUEUE}"]\npartition_key = "header:partition-key"\n'
PREFETCHING = ("--prefetch-multiplier", "4")


@pytest.mark.parametrize("options", [(), PREFETCHING], ids=["one-in-hand", "four-in-hand"])
def test_tasks_of_a_key_are_in_order_over_the_death_of_a_worker(tmp_path: Path, options: tuple[str, ...]) -> None:
    with Crew(tmp_path, 3, tables=KEYED, options=options) as crew:
        half = KEYS * TASKS // 2
        crew.publish(range(half - KEYS), seconds=0.004, keys=KEYS)
        crew.publish(range(half - KEYS, half), seconds=0.2, keys=KEYS)  # long enough to be killed in
        victim = crew.workers[1]
        assert until(lambda: crew.books.running(victim.signature), 10), crew.logs()
        victim.kill()
        crew.books.excused[victim.signature] = KEYS  # what had ended, and whose ACK was not with the broker yet, too
        crew.publish(range(half, 2 * half), seconds=0.004, keys=KEYS)
        assert until(crew.is_done, 40), crew.logs()
        assert crew.faults(10) == [], crew.logs()
        assert crew.books.faults_of_keys(KEYS) == []
        done_by = {workers[-1] for workers in crew.books.begun().values()}
        assert {worker.signature for worker in crew.workers} - done_by <= {victim.signature}  # side by side, that is


@pytest.fixture(scope="module")
def keyed_app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Celery, Path]]:
    """A program, and the book of the worker that does its tasks: two at a time. What is rejected comes again later."""
    directory = tmp_path_factory.mktemp("keyed")
    tables = KEYED + "redelivery_delay_ms = 300\n"
    with (
        BrokerProcess(directory, CONFIG + tables) as broker,
        publisher(broker.port) as app,
        WorkerProcess(broker.port, directory / "book", queues=QUEUE),
    ):
        yield app, directory / "book"


def tries_of(book: Path, number: int) -> list[str]:
    """The first words of its lines that are of this job or the next one, but for ids and what a worker read."""
    lines = (line.split() for line in book.read_text().splitlines())
    return [word for word, one, _ in lines if int(one) in (number, number + 1) and word != "read" and ID not in word]


@pytest.mark.parametrize(("how", "tries"), [
    ("reject", ["first", "second", "start", "end"]), ("retry", ["first", "start", "end", "second"]),
])  # fmt: skip
@pytest.mark.parametrize("place", ["option", "headers"])
def test_a_task_that_is_rejected_keeps_its_place_and_one_that_retries_only_its_key(
    keyed_app: tuple[Celery, Path], how: str, tries: list[str], place: str
) -> None:
    app, book = keyed_app
    number = {"option": 10, "headers": 20}[place] + {"reject": 0, "retry": 5}[how]
    key = f"customer: {number}"  # with a character that STOMP escapes
    given = {"radiator_key": key} if place == "option" else {"headers": {"radiator_key": key}}
    tried = task(app, "try_twice", number, how).apply_async(queue=QUEUE, **given)
    behind = task(app, "job", number + 1).apply_async(queue=QUEUE, **given)
    assert (tried.get(timeout=10), behind.get(timeout=10)) == (key, number + 1)
    assert tries_of(book, number) == tries


def test_each_task_of_a_canvas_may_have_a_key(keyed_app: tuple[Celery, Path]) -> None:
    app, _ = keyed_app
    one, other = (
        task(app, "try_twice", number, "retry").set(queue=QUEUE, radiator_key=f"k{number}", immutable=True)
        for number in (31, 32)
    )
    assert chain(one, other).apply_async().get(timeout=10) == "k32"
    assert group(one, other).apply_async().get(timeout=10) == ["k31", "k32"]


def test_a_key_may_be_given_wherever_something_is_published(keyed_app: tuple[Celery, Path]) -> None:
    app, _ = keyed_app
    name = task(app, "try_twice").task
    assert app.send_task(name, (41, "retry"), queue=QUEUE, radiator_key=7).get(timeout=10) == "7"
    with app.connection_for_write() as connection, connection.SimpleQueue("beside") as queue:
        queue.producer.publish("text", routing_key="beside", radiator_key="ann")
        assert queue.get(timeout=5).headers["radiator_key"] == "ann"
        with pytest.raises(OperationRefused, match="it must be a text or a whole number"):
            queue.producer.publish("text", routing_key="beside", radiator_key=["ann"])
    with pytest.raises(OperationRefused, match="it must be a text or a whole number"):
        app.send_task(name, (42, "retry"), queue=QUEUE, radiator_key=1.5)


# ---- the books of keys themselves


def test_books_of_keys_that_are_in_order(tmp_path: Path) -> None:
    lines = ["start 1 a-1", "start 2 b-1", "end 2 b-1", "start 1 b-1", "end 1 b-1", "start 3 a-1", "end 3 a-1"]
    assert books(tmp_path, *lines).faults_of_keys(2) == []


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["start 3 a-1", "end 3 a-1", "start 1 a-1", "end 1 a-1"], "order: job 1 is begun by a-1 behind job 3"),
        (["start 1 a-1", "start 3 b-1", "end 1 a-1", "end 3 b-1"], "at once: job 1 is ended by a-1 when b-1 has"),
        (["start 1 a-1", "start 1 b-1", "end 1 a-1", "end 1 b-1"], "at once: job 1 is ended by a-1 when b-1 has"),
    ],
)
def test_books_of_keys_that_are_not(tmp_path: Path, lines: list[str], word: str) -> None:
    (fault,) = books(tmp_path, *lines).faults_of_keys(2)
    assert fault.startswith(word)
