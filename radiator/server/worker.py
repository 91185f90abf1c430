"""A native thread that does one job at a time for the hub: a lock hands the job over, a wake-up brings the answer.

The threads that touch the disk are workers: committer, follower and loader (disk.py). An exception in a job is not
caught, so it ends the process.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from radiator.model.limits import BEAT_S

Job = TypeVar("Job")
Answer = TypeVar("Answer")


class Worker(Generic[Job, Answer]):
    """`start`, `submit`, `stop` and `answered` run on the hub; `work` and `rest` in the thread.

    work: does a job. answered: called with its result. rest: called repeatedly, when idle or between jobs; returns the
    seconds until its next call, at most BEAT_S. beats: grows at least every BEAT_S unless the thread is stuck.
    """

    def __init__(
        self,
        loop: Any,
        name: str,
        work: Callable[[Job], Answer],
        answered: Callable[[Answer], None],
        rest: Callable[[], float],
    ) -> None:
        self.is_busy = False
        self.beats = 0
        self._work = work
        self._answered = answered
        self._rest = rest
        self._job: Job | None = None
        self._answer: Answer | None = None
        self._go = threading.Lock()
        self._go.acquire()
        self._done = loop.async_()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._done.start(self._on_done)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Hands over a job; allowed only while the thread is not busy."""
        assert not self.is_busy, "one job at a time"
        self.is_busy = True
        self._job = job
        self._go.release()

    def stop(self) -> None:
        """Ends the thread, and returns when it has ended; allowed only while it is not busy."""
        assert not self.is_busy, "a job is never left alone"
        self._job = None
        self._go.release()
        self._thread.join()
        self._done.stop()
        self._done.close()

    def _on_done(self) -> None:
        answer, self._answer = self._answer, None
        self.is_busy = False
        self._answered(answer)  # type: ignore[arg-type]  # None may be an Answer

    def _run(self) -> None:
        rest_at_s = time.monotonic() + BEAT_S
        while True:
            if self._go.acquire(timeout=max(0.0, rest_at_s - time.monotonic())):
                job, self._job = self._job, None
                if job is None:
                    return
                self._answer = self._work(job)
                del job  # a batch may take much memory, and the next one may be long in coming
                self._done.send()
            if time.monotonic() >= rest_at_s:
                rest_s = self._rest()
                rest_at_s = time.monotonic() + rest_s
            self.beats += 1
