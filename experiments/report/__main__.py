"""Runs the command `python -m experiments.report`."""

import sys

from experiments.report import command

if __name__ == "__main__":
  sys.exit(command.main())
