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
        "request-type-not-checked",
        "A text in a request to /admin may be anything that JSON has.",
        function="Asked.text",
        old="if not isinstance(text, str):",
        new="if text is None:",
    ),
)
