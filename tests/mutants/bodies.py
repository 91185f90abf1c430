"""Bodies for Avro schemas: what is judged, and what that may cost."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "body-goes-on-behind-its-end",
        "What stands behind a value of the schema is accepted with it.",
        function="BodySchema._check_binary",
        old="if reader.at < len(body):",
        new="if reader.at < 0:",
    ),
    Mutant(
        "body-not-judged-behind-an-exchange",
        "What an exchange or a fanout puts into a queue with a schema is accepted whatever its body is.",
        function="Admission.apply_plan",
        old="if not producer.is_promised:",
        new="if not producer.is_promised and not plan.counted:",
    ),
    Mutant(
        "body-without-a-bound-of-depth",
        "Values are judged as deep within each other as a body says.",
        function="_deeper",
        old="if not depth:",
        new="if depth == BODY_DEPTH_MAX + 1:",
    ),
    Mutant(
        "body-without-a-bound-of-values",
        "A body of a megabyte is judged to its end, a million values.",
        function="AvroReader.spend",
        old="if self.left < 0:",
        new="if self.left < -(2**40):",
    ),
)
