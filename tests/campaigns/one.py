"""One run of one campaign in a process of its own, on whatever build `radiator` is here: its score as JSON on stdout.

    python -m tests.campaigns.one NAME --level quick --cases 20 --seed 1 [--hunt]

An AssertionError of the campaign is a violation; any other exception is an error of the campaign itself.
"""

import argparse
import json
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path

from tests.campaigns.campaign import LEVELS, Run, TooManyViolations
from tests.campaigns.plan import by_name


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--level", choices=LEVELS, default="quick")
    parser.add_argument("--cases", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--hunt", action="store_true")
    wanted = parser.parse_args()
    campaign = by_name(wanted.name)
    error = ""
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"radiator-{campaign.name}-") as directory:
        run = Run(wanted.seed, wanted.cases, wanted.level, Path(directory), wanted.hunt)
        try:
            campaign.run(run)
        except TooManyViolations:
            pass
        except AssertionError:
            run.violations.append(traceback.format_exc())
        except Exception:  # noqa: BLE001 - told to whoever started this run
            error = traceback.format_exc()
    score = {
        "cases": run.done,
        "violations": run.violations,
        "figures": run.figures,
        "caught": run.caught,
        "untried": run.untried,
        "seconds": time.monotonic() - began_s,
        "cpu_seconds": sum(sum(resource.getrusage(of)[:2]) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)),
        "error": error,
    }
    json.dump(score, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
