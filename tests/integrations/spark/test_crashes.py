"""Some crashes of the hundred that `python -m tests.integrations.spark.crashes` makes, and a sink broken on purpose;
once by TLS, as a user who may do no more than the pipelines need.
"""

from pathlib import Path

import pytest

from tests.integrations.spark.crashes.campaign import Campaign, Crash

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NEEDS = "pyspark"  # conftest.py skips the modules that name it where it is missing


@pytest.mark.timeout(600)
@pytest.mark.parametrize("is_secured", [False, True], ids=["plain", "secured"])
def test_nothing_is_lost_or_doubled(tmp_path: Path, is_secured: bool) -> None:
    campaign = Campaign(tmp_path / "c", seed=1, is_secured=is_secured)
    with campaign.running() as producer:
        with producer:
            campaign.begin_life("drain", "copy", "twice")
            campaign.crash_in_the_end(Crash("process", "behind send"))
            campaign.crash_in_the_end(Crash("broker", "before checkout-ack"))
            campaign.crash_in_the_end(Crash("driver", "behind commit"))
        books = campaign.close_books(producer.sent, ("drain", "copy"))
        control = campaign.book("twice", producer.sent)
    assert books["drain"].is_exact, books["drain"]
    assert books["copy"].is_exact, books["copy"]
    assert control.doubled, "a sink that sends twice was not caught"
    assert not campaign.fallen
