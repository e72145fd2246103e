"""Losses of process reward models, by name.

`step_losses.get("q_ranking", margin=2.0)` returns a `base.StepLoss`: how many
outputs the head has, which lines make an example, the loss, and the score of a
step. A file `NAME.py` in this folder defines the function `NAME(**settings)`,
and needs no registration.
"""

from __future__ import annotations

from rewards.function_files import FunctionFiles
from rewards.process.step_losses.base import StepLoss

__all__ = ["StepLoss", "get", "names", "summary"]

_FILES = FunctionFiles("step loss", __name__, __path__, ["base"])
names, get, summary = _FILES.names, _FILES.get, _FILES.summary
