"""T20: real workers of Celery under kills, stops, cuts and restarts of the broker, with books over every task.

T20 kills and stops workers, and single processes of their pools, at random: no task is lost, and none is run twice but
those that somebody who was killed had in the middle. T20b takes the broker from one worker of each kind of pool, again
and again: by a restart, by `kill -9`, by a cut of all connections; each time the worker must go on by itself. T20c does
some of both by TLS, with the users and rights that docs/CELERY.md has. T20d and T20e are T20 and T20b with Celery's own
transport `amqp://`, in the workers and in who publishes.

In T20 and T20d a third of the tasks is published over HTTP by a program without Celery, in T20e half of them. There it
publishes while the broker is being lost, and again until it is answered; in half of the losses the first of these is
stored, and only its answer lost. What was answered is run, and is stored once.

A kill of the broker proves nothing about the disk (T2 and T3 do); that a result comes back is for tests/celery.
"""

import time
from collections.abc import Callable
from random import Random

from tests.campaigns.campaign import Campaign, Run
from tests.integrations.celery.crew import Crew, until

WORKERS = 3
JOBS_OF_A_LIFE = 500
JOBS_BETWEEN = {"quick": 30, "nightly": 60, "release": 60}  # published between two kills
SECONDS = (0.0, 0.02, 0.05, 0.1)  # that a job takes; a kill in the middle needs some that take a while
DONE_WITHIN_S = {"quick": 25.0, "nightly": 90.0, "release": 90.0}
HUNT_WITHIN_S = 8.0  # on a broken build, where what is lost never comes
GOES_ON_WITHIN_S = {"quick": 15.0, "nightly": 30.0, "release": 30.0}
LOSSES_OF_A_LIFE = 25
POSTED_MEANWHILE = 3  # of the ten tasks of a loss
POOLS = ("prefork", "threads", "gevent", "eventlet", "solo")
POOLS_OF_AMQP = ("prefork", "threads")


def kills(run: Run) -> None:
    _kills(run, has_web=True)


def secured(run: Run) -> None:
    _kills(run, is_secured=True)


def amqp_kills(run: Run) -> None:
    _kills(run, scheme="amqp", pools=POOLS_OF_AMQP, has_web=True)


def _kills(
    run: Run,
    is_secured: bool = False,
    scheme: str = "radiator",
    pools: tuple[str, ...] = ("prefork",),
    has_web: bool = False,
) -> None:
    life = 0
    while not run.is_over:
        count = min(JOBS_OF_A_LIFE, run.cases - run.done)
        directory = run.directory / f"life-{life}"
        with Crew(directory, WORKERS, is_secured=is_secured, scheme=scheme, pools=pools, has_web=has_web) as crew:
            _work_and_die(run, crew, count, (crew.lose_connections, crew.lose_broker) if is_secured else ())
        life += 1
        run.case(count)


def _work_and_die(run: Run, crew: Crew, count: int, between: tuple[Callable[[Random], None], ...]) -> None:
    """between: what happens each second time."""
    chance = Random(run.chance.randrange(1 << 60))
    happenings = (
        crew.kill_a_worker,
        crew.kill_a_worker,
        crew.kill_a_child,
        crew.stop_a_worker,
        crew.stop_a_worker_cold,
    )
    for number, first in enumerate(range(0, count, JOBS_BETWEEN[run.level])):
        crew.publish(range(first, min(first + JOBS_BETWEEN[run.level], count)), chance.choice(SECONDS))
        until(lambda: any(crew.books.running(worker.signature) for worker in crew.workers), chance.uniform(0.0, 0.2))
        happening = chance.choice(between if between and number % 2 else happenings)
        happening(chance)
        _note(run, happening.__name__.replace("_", " "), 1)
    for fault in crew.faults(HUNT_WITHIN_S if run.is_hunt else DONE_WITHIN_S[run.level]):
        run.violation(f"After kills and stops: {fault}\n{crew.logs()}")
    _note(run, "tasks done", len(crew.books.done()))
    if crew.has_web:
        _note(run, "over HTTP", crew.posted)
    if crew.waited_for_themselves:
        _note(run, "cold stops in which py-amqp waited for itself", crew.waited_for_themselves)
    _note(run, "begun again", crew.books.doubled())


def losses(run: Run) -> None:
    _losses(run, POOLS)


def amqp_losses(run: Run) -> None:
    _losses(run, POOLS_OF_AMQP, "amqp")


def _losses(run: Run, pools: tuple[str, ...], scheme: str = "radiator") -> None:
    life = 0
    # each kind of pool within a run that is short
    losses_of_a_life = min(LOSSES_OF_A_LIFE, max(1, run.cases // 2)) if scheme == "amqp" else LOSSES_OF_A_LIFE
    while not run.is_over:
        count = min(losses_of_a_life, run.cases - run.done)
        pool = pools[life % len(pools)]
        with Crew(run.directory / f"life-{life}", 1, pools=(pool,), scheme=scheme, has_web=scheme == "amqp") as crew:
            _lose_and_go_on(run, crew, count)
        life += 1


def _lose_and_go_on(run: Run, crew: Crew, count: int) -> None:
    chance = Random(run.chance.randrange(1 << 60))
    losing = (crew.cut, lambda: crew.restart_broker(True), lambda: crew.restart_broker(False))
    slowest_s = 0.0
    for number in range(count):
        first, posted = 10 * number, POSTED_MEANWHILE if crew.has_web else 0
        crew.publish(range(first, first + 9 - posted), chance.choice(SECONDS))
        meanwhile, lose = range(first + 9 - posted, first + 9), chance.choice(losing)
        if crew.has_web:
            crew.lose_while_posting(meanwhile, lose, loses_answer=chance.random() < 0.5)
        else:
            lose()
        began_s = time.monotonic()
        crew.publish(range(10 * number + 9, 10 * number + 10))
        if not until(crew.is_done, HUNT_WITHIN_S if run.is_hunt else GOES_ON_WITHIN_S[run.level]):
            run.violation(f"The worker does not go on after loss {number} of its broker.\n{crew.logs(40)}")
            return
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        run.case()
    for fault in crew.faults(HUNT_WITHIN_S if run.is_hunt else DONE_WITHIN_S[run.level]):
        run.violation(f"After losses of the broker: {fault}\n{crew.logs()}")
    _note(run, "begun again", crew.books.doubled())
    if crew.has_web:
        _note(run, "over HTTP", crew.posted)
        _note(run, "posted again", crew.books.unanswered)
    run.figures["slowest to go on, s"] = round(max(slowest_s, float(run.figures.get("slowest to go on, s", 0))), 1)


def _note(run: Run, name: str, count: int) -> None:
    run.figures[name] = int(run.figures.get(name, 0)) + count


CAMPAIGNS = (
    Campaign(
        number="T20",
        name="celery",
        title="kills and stops Celery's workers at random, with books over every task",
        unit="tasks",
        run=kills,
        cases=(80, 10_000, 20_000),
        mutants=("kombu-acks-when-received", "lost-on-disconnect", "kombu-takes-text-as-it-is"),
        mutant_cases=120,
        needs=("linux",),
        limit_s=(180, 3600, 3 * 3600),
        is_waiting=True,
    ),
    Campaign(
        number="T20b",
        name="celery-losses",
        title="takes the broker from a worker of Celery, again and again, for each kind of pool",
        unit="losses",
        run=losses,
        cases=(4, 200, 400),
        mutants=("kombu-does-not-tell-the-loop",),
        mutant_cases=4,
        needs=("linux",),
        limit_s=(180, 3600, 3 * 3600),
        is_waiting=True,
    ),
    Campaign(
        number="T20c",
        name="celery-secured",
        title="kills, stops and cuts them by TLS, as users with the rights that the documents give them",
        unit="tasks",
        run=secured,
        cases=(60, 2000, 4000),
        mutants=("client-leaves-what-tls-has-read",),
        mutant_cases=60,
        needs=("linux", "openssl"),
        limit_s=(180, 3600, 3 * 3600),
        is_waiting=True,
    ),
    Campaign(
        number="T20d",
        name="celery-amqp",
        title="kills and stops Celery's workers of amqp:// at random, with books over every task",
        unit="tasks",
        run=amqp_kills,
        cases=(80, 3000, 10_000),
        mutants=("amqp-acks-when-delivered", "lost-on-disconnect"),
        mutant_cases=120,
        needs=("linux",),
        limit_s=(180, 3600, 3 * 3600),
        is_waiting=True,
    ),
    Campaign(
        number="T20e",
        name="celery-amqp-losses",
        title="takes the broker from a worker of amqp://, and from who publishes over HTTP meanwhile",
        unit="losses",
        run=amqp_losses,
        cases=(4, 100, 200),
        mutants=("http-forgets-the-key",),
        mutant_cases=12,
        needs=("linux",),
        limit_s=(180, 3600, 3 * 3600),
        is_waiting=True,
    ),
)
