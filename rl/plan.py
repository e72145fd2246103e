"""How a rollout is cut into updates."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Plan:
  """How a rollout is cut into updates; all static.

  Attributes:
    epochs: passes over the rollout.
    minibatches: updates per epoch.
    microbatches: slices of a minibatch whose gradients are summed: memory
      falls with their number, the result does not change.
    temperature: at which the rollout was sampled; the policy that is optimised
      is the law sampled from. Top-k, top-p and min-p are not undone: with them
      the rollout is off-policy, by as much as
      `policy/sampler_log_prob_diff_mean` says.
    chunk: positions of a prompt's samples whose logits exist at a time; None:
      as many as `rl.scoring.read` likes.
    max_mean_ratio: an update is skipped when the mean importance ratio of its
      minibatch exceeds this (PURE's 10), `policy/ratio_mean` as
      `rl.losses.terms.policy_gradient` logs it; terms with a loss of their own log none.
  """

  epochs: int = 1
  minibatches: int = 1
  microbatches: int = 1
  temperature: float = 1.0
  chunk: int | None = None
  max_mean_ratio: float = 10.0

  @property
  def updates(self) -> int:
    return self.epochs * self.minibatches

  @property
  def single(self) -> Plan:
    """One update of the whole rollout, in slices as small as these."""
    parts = self.minibatches * self.microbatches
    return dataclasses.replace(
      self, epochs=1, minibatches=1, microbatches=parts
    )

  def check(self, prompts: int) -> None:
    """Raises ValueError if `prompts` cannot be cut this way."""
    for name in ("epochs", "minibatches", "microbatches"):
      if getattr(self, name) < 1:
        raise ValueError(f"{name} = {getattr(self, name)} must be at least 1")
    parts = self.minibatches * self.microbatches
    if prompts % parts:
      nearest = max(parts, round(prompts / parts) * parts)
      raise ValueError(
        f"{prompts} prompts cannot be cut into {self.minibatches} minibatches "
        f"of {self.microbatches} microbatches: {parts} must divide {prompts}; "
        f"nearest: {nearest} prompts"
      )
