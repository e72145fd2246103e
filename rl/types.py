"""The data that everything reads: tokens, rollouts, levels, and the policy.

Axes: P prompts, S sample slots per prompt (a group), T completion tokens,
L prompt tokens, K reasoning steps, M reward components, V vocabulary,
D hidden width.

A signal (a reward, a credit, an advantage) has a *level*, the axes it lives
on. Rank cannot tell a step signal from a token signal, so levels are declared:

  none    a source: it takes no signal        prompt  [P]
  scalar  []                                  sample  [P, S]
  vector  [M, P, S]                           step    [P, S, K]
                                              token   [P, S, T]

Prompts are left-padded; completions start at t = 0 and are right-padded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import flax.struct
import jax

Array = jax.Array
PyTree = Any
Level = Literal["none", "scalar", "prompt", "sample", "vector", "step", "token"]
LEVELS: tuple[str, ...] = get_args(Level)
AXES: Mapping[str, str] = {
  "none": "no signal",
  "scalar": "[]",
  "prompt": "[P]",
  "sample": "[P, S]",
  "vector": "[M, P, S]",
  "step": "[P, S, K]",
  "token": "[P, S, T]",
}


@flax.struct.dataclass
class Tokens:
  """All that one forward pass reads.

  Attributes:
    prompts: `[P, L]` int32, left-padded; `[P, S, L]` in a view whose samples
      have contexts of their own.
    prompt_mask: bool, shaped like `prompts`; True on real tokens.
    completions: `[P, S, T]` int32, right-padded.
    lengths: `[P, S]` int32, real completion tokens of any author (a tool's
      tokens are attended to although nobody trains on them).
    mask: `[P, S, T]` bool, the tokens that are scored: chosen by the policy
      and trained on. EOS is in; padding, tool and user tokens are out.
  """

  prompts: Array
  prompt_mask: Array
  completions: Array
  lengths: Array
  mask: Array


@flax.struct.dataclass
class Named:
  """Arrays by name, whose missing key says what to declare."""

  arrays: dict[str, Any] = flax.struct.field(default_factory=dict)

  def __getitem__(self, key: Any) -> Any:
    key = str(key)
    if key not in self.arrays:
      raise KeyError(
        f"{key!r} is not available here; declare it in `needs` of the "
        f"transform or term that reads it. available: {sorted(self.arrays)}"
      )
    return self.arrays[key]

  def __contains__(self, key: Any) -> bool:
    return str(key) in self.arrays

  def update(self, arrays: Mapping[str, Any]) -> Named:
    return Named({**self.arrays, **arrays})


@flax.struct.dataclass
class Rollout:
  """One batch of sampled groups with all that is known of it.

  Data only: nothing in it is ever differentiated.

  Attributes:
    tokens: the prompts and the sampled completions.
    sample_mask: `[P, S]` bool, real samples. Groups may be ragged; every group
      statistic honours it.
    behavior_log_probs: `[P, S, T]` float32, log-probability of each token under
      the distribution that really generated it (temperature, top-p, ...).
    finished: `[P, S]` bool, ended by EOS and not by the length limit.
    scores: `[P, S]` float32, the graded outcome reward.
    correct: `[P, S]` int8, the verdict: 1 right, 0 wrong, -1 unknown. Filters
      and metrics read the verdict, not the score.
    prompt_ids: `[P]` int32, identity of each prompt across batches.
    keys: `[P]` PRNG keys: randomness by prompt is the same under any sharding.
    step: `[]` int32, the training step; schedules read it and need no state.
    components: `{name: [P, S]}`, the parts of a composite reward.
    step_ids: `[P, S, T]` int32, reasoning step of each token, -1 outside.
    step_scores, step_mask: `[P, S, K]` process rewards and which steps exist.
    segments: `[P, S, T]` int32, turn or role of each token, -1 outside.
    views: `{name: Tokens}`, other texts to score, made by the task (`rl` never
      tokenizes).
    extras: `{"source/probe": array}`, what the scoring passes found, and what
      the task and the sampling stage know (`rl.scoring.given`).
    memory: what the sampling stage remembers for its next rollout.
  """

  tokens: Tokens
  sample_mask: Array
  behavior_log_probs: Array
  finished: Array
  scores: Array
  correct: Array
  prompt_ids: Array
  keys: Array
  step: Array
  components: dict[str, Array] = flax.struct.field(default_factory=dict)
  step_ids: Array | None = None
  step_scores: Array | None = None
  step_mask: Array | None = None
  segments: Array | None = None
  views: dict[str, Tokens] = flax.struct.field(default_factory=dict)
  extras: Named = flax.struct.field(default_factory=Named)
  memory: PyTree = ()

  @property
  def mask(self) -> Array:
    """`[P, S, T]` scored tokens."""
    return self.tokens.mask

  @property
  def completions(self) -> Array:
    """`[P, S, T]` token ids."""
    return self.tokens.completions

  @property
  def scored_lengths(self) -> Array:
    """`[P, S]` number of scored tokens of each sample.

    `tokens.lengths` counts all real tokens, whoever wrote them.
    """
    return self.tokens.mask.sum(-1)

  def valid(self, level: str) -> Array:
    """The entries that exist at `level`, as a mask of that level's shape."""
    if level == "step":
      return self.step_mask & self.sample_mask[..., None]
    if level == "token":
      return self.tokens.mask & self.sample_mask[..., None]
    if level == "prompt":
      return self.sample_mask.any(-1)
    if level == "scalar":
      return self.sample_mask.any()
    return self.sample_mask


class Scored(NamedTuple):
  """What one forward pass gives: hidden states, and heads that read them.

  Whole logits `[P, S, T, V]` are never formed; a probe applies a head to a
  chunk of positions at a time.

  Attributes:
    hidden: `[P, S, T, D]`, entry t is the final hidden state *from which
      token t of the completion is predicted* (t = 0 reads the prompt's end).
    heads: `{name: fn}`, `fn([N, D]) -> [N, ...]` float32. "logits" is always
      there and gives `[N, V]`; "value" gives `[N]` where the policy has one.
    local: `fn -> fn`, the same function of the heads and of arrays
      `[P, S, ...]`, computed by each device for its own prompts and samples.
  """

  hidden: Array
  heads: Mapping[str, Callable[[Array], Array]]
  local: Callable[[Callable], Callable] = lambda fn: fn


@dataclasses.dataclass(frozen=True)
class Policy:
  """All that `rl` knows of a model: pure functions of its parameters.

  Attributes:
    score: `(params, Tokens) -> Scored`, teacher-forced.
    prefill: `(params, prompts [P, L], prompt_mask [P, L], rows, room)
      -> (logits [P, V], cache)`; runs each prompt once, logits of the first
      completion token; the cache remembers the last `room` tokens of each of
      `rows` completions per prompt.
    decode: `(served, tokens [P, rows], t, cache) -> (logits [P, rows, V],
      cache)`; appends completion token number t of each row (`[P, rows]`, or a
      scalar that holds for all) and gives the logits of token t + 1. A row that
      begins again at t = 0 forgets what it held.
    serve: `params -> served`, the parameters in the form in which decode
      reads them at every token; it is called once per rollout.
    resize: `(cache, room) -> cache` that remembers so many tokens: fewer before
      the first decode, more as long as no row has had more.
  """

  score: Callable[[PyTree, Tokens], Scored]
  prefill: Callable[..., tuple[Array, PyTree]]
  decode: Callable[..., tuple[Array, PyTree]]
  serve: Callable[[PyTree], PyTree] = lambda params: params
  resize: Callable[[PyTree, int], PyTree] = lambda cache, room: cache

  def with_frozen(self, frozen: PyTree) -> Policy:
    """The same policy as functions of the other parameters alone."""
    if not frozen:
      return self

    def whole(fn: Callable) -> Callable:
      return lambda params, *args: fn(join(params, frozen), *args)

    reading = ("score", "prefill", "decode", "serve")
    found = {name: whole(getattr(self, name)) for name in reading}
    return dataclasses.replace(self, **found)


def join(params: PyTree, frozen: PyTree) -> PyTree:
  """Two nested dicts as one; where both have a leaf it is that of `params`."""
  if not (isinstance(params, Mapping) and isinstance(frozen, Mapping)):
    return params
  both = {
    name: join(params[name], frozen[name]) for name in params if name in frozen
  }
  return {**frozen, **params, **both}
