"""pass@8 training of Qwen2.5-1.5B on GSM8K. Not yet run.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipes/qwen2_5_1_5b_gsm8k_pass_at_k.py \
    --config.policy.path=CHECKPOINT --workdir runs/qwen2_5_1_5b_gsm8k_pass_at_k

FOLDER holds `gsm8k_train.jsonl` and `gsm8k_test.jsonl`; CHECKPOINT is the
downloaded Qwen/Qwen2.5-1.5B-Instruct. Estimate: 74 GiB over all devices, so it
should fit 8 of 24 GiB, and compiled it fits 8 TPU v5e of 16 (SCALING.md);
`recipes/__init__.py` has the sum, and what to set for one device.

A prompt of which none or more than 8 of the 16 samples are right teaches
nothing. Expected: held-out pass@8 rises with pass@1 behind it, and entropy
falls more slowly than under a mean-reward method (Chen et al. 2025).
"""

from experiments.configs import recipes


def get_config():
  return recipes.recipe("qwen2.5-1.5b", "gsm8k", "pass_at_k")
