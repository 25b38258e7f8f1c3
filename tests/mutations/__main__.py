"""The command line: `python tests/mutations …`, called by `./dev mutations`.

Invariant: the exit status is 0 only if every bug that was planted was killed.
"""

import os
import sys

sys.path[0:1] = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]

from mutations.command_line import main  # noqa: E402  (the package is importable only now)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
