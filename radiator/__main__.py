"""`python -m radiator` is the `radiator` command."""

import sys

from radiator.tools.cli import main

sys.exit(main())
