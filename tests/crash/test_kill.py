"""A few kills of the campaign T4 (tests/campaigns/kill.py), so that no commit passes without any."""

import os
import random
from pathlib import Path

import pytest

from tests.campaigns.campaign import Run
from tests.campaigns.kill import kill

KILLS = 5


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.durability("D12")
def test_kill_at_random_times_breaks_no_promise(tmp_path: Path) -> None:
    seed = int(os.environ.get("RADIATOR_SEED") or random.SystemRandom().randrange(10**9))
    print(f"RADIATOR_SEED={seed}")
    run = Run(seed, KILLS, "quick", tmp_path)
    kill(run)
    assert run.violations == []
