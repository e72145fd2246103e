"""One config for each reward, with all other settings equal where possible.

  python -m experiments.run --config experiments/configs/reward.py:majority \
    --workdir runs/majority

The tasks are those that are scored on the device. The policy is trained on the
reward alone, and the evaluation uses the verdicts of the task, so the trained
behavior can be compared with the intended one. The bake-off
(`python -m experiments.studies.bakeoff --rewards`) trains these configs.
"""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict

from experiments.cli import config_names
from experiments.configs import method as method_configs

GRPO = "grpo(beta=0.0)"
# Tasks. In the first three a judge (a process reward model) scores the steps:
# an exact checker;
CHAIN = method_configs.CHAIN
# a judge that accepts any number of filler steps `+ 0 r ;`;
FILLER = "chain(operations=3, prm='filler')"
# a judge that scores each step without the later ones: it accepts filler steps,
# and any running value as the answer.
LOCAL = "chain(operations=3, prm='local')"
# The reward may read the right answer.
REFERENCE = "chain(operations=3, reference=True)"
# Training problems come in two wordings.
REWORDED = "chain(operations=3, reworded=True)"
# The answer is one of four options.
CHOICE = "choice(operations=3)"
CLOSENESS = method_configs.CLOSENESS
# Sampler with four continuations of every prefix, whose tokens count as sampled
# tokens.
CONTINUED = "prefix_values(continuations=4, steps=5)"
# The same, with continuations that answer at once.
FORCED = "prefix_values(continuations=4, steps=5, forced=True)"
# PPO with the settings of PAR, and the scores of ten reference responses, the
# most that PAR has. They are samples of "ref", the base policy.
PAR = "ppo(lam=0.95, beta=0.005)"
REFERENCES = "reference_scores(count=10)"

# Keys of each entry:
#   family   the heading under which the bake-off lists the config
#   summary  a phrase that describes the reward
#   reward   `config.reward`
#   step_reward  `config.step_reward`, for methods that read step scores
#   task     default: CHAIN
#   method   default: GRPO
#   sampler  default: that of the method
#   paper    part of the `Source` line of the paper that the config realises,
#            for `python -m experiments.catalogue papers`
ENTRIES: dict[str, dict[str, Any]] = {
  "adaptive_token_price": {
    "family": "length",
    "summary": "a right answer, less a price per token that follows accuracy",
    # A right answer takes 15 tokens, which cost .15 at the start. The price
    # moves with the accuracy of the batch, which is near .7 at the start.
    "reward": "adaptive_token_price(price=0.01, reference=0.7, rate=0.01)",
  },
  "answer_consistency": {
    "family": "outcome",
    # Form and verdict add 1 each, and the same option twice another 1.
    "summary": "a right option, and the same one after the options move",
    "reward": "verdict() + answered + answer_consistency()",
    "task": CHOICE,
    "paper": "(ACRE)",
  },
  "answer_confidence": {
    "family": "label-free",
    # The reward does not depend on the tokens before the answer.
    "summary": "confidence of the policy in the answer that it gives",
    "reward": "answer_confidence()",
  },
  "arctan": {
    "family": "shapes",
    "summary": "arctan of closeness, relative to the base policy",
    "reward": "arctan(references='sampler/reference_scores')",
    "task": CLOSENESS,
    "method": PAR,
    "sampler": REFERENCES,
  },
  "ceiling": {
    "family": "shapes",
    # All values with a closeness of at least one half have the same reward.
    "summary": "closeness up to a ceiling of one half",
    "reward": "ceiling(highest=0.5)",
    "task": CLOSENESS,
  },
  "centered": {
    "family": "shapes",
    "summary": "closeness, less that of the base policy",
    "reward": "centered(references='sampler/reference_scores')",
    "task": CLOSENESS,
    "method": PAR,
    "sampler": REFERENCES,
  },
  "charged_where_easy": {
    "family": "length",
    "summary": "a right answer, with a charge for length on easy prompts",
    "reward": "charged_where_easy()",
  },
  "clipped": {
    "family": "shapes",
    "summary": "closeness, clipped at one deviation of all scores so far",
    "reward": "clipped()",
    "task": CLOSENESS,
  },
  "clipped_confidence": {
    "family": "confidence of the right",
    "summary": "a right answer, and clipped confidence in it",
    "reward": "clipped_confidence()",
  },
  "cluster_share": {
    "family": "label-free",
    "summary": "share of the group that gives the same answer",
    # Groups of one answer are left out, and those of many answers.
    "reward": "cluster_share(low=0.1, high=2.0)",
  },
  "co_reward": {
    "family": "label-free",
    "summary": "agreement with the majority answer to another wording",
    "reward": "co_reward()",
    "task": REWORDED,
  },
  "component": {
    "family": "outcome",
    # The reward is for the form alone: any digit as the answer has it.
    "summary": "the component 'answered': any answer, right or wrong",
    "reward": "component(name='answered')",
  },
  "debiased_probability": {
    "family": "reference answer",
    "summary": "debiased probability of the true answer; a bonus for ending",
    "reward": "debiased_probability()",
    "task": REFERENCE,
  },
  "distinct_ngrams": {
    "family": "outcome",
    # A text of one token has no repetition.
    "summary": "share of distinct 2-grams: a text that does not repeat itself",
    "reward": "distinct_ngrams(n=2)",
  },
  "ensemble": {
    "family": "mixes",
    "summary": "the worse of two rewards, majority and confidence",
    # Neither member reads a verdict. A part of weight 0 adds nothing; another
    # part reads its value.
    "reward": (
      "vote = majority(); sure = answer_confidence(); "
      "ensemble(members=('vote', 'sure'), rule='worst')"
    ),
  },
  "gains": {
    "family": "steps",
    "summary": "what each step adds to the probability of success",
    "step_reward": "gains()",
    "method": "sum_form",
    "sampler": CONTINUED,
  },
  "gains_forced": {
    "family": "steps",
    "summary": "outcome and progress, by answers forced after each step (MRT)",
    "step_reward": "gains()",
    "method": "progress(alpha=1.0)",
    "paper": "(MRT)",
    "sampler": FORCED,
  },
  "gains_of_prover": {
    "family": "steps",
    "summary": "outcome and progress of a prover, the base's best of 4 (PAV)",
    "step_reward": "gains(tries=4)",
    "method": "progress(alpha=3.0, prover='ref')",
    "paper": "(PAV)",
    "sampler": "prefix_values(continuations=4, steps=5, prover='ref')",
  },
  "gated_process": {
    "family": "mixes",
    "summary": "the verdict, and the mean step score where it is right",
    "reward": "right = verdict(); right + 0.5 * mean_step() * (right > 0.5)",
    # `mean_step_local` has this process reward without the verdict.
    "task": LOCAL,
  },
  "group_log_mean_advantages": {
    "family": "reference answer",
    "summary": "what a thought adds to the log of the group's mean probability",
    "reward": "group_log_mean_advantages()",
    "task": REFERENCE,
  },
  "harmonized_length": {
    "family": "length",
    "summary": "the verdict, and harmonized length of right answers only",
    "reward": (
      "right = verdict(); right + 0.2 * harmonized_length() * (right > 0.5)"
    ),
  },
  "harmonized_length_alone": {
    "family": "length",
    # The reward is for shortness alone, and the shortest text has no answer.
    "summary": "harmonized length, with nothing that checks the answer",
    "reward": "harmonized_length()",
  },
  "information_gain": {
    "family": "steps",
    "summary": "rise of the true answer's probability by each step (IGPO)",
    "step_reward": "information_gain()",
    "paper": "(IGPO)",
    "method": "igpo()",
    "task": REFERENCE,
  },
  "last_step": {
    "family": "process as outcome",
    "summary": "score of the last step, by a judge that never looks ahead",
    "reward": "last_step()",
    "task": LOCAL,  # the judge accepts any running value as the answer
  },
  "late_preference": {
    "family": "shapes",
    "summary": "a late sigmoid of closeness, relative to the base policy",
    "reward": "late_preference(references='sampler/reference_scores')",
    "task": CLOSENESS,
    "method": PAR,
    "sampler": REFERENCES,
  },
  "length_charge": {
    "family": "length",
    "summary": "the verdict, less a charge for length",
    # A right answer takes 15 tokens. Its charge of 1.1 exceeds its verdict of
    # 1, so an empty text has the highest reward.
    "reward": "verdict() + length_charge(free=4, price=0.1)",
  },
  "linear_schedule": {
    "family": "mixes",
    "summary": "from the process to the verdict, linearly over training",
    # After 40 training steps the weight of this part is 0.
    "reward": "verdict() + linear(1.0, 0.0, 40) * last_step()",
    "task": LOCAL,
  },
  "log_probability": {
    "family": "reference answer",
    "summary": "log-probability of the true answer",
    "reward": "log_probability()",
    "task": REFERENCE,
  },
  "log_sigmoid": {
    "family": "shapes",
    "summary": "log sigmoid of closeness, relative to the base policy (LSC)",
    "reward": "log_sigmoid(references='sampler/reference_scores')",
    "task": CLOSENESS,
    "method": "grpo(beta=0.04)",  # has the base policy as "ref"
    "sampler": "reference_scores(count=8)",
  },
  "majority": {
    "family": "label-free",
    "summary": "the most frequent answer of the group counts as right",
    "reward": "majority()",
  },
  "mean_log_probability": {
    "family": "reference answer",
    "summary": "mean log-probability of the tokens of the true answer",
    "reward": "mean_log_probability()",
    "task": REFERENCE,
  },
  "mean_probability": {
    "family": "reference answer",
    "summary": "mean probability of the tokens of the true answer",
    "reward": "mean_probability()",
    "task": REFERENCE,
  },
  "mean_step": {
    "family": "process as outcome",
    # Filler steps before a wrong answer raise the mean.
    "summary": "mean step score, by a judge that accepts filler",
    "reward": "mean_step()",
    "task": FILLER,
  },
  "mean_step_local": {
    "family": "process as outcome",
    "summary": "mean step score, by a judge that never looks ahead",
    "reward": "mean_step()",
    "task": LOCAL,
  },
  "min_max": {
    "family": "shapes",
    "summary": "closeness, scaled to the range of all scores so far",
    "reward": "min_max()",
    "task": CLOSENESS,
    "method": PAR,  # a method that divides by a deviation would cancel it
  },
  "negative_entropy": {
    "family": "label-free",
    "summary": "negative entropy: certainty of the policy",
    "reward": "negative_entropy()",
  },
  "nonlinear": {
    "family": "process as outcome",
    # Each step that the judge accepts raises the reward, also a filler step.
    "summary": "PSPO's shape of step scores: more steps are better",
    "reward": "nonlinear()",
    "task": FILLER,
  },
  "normalized_steps": {
    "family": "steps",
    "summary": "normalized step scores, by a judge that accepts filler",
    "step_reward": "normalized_steps()",
    "task": FILLER,
    "method": "sum_form",
  },
  "outcome_centered": {
    "family": "steps",
    "summary": "step scores centred on the outcome, by a judge of filler",
    "step_reward": "outcome_centered()",
    "task": FILLER,
    "method": "sum_form",
  },
  "phase_entropy": {
    "family": "confidence of the right",
    "summary": "a right answer, with little wavering in the thought",
    # The thought ends at ANS, which is token 4.
    "reward": "phase_entropy(thought_end=4)",
  },
  "polynomial": {
    "family": "shapes",
    "summary": "a polynomial of closeness, relative to the base policy",
    "reward": "polynomial(references='sampler/reference_scores')",
    "task": CLOSENESS,
    "method": PAR,
    "sampler": REFERENCES,
  },
  "posterior": {
    "family": "mixes",
    "summary": "posterior reward: a judge scores the thought of right answers",
    # The part of weight 0 adds nothing; the part "right" reads its value.
    "reward": "judge = step_product(); posterior(thoughts='judge')",
    "task": LOCAL,  # the judge scores each step without the later ones
  },
  "preference": {
    "family": "shapes",
    "summary": "PAR: the probability that closeness beats the base policy",
    "reward": "preference(references='sampler/reference_scores')",
    "task": CLOSENESS,
    "method": PAR,
    "sampler": REFERENCES,
  },
  "probability": {
    "family": "reference answer",
    "summary": "probability of the true answer after the thought",
    "reward": "probability()",
    "task": REFERENCE,
  },
  "product": {
    "family": "mixes",
    "summary": "the verdict times the product of step scores",
    "reward": "product(verdict(), step_product())",
    # `step_product` has this process reward without the verdict.
    "task": LOCAL,
  },
  "relative_length": {
    "family": "length",
    "summary": "a right answer, and a shorter one than others of the group",
    "reward": "relative_length(alpha=0.2)",
  },
  "self_aligned_reward": {
    "family": "confidence of the right",
    "summary": "a right answer, likelier with the question than without it",
    "reward": "self_aligned_reward()",
  },
  "self_certainty": {
    "family": "label-free",
    "summary": "self-certainty: distance of the policy from a uniform guess",
    "reward": "self_certainty()",
  },
  "significant_gains": {
    "family": "steps",
    "summary": "outcome, and gains of steps that exceed their noise (VSRM)",
    "step_reward": "significant_gains()",
    "paper": "(VSRM)",
    "method": "progress(alpha=1.0)",
    "sampler": FORCED,
  },
  "standardized": {
    "family": "shapes",
    "summary": "closeness, standardized by all scores so far",
    "reward": "standardized()",
    "task": CLOSENESS,
    "method": PAR,  # as in `min_max`
  },
  "step_product": {
    "family": "process as outcome",
    "summary": "product of step scores, by a judge of single steps",
    "reward": "step_product()",
    "task": LOCAL,
  },
  "stratified": {
    "family": "mixes",
    "summary": "a model's score within the bands of the verdict",
    # The model's score is the certainty of the policy. The part of weight 0
    # adds nothing; the part "right" reads its value.
    "reward": (
      "model = negative_entropy(); "
      "stratified(model='model', alpha=0.1, beta=0.1)"
    ),
  },
  "tanh": {
    "family": "shapes",
    "summary": "tanh of closeness, relative to the base policy",
    "reward": "tanh(references='sampler/reference_scores')",
    "task": CLOSENESS,
    "method": PAR,
    "sampler": REFERENCES,
  },
  "task": {
    "family": "shapes",
    # The reward is graded, while only the value of the target is right.
    "summary": "closeness, the graded score of the task, unchanged",
    "reward": "task()",
    "task": CLOSENESS,
  },
  "token_f1": {
    "family": "reference answer",
    # The full completion is compared with the answer, so all other tokens lower
    # the reward.
    "summary": "token F1: words shared with the true answer",
    "reward": "token_f1()",
    "task": REFERENCE,
  },
  "trusted": {
    "family": "mixes",
    "summary": "a judge, trusted where it agrees with the verdict",
    # The part of weight 0 adds nothing; the part "right" reads its value.
    "reward": "judge = step_product(); trusted(thoughts='judge', horizon=40.0)",
    "task": LOCAL,  # the judge scores each step without the later ones
  },
  "verdict": {
    "family": "outcome",
    # The bake-off compares all other rewards with this one.
    "summary": "the verdict, with which all others are compared",
    "reward": "verdict()",
  },
  "verdict_and_process": {
    "family": "mixes",
    "summary": "the verdict plus the score of the last step, without a gate",
    "reward": "verdict() + last_step()",
    # `last_step` has this process reward without the verdict.
    "task": LOCAL,
  },
  "weibull": {
    "family": "process as outcome",
    # The judge accepts filler steps; a solution of the prompts has four steps.
    "summary": "a Weibull shape of step scores: about four steps are best",
    "reward": "weibull()",
    "task": FILLER,
  },
  "worst_step": {
    "family": "process as outcome",
    "summary": "score of the worst step, by a judge that accepts filler",
    "reward": "worst_step()",
    "task": FILLER,
  },
  "worst_step_local": {
    "family": "process as outcome",
    # The judge accepts a completion that only repeats the prompt's first value.
    "summary": "score of the worst step, by a judge that never looks ahead",
    "reward": "worst_step()",
    "task": LOCAL,
  },
  "z_scores": {
    "family": "mixes",
    "summary": "sum of the z-scores of three rewards",
    # `length_charge` sums the same charge without scaling it, so that it
    # outweighs the verdict.
    "reward": (
      "z_scores(verdict(), 0.2 * finished(), "
      "0.2 * length_charge(free=4, price=0.1))"
    ),
  },
}


def names() -> list[str]:
  """Returns the names of the configs, sorted."""
  return sorted(ENTRIES)


def summary(name: str) -> str:
  return ENTRIES[name]["summary"]


def family(name: str) -> str:
  """Returns the heading under which the bake-off lists a config."""
  return ENTRIES[name]["family"]


def get_config(name: str = "") -> ConfigDict:
  """Returns a config of RL with one reward, from the task's base policy.

  Prompts, samples and updates are those of `method.on_task`.

  Args:
    name: one of `names()`.

  Raises:
    UsageError: if there is no such config.
  """
  config_names.check("reward", name, names())
  entry = ENTRIES[name]
  task = entry.get("task", CHAIN)
  changes = {"rollout.sampler": entry.get("sampler", "")}
  config = method_configs.on_task(entry.get("method", GRPO), task, changes)
  config.reward = entry.get("reward", "")
  config.step_reward = entry.get("step_reward", "")
  return config
