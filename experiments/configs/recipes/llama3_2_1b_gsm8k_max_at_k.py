"""max@8 of Llama-3.2-1B on GSM8K. Not yet run.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipes/llama3_2_1b_gsm8k_max_at_k.py \
    --config.policy.path=CHECKPOINT --workdir runs/llama3_2_1b_gsm8k_max_at_k

FOLDER holds `gsm8k_train.jsonl` and `gsm8k_test.jsonl`; CHECKPOINT is the
downloaded meta-llama/Llama-3.2-1B-Instruct. Estimate: 61 GiB over all devices,
so it should fit 8 of 24 GiB, and compiled it fits 8 TPU v5e of 16 (SCALING.md);
`recipes/__init__.py` has the sum, and what to set for one device.

The score is the verdict, 0 or 1, so the best of 8 is right or wrong and the
objective is that of pass@8: max@k's unbiased gradient here, where the pass_at_k
recipe divides by the spread of the subsets. A prompt of which none or more than
9 of the 16 samples are right teaches nothing. Expected: held-out pass@8 and
pass@16 rise, and pass@1 less than a mean-reward method would raise it (Walder &
Karkhanis 2025).
"""

from experiments.configs import recipes


def get_config():
  return recipes.recipe("llama3.2-1b", "gsm8k", "max_at_k")
