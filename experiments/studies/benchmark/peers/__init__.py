"""Programs that run the peers: codebases that this project is compared with.

A program keeps the code of its peer loaded and compiled, and runs it on
request. A program runs with the Python interpreter that has the peer installed,
so it imports nothing of this project except this folder. Its *job*, which says
what to run, is one JSON object:

  weights     folder of the weights in the format of Hugging Face
  prompts     numpy file of the prompts, `[P, L]` int32 without padding
  samples     completions per prompt
  max_tokens  largest number of tokens of a completion
  eos_id      token that ends a completion; null if none does
  pad_id      token written after the end of a completion
  micro       prompts per microbatch
  count       number of prompts, the first of the file; all if absent

A program may read further entries, such as threads, dtype or cache. `protocol`
describes the messages between a program and the benchmark.
"""

from __future__ import annotations

from typing import NamedTuple

EXTRA = "pip install 'extremum[peers]'"


class Peer(NamedTuple):
  """A codebase that this project is compared with."""

  program: str  # module that runs the codebase
  needs: tuple[str, ...]  # packages of the program's Python interpreter
  install: str = EXTRA  # command that installs them


PEERS = {
  "hf": Peer(
    "experiments.studies.benchmark.peers.hf", ("torch", "transformers")
  ),
  "torch": Peer(
    "experiments.studies.benchmark.peers.torch", ("torch", "transformers")
  ),
  "trl": Peer("experiments.studies.benchmark.peers.trl", ("torch", "trl")),
  "tunix": Peer(
    "experiments.studies.benchmark.peers.tunix",
    ("tunix",),
    # Tunix needs older versions of transformers and safetensors than this
    # project.
    "pip install google-tunix==0.1.7 in an environment of its own",
  ),
}
