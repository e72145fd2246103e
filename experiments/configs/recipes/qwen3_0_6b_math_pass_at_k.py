"""pass@8 training of Qwen3-0.6B on MATH. Not yet run.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipes/qwen3_0_6b_math_pass_at_k.py \
    --config.policy.path=CHECKPOINT --workdir runs/qwen3_0_6b_math_pass_at_k

FOLDER holds `math_train.jsonl` and `math_test.jsonl`; CHECKPOINT is the
downloaded Qwen/Qwen3-0.6B. Estimate: 123 GiB over all devices, so it should fit
8 of 40 GiB, and compiled it fits 8 TPU v5e of 16 with `--config.rollout.rows=8`
and `--config.evaluation.rows=8` (SCALING.md); `recipes/__init__.py` has the
sum, and what to set for one device.

A prompt of which none or more than 8 of the 16 samples are right teaches
nothing. Expected: held-out pass@8 rises with pass@1 behind it, and entropy
falls more slowly than under a mean-reward method (Chen et al. 2025).
"""

from experiments.configs import recipes


def get_config():
  return recipes.recipe("qwen3-0.6b", "math", "pass_at_k")
