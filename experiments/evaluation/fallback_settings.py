"""Settings of an evaluation of a model folder that no flag sets.

The module imports no library, so that a command can show its help at once.
"""

from __future__ import annotations

DEFAULTS = {
  "problems": 256,  # number of held-out problems
  "samples": 16,  # samples per problem
  "batch": 64,  # largest number of problems in a batch; see `CPU_BATCH`
  "rows": 0,  # samples per problem decoded in parallel; 0 decodes all
  "temperature": 1.0,
  "seed": 0,  # seed of the samples
}
# The default of "batch" for a model folder on a CPU. More problems in a batch
# are hardly faster, and progress is seen less often: with 16 samples per
# problem, a token of SmolLM2-135M takes 7.9, 4.8 and 4.6 ms of the processor
# for 1, 4 and 8 problems.
CPU_BATCH = 8
