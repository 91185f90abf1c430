"""Shows how far a job has come, on stderr: stages done of all that are known, and tasks within those that run."""

import sys
import threading
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self, TextIO

from pyspark.sql import SparkSession

from radiator.model.errors import count_text

QUIET_S = 3.0  # a job that ends before that prints nothing
LOOK_S = 0.5
LINE_S = 10.0  # between two lines if stderr is not a terminal


class Stage(NamedTuple):
    """tasks: of the whole stage; 0 while not known."""

    tasks: int
    tasks_done: int

    @property
    def is_done(self) -> bool:
        return 0 < self.tasks <= self.tasks_done


class JobProgress:
    """Reports progress while its `with` block runs. Spark plans as it goes, so the number of stages may grow on the
    way.

    In a session of its own it polls every half second; over Spark Connect the server reports.
    """

    def __init__(
        self,
        spark: SparkSession,
        is_remote: bool = False,
        out: TextIO = sys.stderr,
        quiet_s: float = QUIET_S,
        look_s: float = LOOK_S,
    ) -> None:
        self.spark, self.is_remote, self.out = spark, is_remote, out
        self.quiet_s, self.look_s = quiet_s, look_s
        self.stages: dict[tuple[str, int], Stage] = {}  # by operation ("" in a session of its own) and number
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="progress", daemon=True)
        self._begun_s = self._shown_s = time.monotonic()
        self._shown = ""

    def __enter__(self) -> Self:
        if self.is_remote:
            self.spark.registerProgressHandler(self._on_progress)
        else:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_remote:
            self.spark.removeProgressHandler(self._on_progress)
        else:
            self._over.set()
            self._thread.join()
        if self._shown and self.out.isatty():
            self.out.write("\n")

    def line(self) -> str:
        """Returns the line to print; empty before there is a stage."""
        known = self.stages.values()
        if not known:
            return ""
        running = [stage for stage in known if stage.tasks and not stage.is_done]
        text = f"{sum(stage.is_done for stage in known)} of {count_text(len(known), 'stage')} done"
        if running:
            tasks = count_text(sum(stage.tasks for stage in running), "task")
            text += f", {sum(stage.tasks_done for stage in running)} of {tasks} of what runs"
        return text

    def _look(self) -> None:
        tracker = self.spark.sparkContext.statusTracker()
        jobs: set[int] = set()
        while not self._over.wait(self.look_s):
            jobs.update(tracker.getActiveJobsIds())
            for job in jobs:
                job_info = tracker.getJobInfo(job)
                for number in job_info.stageIds if job_info is not None else ():
                    stage = tracker.getStageInfo(number)
                    if stage is not None:
                        self.stages["", number] = Stage(stage.numTasks, stage.numCompletedTasks)
                    elif job_info is not None and job_info.status == "SUCCEEDED":
                        self.stages["", number] = Stage(1, 1)  # its result existed already: nothing to do
                    else:
                        self.stages.setdefault(("", number), Stage(0, 0))
            self._say()

    def _on_progress(
        self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool
    ) -> None:
        for stage in stages or ():
            self.stages[operation_id or "", stage.stage_id] = Stage(stage.num_tasks, stage.num_completed_tasks)
        self._say()

    def _say(self) -> None:
        line, now_s = self.line(), time.monotonic()
        if not line or line == self._shown or now_s - self._begun_s < self.quiet_s:
            return
        if self.out.isatty():
            self.out.write(f"\r{line:<70}")
        elif now_s - self._shown_s >= LINE_S or not self._shown:
            self.out.write(f"{line}\n")
        else:
            return
        self.out.flush()
        self._shown, self._shown_s = line, now_s
