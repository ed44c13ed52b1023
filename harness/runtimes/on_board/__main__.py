"""The archive's entry: what Python executes."""

import sys

from on_board.command import end, main

if __name__ == "__main__":
    end(main(sys.argv[1:]))
