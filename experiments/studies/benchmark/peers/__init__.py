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

A program may read further entries, such as threads, dtype or cache. `protocol`
describes the messages between a program and the benchmark.
"""

from __future__ import annotations

import dataclasses

EXTRA = "pip install 'extremum[peers]'"


@dataclasses.dataclass(frozen=True)
class Peer:
  """A codebase that this project is compared with.

  Attributes:
    program: module that runs the codebase.
    needs: packages that the Python interpreter of the program must have.
    install: command that installs them.
  """

  program: str
  needs: tuple[str, ...]
  install: str = EXTRA


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
