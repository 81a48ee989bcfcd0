import sys

from evseq.cli import main

if __name__ == "__main__":
    sys.exit(main())
