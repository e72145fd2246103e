"""Min-form credit for Qwen2.5-1.5B on GSM8K. Not yet run.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipes/qwen2_5_1_5b_gsm8k_min_form.py \
    --config.policy.path=CHECKPOINT --workdir runs/qwen2_5_1_5b_gsm8k_min_form

FOLDER holds `gsm8k_train.jsonl` and `gsm8k_test.jsonl`; CHECKPOINT is the
downloaded Qwen/Qwen2.5-1.5B-Instruct. Estimate: 74 GiB over all devices, so it
should fit 8 of 24 GiB, and compiled it fits 8 TPU v5e of 16 (SCALING.md);
`recipes/__init__.py` has the sum, and what to set for one device.

A step is a line: it scores 1 if all its equations are true, -1 if one is false,
0 without any, and the last line 1 or -1 by the verdict. Expected: false
arithmetic becomes rarer and pass@1 rises, with no more steps than before, where
a sum of step scores invites more (Cheng et al. 2025). Look at `rollouts/`: true
but idle equations score 1.
"""

from experiments.configs import recipes


def get_config():
  return recipes.recipe("qwen2.5-1.5b", "gsm8k", "min_form")
