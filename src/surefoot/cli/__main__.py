"""So that `python -m surefoot.cli` works too."""

import sys

from surefoot.cli import main

sys.exit(main())
