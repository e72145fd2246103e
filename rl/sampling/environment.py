"""Environments that answer a policy between its turns, on the device.

An episode is a sample of several turns. In each turn the policy writes tokens
up to an end token; then the environment appends its reply, whole, and the next
turn begins. The episode ends if the environment says so, after `max_turns`
turns, or if the reply and one further token have no room. An environment is
made of pure functions, so that decoding, environment and update are one
compiled program, and so that the tokens of an episode determine its rewards
(`replay`).

All samples of a prompt start from the same state, and what is random in an
environment is a fact of the problem. Hence a difference between their scores
comes from the policy, and max@k does not pay luck.

Axes: P prompts, S samples per prompt, T tokens of an episode without its
prompt, K turns, R tokens of a reply, A tokens of a turn of the expert.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from rl import UsageError

Array = jax.Array
PyTree = Any
# How an episode ended; its index is the value of `Episodes.ends`.
ENDS = ("done", "turn_limit", "token_budget")
DONE, TURN_LIMIT, TOKEN_BUDGET = range(3)
_GOES_ON = -1


class Reply(NamedTuple):
  """The reply of an environment to one turn of one episode.

  Attributes:
    state: the state after the turn.
    tokens: `[R]` int32, the reply; those after `length` have any value.
    length: `[]` int32, number of tokens of the reply, 0 to R.
    reward: `[]` float32, reward of the turn.
    done: `[]` bool, whether the episode ends; its last reply is not appended.
  """

  state: PyTree
  tokens: Array
  length: Array
  reward: Array
  done: Array


@flax.struct.dataclass
class Outcome:
  """The result of one episode.

  Attributes:
    score: `[]` float32, the score of the task.
    correct: `[]` int8, the verdict: 1 right, 0 wrong, -1 unknown.
    answer_id: `[]` int32, identity of the final answer; -1 is no answer.
    components: `{name: []}`, named parts of the score, and values to log.
  """

  score: Array
  correct: Array
  answer_id: Array
  components: dict[str, Array] = flax.struct.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Environment:
  """An environment, as pure functions of one episode.

  Attributes:
    max_turns: K, largest number of turns.
    reset: `facts -> state`, the state before the first turn, from the facts of
      one problem. The first observation is the prompt.
    step: `(state, tokens [T], start, end) -> Reply`, the answer to the turn
      `tokens[start:end]`, whose last token is an end token. The tokens before
      it are those of the episode so far, without the prompt.
    outcome: `(state, end) -> Outcome`, the result of an episode that ended as
      `ENDS[end]` says, with the state after the last turn that was answered.
    act: `(state, key) -> (tokens [A], length)`, a turn of an expert, end token
      included, for demonstrations.
    floor: reward of a turn that the token budget cuts.
  """

  max_turns: int
  reset: Callable[[dict[str, Array]], PyTree]
  step: Callable[[PyTree, Array, Array, Array], Reply]
  outcome: Callable[[PyTree, Array], Outcome]
  act: Callable[[PyTree, Array], tuple[Array, Array]]
  floor: float = 0.0

  def __post_init__(self) -> None:
    if self.max_turns < 1:
      raise UsageError(f"max_turns = {self.max_turns} must be at least 1")


@flax.struct.dataclass
class Game:
  """`[P, S]` episodes that are being played.

  Attributes:
    states: `[P, S, ...]`, the state after the last turn that was answered.
    turn: `[P, S]` int32, number of the present turn.
    start: `[P, S]` int32, position at which the present turn begins.
    end: `[P, S]` int32, index in `ENDS`; -1 for an episode that goes on.
  """

  states: PyTree
  turn: Array
  start: Array
  end: Array


@flax.struct.dataclass
class Episodes:
  """Turns, rewards and results of `[P, S]` episodes.

  Attributes:
    turns: `[P, S, T]` int32, number of the turn that the policy wrote a token
      in; -1 for tokens of the environment and padding.
    rewards: `[P, S, K]` float32, rewards of the turns.
    ends: `[P, S]` int32, index in `ENDS`.
    outcomes: `[P, S]` results.
  """

  turns: Array
  rewards: Array
  ends: Array
  outcomes: Outcome


def begin(
  environment: Environment, facts: dict[str, Array], samples: int
) -> Game:
  """Begins S episodes of each of P problems.

  Args:
    environment: the environment.
    facts: `{name: [P, ...]}`, facts of the problems.
    samples: S.
  """
  states = jax.vmap(environment.reset)(facts)
  shape = len(jax.tree.leaves(facts)[0]), samples

  def repeat(leaf: Array) -> Array:
    return jnp.broadcast_to(leaf[:, None], (*shape, *leaf.shape[1:]))

  zeros = jnp.zeros(shape, jnp.int32)
  states = jax.tree.map(repeat, states)
  return Game(states, turn=zeros, start=zeros, end=zeros + _GOES_ON)


def answer(
  environment: Environment,
  game: Game,
  completions: Array,
  lengths: Array,
  is_end: Array,
) -> tuple[Game, Array, Array]:
  """Lets the environment answer the turns that have ended.

  Args:
    environment: the environment.
    game: `[P, S]` episodes.
    completions: `[P, S, T]`, their tokens.
    lengths: `[P, S]`, number of tokens up to the end of the present turn.
    is_end: `[P, S]` bool, the episodes whose present turn has ended.

  Returns:
    The game, in which an episode goes on or has an end; the tokens with the
    replies; and `[P, S]`, rewards of the turns that have ended.
  """
  T = completions.shape[-1]
  step = jax.vmap(jax.vmap(environment.step))
  reply = step(game.states, completions, game.start, lengths)

  def if_ended(new: Array, old: Array) -> Array:
    mask = is_end.reshape(*is_end.shape, *(1,) * (new.ndim - 2))
    return jnp.where(mask, new.astype(old.dtype), old)

  reply_lengths = reply.length.astype(jnp.int32)
  next_start = lengths + reply_lengths
  end = jnp.where(next_start >= T, TOKEN_BUDGET, _GOES_ON)
  is_last = game.turn + 1 == environment.max_turns
  end = jnp.where(is_last, TURN_LIMIT, end)
  end = jnp.where(reply.done, DONE, end)
  goes_on = is_end & (end == _GOES_ON)
  # A reply is written from the end of the turn on.
  position = jnp.arange(T) - lengths[..., None]
  is_reply = (position >= 0) & (position < reply_lengths[..., None])
  replies = jnp.take_along_axis(
    reply.tokens.astype(completions.dtype),
    jnp.clip(position, 0, reply.tokens.shape[-1] - 1),
    -1,
  )
  is_reply &= goes_on[..., None]
  game = Game(
    states=jax.tree.map(if_ended, reply.state, game.states),
    turn=game.turn + goes_on,
    start=jnp.where(goes_on, next_start, game.start),
    end=if_ended(end, game.end),
  )
  completions = jnp.where(is_reply, replies, completions)
  return game, completions, reply.reward.astype(jnp.float32)


def is_over(game: Game) -> Array:
  """Returns the episodes that have ended, `[P, S]` bool."""
  return game.end != _GOES_ON


def replay(
  environment: Environment,
  facts: dict[str, Array],
  completions: Array,
  lengths: Array,
  end_ids: tuple[int, ...],
) -> Episodes:
  """Plays episodes again whose tokens are known.

  Args:
    environment: the environment.
    facts: `{name: [P, ...]}`, facts of the problems.
    completions: `[P, S, T]`, tokens of the policy and of the environment.
    lengths: `[P, S]`, number of tokens of each.
    end_ids: tokens that end a turn.
  """
  t = jnp.arange(completions.shape[-1])
  is_text = t < lengths[..., None]  # [P, S, T]
  is_end_token = jnp.isin(completions, jnp.asarray(end_ids)) & is_text

  def play(turn: Array, carry: tuple[Game, Array, Array]):
    game, turns, rewards = carry
    # The tokens from the start of the turn on.
    is_left = is_text & (t >= game.start[..., None])
    is_left &= ~is_over(game)[..., None]
    candidates = is_left & is_end_token
    is_end = candidates.any(-1)
    first = jnp.argmax(candidates, -1).astype(jnp.int32)
    end = jnp.where(is_end, first + 1, lengths)
    turns = jnp.where(
      is_left & (t < end[..., None]), turn.astype(jnp.int32), turns
    )
    game, _, reward = answer(environment, game, completions, end, is_end)
    is_cut = is_left.any(-1) & ~is_end
    game = game.replace(end=jnp.where(is_cut, TOKEN_BUDGET, game.end))
    floor = jnp.where(is_cut, environment.floor, 0.0)
    reward = jnp.where(is_end, reward, floor)
    return game, turns, rewards.at[..., turn].set(reward)

  carry = (
    begin(environment, facts, lengths.shape[1]),
    jnp.full(completions.shape, -1, jnp.int32),
    jnp.zeros((*lengths.shape, environment.max_turns)),
  )
  game, turns, rewards = jax.lax.fori_loop(
    0, environment.max_turns, play, carry
  )
  # An episode without a token after a reply is cut, too.
  ends = jnp.where(is_over(game), game.end, TOKEN_BUDGET)
  outcomes = jax.vmap(jax.vmap(environment.outcome))(game.states, ends)
  return Episodes(turns, rewards, ends, outcomes)


def demonstrate(
  environment: Environment, facts: dict[str, Array], keys: Array, length: int
) -> tuple[Array, Array]:
  """Plays one episode of the expert on each of P problems.

  Args:
    environment: the environment.
    facts: `{name: [P, ...]}`, facts of the problems.
    keys: `[P]` PRNG keys.
    length: T, which must have room for every episode of the expert.

  Returns:
    Completions `[P, T]` and lengths `[P]`.
  """

  def play(turn: Array, carry: tuple[Game, Array, Array]):
    game, completions, lengths = carry  # [P, 1], [P, 1, T], [P, 1]
    keys_of_turn = jax.vmap(jax.random.fold_in, (0, None))(keys, turn)
    states = jax.tree.map(lambda leaf: leaf[:, 0], game.states)
    tokens, count = jax.vmap(environment.act)(states, keys_of_turn)
    position = jnp.arange(length) - game.start  # [P, T]
    goes_on = ~is_over(game)
    is_turn = (position >= 0) & (position < count[:, None]) & goes_on
    acts = jnp.take_along_axis(
      tokens, jnp.clip(position, 0, tokens.shape[-1] - 1), -1
    )
    completions = jnp.where(is_turn[:, None], acts[:, None], completions)
    lengths = jnp.where(goes_on, game.start + count[:, None], lengths)
    game, completions, _ = answer(
      environment, game, completions, lengths, goes_on
    )
    return game, completions, lengths

  carry = (
    begin(environment, facts, 1),
    jnp.zeros((len(keys), 1, length), jnp.int32),
    jnp.zeros((len(keys), 1), jnp.int32),
  )
  _, completions, lengths = jax.lax.fori_loop(
    0, environment.max_turns, play, carry
  )
  return completions[:, 0], lengths[:, 0]
