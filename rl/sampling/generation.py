"""Sampling of completions with a cache of attention keys and values.

The model reads each prompt once. Its samples are decoded together, in a fixed
number of *rows* per prompt, each of which has space for one sample in the
cache. If there are more samples than rows, a row whose sample has ended
continues with the next sample of the prompt (continuous batching), so that no
row is idle while another row decodes a long sample.

The uniform random number behind a token is a function of (seed, step, prompt,
sample, position) and of nothing else. Hence a sample does not depend on the
sharding, the other prompts of the batch, the number of samples or rows, or a
restart. If a prompt occurs twice in a batch, `prompt_keys` gives the two
occurrences different keys.

Axes: P prompts, S samples per prompt, T completion tokens, L prompt tokens,
V vocabulary; N tokens of any samples.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from rl import bit_sets, types
from rl.sampling import environment as environments
from rl.sampling import token_sampling

Array = jax.Array
# Smallest T for which the cache grows from quarter to quarter. For shorter
# completions, compiling the loop once per capacity costs more time than it
# saves.
_MIN_GROWING_LENGTH = 64


@dataclasses.dataclass(frozen=True)
class Sampling(token_sampling.TokenSampling):
  """Settings of sampling: of completions, and of each token.

  Attributes:
    samples: S, number of completions per prompt.
    max_tokens: T, largest number of tokens of a completion.
    eos_ids: tokens that end a completion.
    pad_id: token that is written after the end of a completion.
    rows: number of samples of a prompt that are decoded at the same time; 0
      means all. The samples do not depend on it. Fewer rows are faster if the
      lengths of the samples differ much.
    returns_support: whether `generate` also returns the support of each token:
      the tokens that the truncations keep. It takes V / 8 bytes per token.
    max_length: number of tokens of the longest text that is read, a prompt and
      a completion, in the sense of `rl.types.Tokens.text_length`; later tokens
      of a completion have any value. 0 means L + T.
  """

  samples: int
  max_tokens: int
  eos_ids: tuple[int, ...]
  pad_id: int
  rows: int = 0
  returns_support: bool = False
  max_length: int = 0

  def __post_init__(self) -> None:
    object.__setattr__(self, "eos_ids", tuple(self.eos_ids))
    check = token_sampling.check_number
    for name in ("samples", "max_tokens"):
      check(name, getattr(self, name), 1, math.inf, integer=True)
    for name in ("rows", "max_length", "pad_id"):
      check(name, getattr(self, name), 0, math.inf, integer=True)
    for eos_id in self.eos_ids:
      check("eos_ids", eos_id, 0, math.inf, integer=True)
    super().__post_init__()

  @property
  def gives_support(self) -> bool:
    """Whether `generate` returns a support: on request, if it truncates."""
    return self.returns_support and self.truncates and self.temperature > 0


@flax.struct.dataclass
class Samples:
  """Completions of P prompts, S of each.

  Attributes:
    completions: `[P, S, T]` int32, with `pad_id` after the end.
    lengths: `[P, S]` int32, number of tokens, including EOS and the replies of
      an environment.
    log_probs: `[P, S, T]` float32, log-probs under the distribution that was
      sampled from, after temperature and truncations; 0 on padding and replies.
    finished: `[P, S]` bool, False if a limit ended the sample; True if EOS did,
      or the environment, or the sample is not active.
    support: `[P, S, T, W]` uint32, the tokens that could have been sampled, in
      the form of `rl.types.Tokens.support`; None unless
      `Sampling.gives_support`.
    turns: `[P, S, T]` int32, number of the turn of a sampled token; -1 for
      replies and padding. None without an environment: one turn.
  """

  completions: Array
  lengths: Array
  log_probs: Array
  finished: Array
  support: Array | None = None
  turns: Array | None = None


def prompt_keys(key: Array, step: Array | int, prompt_ids: Array) -> Array:
  """Derives one key per prompt, independent of the other prompts of the batch.

  If a prompt occurs several times in a batch, its occurrences get different
  keys.

  Args:
    key: PRNG key of the seed.
    step: training step.
    prompt_ids: `[P]` integers.

  Returns:
    `[P]` keys.
  """
  fold = jax.random.fold_in
  keys = jax.vmap(fold, (None, 0))(fold(key, step), prompt_ids)
  # The number of earlier occurrences of the prompt is folded in.
  same = prompt_ids[:, None] == prompt_ids[None, :]  # [P, P]
  return jax.vmap(fold)(keys, jnp.tril(same, -1).sum(-1))


def generate(
  policy: types.Policy,
  params: types.PyTree,
  prompts: Array,
  prompt_mask: Array,
  keys: Array,
  sampling: Sampling,
  first: int = 0,
  active: Array | None = None,
  environment: environments.Environment | None = None,
  facts: types.PyTree = (),
) -> Samples:
  """Samples S completions, or episodes, of every prompt.

  The replies of an environment pass through the same loop as the tokens of the
  policy: they are not sampled, and have the log-prob 0.

  Args:
    policy: the model.
    params: its parameters.
    prompts: `[P, L]` ids, padded on the left.
    prompt_mask: `[P, L]` bool, False on padding.
    keys: `[P]`, result of `prompt_keys`.
    sampling: settings of sampling; static under jit.
    first: number of the first sample. To sample n, and then m more with
      first = n, gives the same samples as n + m at once.
    active: `[P, S]` bool, True for the samples to draw; the others have length
      0. None means all.
    environment: what answers after each turn; None: a completion is one turn.
    facts: `{name: [P, ...]}`, facts of the problems, which it reads.

  Returns:
    The completions, padded to T tokens.
  """
  P, S, T = len(prompts), sampling.samples, sampling.max_tokens
  rows = min(sampling.rows or S, S)

  # The first token of every sample is sampled from the logits of the prompt.
  max_length = (sampling.max_length,) if sampling.max_length else ()
  logits, cache = policy.prefill(
    params, prompts, prompt_mask, rows, T, *max_length
  )
  served = policy.serve(params)
  logits = jnp.broadcast_to(logits[:, None], (P, S, logits.shape[-1]))
  numbers = jnp.broadcast_to(jnp.arange(S, dtype=jnp.int32), (P, S))
  tokens, log_probs, support = _sample_tokens(
    logits, keys, first + numbers, 0, sampling
  )
  is_active = jnp.ones((P, S), bool) if active is None else active
  is_first = (jnp.arange(T) == 0) & is_active[..., None]  # [P, S, T]
  samples = Samples(
    completions=jnp.where(is_first, tokens[..., None], sampling.pad_id),
    lengths=is_active.astype(jnp.int32),
    log_probs=jnp.where(is_first, log_probs[..., None], 0.0),
    finished=_ends(tokens, sampling) | ~is_active,
    support=None
    if support is None
    else jnp.where(is_first[..., None], support[:, :, None], jnp.uint32(0)),
  )
  game, is_over = None, samples.finished
  if environment is not None:
    samples = samples.replace(
      turns=jnp.where(is_first, jnp.int32(0), jnp.int32(-1))
    )
    game = environments.begin(environment, facts, S)
    is_end = is_active & samples.finished
    game, samples = _answer(environment, game, samples, is_end)
    is_over = environments.is_over(game) | ~is_active
  if T == 1:
    return samples
  queue = _Queue(
    order=jnp.argsort(is_over, axis=-1).astype(jnp.int32),
    count=(~is_over).sum(-1),
    first_tokens=tokens,
  )

  def advance(state: _State) -> _State:
    """Adds a token to each row's sample; free rows take the next samples."""
    logits, cache = policy.decode(served, state.last, state.t - 1, state.cache)
    has_sample = state.sample < S  # [P, rows]
    numbers = first + state.sample
    tokens, log_probs, support = _sample_tokens(
      logits, keys, numbers, state.t, sampling
    )
    ends = _ends(tokens, sampling)
    index = state.sample, state.t
    game, turns = state.game, state.samples.turns
    if environment is not None:
      is_reply = state.t < _get(game.start, index[:1])
      reply_tokens = _get(state.samples.completions, index)
      tokens = jnp.where(is_reply, reply_tokens, tokens)
      log_probs = jnp.where(is_reply, 0.0, log_probs)
      ends &= ~is_reply
      turn = jnp.where(is_reply, -1, _get(game.turn, index[:1]))
      turns = _put(turns, index, turn)
    samples = Samples(
      completions=_put(state.samples.completions, index, tokens),
      lengths=_put(state.samples.lengths, index[:1], state.t + 1),
      log_probs=_put(state.samples.log_probs, index, log_probs),
      finished=_put(state.samples.finished, index[:1], ends),
      support=None
      if support is None
      else _put(state.samples.support, index, support),
      turns=turns,
    )
    if environment is not None:
      is_end = _put(jnp.zeros((P, S), bool), index[:1], ends)
      game, samples = _answer(environment, game, samples, is_end)
      # A row goes on with its sample until the episode is over.
      ends = _get(environments.is_over(game), index[:1])
    is_free = ~has_sample | ends | (state.t + 1 == T)
    # The free rows of a prompt take the next samples of its queue, in order.
    queue_index = state.next[:, None] + jnp.cumsum(is_free, -1) - 1
    sample, first_token = queue.take(queue_index)
    return _State(
      steps=state.steps + 1,
      samples=samples,
      cache=cache,
      sample=jnp.where(is_free, sample, state.sample),
      t=jnp.where(is_free, 1, state.t + 1),
      last=jnp.where(is_free, first_token, tokens),
      next=state.next + is_free.sum(-1, dtype=jnp.int32),
      game=game,
    )

  sample, last = queue.take(numbers[:, :rows])
  steps, t = jnp.int32(0), jnp.ones_like(sample)
  next_index = jnp.full(P, rows, jnp.int32)
  state = _State(steps, samples, cache, sample, t, last, next_index, game)
  for capacity in cache_capacities(T):
    state = state.replace(cache=policy.resize(state.cache, capacity))

    def has_work(state: _State, capacity: int = capacity) -> Array:
      # Each step adds at most one token to a row of the cache, so that
      # `capacity` steps always fit. At capacity T every sample fits, even if
      # the loop makes more steps because rows start again.
      fits = (state.steps < capacity) | (capacity == T)
      return fits & (state.sample < S).any()

    state = jax.lax.while_loop(has_work, advance, state)
  return state.samples


@flax.struct.dataclass
class _State:
  """State of the decoding loop.

  Attributes:
    steps: `[]`, number of calls of `decode`.
    samples: the samples so far.
    cache: cache of the policy.
    sample: `[P, rows]`, number of the sample in each row; S if there is none.
    t: `[P, rows]`, position of the next token of that sample.
    last: `[P, rows]`, the last token of that sample.
    next: `[P]`, index in the queue of the next sample that no row has taken.
    game: the episodes; None without an environment.
  """

  steps: Array
  samples: Samples
  cache: types.PyTree
  sample: Array
  t: Array
  last: Array
  next: Array
  game: environments.Game | None


class _Queue(NamedTuple):
  """The samples of each prompt, in the order in which rows take them.

  Attributes:
    order: `[P, S]`, numbers of samples. Those that are not active, or ended
      with their first token, come last, and no row takes them.
    count: `[P]`, number of samples that rows take.
    first_tokens: `[P, S]`, the first token of each sample.
  """

  order: Array
  count: Array
  first_tokens: Array

  def take(self, index: Array) -> tuple[Array, Array]:
    """Returns the samples at the indices `[P, rows]` of the queue.

    Returns:
      The number of each sample, which is S beyond the end of the queue, and its
      first token; both `[P, rows]`.
    """
    S = self.order.shape[-1]
    sample = jnp.take_along_axis(self.order, index, -1, mode="clip")
    token = jnp.take_along_axis(self.first_tokens, sample, -1)
    return jnp.where(index < self.count[:, None], sample, S), token


def _answer(
  environment: environments.Environment,
  game: environments.Game,
  samples: Samples,
  is_end: Array,
) -> tuple[environments.Game, Samples]:
  """Lets the environment answer the turns that the last token has ended."""
  # `is_end` is `[P, S]`.

  def answer() -> tuple[environments.Game, Array]:
    return environments.answer(
      environment, game, samples.completions, samples.lengths, is_end
    )[:2]

  def wait() -> tuple[environments.Game, Array]:
    return game, samples.completions

  game, completions = jax.lax.cond(is_end.any(), answer, wait)
  is_done = game.end == environments.DONE
  is_active = samples.lengths > 0
  return game, samples.replace(
    completions=completions, finished=is_done | ~is_active
  )


def cache_capacities(length: int) -> tuple[int, ...]:
  """Returns the capacities of the cache, in the order in which it grows.

  Args:
    length: T, largest number of tokens of a completion.

  Returns:
    Completion tokens per row: a quarter, half, three quarters and all of T; T
    alone if T is small.
  """
  if length < _MIN_GROWING_LENGTH:
    return (length,)
  return tuple(-(-length * quarter // 4) for quarter in (1, 2, 3, 4))


def _sample_tokens(
  logits: Array, keys: Array, samples: Array, t: Array | int, sampling: Sampling
) -> tuple[Array, Array, Array | None]:
  """Samples the token at position t of some samples of each prompt."""
  # `logits` `[P, rows, V]` are those of that token, `keys` `[P]`, and `samples`
  # `[P, rows]` the numbers of the samples. t is `[P, rows]` or one number.
  fold = jax.random.fold_in

  def uniform(key: Array, sample: Array, t: Array) -> Array:
    return jax.random.uniform(fold(fold(key, sample), t), (), jnp.float32)

  uniform_of_rows = jax.vmap(jax.vmap(uniform, (None, 0, 0)))
  uniforms = uniform_of_rows(keys, samples, jnp.broadcast_to(t, samples.shape))
  flat = logits.reshape(-1, logits.shape[-1])  # [P * rows, V]
  tokens, log_probs = token_sampling.sample_token(
    flat, uniforms.reshape(-1), sampling
  )
  support = None
  if sampling.gives_support:
    in_support = token_sampling.truncate(flat, sampling) > -jnp.inf
    support = bit_sets.pack(in_support).reshape(*samples.shape, -1)
  # Tokens and log-probs are `[P, rows]`, the support is `[P, rows, W]`.
  return (
    tokens.reshape(samples.shape),
    log_probs.reshape(samples.shape),
    support,
  )


def _ends(tokens: Array, sampling: Sampling) -> Array:
  """`[...]` bool, True for tokens that end a completion."""
  return jnp.isin(tokens, jnp.asarray(sampling.eos_ids, jnp.int32))


def _get(array: Array, index: tuple[Array, ...]) -> Array:
  """Reads `array[p, *index[p, r]]` for all p and r."""
  # An index out of bounds, of a row without a sample, reads the last entry.
  return jax.vmap(lambda array, index: array[index])(array, index)


def _put(array: Array, index: tuple[Array, ...], values: Array) -> Array:
  """Writes `array[p, *index[p, r]] = values[p, r]` for all p and r."""

  def write(array: Array, index: tuple[Array, ...], values: Array) -> Array:
    # Values whose index is out of bounds are dropped: those of rows without a
    # sample, whose sample number is S.
    return array.at[index].set(values, mode="drop")

  return jax.vmap(write)(array, index, values)
