"""The command line, for `python -m surefoot.cli`."""

import sys

from surefoot.cli import main

sys.exit(main())
