"""The other side of a comparison: programs that hold a peer warm.

A program here runs in whatever interpreter has the peer, so it imports nothing
of ours but this folder. It is told its job in one JSON object:

  weights     folder of the weights, Hugging Face's format
  prompts     file of the prompts, `[P, L]` int32 (numpy), all real tokens
  samples     completions per prompt
  max_tokens  T, where a completion is cut
  eos_id      ends a completion; null: nothing does
  pad_id      what is written after the end
  micro       prompts at once

and what else its benchmark sets: threads, dtype, cache. See `protocol`.
"""

from __future__ import annotations

import dataclasses

EXTRA = "pip install 'extremum[peers]'"


@dataclasses.dataclass(frozen=True)
class Peer:
  """A codebase that ours is measured beside.

  Attributes:
    program: the module that holds it.
    needs: packages that its interpreter must have.
    install: how to get them.
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
    # It holds transformers and safetensors below the versions of ours.
    "pip install google-tunix==0.1.7 in an environment of its own",
  ),
}
