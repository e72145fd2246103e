"""Questions to a judge about the samples of a prompt, by name.

`judged.get("grade", high=5)` returns a `base.Question`, a function that asks a
judge (`rewards.verifiers.llm_judge`) about groups of completions and returns
one number for each completion, or for each pair of completions of a prompt. A
file `NAME.py` in this folder defines the function `NAME(**settings)`, and needs
no registration. `config.judge` asks questions about the samples of any task.
"""

from __future__ import annotations

from rewards.function_files import FunctionFiles
from rewards.judged.base import Question

__all__ = ["Question", "get", "names", "summary"]

_FILES = FunctionFiles("question to a judge", __name__, __path__, ["base"])
names, get, summary = _FILES.names, _FILES.get, _FILES.summary
