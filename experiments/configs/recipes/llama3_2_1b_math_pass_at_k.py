"""pass@8 training of Llama-3.2-1B on MATH. Not yet run.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipes/llama3_2_1b_math_pass_at_k.py \
    --config.policy.path=CHECKPOINT --workdir runs/llama3_2_1b_math_pass_at_k

FOLDER holds `math_train.jsonl` and `math_test.jsonl`; CHECKPOINT is the
downloaded meta-llama/Llama-3.2-1B-Instruct. Estimate: 114 GiB over all devices,
so it should fit 8 of 40 GiB, and compiled it fits 8 TPU v5e of 16 (SCALING.md);
`recipes/__init__.py` has the sum, and what to set for one device.

A prompt of which none or more than 8 of the 16 samples are right teaches
nothing. Expected: held-out pass@8 rises with pass@1 behind it, and entropy
falls more slowly than under a mean-reward method (Chen et al. 2025).
"""

from experiments.configs import recipes


def get_config():
  return recipes.recipe("llama3.2-1b", "math", "pass_at_k")
