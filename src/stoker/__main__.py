"""`python -m stoker` is the `stoker` command."""

import sys

from stoker.cli.main import main

sys.exit(main())
