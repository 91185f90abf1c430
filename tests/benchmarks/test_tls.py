"""What an idle connection with TLS may take of memory, measured as `python -m benchmarks.tls` does."""

from pathlib import Path

import pytest

from benchmarks.tls import CONFIG, Load
from tests.tls_broker import TlsBroker

IDLE_MAX_KIB = 40.0
LARGE_SLICES = """
import sys
from radiator.server import tls
tls.TLS_SLICE_BYTES = 16 * 1024
from radiator.tools.cli import main
sys.exit(main())
"""


def idle_kib(directory: Path, program: tuple[str, ...]) -> float:
    with TlsBroker(directory, CONFIG, program) as broker:
        return Load(broker, True).idle(200, 200_000)


def test_an_idle_connection_has_a_bound_whatever_it_has_carried(tmp_path: Path) -> None:
    assert idle_kib(tmp_path, ("-m", "radiator")) < IDLE_MAX_KIB


def test_what_is_encrypted_at_once_is_what_bounds_it(tmp_path: Path) -> None:
    """The same with slices as large as records may be: a negative control."""
    assert idle_kib(tmp_path, ("-c", LARGE_SLICES)) > IDLE_MAX_KIB


@pytest.mark.parametrize("is_tls", [False, True])
def test_costs_are_measured(tmp_path: Path, is_tls: bool) -> None:
    with TlsBroker(tmp_path, CONFIG) as broker:
        load = Load(broker, is_tls)
        assert load.send(1, 50) > 0
        assert load.connect(100) > 0
        assert load.shake_hands(160) > 0
