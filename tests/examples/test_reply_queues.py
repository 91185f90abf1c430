"""Ten thousand short-lived reply queues: made, used once each, and gone; what they took is free for the next ones."""

import pytest

from benchmarks.request_reply import CONFIG, KINDS, queue_cost
from radiator.model.limits import MIB
from tests.broker_process import BrokerProcess

COUNT = 10_000
GROWN_BYTES_MAX = 6 * MIB  # with a leak of what they hold, two more times take 60 MiB and more


@pytest.mark.alone("it measures rates")
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_reply_queues_come_and_go(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    with BrokerProcess(tmp_path_factory.mktemp("broker"), CONFIG) as broker:
        first = queue_cost(broker, KINDS[kind], COUNT, settle_s=0.5)
        assert first.with_bytes < 100 * MIB
        again = [queue_cost(broker, KINDS[kind], COUNT, settle_s=0.5) for _ in range(2)]
        # Peaks, not what each has left: what the first left free may be returned to the system, and is taken anew.
        assert again[-1].peak_bytes - first.peak_bytes < GROWN_BYTES_MAX, (first, again)
        for cost in (first, *again):
            # a tenth of what two slow cores bear
            assert cost.made_per_s > 500
            assert cost.answered_per_s > 500
            assert cost.gone_s < 20
        assert "Traceback" not in broker.log, broker.log
        assert broker.stop() == 0
