"""`python -m warmline.host STORE`: the engine host's process; clients start it on demand."""

import sys

from .process import main

sys.exit(main(sys.argv[1]))
