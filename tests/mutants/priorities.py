"""Queues with priorities: which message is next, and what is read back."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "priority-ignored-on-read-back",
        "What a queue with priorities has on the disk alone is read back from the lowest priority on.",
        function="PriorityReadBack.next_lane",
        old="lane = lanes[-1] if is_needed else lanes[0]",
        new="lane = lanes[-1]",
    ),
    Mutant(
        "lower-priority-before-what-is-on-the-disk",
        "A message is delivered although a more urgent one may be on the disk alone.",
        function="Priorities.head",
        old="if lane.is_open:\n    return None",
        new="",
    ),
    Mutant(
        "priority-of-a-delayed-message-forgotten",
        "A delayed message is stored at its place under the lowest priority.",
        function="PriorityDue.hash_of",
        old="return self.priorities.of(message).hash",
        new="return self.priorities.lanes[0].hash",
    ),
    Mutant(
        "lane-closed-too-early",
        "What was sent while a lane was read to its end is not looked for any more.",
        function="PriorityReadBack.take_in",
        old="if found.is_complete and lane.put_in <= asked_at:",
        new="if found.is_complete:",
    ),
)
