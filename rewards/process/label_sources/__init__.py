"""Label sources of process reward models, by name.

A label source labels the reasoning steps of samples without people:
`label_sources.get("monte_carlo", least=2)` is a function `forest -> Labels`. A
file `NAME.py` in this folder defines the function `NAME(**settings)` that
returns it, and needs no registration.

A label is 1 for a good step, 0 for a bad one, or a probability between. A step
of weight 0 has no label, such as the steps after an error.
"""

from __future__ import annotations

from collections.abc import Callable

from rewards.function_files import FunctionFiles
from rewards.process.forest import Forest
from rewards.process.label_sources.base import StepLabels

Source = Callable[[Forest], StepLabels]

_FILES = FunctionFiles("label source", __name__, __path__, ["base"])
names, get, summary = _FILES.names, _FILES.get, _FILES.summary


def reads_judge(source: Source) -> bool:
  """Returns whether a label source asks a judge (`Forest.first_errors`)."""
  return getattr(source, "reads_judge", False)
