"""Workers that are killed or stopped, a broker that restarts, connections that are cut: every task is done.

The campaign `celery` of scripts/prove does the same many times (tests/campaigns/celery.py).
"""

import signal
import time
from pathlib import Path
from random import Random

import pytest

from tests.integrations.celery.books import Books
from tests.integrations.celery.crew import QUEUE, Crew, until, waits_for_itself
from tests.integrations.celery.publisher import task
from tests.integrations.celery.worker_process import WorkerProcess


@pytest.mark.alone("at once is within a second")
def test_the_task_of_a_worker_that_is_killed_is_redelivered_at_once(tmp_path: Path) -> None:
    """And at once means now, not when some visibility timeout is over."""
    with Crew(tmp_path, 1, concurrency=1) as crew:
        (worker,) = crew.workers
        crew.publish(range(1), seconds=3)  # longer than another worker needs to start
        assert until(lambda: crew.books.running(worker.signature) == 1, 10)
        other = WorkerProcess(crew.broker.port, crew.books.path, pool="solo", name="other", queues=QUEUE)
        with other:
            killed_s = time.monotonic()
            worker.kill()
            crew.books.excused[worker.signature] = 1
            assert until(lambda: crew.books.running(other.signature) == 1, 5)
            assert time.monotonic() - killed_s < 1.0
            assert crew.faults(10) == [], other.log


def test_a_child_that_is_killed_is_replaced_and_its_task_done(tmp_path: Path) -> None:
    with Crew(tmp_path, 1, concurrency=1) as crew:
        result = task(crew.app, "kill_child_once", str(tmp_path / "marker")).apply_async(queue=QUEUE)
        assert result.get(timeout=15) == "done", crew.logs()


def test_a_warm_shutdown_ends_what_runs_and_gives_back_what_waits(tmp_path: Path) -> None:
    with Crew(tmp_path, 1, concurrency=1) as crew:
        (worker,) = crew.workers
        crew.publish(range(3), seconds=0.6)
        assert until(lambda: crew.books.running(worker.signature) == 1, 10)
        assert worker.stop() == 0, worker.log
        assert crew.books.running(worker.signature) == 0
        assert len(crew.books.done()) == 1
        worker.start()
        assert crew.faults(10) == [], crew.logs()
        assert crew.books.doubled() == 0


@pytest.mark.alone("at once is within a second")
def test_a_cold_shutdown_gives_back_what_runs(tmp_path: Path) -> None:
    with Crew(tmp_path, 1, concurrency=1) as crew:
        (worker,) = crew.workers
        crew.publish(range(1), seconds=3.0)
        assert until(lambda: crew.books.running(worker.signature) == 1, 10)
        stopped_s = time.monotonic()
        worker.signal(signal.SIGQUIT)
        worker.wait()
        assert time.monotonic() - stopped_s < 2.5, worker.log
        crew.books.excused[worker.signature] = 1
        worker.start()
        assert crew.faults(10) == [], crew.logs()
        assert crew.books.doubled() == 1


def test_nothing_is_lost_or_doubled_while_workers_die(tmp_path: Path) -> None:
    chance = Random(1)
    with Crew(tmp_path, 2) as crew:
        crew.publish(range(80), seconds=0.04)
        crew.kill_a_worker(chance)
        crew.kill_a_child(chance)
        crew.stop_a_worker(chance)
        crew.publish(range(80, 120), seconds=0.01)
        assert crew.faults(30) == [], crew.logs()


def test_workers_go_on_after_each_loss_of_their_broker(tmp_path: Path) -> None:
    with Crew(tmp_path, 2, pools=("prefork", "gevent")) as crew:
        numbers = iter(range(1000))
        for lose in (crew.cut, lambda: crew.restart_broker(True), crew.cut, lambda: crew.restart_broker(False)):
            first = next(numbers)
            crew.publish(range(first, first + 1), seconds=0.0)
            lose()
            second = next(numbers)
            crew.publish(range(second, second + 1))
            assert until(crew.is_done, 15), crew.logs(60)
        assert crew.faults(10) == [], crew.logs()


def test_workers_of_amqp_go_on_after_each_loss_and_what_is_posted_meanwhile_is_stored_once(tmp_path: Path) -> None:
    with Crew(tmp_path, 1, scheme="amqp", has_web=True) as crew:
        losing = (crew.cut, lambda: crew.restart_broker(True), lambda: crew.restart_broker(False))
        for number, lose in enumerate(losing):
            crew.publish(range(10 * number, 10 * number + 3), seconds=0.02)
            crew.lose_while_posting(range(10 * number + 3, 10 * number + 5), lose, loses_answer=True)
            assert until(crew.is_done, 20), crew.logs(60)
        assert crew.books.unanswered >= len(losing)
        assert crew.faults(10) == [], crew.logs()


def test_what_waits_for_itself_is_told_from_what_hangs_otherwise() -> None:
    frames = [f'  File "/x/amqp/method_framing.py", line {line} in write_frame' for line in (121, 122)]
    handler = '  File "/x/celery/apps/worker.py", line 476 in on_cold_shutdown'
    assert waits_for_itself("\n".join([frames[0], handler, frames[1]]))
    assert not waits_for_itself("\n".join([frames[0], handler]))
    assert not waits_for_itself("\n".join(frames))


# ---- the books themselves


def books(tmp_path: Path, *lines: str) -> Books:
    path = tmp_path / "book"
    path.write_text("".join(line + "\n" for line in lines))
    return Books(path, {1, 2})


def test_books_of_good_work(tmp_path: Path) -> None:
    good = books(
        tmp_path, "id:x 2 a-1", "id:x 2 b-1", "start 1 a-1", "end 1 a-1", "start 2 a-1", "start 2 b-1", "end 2 b-1"
    )
    good.excused["a-1"] = 1
    assert good.faults() == []


@pytest.mark.parametrize(
    ("lines", "word"),
    [
        (["start 1 a-1", "end 1 a-1", "start 2 a-1"], "lost: 1 "),
        (["start 1 a-1", "end 1 a-1", "start 2 a-1", "end 2 a-1", "start 2 a-1", "end 2 a-1"], "doubled: of a-1 1 "),
        (["start 1 a-1", "end 1 a-1", "start 2 a-1", "end 2 a-1", "start 3 a-1"], "never published"),
        (["id:x 1 a-1", "end 1 a-1", "id:y 2 a-1", "id:z 2 b-1", "end 2 b-1"], "stored twice: 1 jobs"),
    ],
)
def test_books_of_bad_work(tmp_path: Path, lines: list[str], word: str) -> None:
    (fault,) = books(tmp_path, *lines).faults()
    assert fault.startswith(word)
