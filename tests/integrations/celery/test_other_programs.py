"""Tasks that were published without Celery, or by its transport amqp://, in workers of radiator:// and of amqp://.

docs/CELERY.md has the example that is run here, and what ends a worker of amqp://.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from radiator.client import Client
from tests.acceptance.amqp_clients import port_of
from tests.broker_process import BrokerProcess
from tests.documents.blocks import blocks_of
from tests.integrations.celery.books import Books
from tests.integrations.celery.conftest import CONFIG
from tests.integrations.celery.crew import LISTENING, until
from tests.integrations.celery.other_programs import AS_TEXT, PROJECT, post_task
from tests.integrations.celery.publisher import publisher, task
from tests.integrations.celery.worker_process import IN_ITS_LOOP, WorkerProcess

PAGE = Path(__file__).resolve().parents[3] / "docs" / "CELERY.md"
MARKER = "tests/integrations/celery/test_other_programs.py"
DONE_S = 15


def block(language: str) -> str:
    """The page's example in that language."""
    (text,) = (
        one.text
        for one in blocks_of("docs/CELERY.md", PAGE.read_text())
        if (one.language, one.why) == (language, MARKER)
    )
    return text


def bounded() -> str:
    """As on the page, for another queue, and with smaller bounds."""
    text = block("toml")
    for old, new in (("redeliveries = 3", "redeliveries = 1"), ("timeout_s = 3600", "timeout_s = 2")):
        assert old in text
        text = text.replace(old, new)
    return text.replace('"celery', '"bounded')


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), LISTENING + CONFIG + bounded()) as running:
        for scheme in ("http", "amqp"):
            running.wait_for_log(f"listening address={scheme}://")
        yield running
        assert "Traceback" not in running.log, running.log
        assert running.stop() == 0, running.log


def url_of(broker: BrokerProcess, scheme: str) -> str:
    return (
        f"amqp://guest:guest@127.0.0.1:{port_of(broker)}//"
        if scheme == "amqp"
        else broker.address.replace("stomp", "radiator")
    )


@pytest.fixture(scope="module", params=["radiator", "amqp"])
def worker(request: pytest.FixtureRequest, broker: BrokerProcess, book: Path) -> Iterator[WorkerProcess]:
    """Its queue is called as its transport is."""
    url, scheme = url_of(broker, request.param), str(request.param)
    with WorkerProcess(broker.port, book, url=url, queues=scheme, name=scheme, concurrency=1) as running:
        yield running
        assert running.is_running, running.log
        assert running.stop() == 0, running.log


def queue_of(worker: WorkerProcess) -> str:
    return worker.name.partition("@")[0]


def test_a_task_that_was_published_over_http_runs(worker: WorkerProcess, broker: BrokerProcess, book: Path) -> None:
    post_task(port_of(broker, "http"), queue_of(worker), "job", 1)
    assert until(lambda: Books(book).done() >= {1}, DONE_S), worker.log
    book.unlink()


def test_a_delay_waits_in_the_broker(worker: WorkerProcess, broker: BrokerProcess, book: Path) -> None:
    begun_s = time.monotonic()
    post_task(port_of(broker, "http"), queue_of(worker), "job", 1, headers={"delay": "700"})
    assert until(lambda: Books(book).done() >= {1}, DONE_S), worker.log
    assert time.monotonic() - begun_s >= 0.7
    book.unlink()


def test_the_example_of_the_page_runs(worker: WorkerProcess, broker: BrokerProcess, book: Path) -> None:
    text = block("sh")
    for old, new in (
        ("127.0.0.1:61680", f"127.0.0.1:{port_of(broker, 'http')}"),
        ("/queues/celery/", f"/queues/{queue_of(worker)}/"),
        ("shop.tasks.send_mail", f"{PROJECT}.job"),
        ('[["ann@example.org"], {"subject": "Hello"}, {}]', '[[5], {"seconds": 0.0}, {}]'),
    ):
        assert text.count(old) == 1, (old, text)
        text = text.replace(old, new)
    done = subprocess.run(["sh", "-ec", text], capture_output=True, text=True, check=True)
    assert '"duplicates":0' in done.stdout
    assert until(lambda: Books(book).done() >= {5}, DONE_S), worker.log
    book.unlink()


@pytest.fixture(scope="module")
def own_worker(broker: BrokerProcess, book: Path) -> Iterator[WorkerProcess]:
    """Of radiator://."""
    with WorkerProcess(broker.port, book, concurrency=1, name="own", queues="own") as running:
        yield running
        assert running.is_running, running.log
        assert running.stop() == 0, running.log


def test_headers_that_are_text_are_what_celery_means(
    own_worker: WorkerProcess, broker: BrokerProcess, book: Path
) -> None:
    headers = {f"message-{name}": text for name, text in AS_TEXT.items()}
    post_task(port_of(broker, "http"), "own", "try_twice", 1, "retry", headers=headers)
    assert until(lambda: "second 1" in book.read_text() if book.exists() else False, DONE_S), own_worker.log
    book.unlink()


def test_a_time_limit_of_another_program_counts(own_worker: WorkerProcess, broker: BrokerProcess, book: Path) -> None:
    post_task(port_of(broker, "http"), "own", "job", 1, 60, headers={"message-timelimit": "[0.5, null]"})
    own_worker.wait_for_log("Hard time limit (0.5s) exceeded", DONE_S)
    book.unlink()


def test_expires_is_the_brokers_and_what_the_worker_reads(
    own_worker: WorkerProcess, broker: BrokerProcess, book: Path
) -> None:
    due = str(int(time.time() * 1000) + 60_000)
    post_task(port_of(broker, "http"), "own", "job", 1, headers={"expires": due})
    assert until(lambda: Books(book).done() >= {1}, DONE_S), own_worker.log
    book.unlink()


def test_a_task_without_an_id_has_that_of_its_message(
    own_worker: WorkerProcess, broker: BrokerProcess, book: Path
) -> None:
    (message_id,) = post_task(port_of(broker, "http"), "own", "job", 1, task_id="")
    own_worker.wait_for_log(f"[{message_id}] succeeded", DONE_S)
    book.unlink()


def test_what_cannot_be_read_is_acked_and_the_worker_goes_on(
    own_worker: WorkerProcess, broker: BrokerProcess, book: Path
) -> None:
    since = own_worker.lines_count
    post_task(port_of(broker, "http"), "own", "job", 1, headers={"message-retries": "many"})
    own_worker.wait_for_log("Can't decode message body", DONE_S, since)
    post_task(port_of(broker, "http"), "own", "job", 2)
    assert until(lambda: Books(book).done() >= {2}, DONE_S), own_worker.log
    assert Books(book).done() == {2}
    book.unlink()


def test_a_program_of_amqp_has_its_task_done_and_gets_the_result(
    own_worker: WorkerProcess, broker: BrokerProcess
) -> None:
    with publisher(broker.port, url=url_of(broker, "amqp")) as app:
        assert task(app, "add", 2, 3).apply_async(queue="own").get(timeout=DONE_S) == 5, own_worker.log
        assert task(app, "fail_twice").apply_async(queue="own", expires=60).get(timeout=DONE_S) == 2, own_worker.log


def test_one_that_a_worker_of_amqp_keeps_without_a_word_is_a_dead_letter_too(broker: BrokerProcess, book: Path) -> None:
    """It is there when the worker begins. Whether the worker ends, or keeps it, is chance."""
    port, before = port_of(broker, "http"), dead_letters(broker)
    post_task(port, "bounded", "job", 1, headers={"message-eta": ""})
    post_task(port, "bounded", "job", 2)
    worker = WorkerProcess(1, book, url=url_of(broker, "amqp"), queues="bounded", pool="threads", concurrency=1)
    with worker:
        end_s = time.monotonic() + 2 * DONE_S
        while Books(book).done() != {2}:
            assert time.monotonic() < end_s, worker.log
            if not worker.is_running:
                worker.spawn()
            time.sleep(0.1)
    assert dead_letters(broker) == before + 1
    book.unlink()


@pytest.mark.parametrize(
    ("task_id", "headers"),
    [("t-1", {"message-eta": ""}), ("t-2", {"message-timelimit": "[null,null]"}), ("", {})],
    ids=["eta", "timelimit", "no id"],
)
def test_what_ends_workers_of_amqp_does_so_until_it_is_a_dead_letter(
    broker: BrokerProcess, book: Path, task_id: str, headers: dict[str, str]
) -> None:
    """docs/CELERY.md says so, and what bounds it."""
    port, before, lives = port_of(broker, "http"), dead_letters(broker), 1
    with WorkerProcess(1, book, url=url_of(broker, "amqp"), queues="bounded", pool="threads", concurrency=1) as worker:
        worker.wait_for_log(IN_ITS_LOOP)
        time.sleep(0.5)  # the error of one that it finds in its first tenth of a second Celery drops
        post_task(port, "bounded", "job", 1, task_id=task_id, headers=headers)
        assert worker.wait() != 0
        while dead_letters(broker) == before:
            lives += 1
            assert lives <= 2, worker.log  # max_redeliveries, and one more
            worker.start()
            assert until(lambda: dead_letters(broker) > before, DONE_S), worker.log
        if lives > 1:
            worker.kill()
        worker.start()
        post_task(port, "bounded", "job", 2)
        assert until(lambda: Books(book).done() == {2}, DONE_S), worker.log
    assert lives == 2
    book.unlink()


def dead_letters(broker: BrokerProcess) -> int:
    with Client(broker.address) as client:
        return int(client.admin({"do": "describe", "queue": "bounded.dead"})["messages"])
