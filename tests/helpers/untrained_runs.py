"""Folders of runs that nobody trained, for reports."""

import io
import math

import ml_collections
import numpy as np
import rich.console

from experiments.evaluation import summary
from experiments.logging import json_files, run_logger
from experiments.training import method_from_config, workdirs
from experiments.training_run import method_files
from rl import learners

STEPS, S = 120, 16


def evaluation(rate, step, samples=16, problems=40):
  rng = np.random.default_rng(step)
  skill = rng.beta(2 * rate, 2 * (1 - rate), size=(problems, 1))
  correct = rng.random((problems, samples)) < skill
  return summary.Evaluation(
    task="countdown(count=4)",
    step=step,
    temperature=1.0,
    ids=np.arange(problems, dtype=np.int32),
    scores=correct.astype(np.float32),
    correct=correct.astype(np.int8),
    answer_ids=np.where(correct, 1, 0).astype(np.int32),
    lengths=np.full((problems, samples), 8, np.int32),
    finished=np.ones((problems, samples), bool),
  )


def make(workdir, rate=0.6, method="rloo"):
  """Evaluated before, between and after; 120 steps were logged."""
  config = {"steps": STEPS, "seed": 0, "method": method, "kind": "rl"}
  workdirs.write_config(workdir, ml_collections.ConfigDict(config))
  method_by_learner = learners.by_learner(
    method_from_config.make_method(method)
  )
  method_files.write_description(workdir, method_by_learner)
  method_files.write_advantages(workdir, method_by_learner["policy"], S)
  console = rich.console.Console(file=io.StringIO())
  rng = np.random.default_rng(0)
  with run_logger.Logger(workdir, STEPS, sinks=(), console=console) as logger:
    for step in range(1, STEPS + 1):
      reward = 0.3 + rate * step / 240 + 0.04 * rng.normal()
      counts = np.bincount(rng.binomial(S, 0.4, 32), minlength=S + 1)
      logger.log(
        step,
        {
          "reward/mean": reward,
          "accuracy/pass@1": reward if step > 1 else math.nan,
          "policy/entropy": 0.6 - step / 400 + 0.01 * rng.normal(),
          "policy/clip_frac_low": 0.0,
          "optim/lr": 1.5e-4,
          "score/legal/mean": 0.9 + 0.01 * rng.normal(),
          "loss/policy_gradient": rng.normal(),
          "prm/score": 0.25 + step / 200,
          "prm/task_score": 0.25 - step / 400,
          "group/solve_count_hist": counts / 32,
        },
      )
  summary.save(evaluation(0.3, 0), workdir / "evaluation_base.json")
  summary.save(evaluation(0.4, 60), workdir / "evaluation_000060.json")
  summary.save(evaluation(rate, STEPS), workdir / "evaluation.json")


def record(prompt=0, text="1 + 2", **changes):
  """A sample of two reasoning steps."""
  words = text.split(" ")
  result = [words[0], *(f" {word}" for word in words[1:])]
  return {
    "prompt_id": prompt,
    "prompt": f"prompt {prompt}",
    "completion": text,
    "score": 1.0,
    "terms": {"legal": 0.5},
    "correct": 1,
    "finished": True,
    "tokens": list(range(len(result))),
    "pieces": result,
    "advantages": [0.25] * len(result),
    "log_probs": [-0.5, *[None] * (len(result) - 1)],
    "entropies": [0.123456] * len(result),
    "step_ids": [0] * len(result),
    "step_scores": [0.5, -0.25],
    **changes,
  }


def write(workdir, step, records):
  json_files.write(workdir / "rollouts" / f"step_{step:06d}.jsonl", records)
