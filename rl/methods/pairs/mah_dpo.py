"""Multi-objective DPO: one trunk, and an output head for each objective."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.terms import Loss, Term, term
from rl.method import Method
from rl.methods.pairs.contrast import contrasted
from rl.methods.pairs.pairwise import REF, log_ratios
from rl.methods.pairs.semi_online_dpo import best_against_worst
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
  """A head for each objective: the language model's, and a little noise.

  A decoder that caps its logits has no such copy: these heads are linear.

  Args:
    key: PRNG key.
    kernel: `[D, V]` of the model's own output head.
    objectives: names.
    noise: its standard deviation.

  Returns:
    `{name: {"kernel": [D, V], "bias": [V]}}` float32, as `models.heads.linear`
    reads them.
  """
  kernel = kernel.astype(jnp.float32)
  keys = jax.random.split(key, len(objectives))
  return {
    name: {
      "kernel": kernel + noise * jax.random.normal(own, kernel.shape),
      "bias": jnp.zeros(kernel.shape[-1]),
    }
    for name, own in zip(objectives, keys, strict=True)
  }


def mixed_head(
  heads: Mapping[str, Mapping[str, Array]], weights: Mapping[str, float]
) -> dict[str, Array]:
  """The one head whose logits are sum_d w_d logits_d: a choice of objectives.

  Its kernel may stand as the kernel of a decoder's own unembedding, to sample
  by it, where that is not the embeddings' table, and logits are not capped. An
  unembedding has no bias: what is then sampled from is the mixture without
  sum_d w_d b_d.

  Args:
    heads: of `copied_heads`, trained.
    weights: `{name: w_d}`; heads without a weight do not count.

  Returns:
    `{"kernel": [D, V], "bias": [V]}`, as `models.heads.linear` reads them.
  """
  chosen = [(heads[name], weight) for name, weight in weights.items()]
  return {
    leaf: sum(weight * head[leaf] for head, weight in chosen)
    for leaf in ("kernel", "bias")
  }


def head_log_probs(objective: str) -> scoring.Probe:
  """log pi_d of each token, by the head of an objective; "" is the model's."""
  if not objective:
    return scoring.log_probs
  name = f"log_probs({objective})"
  return scoring.Probe(name, scoring.log_probs.fn, head=objective, logits=True)


@term(
  "sample",
  "prompt",
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
  """-log sigma(beta sum_i s_i d_i), d_i = log pi_d(y_i) - log ref(y_i)."""
  own = {scoring.log_probs.name: policy[head_log_probs(objective)]}
  ratios = log_ratios(types.Named(own), rollout, REF)
  return jax.nn.softplus(-beta * jnp.sum(signal * ratios, -1))


def pair_of(objective: str) -> Transform:
  """+1 and -1 on the best and the worst of each group by an objective."""
  if not objective:
    return chain(scores(), best_against_worst())
  alone = (components((objective,)), weighted_sum((1.0,)))
  return chain(*alone, best_against_worst())


@transform("none", "scalar")
def share_of_present(
  _, rollout: types.Rollout, *, objectives: tuple[str, ...]
) -> Array:
  """1 / (the number of objectives that have a pair in this rollout)."""
  pairs = [pair_of(objective) for objective in objectives]
  found = [t.apply(None, rollout, t.init())[0] for t in pairs]
  return 1.0 / jnp.maximum((jnp.stack(found) != 0).any((1, 2)).sum(), 1)


def mah_dpo(objectives: tuple[str, ...] = (), beta: float = 0.1) -> Method:
  """L = mean over objectives d of DPO with head d, on pairs by objective d.

    L_d = -log sigma(beta (r_d(y_+) - r_d(y_-))),  r_d = log pi_d - log ref

  pi_d is the trunk that all share under head d, and each head learns from the
  pairs of its own objective: conflicts meet in the trunk alone. y_+ and y_- are
  the first best and worst sample of a group by the component of the objective's
  name; objectives without a pair in the rollout are not in the mean. The
  reference is the frozen start under the model's head, all laws at the sampling
  temperature. With no `objectives` there is one, the score, and its head is the
  model's: DPO.

  A policy has the heads as `extra_heads=((name, V), ...)`, and its parameters
  must hold `copied_heads` before the first step. A config cannot say so: it
  draws extra heads at random, no law of a language, so with `objectives` this
  method is for the caller who starts the state from parameters of his own.
  The user's weights w make `mixed_head`, whose logits are sum_d w_d logits_d.
  Deviations: pairs are the policy's own samples, drawn under the model's head,
  which learns through the trunk only. Left out: the search over steps that a
  process reward model guides.
  Source: Simultaneous Multi-objective Alignment Across Verifiable and
  Non-verifiable Rewards (MAH-DPO), 2025, and its code.
  """
  objectives = tuple(objectives) or ("",)

  def one(objective: str) -> Term:
    pair = pair_of(objective)
    loss = head_contrastive(objective, beta)
    return loss.of(signal=pair, loss_filter=chain(pair, contrasted()))

  terms = [one(objective) for objective in objectives]
  if len(terms) > 1:
    terms = [share_of_present(objectives) * each for each in terms]
  return Method(loss=Loss(tuple(terms)), parameter_sets=(("ref", frozen()),))
