"""Multi-objective DPO: a shared trunk with an output head per objective.

Axes: P prompts, S samples per prompt (a group), D the hidden width, V tokens in
the vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses import terms as loss_terms
from rl.losses.terms import Loss, Term
from rl.method import Method
from rl.methods.pairs.contrast import best_against_worst, contrasted
from rl.methods.pairs.pairwise import REF, log_ratios
from rl.parameter_sets import frozen
from rl.transforms import (
  Transform,
  chain,
  components,
  scores,
  transform,
  weighted_sum,
)

Array = jax.Array


def copied_heads(
  key: Array, kernel: Array, objectives: Sequence[str], noise: float = 1e-3
) -> dict[str, dict[str, Array]]:
  """Returns a head per objective: a copy of the language model's, plus noise.

  The heads are linear. A model whose decoder caps its logits therefore has no
  exact copy.

  Args:
    key: PRNG key.
    kernel: `[D, V]` kernel of the model's output head.
    objectives: names of the objectives.
    noise: standard deviation of the noise.

  Returns:
    `{name: {"kernel": [D, V], "bias": [V]}}` float32, in the form that
    `models.heads.linear` reads.
  """
  kernel = kernel.astype(jnp.float32)
  keys = jax.random.split(key, len(objectives))
  return {
    name: {
      "kernel": kernel + noise * jax.random.normal(head_key, kernel.shape),
      "bias": jnp.zeros(kernel.shape[-1]),
    }
    for name, head_key in zip(objectives, keys, strict=True)
  }


def mixed_head(
  heads: Mapping[str, Mapping[str, Array]], weights: Mapping[str, float]
) -> dict[str, Array]:
  """Returns the head whose logits are sum_d w_d logits_d, d over objectives.

  To sample from the mixture, the kernel of this head can replace that of the
  decoder's unembedding, if the decoder does not share it with the table of
  embeddings and does not cap its logits. An unembedding has no bias, so that
  the term sum_d w_d b_d of the biases is then missing.

  Args:
    heads: trained heads, shaped like the result of `copied_heads`.
    weights: `{name: w_d}`; heads without a weight are left out.

  Returns:
    `{"kernel": [D, V], "bias": [V]}`, in the form that `models.heads.linear`
    reads.
  """
  weighted_heads = [(heads[name], weight) for name, weight in weights.items()]
  return {
    leaf: sum(weight * head[leaf] for head, weight in weighted_heads)
    for leaf in ("kernel", "bias")
  }


def head_log_probs(objective: str) -> scoring.Probe:
  """Returns the probe of log pi_d of each token, by the head of objective d.

  "" stands for the output head of the language model.
  """
  if not objective:
    return scoring.log_probs
  name = f"log_probs({objective})"
  return scoring.Probe(name, scoring.log_probs.fn, head=objective, logits=True)


@loss_terms.term(
  takes="sample",
  gives="prompt",
  needs=lambda objective, beta: {
    scoring.Need("policy", head_log_probs(objective)),
    REF,
  },
)
def head_contrastive(
  signal: Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  objective: str,
  beta: float,
) -> Array:
  """-log sigma(beta sum_i s_i d_i), d_i = log pi_d(y_i) - log ref(y_i).

  pi_d is the policy under the head of `objective`. The other symbols are those
  of `contrast.contrastive`: the sum is over the samples y_i of a group, s [P,
  S] is the signal, and ref the reference policy.
  """
  log_probs = {scoring.log_probs.name: policy[head_log_probs(objective)]}
  ratios = log_ratios(types.Named(log_probs), rollout, REF)
  return jax.nn.softplus(-beta * jnp.sum(signal * ratios, -1))


def pair_of(objective: str) -> Transform:
  """Returns a transform: +1 for a group's best sample, -1 for its worst.

  Samples are compared by the component that is named like the objective, or by
  the score if the objective is "".
  """
  if not objective:
    return chain(scores(), best_against_worst())
  component = (components((objective,)), weighted_sum((1.0,)))
  return chain(*component, best_against_worst())


@transform(takes="none", gives="scalar")
def objective_weight(
  _, rollout: types.Rollout, *, objectives: tuple[str, ...]
) -> Array:
  """Returns 1 / (the number of objectives that have a pair in this rollout).

  It is 1 if no objective has a pair.
  """
  pairs = [pair_of(objective) for objective in objectives]
  # One signal [P, S] per objective; 0 everywhere if it has no pair.
  signals = [t.apply(None, rollout, t.init())[0] for t in pairs]
  return 1.0 / jnp.maximum((jnp.stack(signals) != 0).any((1, 2)).sum(), 1)


def mah_dpo(objectives: tuple[str, ...] = (), beta: float = 0.1) -> Method:
  """L = mean over objectives d of DPO with head d, on pairs by objective d.

    L_d = -log sigma(beta (r_d(y_+) - r_d(y_-))),  r_d = log pi_d - log ref

  pi_d is the policy's network under the head of objective d. Each head learns
  from the pairs of its own objective only; the network below the heads learns
  from all. y_+ and y_- are the first best and the first worst sample of a group
  by the component that is named like the objective, and sigma is the sigmoid.
  Objectives without a pair in the rollout are left out of the mean. ref is the
  policy at the start of the run under the language model's own head; all
  distributions are at the sampling temperature.

  A policy gets the heads by `extra_heads=((name, V), ...)`, and its parameters
  must contain `copied_heads` before the first step. A config cannot do this: it
  initialises extra heads at random, and a random head is no language model.
  With `objectives` this method is therefore for callers who build the initial
  state from their own parameters. For weights w that a user chooses,
  `mixed_head` has the logits sum_d w_d logits_d.
  Deviation: the pairs are samples of the policy under the language model's
  head, which is not trained itself; only the network below it changes.
  Left out: the paper also searches over steps, guided by a process reward
  model.
  Source: Simultaneous Multi-objective Alignment Across Verifiable and
  Non-verifiable Rewards (MAH-DPO), 2025, and its code.

  Args:
    objectives: names of components of the rollout; with () the only objective
      is the score, and its head is the language model's, so that the method is
      DPO.
    beta: factor of the log-ratios.
  """
  objectives = tuple(objectives) or ("",)

  def make_term(objective: str) -> Term:
    pair = pair_of(objective)
    loss = head_contrastive(objective, beta)
    return loss.of(signal=pair, loss_filter=chain(pair, contrasted()))

  terms = [make_term(objective) for objective in objectives]
  if len(terms) > 1:
    terms = [objective_weight(objectives) * term for term in terms]
  return Method(loss=Loss(tuple(terms)), parameter_sets=(("ref", frozen()),))
