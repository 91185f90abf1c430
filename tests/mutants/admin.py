"""Requests to /admin and their answers."""

from tests.mutants import Edit, Mutant

MUTANTS = (
    Mutant(
        "answers-in-one-line",
        "A short answer waits until the long ones before it are made.",
        function="ANSWER_LINES",
        old="ANSWER_LINES = (4, 16, inf)",
        new="ANSWER_LINES = (inf,)",
    ),
    Mutant(
        "answers-in-one-turn",
        "A long answer is made in one turn, however long it is.",
        function="ANSWER_ROWS",
        old="ANSWER_ROWS = 32",
        new="ANSWER_ROWS = 1 << 30",
        also=(
            Edit(
                function="ANSWER_SLICE_BYTES", old="ANSWER_SLICE_BYTES = 32 * KIB", new="ANSWER_SLICE_BYTES = 32 * GIB"
            ),
        ),
    ),
    Mutant(
        "page-of-what-was-found-first",
        "A page of a message's story has the events that were found first, and not those that are first.",
        function="Story.take",
        old="self._found = {seq: self._found[seq] for seq in sorted(self._found)[: self._events_max + 1]}",
        new="self._found = {seq: self._found[seq] for seq in [*self._found][: self._events_max + 1]}",
    ),
    Mutant(
        "relatives-not-followed",
        "The story of a message is not that of the dead letter that it became.",
        function="Story.take",
        old="if one.event in (DEAD_LETTERED, MOVED, ACCEPTED) and one.other_id:",
        new="if one.event == MOVED and one.other_id:",
    ),
    Mutant(
        "request-type-not-checked",
        "A text in a request to /admin may be anything that JSON has.",
        function="Asked.text",
        old="if not isinstance(text, str):",
        new="if text is None:",
    ),
    Mutant(
        "story-of-a-started-broker",
        "What is told of a start counts as told of a message.",
        function="is_about",
        old="return event.event != STARTED and (event.position in positions or event.other in positions)",
        new="return event.position in positions or event.other in positions",
    ),
)
