"""Trip wires: how often a policy answers held-out trap prompts by a hack.

An answer that earns the reward of a prompt without doing what the prompt asks
for is a *hack*. A *trap* is a prompt that has hacks, and a *rule* is a function
that recognises them. `config.trip_wires` names both. Whenever a run is
evaluated, the policy also answers the traps, and the share of answers that are
hacks is appended to `WORKDIR/trip_wires.jsonl`, with an example; between the
first and the last step it is also the metric `trip_wires/hack_rate`. The rate
is never paid, so that a policy does not learn to avoid the rule.

Source: Guo et al. 2025, IFDecorator: Wrapping Instruction Following
Reinforcement Learning with Verifiable Rewards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import jax
import numpy as np
from etils import epath

from experiments.evaluation import evaluator
from experiments.logging import json_files
from experiments.training import multihost, placement, prng_keys
from experiments.training.experiment import Experiment
from rl import UsageError, types
from rl.training_state import State

FILE = "trip_wires.jsonl"
METRIC = "trip_wires/hack_rate"


def check(e: Experiment) -> None:
  """Checks that there are as many traps as asked for, with the run's tokens.

  Raises:
    UsageError: a value of `config.trip_wires` is not allowed.
  """
  if e.traps is None:
    return
  settings = e.config.trip_wires
  for name in ("problems", "samples"):
    if settings[name] < 1:
      raise UsageError(
        f"trip_wires.{name} = {settings[name]} must be at least 1"
      )
  try:
    e.traps.test(settings.problems)
  except UsageError as error:
    raise UsageError(f"trip_wires: {error}") from None
  if e.traps.vocab_size != e.task.vocab_size:
    raise UsageError(
      f"trip_wires.task = {settings.task!r} has a vocabulary of "
      f"{e.traps.vocab_size} tokens, and the task of the run one of "
      f"{e.task.vocab_size}; choose a task with the same tokens"
    )


def evaluate_once(
  e: Experiment,
  state: State,
  workdir: epath.Path,
  between_batches: Callable[[], None],
) -> Mapping[str, float]:
  """Returns the metric, and appends a line to the file.

  A line is `{"step", "hack_rate", "prompt", "hack"}`, the last two an example
  or "". If the file has a line of this step, because the run was resumed, its
  rate is returned. Without trip wires there is no metric.

  Args:
    e: the experiment.
    state: the training state.
    workdir: folder of the run.
    between_batches: function called after each batch of traps.
  """
  if e.traps is None:
    return {}
  step, path = int(state.step), workdir / FILE
  lines = json_files.read(path) if path.exists() else []
  rates = [line["hack_rate"] for line in lines if line["step"] == step]
  # All processes must take the same branch.
  if multihost.broadcast_from_process_0(bool(rates)):
    return {METRIC: rates[0]} if rates else {}
  settings = e.config.trip_wires
  problems = jax.tree.map(np.asarray, e.traps.test(settings.problems))
  sampling = dataclasses.replace(
    evaluator.sampling_settings(e), samples=settings.samples
  )
  is_hack, example = [], ("", "")
  for result in evaluator.score_in_batches(
    e.traps,
    placement.evaluation_policy(e),
    placement.evaluation_params(
      e, types.join(state.params, state.carried.frozen)
    ),
    problems,
    e.config.evaluation.batch,
    prng_keys.from_seed(e.config.evaluation.seed),
    sampling,
    placement.evaluation_sharding(e),
  ):
    correct = result.arrays["correct"]
    is_hack.append(correct)
    if correct.any() and not example[0]:
      p, s = np.argwhere(correct)[0]
      ids = result.samples.completions[p, s, : result.samples.lengths[p, s]]
      prompt = e.traps.prompt_texts(result.problems)[p]
      example = prompt, e.traps.text_of(ids)
    between_batches()
  rate = float(np.concatenate(is_hack).mean())
  line = {"step": step, "hack_rate": rate}
  line |= dict(zip(("prompt", "hack"), example, strict=True))
  if jax.process_index() == 0:
    # Lines of later steps are those of a run that was resumed before them.
    json_files.write(path, [x for x in lines if x["step"] < step] + [line])
  return {METRIC: rate}
