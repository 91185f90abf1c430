"""What became of numbered jobs, as the workers have written it down, and whether it may be so.

A job that was published is done. It is begun again only if who had it was killed, or lost its connection, in the
middle: then nobody can know how far it came. It has one id, however often it is begun, and however often its program
has tried to publish it: two of them are two messages.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ID = "id:"  # what the word begins with that tells the id of a job
NAMED_MAX = 5  # of the jobs that a fault names


@dataclass
class Books:
    """excused: how many jobs each worker (a life of one) may have left in the middle. unanswered: publishes."""

    path: Path
    published: set[int] = field(default_factory=set)
    excused: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    unanswered: int = 0

    def done(self) -> set[int]:
        return {number for word, number, _ in self._lines() if word == "end"}

    def begun(self) -> dict[int, list[str]]:
        """Who has begun each job, in order."""
        found: dict[int, list[str]] = defaultdict(list)
        for word, number, worker in self._lines():
            if word == "start":
                found[number].append(worker)
        return found

    def running(self, worker: str) -> int:
        """How many jobs it has begun and not ended."""
        count = 0
        for word, _, who in self._lines():
            if who == worker:
                count += {"start": 1, "end": -1}.get(word, 0)
        return count

    def unread(self, worker: str) -> int:
        """How many jobs its children have begun without its having read so."""
        begun = {number for word, number, who in self._lines() if who == worker and word == "start"}
        return len(begun - {number for word, number, who in self._lines() if who == worker and word == "read"})

    def faults(self) -> list[str]:
        """A sentence each; to be read once all is quiet."""
        begun = self.begun()
        seen = []
        lost = sorted(self.published - self.done())
        if lost:
            seen.append(f"lost: {len(lost)} jobs were published and never done: {lost[:NAMED_MAX]}")
        strange = sorted(set(begun) - self.published)
        if strange:
            seen.append(f"never published: {strange[:NAMED_MAX]}")
        left: dict[str, list[int]] = defaultdict(list)
        for number, workers in begun.items():
            for worker in workers[:-1]:
                left[worker].append(number)
        for worker, numbers in sorted(left.items()):
            if len(numbers) > self.excused[worker]:
                seen.append(
                    f"doubled: of {worker} {len(numbers)} jobs were begun again, and {self.excused[worker]} may be: "
                    f"{sorted(numbers)[:NAMED_MAX]}"
                )
        ids: dict[int, set[str]] = defaultdict(set)
        for word, number, _ in self._lines():
            if word.startswith(ID):
                ids[number].add(word)
        stored = sorted(number for number, found in ids.items() if len(found) > 1)
        if stored:
            seen.append(f"stored twice: {len(stored)} jobs have several ids: {stored[:NAMED_MAX]}")
        return seen

    def faults_of_keys(self, keys: int) -> list[str]:
        """A sentence for each job that was begun behind a later one of its key, or ended when another one of its key
        had been begun. Job N has the key N modulo keys.
        """
        seen = []
        last: dict[int, tuple[int, str]] = {}
        for word, number, worker in self._lines():
            other, by = last.get(number % keys, (number, worker))
            if word == "start":
                if number < other:
                    seen.append(f"order: job {number} is begun by {worker} behind job {other} of its key")
                last[number % keys] = number, worker
            elif word == "end" and (number, worker) != (other, by):
                seen.append(f"at once: job {number} is ended by {worker} when {by} has begun job {other} of its key")
        return seen

    def doubled(self) -> int:
        """How many times a job was begun again, excused or not."""
        return sum(len(workers) - 1 for workers in self.begun().values())

    def _lines(self) -> list[tuple[str, int, str]]:
        if not self.path.exists():
            return []
        lines = (line.split() for line in self.path.read_text().splitlines())
        return [(line[0], int(line[1]), line[2]) for line in lines if len(line) == 3]
