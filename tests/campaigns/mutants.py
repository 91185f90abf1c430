"""Broken builds: copies of the package with one patch of tests/mutants applied.

The first lines of a patch, before its first `diff` or `---`, say in a sentence what it breaks.
"""

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
    tree, patch = directory / name, PATCHES / f"{name}.patch"
    shutil.copytree(CHECKOUT / "radiator", tree / "radiator")  # with what is compiled of it
    (tree / "tests").symlink_to(CHECKOUT / "tests")
    # not `git apply` in a checkout's subdirectory: that would look for the files in the repository's root
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", str(patch)],
        cwd=tree,
        env={"GIT_CEILING_DIRECTORIES": str(directory), "PATH": "/usr/bin:/bin:/usr/local/bin", "HOME": str(directory)},
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise DoesNotApply(f"tests/mutants/{name}.patch does not apply: {done.stderr.strip()}")
    for changed in re.findall(r"^\+\+\+ b/(\S+)", patch.read_text(), re.MULTILINE):
        for compiled in (tree / changed).parent.glob(f"__pycache__/{Path(changed).stem}.*.pyc"):
            compiled.unlink()
    return tree
