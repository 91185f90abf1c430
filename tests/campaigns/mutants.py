"""Broken builds: copies of the package with one patch of tests/mutants applied.

The first lines of a patch, before its first `diff` or `---`, say in a sentence what it breaks.
"""

import contextlib
import re
import shutil
import subprocess
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
PATCHES = CHECKOUT / "tests" / "mutants"


class DoesNotApply(Exception):
    """The code has moved on, and the patch must follow it."""


def names() -> list[str]:
    return sorted(path.stem for path in PATCHES.glob("*.patch"))


def broken_tree(name: str, directory: Path) -> Path:
    """A tree in `directory` whose `radiator` is broken by that patch, and whose `tests` are this checkout's."""
    tree = directory / name
    shutil.copytree(CHECKOUT / "radiator", tree / "radiator")  # with what is compiled of it
    (tree / "tests").symlink_to(CHECKOUT / "tests")
    apply(name, tree)
    for changed in changed_by(name):
        for compiled in (tree / changed).parent.glob(f"__pycache__/{Path(changed).stem}.*.pyc"):
            compiled.unlink()
    return tree


def broken_files(name: str, directory: Path) -> Path:
    """A tree in `directory` that has nothing but the files that the patch changes, broken by it."""
    tree = directory / name
    for changed in changed_by(name):
        (tree / changed).parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # then git says so
            shutil.copy2(CHECKOUT / changed, tree / changed)
    apply(name, tree)
    return tree


def changed_by(name: str) -> list[str]:
    return re.findall(r"^\+\+\+ b/(\S+)", (PATCHES / f"{name}.patch").read_text(), re.MULTILINE)


def apply(name: str, tree: Path) -> None:
    # not `git apply` in a checkout's subdirectory: that would look for the files in the repository's root
    outside = {"GIT_CEILING_DIRECTORIES": str(tree.parent), "HOME": str(tree.parent)}
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", str(PATCHES / f"{name}.patch")],
        cwd=tree,
        env={**outside, "PATH": "/usr/bin:/bin:/usr/local/bin"},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise DoesNotApply(f"tests/mutants/{name}.patch does not apply: {done.stderr.strip()}")
