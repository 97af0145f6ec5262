"""The program ``fedcast``, as the package installs it; ``python -m fedcast`` is the same."""

import signal
import sys

from . import _fedcast


def main():
    """Run the command line and exit with its code."""
    # Python only takes note of Ctrl-C while the program computes; the program handles it itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_fedcast.main(["fedcast", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
