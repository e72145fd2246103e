"""One policy-gradient update in torch on CPU.

The clipped surrogate averaged over tokens, old log-probabilities being the
current ones without their gradient, as in the first update of a rollout; logits
of completion positions only; fused AdamW on float32 parameters. Rows hold a
prompt and one of its completions, all real tokens, so no mask is passed.

Further words of its job: batch_file, with prompts `[P, L]`, completions
`[P, S, T]` and advantages `[P, S]`; learning_rate; weight_decay; threads; dtype,
"float32", or "bfloat16" for autocast; compiled, whether the loss is; rows of a
backward pass; chunk, positions whose logits exist at a time, or null for all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.utils.checkpoint import checkpoint

from experiments.studies.benchmark.peers import hf, protocol

CLIP = 0.2


def selected(
  head: torch.nn.Module, hidden: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
  """Log-probabilities of targets `[...]`, float32."""
  logits = head(hidden).float()
  return torch.log_softmax(logits, -1).gather(-1, targets[..., None])[..., 0]


def log_probs(
  model: torch.nn.Module, ids: torch.Tensor, width: int, chunk: int | None
) -> torch.Tensor:
  """Of the last `width` ids of every row, `[rows, width]`."""
  states = model.model(ids, use_cache=False).last_hidden_state
  hidden, targets = states[:, -width - 1 : -1], ids[:, -width:]
  if chunk is None:
    return selected(model.lm_head, hidden, targets)
  parts = [
    checkpoint(selected, model.lm_head, *part, use_reentrant=False)
    for part in zip(
      hidden.flatten(0, 1).split(chunk),
      targets.flatten().split(chunk),
      strict=True,
    )
  ]
  return torch.cat(parts).view(targets.shape)


def prepare(job: dict[str, Any]) -> protocol.Served:
  """The side of a job."""
  torch.set_num_threads(job["threads"])
  batch = np.load(job["batch_file"])
  P, S, T = batch["completions"].shape
  prompts = np.repeat(batch["prompts"][:, None], S, axis=1)
  rows = np.concatenate([prompts, batch["completions"]], axis=2)
  ids = torch.from_numpy(rows.reshape(P * S, -1).astype(np.int64))
  advantages = torch.from_numpy(batch["advantages"].reshape(P * S, 1))
  parts = torch.arange(P * S).split(job["rows"])

  def loss(model: torch.nn.Module, part: torch.Tensor) -> torch.Tensor:
    """Of some rows; those of all rows add up to the batch's."""
    autocast = torch.autocast(
      "cpu", torch.bfloat16, enabled=job["dtype"] == "bfloat16"
    )
    with autocast:
      found = log_probs(model, ids[part], T, job["chunk"])
    ratio = torch.exp(found - found.detach())
    clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
    own = advantages[part]
    return -torch.minimum(ratio * own, clipped * own).sum() / (P * S * T)

  step_loss = torch.compile(loss) if job["compiled"] else loss

  def fresh() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = hf.load(job["weights"], "float32").train()
    made = torch.optim.AdamW(
      model.parameters(),
      lr=job["learning_rate"],
      weight_decay=job["weight_decay"],
      fused=True,
    )
    return model, made

  def update(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> float:
    optimizer.zero_grad()
    total = 0.0
    for part in parts:
      piece = step_loss(model, part)
      piece.backward()
      total += float(piece.detach())
    optimizer.step()
    return total

  model, optimizer = fresh()

  def call(number: int) -> dict[str, Any]:
    del number
    return {"tokens": P * S * T, "loss": update(model, optimizer)}

  @torch.no_grad()
  def log_prob(model: torch.nn.Module) -> float:
    found = [log_probs(model, ids[part], T, None) for part in parts]
    return float(torch.cat(found).mean())

  def proof() -> dict[str, Any]:
    model, optimizer = fresh()
    before = log_prob(model)
    found = update(model, optimizer)
    norms = [p.grad.norm() for p in model.parameters()]
    with torch.no_grad():
      squares = sum(float(p.square().sum()) for p in model.parameters())
    return {
      "loss": found,
      "grad_norm": float(torch.stack(norms).norm()),
      "log_prob": before,
      "log_prob_after": log_prob(model),
      "squares_after": squares,
    }

  facts = {"torch": torch.__version__}
  return protocol.Served(facts, call, {"proof": proof})


if __name__ == "__main__":
  protocol.serve(prepare)
