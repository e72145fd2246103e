"""Evidence: ask for noisy observations, then state a probability.

A task of several turns, on the device. A fact is true with probability 1/2. A
query costs `cost` and returns one observation, which is right with probability
`quality`. An answer states the probability of the fact in tenths, and is paid
1 - (p - fact)^2, the Brier score:

  prompt     fact ?
  episode    query <eos> yes query <eos> yes answer .8 <eos>

The best expected score, of which `optimum` computes the value, is that of a
policy that asks until the posterior is sure enough, and then states it. An
episode without an answer scores what its queries cost. The observations are
facts of the problem: all samples that ask as often see the same ones.

Shapes: P problems, K turns.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import numbered_problems, turns
from experiments.tasks.task import Problems, Task
from rl import UsageError
from rl.sampling.environment import Environment, Outcome, Reply

Array = jax.Array
PAD, EOS, FACT, ASK, QUERY, ANSWER, NO, YES, INVALID, TENTHS = range(10)
WORDS = (
  *("<pad>", "<eos>", "fact", "?", "query", "answer", "no", "yes", "invalid"),
  *(f".{n}" for n in range(10)),
  "1.",
)
PROBLEMS = 2**20


def evidence(
  max_turns: int = 6, quality: float = 0.75, cost: float = 0.02
) -> Task:
  """Builds the task of asking for evidence.

  A turn is `query`, or `answer` and a probability. Any other turn has the reply
  "invalid" and costs as much as a query. The reward of a query is minus its
  cost, and that of an answer its Brier score, so that the score is the sum of
  the rewards. A verdict is right if the answer is on the side of the fact. The
  expert asks a random number of times, and answers at random.

  Args:
    max_turns: K, largest number of turns, at least 1.
    quality: probability that an observation is right, above 1/2 and below 1.
    cost: price of a query, at least 0.

  Returns:
    The task, with L = 2 and T = 4 K.

  Raises:
    UsageError: a setting is out of range.
  """
  if not 0.5 < quality < 1:
    raise UsageError(f"quality={quality} must be above 1/2 and below 1")
  if cost < 0:
    raise UsageError(f"cost={cost} must be at least 0")
  environment = make_environment(max_turns, cost)
  name = f"evidence(max_turns={max_turns}, quality={quality:g}, cost={cost:g})"

  def problems(ids: Array) -> Problems:
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.key(0), ids)
    uniforms = jax.vmap(lambda key: jax.random.uniform(key, (max_turns + 1,)))
    uniform = uniforms(keys)
    fact = uniform[:, 0] < 0.5
    is_right = uniform[:, 1:] < quality
    prompts = jnp.tile(jnp.array([FACT, ASK]), (len(ids), 1))
    return Problems(
      prompts=prompts,
      prompt_mask=jnp.ones(prompts.shape, bool),
      ids=ids,
      facts={"fact": fact, "observations": fact[:, None] == is_right},
    )

  def train(key: Array, step: Array, n: int) -> Problems:
    return problems(numbered_problems.train_ids(key, step, n, PROBLEMS))

  def test(n: int) -> Problems:
    ids = numbered_problems.test_ids(n, PROBLEMS, name)
    return problems(jnp.asarray(ids, jnp.int32))

  def gold(problems: Problems) -> tuple[Array, Array]:
    certain = TENTHS + 10 * problems.facts["fact"].astype(jnp.int32)
    fill = jnp.full_like(certain, ANSWER), certain, jnp.full_like(certain, EOS)
    texts = jnp.stack(fill, -1)
    texts = jnp.pad(texts, ((0, 0), (0, 4 * max_turns - 3)))
    return texts, jnp.full(len(texts), 3)

  return turns.make_task(
    environment,
    name=name,
    vocab_size=len(WORDS),
    eos_id=EOS,
    pad_id=PAD,
    prompt_length=2,
    completion_length=4 * max_turns,
    train=train,
    test=test,
    decode=decode,
    gold=gold,
  )


def make_environment(max_turns: int, cost: float) -> Environment:
  """Returns the environment; its state counts the turns."""

  def reset(facts: dict[str, Array]) -> dict[str, Array]:
    return {
      **facts,
      "queries": jnp.int32(0),
      "paid": jnp.float32(0),
      "answer": jnp.int32(-1),
    }

  def step(state, tokens: Array, start: Array, end: Array) -> Reply:
    first = tokens[start]
    tenths = tokens[start + 1] - TENTHS
    is_query = (end == start + 2) & (first == QUERY)
    is_answer = (end == start + 3) & (first == ANSWER)
    is_answer &= (tenths >= 0) & (tenths <= 10)
    brier = 1 - (tenths / 10 - state["fact"]) ** 2
    reward = jnp.where(is_answer, brier, -cost)
    seen = state["observations"][state["queries"]]
    word = jnp.where(is_query, jnp.where(seen, YES, NO), INVALID)
    return Reply(
      state={
        **state,
        "queries": state["queries"] + is_query,
        "paid": state["paid"] + reward,
        "answer": jnp.where(is_answer, tenths, -1),
      },
      tokens=word[None],
      length=jnp.int32(1),
      reward=reward,
      done=is_answer,
    )

  def outcome(state, end: Array) -> Outcome:
    del end
    answer, fact = state["answer"], state["fact"]
    is_right = jnp.where(fact, answer > 5, (answer >= 0) & (answer < 5))
    return Outcome(
      score=state["paid"],
      correct=is_right.astype(jnp.int8),
      answer_id=answer,
      components={"queries": state["queries"].astype(jnp.float32)},
    )

  def act(state, key: Array) -> tuple[Array, Array]:
    uniform = jax.random.uniform(key, (2,))
    asks = uniform[0] < 0.5
    tenths = (11 * uniform[1]).astype(jnp.int32)
    query = jnp.array([QUERY, EOS, PAD])
    answer = jnp.stack([ANSWER, TENTHS + tenths, EOS])
    del state
    return jnp.where(asks, query, answer), jnp.where(asks, 2, 3)

  return Environment(max_turns, reset, step, outcome, act)


def optimum(max_turns: int, quality: float, cost: float) -> float:
  """Returns the best expected score, by dynamic programming.

  The state is the number of queries and of the answers "yes" among them, and
  the last turn must answer. Probabilities are stated in tenths.
  """

  def value(asked: int, yes: int) -> float:
    odds = (quality / (1 - quality)) ** (2 * yes - asked)
    p = odds / (1 + odds)  # posterior of the fact
    stated = round(10 * p) / 10
    answer = 1 - p * (1 - stated) ** 2 - (1 - p) * stated**2
    if asked + 1 == max_turns:
      return answer
    p_yes = p * quality + (1 - p) * (1 - quality)
    go_on = p_yes * value(asked + 1, yes + 1)
    go_on += (1 - p_yes) * value(asked + 1, yes) - cost
    return max(answer, go_on)

  return value(0, 0)


def decode(ids: Array) -> str:
  """Returns the text of tokens, such as `query <eos> yes`, unpadded."""
  return " ".join(WORDS[i] for i in np.trim_zeros(np.asarray(ids)))
