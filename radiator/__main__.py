"""`python -m radiator` is the `radiator` command."""

import sys

from radiator.cli import main

sys.exit(main())
