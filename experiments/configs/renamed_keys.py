"""Config keys of earlier versions, and the keys that replace them.

`update` reads the config of an earlier run. A command line or a config file
with an old key is refused, with the name of the new one (`replacement`).
"""

from __future__ import annotations

from typing import Any

# Old key -> what replaces it, for messages.
_REPLACEMENTS = {
  "sampling": "inference",
  "sampling.devices": "inference.devices",
  "sampling.ahead": "inference.ahead",
  "sampling.truncation": "inference.importance_cap",
  **{
    f"sampling.{axis}": f"inference.{axis}"
    for axis in ("replica", "data", "fsdp", "tensor")
  },
  **{
    f"sampler.{key}": f"inference.{key}"
    for key in ("devices", "ahead", "replica", "data", "fsdp", "tensor")
  },
  "sampler.truncation": "inference.importance_cap",
  "sampler": "inference",
  "stage": "rollout.sampler",
  "data.path": "data.file",
  "data.data_path": "data.folder",
  "reward.step_reward": "step_reward",
  "reward.rule": "reward = 'product(...)', an expression",
  "reward.order": "reward, an expression whose parts are in their order",
  "reward.terms": "reward = 'verdict() + 0.1 * distinct_ngrams(n=2)', an "
  "expression",
}


def replacement(key: str) -> str:
  """Returns what replaces an old key such as "sampling.ahead"; "" if none."""
  key = key.removeprefix("config.").removeprefix("base.")
  return _REPLACEMENTS.get(key, "")


def update(values: dict[str, Any]) -> dict[str, Any]:
  """Returns the values of an earlier run's config under the keys of today."""
  values = dict(values)
  if "sampling" in values:
    block = dict(values.pop("sampling"))
    if "truncation" in block:
      block["importance_cap"] = block.pop("truncation")
    values["inference"] = block
  if isinstance(values.get("reward"), dict):
    block = values["reward"]
    values["step_reward"] = block.get("step_reward", "")
    values["reward"] = _write_reward(block)
  return values


def _write_reward(block: dict[str, Any]) -> str:
  """Returns the expression of a block with `terms`, `order` and `rule`."""
  statements, summands = [], []
  for name in block.get("order", ()):
    term = block["terms"][name]
    if term["reward"]:
      statements.append(f"{name} = {term['reward']}")
    weight = term["weight"]
    if term.get("schedule", "constant") != "constant":
      steps = f"{term['final']}, {term['schedule_steps']}"
      weight = f"{term['schedule']}({weight}, {steps})"
    gates = [
      f"({gate} > {block['terms'].get(gate, {}).get('threshold', 0.5)})"
      for gate in term.get("gates", ())
    ]
    if weight:  # a part of weight 0 was a signal that another part reads
      summands.append(" * ".join([str(weight), name, *gates]))
  total = " + ".join(summands)
  if block.get("rule", "sum") != "sum":
    total = f"{block['rule']}({', '.join(summands)})"
  return "; ".join([*statements, total]) if summands else ""
