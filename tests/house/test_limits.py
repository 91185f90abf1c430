"""radiator/model/limits.py: a bound has one name, and a name one bound; a second one would silently undo the first."""

import ast
from collections import Counter
from pathlib import Path

LIMITS = Path(__file__).resolve().parent.parent.parent / "radiator/model/limits.py"


def test_no_bound_is_given_twice() -> None:
    names = Counter(
        target.id
        for line in ast.parse(LIMITS.read_text()).body
        if isinstance(line, ast.Assign)
        for target in line.targets
        if isinstance(target, ast.Name)
    )
    assert len(names) > 100 and max(names.values()) == 1, names.most_common(3)
