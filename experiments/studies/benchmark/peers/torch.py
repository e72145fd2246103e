"""One policy-gradient update in torch on CPU.

The loss is the clipped surrogate, averaged over tokens. The old
log-probabilities are the current ones without a gradient, as in the first
update after a rollout. Logits are computed for completion positions only, and
the optimizer is the fused AdamW on float32 parameters. A row is a prompt and
one of its completions without padding, so no mask is needed.

Entries of its job besides those of all peers: batch_file, with
prompts `[P, L]`, completions `[P, S, T]` and advantages `[P, S]`, for P prompts
of L tokens and S samples of T tokens each; learning_rate; weight_decay;
threads; dtype, "float32", or "bfloat16" for autocast; compiled, whether the
loss is compiled; rows, number of rows in one backward pass; chunk, number of
positions whose logits exist at a time, or null for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from experiments.studies.benchmark.peers import hf, protocol

CLIP = 0.2  # the importance ratio is clipped to 1 - CLIP and 1 + CLIP


def target_log_probs(
  head: torch.nn.Module, hidden: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
  """Returns float32 log-probabilities of the targets, shaped like them."""
  logits = head(hidden).float()
  return torch.log_softmax(logits, -1).gather(-1, targets[..., None])[..., 0]


def log_probs(
  model: torch.nn.Module, ids: torch.Tensor, width: int, chunk: int | None
) -> torch.Tensor:
  """Returns log-probabilities of the last `width` ids of rows `[rows, L + T]`.

  Logits of `chunk` positions exist at a time, or of all if it is None.
  """
  states = model.model(ids, use_cache=False).last_hidden_state
  hidden, targets = states[:, -width - 1 : -1], ids[:, -width:]
  if chunk is None:
    return target_log_probs(model.lm_head, hidden, targets)
  chunks = hidden.flatten(0, 1).split(chunk), targets.flatten().split(chunk)
  parts = [
    checkpoint(target_log_probs, model.lm_head, *part, use_reentrant=False)
    for part in zip(*chunks, strict=True)
  ]
  return torch.cat(parts).view(targets.shape)


def prepare(job: dict[str, Any]) -> protocol.Served:
  """Builds the side of a job."""
  torch.set_num_threads(job["threads"])
  batch = np.load(job["batch_file"])
  P, S, T = batch["completions"].shape
  prompts = np.repeat(batch["prompts"][:, None], S, axis=1)
  rows = np.concatenate([prompts, batch["completions"]], axis=2)
  ids = torch.from_numpy(rows.reshape(P * S, -1).astype(np.int64))
  advantages = torch.from_numpy(batch["advantages"].reshape(P * S, 1))
  parts = torch.arange(P * S).split(job["rows"])

  def loss(model: torch.nn.Module, part: torch.Tensor) -> torch.Tensor:
    """Returns what the rows `part` add to the loss of the batch."""
    is_mixed = job["dtype"] == "bfloat16"
    with torch.autocast("cpu", torch.bfloat16, enabled=is_mixed):
      current = log_probs(model, ids[part], T, job["chunk"])
    ratio = torch.exp(current - current.detach())
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    terms = ratio * advantages[part], clipped * advantages[part]
    return -torch.minimum(*terms).sum() / (P * S * T)

  step_loss = torch.compile(loss) if job["compiled"] else loss

  def init() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = hf.load(job["weights"], "float32").train()
    rates = {"lr": job["learning_rate"], "weight_decay": job["weight_decay"]}
    return model, torch.optim.AdamW(model.parameters(), fused=True, **rates)

  def update(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> float:
    optimizer.zero_grad()
    total = 0.0
    for part in parts:
      partial_loss = step_loss(model, part)
      partial_loss.backward()
      total += float(partial_loss.detach())
    optimizer.step()
    return total

  model, optimizer = init()

  def call(number: int) -> dict[str, Any]:
    del number
    loss_value = update(model, optimizer)
    lengths = [[T] * S] * P
    return {"tokens": P * S * T, "lengths": lengths, "loss": loss_value}

  @torch.no_grad()
  def log_prob(model: torch.nn.Module) -> float:
    parts_log_probs = [log_probs(model, ids[part], T, None) for part in parts]
    return float(torch.cat(parts_log_probs).mean())

  def proof() -> dict[str, Any]:
    model, optimizer = init()
    log_prob_before = log_prob(model)
    loss_value = update(model, optimizer)
    norms = [p.grad.norm() for p in model.parameters()]
    with torch.no_grad():
      squares = sum(float(p.square().sum()) for p in model.parameters())
    return {
      "loss": loss_value,
      "grad_norm": float(torch.stack(norms).norm()),
      "log_prob": log_prob_before,
      "log_prob_after": log_prob(model),
      "squares_after": squares,
    }

  return protocol.Served({"proof": proof}, call)


if __name__ == "__main__":
  protocol.serve(prepare)
