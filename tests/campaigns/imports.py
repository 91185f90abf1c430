"""S36: at run time the broker needs gevent, httptools, lmdb, toml, websockets and the standard library, nothing else.

Every import statement of the package is read, also those that are hidden in functions; every module is imported (but
those of radiator/kombu, radiator/spark and radiator/archive, which need what the extras [celery], [spark] and [archive]
bring; what [jwt] and [avro] bring, functions of auth/jwt.py and model/avro.py import), a broker serves a client, and
what is then loaded is looked at; what setup.cfg asks for has a lower and an upper bound. At nightly and release a wheel
is built, what it asks for is compared, and pip-audit looks for known holes.

It cannot see what those packages do themselves, nor a hole that nobody has reported.
"""

import ast
import configparser
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import radiator
from tests.acceptance.wire import Wire
from tests.broker_process import BrokerProcess, environment
from tests.campaigns.campaign import Campaign, Run
from tests.campaigns.mutants import CHECKOUT

PACKAGE = Path(radiator.__file__).resolve().parent
ASKED_FOR = {"gevent", "httptools", "lmdb", "toml", "websockets"}
THEIRS = {"greenlet", "zope", "_cffi_backend", "cffi"}  # what gevent and lmdb bring along
OURS = {"radiator"}
OF_EXTRAS = {  # what an extra brings, for these alone
    PACKAGE / "auth" / "jwt.py": {"cryptography", "jwt"},
    PACKAGE / "model" / "avro.py": {"fastavro"},
    PACKAGE / "integrations" / "kombu": {"kombu", "amqp"},
    PACKAGE / "tools" / "archive": {"pyarrow"},
    PACKAGE / "integrations" / "spark": {"pyspark", "pyarrow"},
}
REQUIREMENT = re.compile(r"([\w.-]+)>=[\d.]+,<[\d.]+")
BUILD_MAX_S = 300.0

# Imports every module, then says what is loaded.
SPY = """
import importlib, json, pkgutil, sys
OF_EXTRAS = (
    "radiator.__main__", "radiator.kombu", "radiator.spark", "radiator.integrations", "radiator.tools.archive",
    "radiator.tools.audit.archived",
)
before = set(sys.modules)
def import_all(package):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        if module.name not in OF_EXTRAS:
            found = importlib.import_module(module.name)
            if module.ispkg:
                import_all(found)
import radiator
import_all(radiator)
loaded = {name.partition(".")[0] for name in set(sys.modules) - before}
json.dump(sorted(loaded), sys.stdout)
"""
# The same command as a broker's, which says at its end what is loaded.
SERVE = """
import atexit, json, pathlib, sys
def tell():
    pathlib.Path(TOLD).write_text(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
atexit.register(tell)
from radiator.tools.cli import main
sys.exit(main())
"""


def is_allowed(name: str) -> bool:
    if name.startswith(("_cython_", "cython_runtime")):
        return True  # parts of what gevent was compiled with
    return name in ASKED_FOR | THEIRS | OURS or name in sys.stdlib_module_names or name == "__main__"


def imported_by(source: str) -> set[str]:
    """The first words of what it imports, wherever in it; also by `importlib.import_module("...")` and __import__."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            found.add("radiator" if node.level else (node.module or "").partition(".")[0])
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in ("import_module", "__import__"):
                found.add(str(node.args[0].value).partition(".")[0])
    return found


def read_statements(run: Run) -> None:
    for file in sorted(PACKAGE.rglob("*.py")):
        allowed = ASKED_FOR | OURS
        for place, of_extra in OF_EXTRAS.items():
            allowed = allowed | of_extra if place in (file, *file.parents) else allowed
        for name in sorted(imported_by(file.read_text())):
            if name not in allowed and name not in sys.stdlib_module_names:
                run.violation(f"{file.relative_to(PACKAGE.parent)} imports {name}: no dependency that is declared")
        run.case()


def import_everything(run: Run) -> None:
    """In a process of its own, without the tests' own modules."""
    done = subprocess.run([sys.executable, "-c", SPY], env=environment(), capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, f"a module cannot be imported: {done.stderr[-1000:]}"
    strange = [name for name in json.loads(done.stdout) if not is_allowed(name)]
    if strange:
        run.violation(f"importing all of radiator loads {', '.join(strange)}")
    run.case()


def serve(run: Run) -> None:
    """What a broker has loaded after it has served, refused and stopped."""
    answer = run.directory / "loaded.json"
    script = run.directory / "serve.py"
    script.write_text(f"TOLD = {str(answer)!r}" + SERVE)
    with BrokerProcess(run.directory, program=(str(script),)) as broker:
        with Wire((broker.host, broker.port)) as wire:
            wire.connect()
            for queue in ("/queue/a", "/topic/a", "/temp-queue/a"):
                wire.subscribe(queue, queue, ack="auto")
                wire.send(queue, "x", {"expiration": "1000"})
            wire.admin(b'{"do": "stats"}')
            wire.send_raw(b"NONSENSE\n\n\0")
        assert broker.stop() == 0, broker.log
    strange = [
        name for name in json.loads(answer.read_text()) if not is_allowed(name) and not is_of_the_interpreter(name)
    ]
    if strange:
        run.violation(f"a broker that serves has loaded {', '.join(strange)}")
    run.case()


def is_of_the_interpreter(name: str) -> bool:
    """What an environment puts into every Python that starts: a plain one has it too."""
    bare = "import json, sys; json.dump(sorted({name.partition('.')[0] for name in sys.modules}), sys.stdout)"
    done = subprocess.run([sys.executable, "-c", bare], capture_output=True, text=True, cwd="/", check=True)
    return name in json.loads(done.stdout)


def compare_requirements(run: Run, requirements: list[str], where: str) -> None:
    names = set()
    for requirement in requirements:
        found = REQUIREMENT.fullmatch("".join(requirement.split()))
        if found is None:
            run.violation(f"{where} asks for {requirement}: it needs a lower and an upper bound")
        names.add(re.split(r"[<>=!~ ;]", requirement.strip())[0])
    if names != ASKED_FOR:
        run.violation(f"{where} asks for {sorted(names)} and not for {sorted(ASKED_FOR)}")
    run.case()


def declared() -> list[str]:
    config = configparser.ConfigParser()
    config.read(CHECKOUT / "setup.cfg")
    return [line for line in config["options"]["install_requires"].splitlines() if line.strip()]


def build_wheel(run: Run) -> None:
    """Of this build: its package, and the checkout's setup.cfg."""
    tree = run.directory / "tree"
    shutil.copytree(PACKAGE, tree / "radiator", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, tree / name)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(run.directory),
        str(tree),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_MAX_S)
    if done.returncode:
        run.figures["wheel"] = f"not built: {done.stderr.strip()[-150:]}"
        return
    (wheel,) = run.directory.glob("radiator_broker-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(metadata).decode().splitlines()
        strange = {name.partition("/")[0] for name in archive.namelist()} - {"radiator", metadata.partition("/")[0]}
    asked = [line.removeprefix("Requires-Dist: ") for line in lines if line.startswith("Requires-Dist:")]
    at_run_time = [",".join(sorted(line.split(","), reverse=True)) for line in asked if "extra ==" not in line]
    compare_requirements(run, [bounds_in_order(line) for line in at_run_time], "the wheel")
    if strange:
        run.violation(f"the wheel holds {sorted(strange)} too")
    run.figures["wheel"] = "built"


def bounds_in_order(requirement: str) -> str:
    """`lmdb<4,>=3.0`, as a wheel says it, as `lmdb>=3.0,<4`."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None, requirement
    lower, upper = re.search(r">=[\d.]+", requirement), re.search(r"<[\d.]+", requirement)
    return name[0] + (lower[0] if lower else "") + ("," + upper[0] if upper else "")


def audit(run: Run) -> None:
    """Known holes in the installed dependencies, where pip-audit is, or can be had."""
    tool = run.directory / "audit"
    steps = [[sys.executable, "-m", "venv", str(tool)], [str(tool / "bin" / "pip"), "install", "--quiet", "pip-audit"]]
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, timeout=BUILD_MAX_S)
        if done.returncode:
            run.figures["pip-audit"] = f"not run: {(done.stderr or done.stdout).strip()[-150:]}"
            return
    wanted = run.directory / "requirements.txt"
    wanted.write_text("\n".join(declared()) + "\n")
    command = [str(tool / "bin" / "pip-audit"), "--requirement", str(wanted), "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=BUILD_MAX_S)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, LookupError):
        run.figures["pip-audit"] = f"not run: {done.stderr.strip()[-150:]}"
        return
    for package in packages:
        for hole in package.get("vulns", []):
            run.violation(f"{package['name']} {package['version']} has the known hole {hole['id']}")
    run.figures["pip-audit"] = f"{len(packages)} packages"
    run.case()


def look_at_imports(run: Run) -> None:
    while not run.is_over:
        read_statements(run)
        import_everything(run)
        serve(run)
        compare_requirements(run, declared(), "setup.cfg")
        if run.level != "quick" and not run.is_hunt:
            build_wheel(run)
            audit(run)


CAMPAIGNS = (
    Campaign(
        number="S36",
        name="imports",
        title="what the package imports, loads and asks for",
        unit="looks",
        run=look_at_imports,
        cases=(1, 1, 1),
        mutants=("new-dependency-imported", "dependency-loaded-by-name"),
        mutant_cases=1,
    ),
)
