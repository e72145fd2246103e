"""The losses of verl and TRL, from their definitions, in float64 numpy.

A *peer* is `(now, held) -> loss`: `now` is moved by the central differences of
`slopes`, `held` is what the peer detaches. Both libraries lay samples out as
rows; here they are `[P, S]`, so a group is an axis. `BATCH` is the one stored
batch, `peers_batch.json`, whose padding holds numbers as plausible as the rest.
Read at volcengine/verl b178a3c and huggingface/trl f2cd577.
"""

import json
import pathlib
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

PATH = pathlib.Path(__file__).with_name("peers_batch.json")
P, S, T = 4, 5, 6


class Point(NamedTuple):
  """Arrays `[P, S, T]` that a loss is differentiated by."""

  log_probs: np.ndarray
  values: np.ndarray


def draw(seed=28):
  """The batch that is stored: groups mixed, graded, all equal, one right."""
  rng = np.random.default_rng(seed)
  lengths = rng.integers(2, T + 1, (P, S))
  lengths[0, 0], lengths[1, 3] = T, 1
  old = -rng.uniform(2.5, 4.0, (P, S, T))
  log_ratios = rng.normal(0.0, 0.8, (P, S, T)).clip(-1.9, 1.9)
  # Two samples whose mean log-ratio is inside the narrow clip of GSPO.
  mask = np.arange(T) < lengths[..., None]
  for row, aim in (((0, 1), 2e-4), ((3, 2), -2e-4)):
    log_ratios[row] += aim - log_ratios[row][mask[row]].mean()
  scores = np.array(
    [
      [1.0, 0.0, 1.0, 0.0, 0.0],
      [0.3, 0.9, 0.0, 0.55, 0.2],
      [0.7, 0.7, 0.7, 0.7, 0.7],
      [0.0, 0.0, 0.0, 1.0, 0.0],
    ]
  )
  finished = np.ones((P, S), bool)
  finished[0, 0] = False
  old_values = rng.normal(0.4, 0.3, (P, S, T))
  result = {
    "lengths": lengths,
    "finished": finished.astype(int),
    "scores": scores,
    "correct": (scores > 0.5).astype(int),
    "format": (rng.random((P, S)) < 0.6).astype(int),
    "greedy_scores": np.array([1.0, 0.4, 0.7, 0.0]),
    "old_log_probs": old,
    "log_probs": old + log_ratios,
    "ref_log_probs": old + rng.normal(0.0, 0.5, (P, S, T)),
    "entropies": rng.uniform(0.1, 2.0, (P, S, T)),
    "old_values": old_values,
    "values": old_values + rng.normal(0.0, 0.5, (P, S, T)),
  }
  return {name: np.round(x, 6).tolist() for name, x in result.items()}


def write():
  """Stores what is drawn, a line per array."""
  rows = [
    f" {json.dumps(name)}: {json.dumps(x, separators=(',', ':'))}"
    for name, x in draw().items()
  ]
  PATH.write_text("{\n" + ",\n".join(rows) + "\n}\n")


def read():
  """The stored batch, with its mask `[P, S, T]` in floats."""
  stored = json.loads(PATH.read_text())
  result = SimpleNamespace(**{name: np.array(x) for name, x in stored.items()})
  result.mask = (np.arange(T) < result.lengths[..., None]).astype(float)
  return result


BATCH = read()
NOW = Point(BATCH.log_probs, BATCH.values)
OLD = Point(BATCH.old_log_probs, BATCH.old_values)
# All ratios alike: covariances of the policy and of the old one agree.
SHIFTED = Point(BATCH.old_log_probs + 0.1, BATCH.old_values)


def slopes(peer, at, step=1e-6):
  """The peer's gradient by central differences."""
  result = []
  for field, x in zip(Point._fields, at, strict=True):
    slope = np.zeros_like(x)
    for index in np.ndindex(x.shape):
      ends = []
      for end in (x[index] + step, x[index] - step):
        moved = x.copy()
        moved[index] = end
        ends.append(peer(at._replace(**{field: moved}), at))
      slope[index] = (ends[0] - ends[1]) / (2 * step)
    result.append(slope)
  return Point(*result)


def total(*parts):
  """The peer that is a sum of `(factor, peer)`."""
  return lambda now, in_use: sum(c * peer(now, in_use) for c, peer in parts)


# Means over `[P, S, T]`.


def per_row(x, mask):
  return (x * mask).sum(-1)


def trained_rows(mask):
  return (mask.sum(-1) > 0).sum()


VERL_MEANS = {
  "token-mean": lambda x, m: per_row(x, m).sum() / m.sum(),
  "seq-mean-token-sum": lambda x, m: per_row(x, m).sum() / trained_rows(m),
  "seq-mean-token-mean": lambda x, m: (
    (per_row(x, m) / (m.sum(-1) + 1e-8)).sum() / trained_rows(m)
  ),
  # Divides by the number of samples since February 2026.
  "seq-mean-token-sum-norm": lambda x, m: (
    per_row(x, m).sum() / trained_rows(m) / m.shape[-1]
  ),
}
TRL_MEANS = {
  "grpo": lambda x, m: (per_row(x, m) / m.sum(-1).clip(1)).mean(),
  "dapo": lambda x, m: per_row(x, m).sum() / m.sum().clip(1),
  "dr_grpo": lambda x, m: per_row(x, m).sum() / m.size,  # T is the limit
}


# Advantages of samples `[P, S]`.


def centred(scores):
  return scores - scores.mean(-1, keepdims=True)


def verl_group(scores, eps=1e-6):
  """GRPO's; `eps` None: Dr. GRPO's. A group of one keeps its score."""
  if scores.shape[-1] == 1:
    return scores if eps is None else scores / (1 + eps)
  if eps is None:
    return centred(scores)
  return centred(scores) / (scores.std(-1, ddof=1, keepdims=True) + eps)


def verl_leave_one_out(scores):
  n = scores.shape[-1]
  return scores if n == 1 else centred(scores) * n / (n - 1)


def verl_length_weighted(scores, lengths):
  """OPO's."""
  if scores.shape[-1] == 1:
    return scores
  weights = lengths / lengths.sum(-1, keepdims=True)
  return scores - (weights * scores).sum(-1, keepdims=True)


def verl_gpg(scores):
  alpha = scores.size / max(np.count_nonzero(scores), 1)
  return alpha * (scores if scores.shape[-1] == 1 else centred(scores))


def verl_best_of_group(scores, by_std):
  """grpo_passk: the lead of the best over the second best."""
  result = np.zeros_like(scores)
  for group, out in zip(scores, result, strict=True):
    second, first = np.sort(group)[-2:]
    scale = group.std(ddof=1) + 1e-6 if by_std else 1.0
    out[group.argmax()] = (first - second) / scale
  return result


def trl_group(scores, scale="group"):
  axis = {"group": -1, "batch": None}[scale]
  return centred(scores) / (scores.std(axis, ddof=1, keepdims=True) + 1e-4)


def trl_components(rewards, eps=(1e-4, 1e-4)):
  """normalize_then_sum of `[M, P, S]`."""
  spread = rewards.std(-1, ddof=1, keepdims=True)
  z = (centred(rewards) / (spread + eps[0])).sum(0)
  return (z - z.mean()) / (z.std(ddof=1) + eps[1])


def overlong(scores, limit, cache):
  """The soft punishment of DAPO, alike in both."""
  over = BATCH.lengths - (limit - cache)
  return scores - (over / cache).clip(0.0, 1.0)


# Advantages of tokens `[P, S, T]`.


def on_tokens(advantages):
  """`[P, S, T]`, of samples or of tokens already."""
  wide = advantages if advantages.ndim == 3 else advantages[..., None]
  return np.broadcast_to(wide, (P, S, T))


def whitened(x, mask):
  """Over all tokens, with ddof 1; alike in both."""
  real = x[mask > 0]
  return (x - real.mean()) / np.sqrt(real.var(ddof=1) + 1e-8)


def token_rewards(scores, beta):
  """The score at the last token, less beta k1 at every token."""
  last = np.arange(T) == BATCH.lengths[..., None] - 1
  moved = BATCH.old_log_probs - BATCH.ref_log_probs
  return scores[..., None] * last - beta * moved * BATCH.mask


def verl_returns(rewards, gamma):
  result, following = np.zeros_like(rewards), 0.0
  for t in reversed(range(T)):
    result[..., t] = rewards[..., t] + gamma * following
    following = result[..., t] * BATCH.mask[..., t]
  return result


def verl_gae(rewards, values, gamma, lam):
  """Advantages and returns; what is masked is passed over."""
  result = np.zeros_like(rewards)
  value, trace = 0.0, 0.0
  for t in reversed(range(T)):
    real = BATCH.mask[..., t] > 0
    delta = rewards[..., t] + gamma * value - values[..., t]
    trace = np.where(real, delta + gamma * lam * trace, trace)
    value = np.where(real, values[..., t], value)
    result[..., t] = trace
  return result, result + values


def trl_gae(scores, values, beta, lam):
  """TRL's: the score stands one state behind the last token, where it fits."""
  at = np.minimum(BATCH.lengths, T - 1)
  rewards = token_rewards(0 * scores, beta)
  rewards += scores[..., None] * (np.arange(T) == at[..., None])
  values = np.where(np.arange(T) <= BATCH.lengths[..., None], values, 0.0)
  result, trace, value = np.zeros_like(rewards), 0.0, 0.0
  for t in reversed(range(T)):
    trace = rewards[..., t] + value - values[..., t] + lam * trace
    value = values[..., t]
    result[..., t] = trace
  return result


# Losses.


def ratio(now):
  return np.exp((now.log_probs - BATCH.old_log_probs).clip(-20, 20))


def verl_clip(a, low, high, mean, dual=np.inf, mask=BATCH.mask):
  """vanilla: PPO with the dual clip, verl's default being 3."""
  a = on_tokens(a)

  def peer(now, in_use):
    rho = ratio(now)
    loss = np.maximum(-a * rho, -a * rho.clip(1 - low, 1 + high))
    # inf * 0 is no number: a sample without advantage has no bound.
    bound = np.where(a < 0, -np.where(a < 0, a, -1.0) * dual, np.inf)
    return VERL_MEANS[mean](np.minimum(loss, bound), mask)

  return peer


def verl_reinforce(a, mean):
  """reinforce, and gpg with the token mean."""
  a = on_tokens(a)
  return lambda now, in_use: VERL_MEANS[mean](-a * now.log_probs, BATCH.mask)


def mean_log_ratio(point):
  moved = point.log_probs - BATCH.old_log_probs
  return per_row(moved, BATCH.mask) / BATCH.lengths


def verl_gspo(a, low, high, weights=1.0):
  """`weights` are its rollout_is_weights, of tokens; also in geo_mean."""
  a = on_tokens(a)

  def peer(now, in_use):
    separate = now.log_probs - in_use.log_probs
    rho = np.exp(np.minimum(mean_log_ratio(in_use)[..., None] + separate, 10.0))
    loss = np.maximum(-a * rho, -a * rho.clip(1 - low, 1 + high)) * weights
    return VERL_MEANS["seq-mean-token-mean"](loss, BATCH.mask)

  return peer


def gate(a, positive, negative):
  """SAPO's loss at every token, alike in both."""
  a = on_tokens(a)
  tau = np.where(a > 0, positive, negative)
  return lambda now: -a * 4 / tau / (1 + np.exp(-tau * (ratio(now) - 1)))


def verl_sapo(a, positive, negative):
  loss = gate(a, positive, negative)
  mean = VERL_MEANS["seq-mean-token-mean"]
  return lambda now, in_use: mean(loss(now), BATCH.mask)


def verl_cispo(a, low, high):
  a = on_tokens(a)

  def peer(now, in_use):
    weight = ratio(in_use).clip(1 - low, 1 + high)
    return VERL_MEANS["token-mean"](-weight * a * now.log_probs, BATCH.mask)

  return peer


def verl_geo_mean(a, clip, mask=BATCH.mask, weights=1.0):
  """GMPO of `[P, S]` advantages, a mean over all rows."""
  log_weights = np.broadcast_to(np.log(weights + 1e-10), mask.shape)

  def peer(now, in_use):
    moved = now.log_probs - BATCH.old_log_probs
    sign = np.sign(a)[..., None]
    moved = sign * np.minimum(sign * moved, sign * moved.clip(-clip, clip))
    tokens = mask.sum(-1) + 1e-8
    remaining = a * mask.sum(-1) / tokens
    of_sample = np.exp(per_row(log_weights, mask) / tokens)
    return (
      -remaining * np.exp(per_row(moved, mask) / tokens) * of_sample
    ).mean()

  return peer


def covariances(a, point):
  """Returns the highest product of advantage and log-prob; -inf in padding."""
  real = BATCH.mask > 0
  a, log_probs = on_tokens(a), point.log_probs
  result = (a - a[real].mean()) * (log_probs - log_probs[real].mean())
  return np.where(real, result, -np.inf)


def verl_clip_cov(a, low, high, clip):
  """Every token with a covariance in (low, high): nothing is drawn."""
  a = on_tokens(a)

  def peer(now, in_use):
    rho, at = ratio(now), ratio(in_use)
    inside = (covariances(a, in_use) > low) & (covariances(a, in_use) < high)
    cut = -a * at.clip(1 - clip, 1 + clip) > -a * at
    loss = np.maximum(-a * rho, -a * rho.clip(1 - clip, 1 + clip))
    loss = np.where(inside & ~cut, 0.0, loss)
    return VERL_MEANS["token-mean"](loss, BATCH.mask)

  return peer


def largest_covariances(a, point, fraction):
  count = max(1, int(fraction * BATCH.mask.sum()))
  result = covariances(a, point)
  return result >= np.sort(result.ravel())[-count]


def verl_kl_cov(a, fraction, coefficient):
  a = on_tokens(a)

  def peer(now, in_use):
    moved = np.abs(now.log_probs - BATCH.old_log_probs)
    held_back = largest_covariances(a, in_use, fraction)
    loss = -a * ratio(now) + coefficient * np.where(held_back, moved, 0.0)
    return VERL_MEANS["token-mean"](loss, BATCH.mask)

  return peer


def verl_kl(kind, mean="token-mean"):
  """The penalty; "k1+" and "k3+" have the slope of k2."""

  def values(point):
    d = point.log_probs - BATCH.ref_log_probs
    k3 = np.exp((-d).clip(-20, 20)) + d.clip(-20, 20) - 1
    return {"k1": d, "k2": d**2 / 2, "k3": k3.clip(-10, 10)}

  def peer(now, in_use):
    if kind.endswith("+"):
      at = values(in_use)
      x = values(now)["k2"] - at["k2"] + at[kind.removesuffix("+")]
    else:
      x = values(now)[kind]
    return VERL_MEANS[mean](x, BATCH.mask)

  return peer


def verl_value(returns, clip):
  """Half the token mean of the worse of two squares; alike in both."""
  returns = on_tokens(returns)

  def peer(now, in_use):
    near = np.clip(now.values, OLD.values - clip, OLD.values + clip)
    worse = np.maximum((now.values - returns) ** 2, (near - returns) ** 2)
    return 0.5 * VERL_MEANS["token-mean"](worse, BATCH.mask)

  return peer


def trl_clip(
  a, loss_type, epsilon=0.2, high=0.2, delta=np.inf, mask=BATCH.mask
):
  a = on_tokens(a)

  def peer(now, in_use):
    rho = ratio(now)
    cut = rho.clip(1 - epsilon, 1 + high)
    loss = -np.minimum(np.minimum(rho, delta) * a, cut * a)
    return TRL_MEANS[loss_type](loss, mask)

  return peer


def trl_sequence(a, epsilon, high):
  """importance_sampling_level "sequence" with the loss "grpo"."""
  a = on_tokens(a)

  def peer(now, in_use):
    rho = np.exp(mean_log_ratio(now))[..., None]
    loss = -np.minimum(rho * a, rho.clip(1 - epsilon, 1 + high) * a)
    return TRL_MEANS["grpo"](loss, BATCH.mask)

  return peer


def trl_cispo(a, cap):
  a = on_tokens(a)

  def peer(now, in_use):
    weight = np.minimum(ratio(in_use), cap)
    return TRL_MEANS["dapo"](-weight * a * now.log_probs, BATCH.mask)

  return peer


def trl_sapo(a, positive, negative):
  loss = gate(a, positive, negative)
  return lambda now, in_use: TRL_MEANS["grpo"](loss(now), BATCH.mask)


def trl_kl(loss_type):
  """k3, never clamped."""

  def peer(now, in_use):
    d = BATCH.ref_log_probs - now.log_probs
    return TRL_MEANS[loss_type](np.exp(d) - d - 1, BATCH.mask)

  return peer


def trl_rloo(a, epsilon):
  """PPO-clip of the ratio of whole samples, `a` `[P, S]`."""

  def peer(now, in_use):
    rho = np.exp(per_row(now.log_probs - BATCH.old_log_probs, BATCH.mask))
    loss = -np.minimum(rho * a, rho.clip(1 - epsilon, 1 + epsilon) * a)
    return loss.mean()

  return peer


def trl_dpo(chosen, rejected, beta, label_smoothing=0.0):
  """The sigmoid loss of pairs of samples, each `(prompt, sample)`."""

  def peer(now, in_use):
    moved = per_row(now.log_probs - BATCH.ref_log_probs, BATCH.mask)
    pairs = zip(chosen, rejected, strict=True)
    margins = np.array([moved[good] - moved[bad] for good, bad in pairs])
    right = np.log1p(np.exp(-beta * margins)) * (1 - label_smoothing)
    return (right + np.log1p(np.exp(beta * margins)) * label_smoothing).mean()

  return peer
