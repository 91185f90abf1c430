"""`python -m tests.integrations.spark.crashes --crashes 100 --seed 1`: 0 where nothing was lost and nothing doubled."""

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.integrations.spark.crashes.campaign import CONTROLS, PIPELINES, Book, Campaign, Crash
from tests.integrations.spark.crashes.steps import EARLY


def controls(campaign: Campaign) -> dict[str, Book]:
    """The pipelines that are broken on purpose, each killed where it hurts."""
    with campaign.running() as producer:
        with producer:
            campaign.fill_early()
            for name, step in (("twice", "behind send"), (EARLY, "before the batch's file")):
                campaign.begin_life(name)
                campaign.crash_in_the_end(Crash("driver", step))
        return campaign.close_books(producer.sent, CONTROLS)


def crashes(campaign: Campaign, wanted: int) -> dict[str, Book]:
    """Those that are as they should be."""
    with campaign.running() as producer:
        with producer:
            campaign.crash_for(wanted)
        return campaign.close_books(producer.sent, PIPELINES)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integrations.spark.crashes", description=__doc__)
    parser.add_argument("--crashes", type=int, default=100, help="processes that are killed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a new directory, which is left as it is at the end")
    parser.add_argument("--secured", action="store_true", help="Spark speaks TLS, as a user with few rights")
    wanted = parser.parse_args()
    logging.getLogger("radiator.client").setLevel(logging.ERROR)  # a lost connection is what this is about
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="radiator-crashes-") as temporary:
        directory = wanted.keep or Path(temporary)
        say("broken on purpose:")
        broken = controls(Campaign(directory / "controls", wanted.seed, say, is_secured=wanted.secured))
        say("as it is:")
        campaign = Campaign(directory / "crashes", wanted.seed, say, is_secured=wanted.secured)
        books = crashes(campaign, wanted.crashes)
    by_victim = Counter[str]()
    for crash, times in campaign.done.items():
        by_victim[crash.victim] += times
    kinds = "; ".join(f"{victim}: {times}" for victim, times in sorted(by_victim.items()))
    say(f"{campaign.kills} kills at {len(campaign.done)} places ({kinds}); {campaign.lives} drivers")
    for name, book in books.items():
        say(f"{name}: {book}" + ("" if book.is_exact else ": WRONG"))
    for name, book in broken.items():
        say(f"{name}, broken on purpose: {book}" + (": NOT CAUGHT" if book.is_exact else ""))
    say(f"{time.monotonic() - began_s:.0f} s, seed {wanted.seed}")
    is_right = all(book.is_exact for book in books.values()) and not any(book.is_exact for book in broken.values())
    return 0 if is_right and not campaign.fallen else 1


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
