"""Min-form credit for Qwen3-0.6B on MATH. Not yet run.

  EXTREMUM_DATA=FOLDER python -m experiments.run \
    --config experiments/configs/recipes/qwen3_0_6b_math_min_form.py \
    --config.policy.path=CHECKPOINT --workdir runs/qwen3_0_6b_math_min_form

FOLDER holds `math_train.jsonl` and `math_test.jsonl`; CHECKPOINT is the
downloaded Qwen/Qwen3-0.6B. Estimate: 123 GiB over all devices, so it should fit
8 of 40 GiB, and compiled it fits 8 TPU v5e of 16 with `--config.rollout.rows=8`
and `--config.evaluation.rows=8` (SCALING.md); `recipes/__init__.py` has the
sum, and what to set for one device.

A step is a line: it scores 1 if all its equations are true, -1 if one is false,
0 without any, and the last line 1 or -1 by the verdict. Most lines of MATH hold
letters and no plain arithmetic, so that most credit is the last line's.
Expected: false arithmetic becomes rarer and pass@1 rises, with no more steps
than before, where a sum of step scores invites more (Cheng et al. 2025). Look
at `rollouts/`: true but idle equations score 1.
"""

from experiments.configs import recipes


def get_config():
  return recipes.recipe("qwen3-0.6b", "math", "min_form")
