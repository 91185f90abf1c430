"""`python -m tests.spark.crashes --crashes 100 --seed 1`: 0 where nothing was lost and nothing doubled."""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.spark.crashes.campaign import CONTROLS, EARLY, PIPELINES, Campaign, Crash


def controls(campaign: Campaign) -> None:
    """The pipelines that are broken on purpose, each killed where it hurts."""
    campaign.fill_early()
    for name, step in (("twice", "behind send"), (EARLY, "before the batch's file")):
        campaign.begin_life(name)
        while campaign.is_alive:
            campaign.crash(Crash("driver", step))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.spark.crashes", description=__doc__)
    parser.add_argument("--crashes", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new directory, which is left as it is at the end")
    wanted = parser.parse_args()
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="radiator-crashes-") as temporary:
        directory = wanted.keep or Path(temporary, "campaign")
        campaign = Campaign(directory, wanted.seed, say)
        with campaign.running() as producer:
            with producer:
                controls(campaign)
                campaign.crash_for(wanted.crashes)
            books = campaign.close_books(producer.sent, [*PIPELINES])
            books |= campaign.close_books(producer.sent, CONTROLS)
    by_victim = Counter[str]()
    for crash, times in campaign.done.items():
        by_victim[crash.victim] += times
    kinds = ", ".join(f"{victim} {times}" for victim, times in sorted(by_victim.items()))
    say(f"{campaign.done.total()} crashes at {len(campaign.done)} places ({kinds}); {campaign.lives} drivers")
    failed = ["drivers"] if campaign.fallen else []
    for name, book in books.items():
        is_right = book.is_exact != (name in CONTROLS)
        say(f"{name}: {book}" + (" (broken on purpose)" if name in CONTROLS else "") + ("" if is_right else ": WRONG"))
        if not is_right:
            failed.append(name)
    say(f"{time.monotonic() - began_s:.0f} s, seed {wanted.seed}")
    return 1 if failed else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
