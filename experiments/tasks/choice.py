"""Choice: chained arithmetic whose answer is one of several shown options.

The task, scored on the device, for rewards that ask whether an answer follows
from its thought or from the position of an option. The prompt of `chain` is
followed by J different digits, of which one is the result; the answer is its
position, counted from 1:

  prompt     4 + 3 * 2 = 7 4 9 1
  solution   + 3 7 ; * 2 4 ; ANS 2 <eos>     the result, 4, is the second option

The options and their order depend on the problem alone. For
`rewards.outcome.answer_consistency` each problem also has its options in
another order: "task/option_orders" `[P, S, J]`, the same for all samples of a
prompt, is the first position of the option at each position, and the view
"shuffled_options" `[P, S J]` has, for each sample, its thought after the prompt
with the new order, followed by `ANS j EOS` for each position j; its mask is
True on the token j.

Shapes: P problems, S samples per problem, L prompt tokens, T completion tokens,
N operations, J options.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from experiments.tasks import chain as chains
from experiments.tasks.task import Judged, Problems, Task
from rewards.tasks import chain as rules
from rl import UsageError, types

Array = jax.Array

OPTIONS = range(2, 10)  # a position is one digit
VIEW, ORDERS = "shuffled_options", "option_orders"


def choice(operations: int = 3, options: int = 4) -> Task:
  """Builds the task of chained arithmetic with options.

  Demonstrations have the errors of `chain`. A demonstration whose result is no
  option answers with an option that is chosen by this result.

  Args:
    operations: N, number of operations, 1 to 5.
    options: J, number of options, 2 to 9.

  Raises:
    UsageError: a number is out of range.
  """
  if options not in OPTIONS:
    nearest = min(max(options, OPTIONS[0]), OPTIONS[-1])
    raise UsageError(
      f"options={options} must be from {OPTIONS[0]} to {OPTIONS[-1]}; the "
      f"nearest is {nearest}"
    )
  base = chains.chain(operations)

  def with_options(problems: Problems) -> Problems:
    facts = problems.facts
    truth = rules.result(**facts)
    shown, order = jax.vmap(_draw_options, (0, 0, None))(
      problems.ids, truth, options
    )
    return problems.replace(
      prompts=_with_digits(problems.prompts, shown),
      prompt_mask=jnp.ones(
        (len(shown), problems.prompts.shape[-1] + options), bool
      ),
      facts={**facts, "options": shown, "order": order},
    )

  def score(
    problems: Problems, completions: Array, lengths: Array, finished: Array
  ) -> Judged:
    del finished  # an answer counts only with EOS
    shown, order = problems.facts["options"], problems.facts["order"]
    facts = {
      name: problems.facts[name][:, None]
      for name in ("start", "operators", "operands")
    }
    steps = rules.read(completions, lengths, **facts)
    position = steps.answer - 1  # [P, S]; -2 without an answer
    is_choice = (position >= 0) & (position < options)
    # Any number where the answer is no choice.
    chosen = jnp.take_along_axis(shown, position, -1)
    is_right = is_choice & (chosen == rules.result(**facts))
    return Judged(
      scores=is_right.astype(jnp.float32),
      correct=is_right.astype(jnp.int8),
      answer_ids=jnp.where(is_choice, position, -1),
      components={"answered": is_choice.astype(jnp.float32)},
      extras={
        ORDERS: jnp.broadcast_to(order[:, None], (*position.shape, options))
      },
      views={VIEW: _second_answers(problems, completions, lengths, options)},
    )

  def gold(problems: Problems) -> tuple[Array, Array]:
    completions, lengths = base.gold(problems)
    return _answer_by_position(completions, problems.facts["options"]), lengths

  def demonstrate(key: Array, problems: Problems) -> tuple[Array, Array]:
    completions, lengths = base.demonstrate(key, problems)
    return _answer_by_position(completions, problems.facts["options"]), lengths

  return dataclasses.replace(
    base,
    name=f"choice(operations={operations}, options={options})",
    prompt_length=base.prompt_length + options,
    train=lambda key, step, n: with_options(base.train(key, step, n)),
    test=lambda n: with_options(base.test(n)),
    score=score,
    demonstrate=demonstrate,
    gold=gold,
  )


def _draw_options(
  problem_id: Array, truth: Array, count: int
) -> tuple[Array, Array]:
  """Draws the options of a problem, and another order of them."""
  # The random numbers depend on the id of the problem alone.
  key = jax.random.fold_in(jax.random.key(0), problem_id)
  wrong_key, place_key, order_key = jax.random.split(key, 3)
  others = (truth + 1 + jax.random.permutation(wrong_key, 9)) % 10
  options = others[:count].at[0].set(truth)
  place = jax.random.permutation(place_key, count)
  # The digits `[J]` (J = `count`) of the options, and the first position of the
  # option at each position of the other order, `[J]`.
  return options[place], jax.random.permutation(order_key, count)


def _answer_by_position(
  completions: Array,  # [P, T], demonstrations of `chain`
  shown: Array,  # [P, J], the options
) -> Array:
  """Replaces the value after ANS by its position, or that of another option."""
  follows = jnp.roll(completions == rules.ANSWER, 1, -1)
  value = completions - rules.DIGIT
  is_option = value[..., None] == shown[:, None]
  # The position of a value that is no option is its remainder modulo J.
  position = jnp.where(
    is_option.any(-1), jnp.argmax(is_option, -1), value % shown.shape[-1]
  )
  is_value = follows & (value >= 0)
  return jnp.where(is_value, position + 1 + rules.DIGIT, completions)


def _with_digits(prompts: Array, digits: Array) -> Array:
  """Returns prompts `[P, L]` with digits `[P, J]` after them."""
  return jnp.concatenate([prompts, digits + rules.DIGIT], -1)


def _second_answers(
  problems: Problems,  # P problems
  completions: Array,  # [P, S, T]
  lengths: Array,  # [P, S]
  options: int,  # J
) -> types.Tokens:
  """Returns each thought with each answer, after options in another order."""
  shown, order = problems.facts["options"], problems.facts["order"]
  reordered = problems.replace(
    prompts=_with_digits(
      problems.prompts[:, :-options], jnp.take_along_axis(shown, order, -1)
    )
  )
  thoughts = chains.lengths_of_thoughts(completions, lengths)
  positions = jnp.tile(1 + jnp.arange(options), completions.shape[1])
  # The completions are [P, S J, T + 3]: entry s J + j has the thought of sample
  # s and the position j + 1.
  view = chains.with_answer(
    reordered,
    jnp.repeat(completions, options, 1),
    jnp.repeat(thoughts, options, 1),
    positions,
  )
  # Of `ANS j EOS` only j is scored.
  is_position = jnp.cumsum(view.mask, -1) == 2
  return view.replace(mask=view.mask & is_position)
