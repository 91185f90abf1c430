"""The command line."""

from tests.mutants import Mutant

MUTANTS = (
    Mutant(
        "new-dependency-imported",
        "The command line uses another package where it is there, and nobody has asked for it.",
        function="table",
        old="def table(",
        new="""
            try:
                import pygments
            except ImportError:
                pygments = None


            def table(
        """,
    ),
)
