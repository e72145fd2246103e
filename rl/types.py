"""Types that all of `rl` shares: tokens, rollouts, levels and the policy.

Axes: P prompts, S samples per prompt (a group), T completion tokens, L prompt
tokens, K reasoning steps, M reward components, V vocabulary, D hidden width.

A *signal* is an array of rewards, returns or advantages. Its *level* says what
it has one value for:

  scalar  []          the batch
  prompt  [P]         each prompt
  sample  [P, S]      each sample
  vector  [M, P, S]   each sample and reward component
  step    [P, S, K]   each reasoning step
  token   [P, S, T]   each completion token
  none                no signal; a transform without input "takes none"

Levels are declared, because the number of axes does not distinguish a signal of
steps from a signal of tokens.

Prompts are padded on the left; completions start at t = 0 and are padded on the
right.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, get_args

import flax.struct
import jax

from rl import UsageError

Array = jax.Array
PyTree = Any
Level = Literal["none", "scalar", "prompt", "sample", "vector", "step", "token"]
LEVELS: tuple[str, ...] = get_args(Level)
# The axes of a signal, by its level, as they are printed in error messages.
AXES: Mapping[str, str] = {
  "none": "no signal",
  "scalar": "[]",
  "prompt": "[P]",
  "sample": "[P, S]",
  "vector": "[M, P, S]",
  "step": "[P, S, K]",
  "token": "[P, S, T]",
}
# Names of the views (`Rollout.views`) that have one text per prompt.
VIEWS_BY_PROMPT = ("bare_reference",)


@flax.struct.dataclass
class Tokens:
  """The text that one forward pass reads.

  Attributes:
    prompts: `[P, L]` int32, padded on the left; `[P, S, L]` in a view
      (`Rollout.views`) in which every sample has another prompt.
    prompt_mask: bool, shaped like `prompts`; False on padding.
    completions: `[P, S, T]` int32, padded on the right.
    lengths: `[P, S]` int32, number of completion tokens without padding. The
      tokens of a tool or user are counted, because the policy attends to them,
      although it is not trained on them.
    mask: `[P, S, T]` bool, True for the *scored* tokens: those that the policy
      chose. EOS is scored; padding and the tokens of a tool or user, which may
      stand between two scored tokens, are not. The loss is over scored tokens,
      or over some of them (`Method.loss_filter`).
    support: `[P, S, T, W]` uint32, the tokens that could have been sampled at
      each position, for samples of a truncated distribution (top-k, top-p or
      min-p): a mask over the vocabulary, packed into W = V / 32 integers by
      `rl.bit_sets`. Probes then read the distribution that is renormalised over
      the support. None: all tokens.
    room: number of tokens of a prompt and its completions for which a *packed*
      forward pass has room, on average over the prompts of a device. Such a
      pass does not compute padding. 0: a *padded* pass, which does.
    max_length: number of tokens of the longest text, a prompt and a completion,
      if it is smaller than L + T: the prompts of continuations have room for
      the prefix of a completion, with which a continuation has at most T
      tokens. 0: L + T.
  """

  prompts: Array
  prompt_mask: Array
  completions: Array
  lengths: Array
  mask: Array
  support: Array | None = None
  room: int = flax.struct.field(pytree_node=False, default=0)
  max_length: int = flax.struct.field(pytree_node=False, default=0)

  @property
  def text_length(self) -> int:
    """Number of tokens of the longest text; `max_length`, or else L + T.

    Scalings of rotary embedding depend on it, so that sampling and scoring of
    the same completions must use the same number.
    """
    return (
      self.max_length or self.prompts.shape[-1] + self.completions.shape[-1]
    )


@flax.struct.dataclass
class Named:
  """Arrays by name, such as those that a transform or term has declared.

  The keys are strings, or objects whose string is the name, such as needs and
  probes (`rl.scoring`). Reading a name that is missing raises a KeyError that
  says where to declare it.
  """

  arrays: dict[str, Any] = flax.struct.field(default_factory=dict)

  def __getitem__(self, key: Any) -> Any:
    key = str(key)
    if key not in self.arrays:
      raise KeyError(
        f"{key!r} is not available; declare it in `needs` of the transform or "
        f"term that reads it. Available: {sorted(self.arrays)}"
      )
    return self.arrays[key]

  def __contains__(self, key: Any) -> bool:
    return str(key) in self.arrays

  def update(self, arrays: Mapping[str, Any]) -> Named:
    """Returns a copy in which these arrays are added or replaced."""
    return Named({**self.arrays, **arrays})


@flax.struct.dataclass
class Rollout:
  """One batch of groups of samples, with their scores.

  Nothing in a rollout is differentiated.

  Attributes:
    tokens: the prompts and the sampled completions.
    sample_mask: `[P, S]` bool, True for the samples that exist. Groups may
      differ in size; every statistic of a group leaves out the samples that do
      not exist.
    behavior_log_probs: `[P, S, T]` float32, log-probability of each token under
      the distribution that it was sampled from (temperature, top-p, ...).
    finished: `[P, S]` bool, True if EOS ended the sample, False if the length
      limit did.
    scores: `[P, S]` float32, the outcome reward of each sample: at first that
      of the task, then that of `Method.reward` if there is one.
    correct: `[P, S]` int8, the verdict of the task: 1 right, 0 wrong, -1
      unknown. Filters and metrics of accuracy read the verdict, not the score.
    prompt_ids: `[P]` int32, the same number for the same prompt in every batch.
    keys: `[P]` PRNG keys, one per prompt, so that random numbers do not depend
      on the sharding.
    step: `[]` int32, number of the training step, read by schedules.
    components: `{name: [P, S]}`, named parts of the score.
    step_ids: `[P, S, T]` int32, number of the reasoning step that a token is
      in; -1 outside of reasoning steps.
    step_scores: `[P, S, K]` float32, process reward of each reasoning step.
    step_mask: `[P, S, K]` bool, True for the reasoning steps that exist.
    turns: `[P, S, T]` int32, number of the turn in which the policy wrote a
      token; -1 for tokens of the environment and padding. None: one turn.
    views: `{name: Tokens}`, other texts that a forward pass can read. The task
      makes them, since `rl` has no tokenizer. Views of `VIEWS_BY_PROMPT` have
      one text per prompt, `[P, 1]`; all others have texts of every sample.
    extras: `{"source/probe": array}`, results of forward passes, and arrays of
      the task and the sampler ("task/...", "sampler/..."; see `rl.scoring`).
      Those of the task are `[P, S, ...]`. An array of the sampler or of a pass
      begins with the axis P, or is a number of the whole rollout, `[]`.
    memory: state that the sampler carries to its next rollout.
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
  turns: Array | None = None
  views: dict[str, Tokens] = flax.struct.field(default_factory=dict)
  extras: Named = flax.struct.field(default_factory=Named)
  memory: PyTree = ()

  @property
  def mask(self) -> Array:
    """`[P, S, T]` bool, the scored tokens."""
    return self.tokens.mask

  @property
  def completions(self) -> Array:
    """`[P, S, T]` ids of the completion tokens."""
    return self.tokens.completions

  @property
  def scored_lengths(self) -> Array:
    """`[P, S]`, number of scored tokens of each sample.

    `tokens.lengths` also counts the tokens of a tool or user.
    """
    return self.tokens.mask.sum(-1)

  def checked(self) -> Rollout:
    """Returns the rollout; refuses a component that is not `[P, S]`."""
    for name, component in self.components.items():
      if (shape := jax.numpy.shape(component)) != self.scores.shape:
        raise UsageError(
          f"the component {name!r} of the score has the shape {shape}, but it "
          f"must be [P, S] = {self.scores.shape}: one number for each sample"
        )
    return self

  def has_prompt_axis(self) -> Rollout:
    """Returns, in place of each array, whether its first axis is P.

    All arrays have it but the step, the memory, and extras that are numbers of
    the whole rollout.
    """
    return jax.tree.map(lambda _: True, self).replace(
      step=False,
      memory=jax.tree.map(lambda _: False, self.memory),
      extras=jax.tree.map(lambda x: x.ndim > 0, self.extras),
    )

  def valid(self, level: str) -> Array:
    """Returns the mask of the entries that exist, for a signal at `level`.

    At the level "vector" it is `[P, S]`, and at every other level shaped like
    the signal.
    """
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
  """Result of one forward pass: hidden states, and heads that read them.

  Logits `[P, S, T, V]` of all positions at once are never formed, to save
  memory: `rl.scoring` applies a head to a chunk of positions at a time.

  Attributes:
    hidden: `[P, S, T, D]`. Entry t is the final hidden state *from which token
      t of the completion is predicted*; entry 0 is that of the last prompt
      token. A packed pass has the entries of scored tokens alone, with any
      three axes in place of `[P, S, T]`. A pass that stops early
      (`Policy.score`) has the state after its last layer.
    heads: `{name: fn}`, with `fn([N, D]) -> [N, ...]` float32 for N positions.
      Every policy has the head "logits", which gives `[N, V]`. The head
      "value", which some policies have, gives `[N]`. A pass that stops early
      has no heads.
    local: wraps a function `(heads, hidden, *arrays) -> values`. The wrapped
      function takes arrays `[P, S, T, ...]`, and the inner one has them with
      the axes of `hidden`; each device evaluates it for the entries that it
      holds. The values are `[P, S, T, ...]` again. The default is for a padded
      pass on a single device.
  """

  hidden: Array
  heads: Mapping[str, Callable[[Array], Array]]
  local: Callable[[Callable], Callable] = lambda fn: fn


@dataclasses.dataclass(frozen=True)
class Policy:
  """A model, as pure functions of its parameters.

  A *row* of the cache holds one completion at a time. After it has ended, the
  row can decode the next completion of the same prompt
  (`rl.sampling.generation`).

  Attributes:
    score: `(params, Tokens, depth=1.0) -> Scored`, a forward pass over a given
      text. With depth < 1, a share of the layers, the pass stops after an
      earlier layer. It computes min(round(depth n), n - 1) + 1 of n layers.
      `rl.scoring` passes the argument only if it is below 1.
    prefill: `(params, prompts [P, L], prompt_mask [P, L], rows, capacity,
      max_length=0) -> (logits [P, V], cache)`. It reads each prompt once and
      returns the logits of the first completion token. The cache has space for
      `capacity` completion tokens in each of `rows` rows per prompt.
      `max_length` is that of `rl.sampling.generation.Sampling`; the argument is
      passed only if it is set.
    decode: `(served, tokens [P, rows], t, cache) -> (logits [P, rows, V],
      cache)`. It appends the given completion tokens, number t, to the rows and
      returns the logits of tokens number t + 1; t is `[P, rows]`, or one number
      for all rows. A row that starts again at t = 0 discards its earlier
      tokens.
    serve: `params -> served`, the parameters in the form that `decode` reads.
      It is called once per rollout.
    resize: `(cache, capacity) -> cache`, with space for `capacity` completion
      tokens per row. A cache may be shrunk before the first `decode`, and grown
      as long as no row has had more tokens than the old capacity.
  """

  score: Callable[..., Scored]
  prefill: Callable[..., tuple[Array, PyTree]]
  decode: Callable[..., tuple[Array, PyTree]]
  serve: Callable[[PyTree], PyTree] = lambda params: params
  resize: Callable[[PyTree, int], PyTree] = lambda cache, capacity: cache

  def with_frozen(self, frozen: PyTree) -> Policy:
    """Returns the policy as functions of the parameters that are not frozen.

    Args:
      frozen: the frozen parameters, a nested dict; see `join`.
    """
    if not frozen:
      return self

    def with_all_params(fn: Callable) -> Callable:
      return lambda params, *args: fn(join(params, frozen), *args)

    # The functions whose first argument is params, or the result of `serve`.
    names = ("score", "prefill", "decode", "serve")
    functions = {name: with_all_params(getattr(self, name)) for name in names}
    return dataclasses.replace(self, **functions)


def join(params: PyTree, frozen: PyTree) -> PyTree:
  """Merges two nested dicts; a leaf of `params` replaces one of `frozen`."""
  if not (isinstance(params, Mapping) and isinstance(frozen, Mapping)):
    return params
  shared = params.keys() & frozen.keys()
  merged = {name: join(params[name], frozen[name]) for name in shared}
  return {**frozen, **params, **merged}
