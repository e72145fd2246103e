"""What the experiments of this folder share: every setting, with its meaning.

`rl()` and `supervised()` are complete configs; a file of this folder changes
what makes it that experiment. Override anything from the command line:
`--config.optimizer.learning_rate=3e-4 --config.method="max_at_k(k=8)"`.
"""

import dataclasses

from ml_collections import ConfigDict
from ml_collections.config_dict import FieldReference, placeholder

from models.config import ModelConfig


def model(**shape: int | float | str | bool) -> ConfigDict:
  """A small decoder: 2 layers of width 64, about 100k parameters.

  What each field means: `models.config.ModelConfig`, whose defaults hold for
  those that are not set here.
  """
  fields = dataclasses.fields(ModelConfig)
  defaults = {f.name: f.default for f in fields}
  small = {
    "vocab_size": 0,  # 0: the task's
    "width": 64,
    "layers": 2,
    "heads": 4,
    "kv_heads": 4,
    "head_dim": 16,
    "mlp_width": 256,
  }
  defaults["rope_scaling"] = placeholder(dict)
  # None: what suits the platform, `experiments.training.decoder.make`.
  defaults["attention"] = placeholder(str)
  defaults["unroll"] = placeholder(int)
  return ConfigDict({**defaults, **small, **shape})


def _shared(seed: int | FieldReference, steps: int) -> ConfigDict:
  return ConfigDict(
    {
      "kind": "rl",  # or "supervised"
      "seed": seed,  # of parameters, problems and samples
      "steps": steps,  # one rollout each
      "task": "countdown(count=4)",
      # Who judges what a task of `jsonl` says: "module:function"; "": its own.
      "reward": "",
      "data": {
        "path": "",  # of the task jsonl: the user's file
        "data_path": "",  # of text tasks; "": $EXTREMUM_DATA
        "cache": "~/.cache/extremum",  # prepared data and tokenizers
      },
      # A downloaded checkpoint, or a published shape with random weights, takes
      # the place of `model` and of `base`. Of `model` then only these hold:
      # dtype, param_dtype, remat, attention, unroll, value_head, extra_heads
      # and lora_*.
      "policy": {
        "path": "",  # a Hugging Face folder: weights, shape and tokenizer
        "preset": "",  # or a name of `python -m experiments.catalogue presets`
      },
      "model": model(),
      "rollout": {
        "prompts": 32,  # P, over all devices
        "samples": 16,  # S, per prompt
        "max_tokens": 0,  # T; 0: what the task's solutions need
        "temperature": 1.0,
        # Truncations make the rollout off-policy; the trainer does not undo
        # them.
        "top_k": 0,  # 0: off
        "top_p": 1.0,
        "min_p": 0.0,
        # Samples of a prompt that are decoded at once; 0: all. Where lengths
        # differ much, fewer are faster: a row that ends goes on with the next.
        "rows": 0,
      },
      "plan": {
        "epochs": 1,
        "minibatches": 1,
        "microbatches": 1,
        # Positions of a prompt's samples whose logits exist at a time; None:
        # 256 MiB of logits.
        "chunk": placeholder(int),
        # Of a minibatch, above which its update is skipped.
        "max_mean_ratio": 10.0,
      },
      "optimizer": {
        "learning_rate": 1.5e-4,
        "schedule": "constant",  # or "cosine", over decay_steps
        "warmup_steps": 0,
        "decay_steps": 0,
        "final_scale": 0.1,  # where the cosine ends
        "b1": 0.9,
        "b2": 0.98,
        "eps": 1e-8,
        "weight_decay": 0.0,
        "clip_norm": 1.0,  # 0: off
      },
      # Sizes of its axes. None: what suits, see `experiments.training.device_mesh`.
      "mesh": {
        "replica": placeholder(int),  # across slices; None: one for each
        "data": -1,  # what is left
        "fsdp": placeholder(int),
        "tensor": placeholder(int),
        "context": 1,
      },
      "cpu_devices": 1,  # split the host's CPU; accelerators are left alone
      "steps_per_dispatch": 1,  # more: the fused loop, for jittable tasks
      "evaluation": {
        "problems": 256,  # held out, the same in every run
        "samples": 64,
        "batch": 64,  # problems at a time
        "rows": 0,  # of a problem, samples decoded at once; 0: all
        "temperature": 1.0,
        "seed": 0,
      },
      "evaluate_every": 0,  # besides before and after; 0: never
      "log_every": 1,
      "checkpoint_every": 0,  # besides the end; 0: never
      "keep_checkpoints": 2,  # the latest
      "keep_every": 0,  # and those of steps that are multiples of it; 0: none
      # And the best by what is logged at every checkpoint, such as
      # "evaluation/accuracy/pass@8"; "-loss/total": the lowest. "": none.
      "keep_best": "",
      # Updates in a row that are skipped, as loss, gradient or mean ratio are
      # not finite or the ratio exceeds plan.max_mean_ratio, end the run; 0:
      # never.
      "stop_after_skips": 10,
      "rollouts_every": 0,  # samples written for reading; 0: never
      "sinks": ("tensorboard",),  # besides metrics.jsonl; "wandb"
    }
  )


def rl(steps: int = 120, seed: int | FieldReference = 0) -> ConfigDict:
  """Reinforcement learning from the policy's own samples."""
  config = _shared(seed, steps)
  config.method = "grpo(beta=0.0)"
  # Another way to sample, for a method that samples once: "greedy()" or
  # "prefix_values(continuations=4)".
  config.stage = ""
  config.mix = pay()
  # Where several networks learn: {slot: how its optimizer differs}.
  config.learners = ConfigDict()
  # Where samples are drawn, if not where and when they are trained on.
  config.sampler = ConfigDict(
    {
      "devices": 0,  # of its own, the last so many; 0: those that train
      "ahead": 0,  # 1: on these, while the step before is trained
      # Tokens are weighed by min(pi / pi_sampler, this), for samples of older
      # parameters or of lower precision; 0: off.
      "truncation": 0.0,
      # Its axes of `mesh`; None, all of them: as training has them.
      "replica": placeholder(int),
      "data": placeholder(int),
      "fsdp": placeholder(int),
      "tensor": placeholder(int),
    }
  )
  config.base = ConfigDict()  # a supervised config to start from
  config.init_from = ""  # or the workdir of another run
  return config


def pay(
  rule: str = "sum", steps: str = "", **terms: str | ConfigDict
) -> ConfigDict:
  """What a rollout earns, by rewards of `rewards.names()`.

  Without terms it is the task's score, and without `steps` the task's step
  scores. What a method reads besides (verdicts, to drop groups by, say, or what
  its sampling stage scored) stays the task's: a method that reads verdicts alone,
  such as `psr`, does not learn from terms.

  Args:
    rule: one of `rewards.combine.RULES`, of what follows.
    steps: a reward of steps, "gains()".
    **terms: each a reward, "majority(threshold=0.5)", or a `term`, in the order
      in which they are found: a later one may read an earlier one by its name.
  """
  found = {
    name: term(one) if isinstance(one, str) else one
    for name, one in terms.items()
  }
  order = tuple(terms)  # which a ConfigDict does not keep
  return ConfigDict(
    {"rule": rule, "steps": steps, "terms": found, "order": order}
  )


def term(
  reward: str,
  weight: float = 1.0,
  *,
  schedule: str = "constant",
  final: float = 0.0,
  over: int = 0,
  gates: tuple[str, ...] = (),
  threshold: float = 0.5,
) -> ConfigDict:
  """One reward of several.

  Args:
    reward: one of `rewards.names()`, with its settings; "" is the component of the
      task that has the term's name.
    weight: of the term in the rule, at the start.
    schedule: "constant", or how the weight goes to `final` over `over` steps:
      "linear" or "cosine".
    final, over: of the schedule; of a constant one neither.
    gates: terms, or components of the task, that must exceed their threshold;
      else this term is 0.
    threshold: that this term must exceed where it is a gate.
  """
  return ConfigDict(
    {
      "reward": reward,
      "weight": weight,
      "schedule": schedule,
      "final": final,
      "over": over,
      "gates": gates,
      "threshold": threshold,
    }
  )


def supervised(steps: int = 1000, seed: int | FieldReference = 0) -> ConfigDict:
  """Imitation of the task's own demonstrations."""
  horizon = FieldReference(steps)
  config = _shared(seed, steps)
  config.steps = horizon
  config.kind = "supervised"
  config.rollout.prompts = 256
  config.optimizer.learning_rate = 2e-3
  config.optimizer.schedule = "cosine"
  config.optimizer.warmup_steps = 50
  config.optimizer.decay_steps = horizon
  config.log_every = 20
  return config


def with_base(config: ConfigDict, base: ConfigDict) -> ConfigDict:
  """`config`, started from the supervised run `base`, for the same task.

  Seed, task, reward, data, model and mesh are then one setting for both.
  """
  config.base = base
  for name in ("data", "model", "mesh"):
    config[name] = base[name]
  for name in ("seed", "task", "reward", "cpu_devices"):
    config[name] = base.get_ref(name)
  return config
