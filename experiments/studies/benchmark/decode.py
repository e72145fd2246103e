"""Speed of sampling, compared with `generate` of transformers or with Tunix.

All sides sample for the same prompts with the same weights, at temperature 1
and without top-k or top-p. The measured value is tokens per second, where
tokens up to and including EOS count. First both sides generate greedy tokens,
which must be equal. The shapes are those of `sizes.DECODE`.

Each side first tries its settings on a few calls and is measured with the
fastest setting. Our side, which is this project, tries one device and one
device per core; the peer tries one and all threads, and each kind of cache. For
"long" both sides also try several sizes of a microbatch. The limits apply
to float32 with the faster of a dynamic and a static cache; bfloat16 and a
compiled decoding step are reported without a limit. With peer "none" the shape
"long" is also run without refilling, where a row of the batch stays empty after
its sample has ended; refilling starts the next sample in that row.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

import rich.console

from experiments.studies.benchmark import comparison, machine, sizes
from experiments.studies.benchmark.comparison import Case, Options, Rival
from experiments.studies.benchmark.outcome import Outcome
from models import flop_counts

# Least ratios, by peer and shape: time per token of the peer over ours.
LIMITS = {
  ("hf", "small"): 2.5,
  ("hf", "large"): 2.3,
  ("hf", "long"): 6.0,
  ("tunix", "long"): 4.0,
}
# Least ratio of tokens per second with refilling to those without.
REFILL_LIMIT = 1.6
PEERS = ("hf", "tunix", comparison.NONE)


def decode(
  console: rich.console.Console,
  *,
  shape: str = "",
  peer: str = "hf",
  calls: int = 5,
  pythons: Mapping[str, str] | None = None,
) -> Outcome:
  """Speed of sampling, compared with transformers or Tunix.

  The settings are those of `comparison.compare`; the peer is "hf"
  (transformers), "tunix" or "none". The outcome passes if every ratio with a
  limit reaches it.
  """
  return comparison.compare(
    console,
    shape,
    sizes.DECODE,
    peers=[peer],
    allowed=PEERS,
    pythons=pythons,
    calls=calls,
    write=functools.partial(sizes.write, kind="sampler"),
    options=_options,
    rivals=_rivals,
    costs=[flop_counts.decode_cost],
    # One microbatch is enough to compare speed.
    trial=lambda job: {"count": job["micro"]},
    utilization=True,
  )


def _options(shape: sizes.Shape) -> Options:
  """Returns the settings of our side to try."""
  options = {
    "devices": machine.device_counts(),
    "unroll": (0,),
    "attention": ("blocked", "plain"),
  }
  if shape.mean_length:
    S = shape.samples
    shares = (max(S // parts, 1) for parts in (2, 4, 8, 1))
    options["rows"] = tuple(dict.fromkeys(shares))
  return options | _microbatches(shape)


def _rivals(case: Case) -> Iterator[Rival]:
  """Yields the forms of the peer that are measured."""
  row, shape, (peer,) = f"decode {case.name}", case.shape, case.peers
  if peer is None:
    yield Rival(row)
    # For mixed lengths, a second row compares this project with itself without
    # refilling.
    if shape.mean_length:
      launch = dataclasses.replace(case.ours, name="ours without refill")
      options = {**_options(shape), "rows": (shape.samples,)}
      name = f"{row} beside {launch.name}"
      yield Rival(name, launch, options, limit=REFILL_LIMIT)
    return
  counts, eager = machine.device_counts(), ("dynamic", "static")
  check = comparison.check_same_greedy_tokens
  limited = {"check": check, "limit": LIMITS.get((peer.name, case.name))}
  peer = peer.with_job(**case.job)
  if peer.name == "tunix":
    options = {"devices": counts, **_microbatches(shape)}
    yield Rival(f"{row} beside tunix", peer, options, **limited)
    return
  forms = [("float32", "float32", eager, limited)]
  if not shape.mean_length:  # A call of a long shape takes minutes.
    forms.append(("bfloat16", "bfloat16", eager, {}))
    forms.append(("compiled", "float32", ("compiled",), {}))
  for label, dtype, caches, checks in forms:
    launch = dataclasses.replace(peer, name=f"transformers {label}")
    options = {"threads": counts, "cache": caches, **_microbatches(shape)}
    name = f"{row} beside {launch.name}"
    yield Rival(name, launch.with_job(dtype=dtype), options, **checks)


def _microbatches(shape: sizes.Shape) -> dict[str, Sequence[int]]:
  """Returns numbers of prompts per call to try, the quickest trial first."""
  P = shape.prompts
  numbers = tuple(dict.fromkeys((P // 4 or 1, P // 2 or 1, P)))
  return {"micro": numbers} if shape.mean_length else {}
