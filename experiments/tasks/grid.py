"""Grid: walk to a key, then to a door, and see the neighbouring cells.

A task of several turns, on the device. A turn has up to three moves, of which a
wall stops the rest. The reply shows the cells to the north, east, south and
west, and whether the key is held:

  episode    E S <eos> wall free door free key N <eos> ...

If the map is visible, the prompt shows every cell, row by row, and a shortest
path is the best that a policy can do; otherwise the prompt shows the first
observation, and that is a bound. The score is the length of a shortest path
divided by the number of moves, or 0 without the door. The reward of a turn is
the share of the way that it covers: the sum over the turns is 1 if the door is
reached.

Shapes: P problems; W rows and columns; N = W * W cells.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import numbered_problems, turns
from experiments.tasks.task import Problems, Task
from rl import UsageError
from rl.sampling.environment import Environment, Outcome, Reply, demonstrate

Array = jax.Array
PAD, EOS, NORTH, EAST, SOUTH, WEST, FREE, WALL, KEY, DOOR, HERE = range(11)
HELD, EMPTY = 11, 12  # whether the key is held
WORDS = (
  *("<pad>", "<eos>", "N", "E", "S", "W", "free", "wall", "key", "door"),
  *("here", "held", "empty"),
)
SIZES = range(3, 9)
WALL_RATE = 0.25
MOVES = 3  # largest number of moves of a turn
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # of N, E, S and W
OPTIMAL_RATE = 0.6  # at which a move of the expert is on a shortest path
FAR = 10_000  # distance of a cell from which there is no way
PROBLEMS = 2**20


def grid(size: int = 4, visible: bool = True, max_turns: int = 8) -> Task:
  """Builds the task of a walk.

  A quarter of the cells are walls, or none if they would block the way. A turn
  that is not one to three moves leaves everything as it is. The expert makes
  two moves in a turn, each of which is on a shortest path with probability 0.6
  and random otherwise.

  Args:
    size: W, 3 to 8. Difficulty grows with it.
    visible: whether the prompt shows the map.
    max_turns: K, largest number of turns.

  Returns:
    The task, with T = 9 K.

  Raises:
    UsageError: a setting is out of range.
  """
  if size not in SIZES:
    raise UsageError(
      f"size={size} is not the width of a grid; allowed: {SIZES[0]} to "
      f"{SIZES[-1]}"
    )
  name = f"grid(size={size}, visible={visible}, max_turns={max_turns})"
  length = (MOVES + 1 + len(STEPS) + 1) * max_turns
  environment = make_environment(size, max_turns)

  def problems(ids: Array) -> Problems:
    facts = _facts(ids, size)
    seen = jax.vmap(functools.partial(_observe, size))(facts)
    if visible:
      seen = jax.vmap(_map)(facts)
    return Problems(
      prompts=seen, prompt_mask=jnp.ones(seen.shape, bool), ids=ids, facts=facts
    )

  def train(key: Array, step: Array, n: int) -> Problems:
    return problems(numbered_problems.train_ids(key, step, n, PROBLEMS))

  def test(n: int) -> Problems:
    ids = numbered_problems.test_ids(n, PROBLEMS, name)
    return problems(jnp.asarray(ids, jnp.int32))

  def gold(problems: Problems) -> tuple[Array, Array]:
    keys = jax.random.split(jax.random.key(0), len(problems.ids))
    return demonstrate(
      make_environment(size, max_turns, optimal_rate=1.0, moves=MOVES),
      problems.facts,
      keys,
      length,
    )

  return turns.make_task(
    environment,
    name=name,
    vocab_size=len(WORDS),
    eos_id=EOS,
    pad_id=PAD,
    prompt_length=size * size if visible else len(STEPS) + 1,
    completion_length=length,
    train=train,
    test=test,
    decode=decode,
    gold=gold,
  )


def make_environment(
  size: int,
  max_turns: int,
  optimal_rate: float = OPTIMAL_RATE,
  moves: int = 2,
) -> Environment:
  """Returns the environment.

  Args:
    size: W.
    max_turns: K.
    optimal_rate: rate at which a move of the expert is on a shortest path.
    moves: number of moves of a turn of the expert.
  """

  def reset(facts: dict[str, Array]) -> dict[str, Array]:
    state = {**facts, "made": jnp.int32(0)}  # number of moves
    return {**state, "shortest": _distance_left(state)}

  def step(state, tokens: Array, start: Array, end: Array) -> Reply:
    directions = jnp.take(
      tokens, start + jnp.arange(MOVES), mode="fill", fill_value=PAD
    )
    count = end - start - 1
    is_move = (directions >= NORTH) & (directions <= WEST)
    is_written = jnp.arange(MOVES) < count
    is_valid = (count >= 1) & (count <= MOVES) & (is_move | ~is_written).all()
    before, goes_on = _distance_left(state), is_valid
    for i in range(MOVES):
      moved, is_free = _move(size, state, directions[i] - NORTH)
      is_made = goes_on & is_written[i] & ~_is_reached(state)
      state = jax.tree.map(
        lambda new, old, is_made=is_made: jnp.where(is_made, new, old),
        moved,
        state,
      )
      goes_on &= is_free
    left = _distance_left(state)
    return Reply(
      state=state,
      tokens=_observe(size, state),
      length=jnp.int32(len(STEPS) + 1),
      reward=(before - left) / state["shortest"],
      done=_is_reached(state),
    )

  def outcome(state, end: Array) -> Outcome:
    del end
    reached = _is_reached(state)
    share = state["shortest"] / jnp.maximum(state["made"], 1)
    return Outcome(
      score=jnp.where(reached, share, 0.0),
      correct=reached.astype(jnp.int8),
      answer_id=jnp.where(reached, state["made"], -1),
      components={"key": state["has_key"].astype(jnp.float32)},
    )

  def act(state, key: Array) -> tuple[Array, Array]:
    directions = []
    for i in range(moves):
      rate_key, move_key = jax.random.split(jax.random.fold_in(key, i))
      left = [
        _distance_left(_move(size, state, direction)[0])
        for direction in range(len(STEPS))
      ]
      optimal = jax.random.bernoulli(rate_key, optimal_rate)
      drawn = jax.random.randint(move_key, (), 0, len(STEPS))
      direction = jnp.where(optimal, jnp.argmin(jnp.stack(left)), drawn)
      # No move is made after the door.
      is_made = ~_is_reached(state)
      directions.append(jnp.where(is_made, direction + NORTH, EOS))
      state = jax.tree.map(
        lambda new, old, is_made=is_made: jnp.where(is_made, new, old),
        _move(size, state, direction)[0],
        state,
      )
    tokens = jnp.stack([*directions, jnp.int32(EOS)])
    return tokens, (tokens != EOS).sum() + 1

  return Environment(max_turns, reset, step, outcome, act)


def _move(size: int, state: dict, direction) -> tuple[dict, Array]:
  """Returns the state after one move, and whether no wall was in its way."""
  target = state["place"] + jnp.asarray(STEPS)[direction]
  cell, is_inside = _index(size, target)
  is_free = is_inside & ~state["walls"][cell]
  place = jnp.where(is_free, target, state["place"])
  index, _ = _index(size, place)
  moved = {
    **state,
    "place": place,
    "index": index,
    "has_key": state["has_key"] | (index == state["key"]),
    "made": state["made"] + 1,
  }
  return moved, is_free


def _index(size: int, place: Array) -> tuple[Array, Array]:
  """Returns the number of the cell at a row and column, and if it exists."""
  is_inside = ((place >= 0) & (place < size)).all()
  row, column = jnp.clip(place, 0, size - 1)
  return row * size + column, is_inside


def _is_reached(state: dict) -> Array:
  return state["has_key"] & (state["index"] == state["door"])


def _distance_left(state: dict) -> Array:
  """Returns the length of a shortest way to the key, if needed, and door."""
  index = state["index"]
  to_key = state["from_key"][index] + state["from_door"][state["key"]]
  return jnp.where(state["has_key"], state["from_door"][index], to_key)


def _observe(size: int, state: dict) -> Array:
  """Returns the four cells around, and whether the key is held, `[5]`."""
  cells = []
  for direction in STEPS:
    cell, is_inside = _index(size, state["place"] + jnp.array(direction))
    is_wall = ~is_inside | state["walls"][cell]
    shows_key = (cell == state["key"]) & ~state["has_key"]
    seen = jnp.where(shows_key, KEY, FREE)
    seen = jnp.where(cell == state["door"], DOOR, seen)
    cells.append(jnp.where(is_wall, WALL, seen))
  return jnp.stack([*cells, jnp.where(state["has_key"], HELD, EMPTY)])


def _map(facts: dict) -> Array:
  """Returns all cells, row by row, `[N]`."""
  cells = jnp.where(facts["walls"], WALL, FREE)
  cells = cells.at[facts["key"]].set(KEY).at[facts["door"]].set(DOOR)
  return cells.at[facts["index"]].set(HERE)


@functools.partial(jax.jit, static_argnums=1)
def _facts(ids: Array, size: int) -> dict[str, Array]:
  """Returns walls, places and distances of the problems with ids `[P]`."""
  count = size * size

  def distances(walls: Array, start: Array) -> Array:
    """Returns the length of a shortest way from a cell to every cell, `[N]`."""

    def relax(_, distance: Array) -> Array:
      around = jnp.pad(distance.reshape(size, size), 1, constant_values=FAR)
      shifted = jnp.stack(
        [
          around[:-2, 1:-1],
          around[2:, 1:-1],
          around[1:-1, :-2],
          around[1:-1, 2:],
        ]
      )
      nearer = jnp.minimum(distance, shifted.min(0).reshape(count) + 1)
      return jnp.where(walls, FAR, nearer)

    first = jnp.full(count, FAR).at[start].set(0)
    return jax.lax.fori_loop(0, count, relax, first)

  def facts(number: Array) -> dict[str, Array]:
    key = jax.random.fold_in(jax.random.key(0), number)
    wall_key, place_key = jax.random.split(key)
    start, key, door = jax.random.permutation(place_key, count)[:3]
    walls = jax.random.bernoulli(wall_key, WALL_RATE, (count,))
    walls = walls.at[jnp.stack([start, key, door])].set(False)
    to = distances(walls, key)
    is_blocked = (to[start] >= FAR) | (to[door] >= FAR)
    walls &= ~is_blocked
    return {
      "walls": walls,
      "place": jnp.stack([start // size, start % size]),
      "index": start,
      "has_key": jnp.bool_(False),
      "key": key,
      "door": door,
      "from_key": distances(walls, key),
      "from_door": distances(walls, door),
    }

  return jax.vmap(facts)(ids)


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `N E <eos> wall free`, unpadded."""
  return " ".join(WORDS[i] for i in np.trim_zeros(np.asarray(ids)))
