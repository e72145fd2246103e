"""A tabular policy and the fixed rollouts that methods and rewards are given.

The parameters are the policy's hidden states, one for each position, so the
gradient shows every position by itself. P prompts, S samples, T tokens, K
steps, V tokens of the vocabulary.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from captured import code

P, S, T, K, V, R = 8, 6, 7, 3, 5, 4
OPTIONS = 3  # answers of a multiple-choice question


def policy():
  """Reads logits and value from the row of the parameters that is the prompt's.

  A view has parameters of its own: "prompt" for the prompt's own tokens, whose
  first token alone stands in `prompts`.
  """
  types = code.load("rl types")

  def score(params, tokens, depth=1.0):
    samples, length = tokens.completions.shape[1:]
    alone = tokens.prompts.shape[-1] == 1
    table = params["prompt" if alone else "hidden"]
    if tokens.prompts.ndim == 3:  # a prompt for each sample
      hidden = table[tokens.prompts[:, 0, 0]]
    else:
      hidden = table[tokens.prompts[:, 0]]
    hidden = depth * hidden
    # A view may have more texts than there are samples.
    copies = -(-samples // hidden.shape[1])
    hidden = jnp.concatenate([(i + 1) * hidden for i in range(copies)], 1)
    heads = {
      "logits": lambda h: h[..., :V],
      "value": lambda h: h[..., V],
      # Heads of single objectives, by the names of components.
      "accuracy": lambda h: 0.5 * h[..., :V],
      "style": lambda h: -h[..., :V],
    }
    return types.Scored(hidden[:, :samples, :length], heads)

  def decode(*args):
    raise AssertionError("the tabular policy decodes nothing")

  return types.Policy(score, decode, decode)


def params(seed: int = 0, tokens: int = T):
  key = jax.random.key(seed)
  shape = (P, S, tokens, V + 1)
  return {
    "hidden": jax.random.normal(key, shape),
    "prompt": jax.random.normal(jax.random.fold_in(key, 1), shape),
  }


@functools.cache
def arrays(seed: int = 0) -> dict[str, np.ndarray]:
  """The numbers of a rollout by name, all groups ragged and none alike.

  Group 0 has right and wrong samples, group 1 equal scores, group 2 no right
  sample, group 3 a single sample, the last group no sample at all.
  """
  rng = np.random.default_rng(seed)
  lengths = rng.integers(K, T + 1, (P, S))
  mask = np.arange(T) < lengths[..., None]
  mask &= rng.random((P, S, T)) < 0.95  # a tool's token within a completion
  sample_mask = np.arange(S) < rng.integers(S - 2, S + 1, (P, 1))
  sample_mask[3] = np.arange(S) == 1
  sample_mask[-1] = False
  in_text = np.arange(T) < lengths[..., None]
  step_ids = np.minimum(np.arange(T) * K // lengths[..., None], K - 1)
  step_ids = np.where(in_text, step_ids, -1)
  correct = (rng.random((P, S)) < 0.5).astype(np.int8)
  correct[0, :2] = 0, 1
  correct[2] = 0
  correct[4, 0] = -1  # unknown
  scores = np.where(correct == 1, 1.0, rng.random((P, S)).round(1) / 2)
  scores[1] = 0.5
  reference_lengths = rng.integers(1, R + 1, (P, S))
  return {
    "prompts": np.column_stack([np.arange(P), rng.integers(0, V, (P, 3))]),
    "prompt_mask": np.ones((P, 4), bool),
    "completions": rng.integers(0, V, (P, S, T)),
    "lengths": lengths,
    "mask": mask,
    "sample_mask": sample_mask,
    "behavior_log_probs": np.where(in_text, -rng.uniform(0.1, 3, (P, S, T)), 0),
    "finished": (rng.random((P, S)) < 0.8) | (np.arange(S) < 2),
    "scores": scores,
    "correct": correct,
    "step_ids": step_ids,
    "step_mask": np.arange(K) <= step_ids.max(-1)[..., None],
    "step_scores": rng.uniform(-1, 1, (P, S, K)),
    "turns": np.where(in_text, (np.arange(T) > 3).astype(int), -1),
    "reference": rng.integers(0, V, (P, S, R)),
    "reference_mask": np.arange(R) < reference_lengths[..., None],
    "reference_lengths": reference_lengths,
    # Components of a reward that a task or a judge would give.
    "accuracy": (correct == 1).astype(float),
    "format": (rng.random((P, S)) < 0.7).astype(float),
    "answered": (rng.random((P, S)) < 0.8).astype(float),
    "thoughts": rng.random((P, S)),
    "style": rng.random((P, S)),
    "forecast": rng.uniform(-0.1, 1.1, (P, S)),
    "stated": (rng.random((P, S)) < 0.8).astype(float),
    # Extras that a task, a sampler or a scoring pass would give.
    "task/answer_ids": np.where(correct == 1, 0, rng.integers(-1, 3, (P, S))),
    "task/paraphrase_answer_ids": rng.integers(-1, 3, (P, S)),
    "task/durations": rng.uniform(0.1, 9, (P, S, K)),
    "task/preferences": _preferences(rng),
    "sampler/greedy_scores": np.where(np.arange(P) == 5, np.nan, rng.random(P)),
    "sampler/values": rng.random((P, S, K)),
    "sampler/prompt_values": rng.random(P),
    "sampler/drawn": rng.integers(1, T, (P, S)),
    "sampler/reference_scores": rng.random((P, 10)),
    "sampler/creators": np.broadcast_to(_creators(), (P, S, K)),
    "model/prm": rng.random((P, S, K)),
    # The last prompt keeps the order of its options.
    "task/option_orders": code.option_orders(
      np.array(
        [rng.permutation(OPTIONS) for _ in range(P - 1)] + [np.arange(OPTIONS)]
      ),
      S,
    ),
    "shuffled_options": rng.integers(0, V, (P, S * OPTIONS, R)),
    "step_references": rng.integers(0, V, (P, S * (K - 1), R)),
  }


def _creators() -> np.ndarray:
  """`[S, K]`: the sample for which each action of a tree was drawn."""
  creators = np.zeros((S, K), int)
  for sample in range(1, S):
    first = sample % K  # action at which it leaves the sample before it
    creators[sample] = creators[sample - 1]
    creators[sample, first:] = sample
  return creators


def _preferences(rng) -> np.ndarray:
  """`[P, S, S]`: 1 where the first sample is better, 0.5 of a tie."""
  ranks = rng.integers(0, 3, (P, S))
  better = ranks[:, :, None] - ranks[:, None]
  return (np.sign(better) + 1) / 2


def rollout(seed: int = 0, step: int = 0, **changes: np.ndarray):
  """The rollout of `arrays(seed)` at a training step, with changed arrays."""
  types = code.load("rl types")
  values = {**arrays(seed), **changes}

  def put(name):
    value = np.asarray(values[name])
    kind = {"f": np.float32, "i": np.int32}.get(value.dtype.kind, value.dtype)
    return jnp.asarray(value, np.int8 if name == "correct" else kind)

  prompts, prompt_mask = put("prompts"), put("prompt_mask")
  reference = types.Tokens(
    prompts=jnp.broadcast_to(prompts[:, None], (P, S, 4)),
    prompt_mask=jnp.broadcast_to(prompt_mask[:, None], (P, S, 4)),
    completions=put("reference"),
    lengths=put("reference_lengths"),
    mask=put("reference_mask"),
  )
  bare = types.Tokens(
    prompts=prompts,
    prompt_mask=prompt_mask,
    completions=put("reference")[:, :1],
    lengths=put("reference_lengths")[:, :1],
    mask=put("reference_mask")[:, :1],
  )
  extras = {
    name: put(name)
    for name in values
    if name.startswith(("task/", "sampler/", "model/"))
  }

  def after_prompt(name):
    """Texts after the prompts, of which only the last token counts."""
    completions = put(name)
    last = jnp.arange(R) == R - 1
    return types.Tokens(
      prompts=prompts,
      prompt_mask=prompt_mask,
      completions=completions,
      lengths=jnp.full(completions.shape[:2], R),
      mask=jnp.broadcast_to(last, completions.shape),
    )

  parts = (
    *("accuracy", "format", "answered"),
    *("thoughts", "style", "forecast", "stated"),
  )
  return types.Rollout(
    tokens=types.Tokens(
      prompts=prompts,
      prompt_mask=prompt_mask,
      completions=put("completions"),
      lengths=put("lengths"),
      mask=put("mask"),
    ),
    sample_mask=put("sample_mask"),
    behavior_log_probs=put("behavior_log_probs"),
    finished=put("finished"),
    scores=put("scores"),
    correct=put("correct"),
    prompt_ids=jnp.arange(P),
    keys=jax.random.split(jax.random.key(seed), P),
    step=jnp.int32(step),
    components={name: put(name) for name in parts},
    step_ids=put("step_ids"),
    step_scores=put("step_scores"),
    step_mask=put("step_mask"),
    turns=put("turns"),
    views={
      "reference": reference,
      "bare_reference": bare,
      "shuffled_options": after_prompt("shuffled_options"),
      "step_references": after_prompt("step_references"),
    },
    extras=types.Named(extras),
  )
