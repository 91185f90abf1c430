import threading

import gevent
import pytest

from radiator.server.worker import Worker

HUB_THREAD = threading.get_ident()


def wait_until(condition: "threading.Event") -> None:
    with gevent.Timeout(5):
        while not condition.is_set():
            gevent.sleep(0.001)


def test_worker_does_a_job_in_its_thread_and_answers_on_the_hub() -> None:
    answers: list[tuple[int, int, int]] = []
    done = threading.Event()

    def answered(answer: tuple[int, int]) -> None:
        answers.append((*answer, threading.get_ident()))
        done.set()

    worker = Worker(gevent.get_hub().loop, "t", lambda job: (job * 2, threading.get_ident()), answered, lambda: 1.0)
    worker.start()
    worker.submit(21)
    assert worker.is_busy
    with pytest.raises(AssertionError, match="one job at a time"):
        worker.submit(22)
    wait_until(done)
    assert not worker.is_busy
    [(doubled, in_thread, answered_in)] = answers
    assert doubled == 42 and in_thread != answered_in == HUB_THREAD
    worker.stop()


def test_hub_goes_on_while_the_worker_is_stuck() -> None:
    release, done = threading.Event(), threading.Event()
    worker = Worker(gevent.get_hub().loop, "t", lambda job: release.wait(5), lambda answer: done.set(), lambda: 1.0)
    worker.start()
    worker.submit(True)
    beats = worker.beats
    gevent.sleep(0.05)
    assert worker.is_busy and worker.beats == beats
    release.set()
    wait_until(done)
    worker.stop()


def test_worker_rests_and_beats_idle_or_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    rests = []
    jobs = []

    def rest() -> float:
        rests.append(True)
        return 0.02

    monkeypatch.setattr("radiator.server.worker.BEAT_S", 0.02)
    worker: Worker[int, int] = Worker(gevent.get_hub().loop, "t", lambda job: job, jobs.append, rest)
    worker.start()
    gevent.sleep(0.1)
    idle = len(rests)
    assert idle >= 2 and worker.beats >= idle
    for number in range(60):
        worker.submit(number + 1)
        while worker.is_busy:
            gevent.sleep(0.001)
    assert len(rests) > idle and len(jobs) == 60
    worker.stop()
