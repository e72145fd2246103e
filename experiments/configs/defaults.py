"""Every key of a config, with its default and its meaning.

`rl()`, `supervised()` and `preferences()` return complete configs; a config
file of this folder changes the keys that make it a particular experiment. The
command line overrides any key: `--config.optimizer.learning_rate=3e-4`,
`--config.method="max_at_k(k=8)"`; and any setting of the method or the task:
`--config.method.k=8`.
"""

from __future__ import annotations

import dataclasses

from ml_collections import ConfigDict
from ml_collections.config_dict import placeholder

from models.config import ModelConfig


def model(**shape: int | float | str | bool) -> ConfigDict:
  """Returns the shape of a small decoder: 2 layers, about 100k parameters.

  Args:
    **shape: fields of `models.config.ModelConfig`, which documents them. They
      replace the values below; all other fields have the defaults of
      `ModelConfig`.
  """
  values = {f.name: f.default for f in dataclasses.fields(ModelConfig)}
  values |= {
    "vocab_size": 0,  # 0: as many tokens as the task has
    "width": 64,
    "layers": 2,
    "heads": 4,
    "kv_heads": 4,
    "head_dim": 16,
    "mlp_width": 256,
  }
  # None: no scaling; otherwise the fields of `models.rope.RopeScaling`.
  values["rope_scaling"] = placeholder(dict)
  # None for the next two: `training/decoder.py` chooses the fastest form for
  # the platform.
  values["attention"] = placeholder(str)
  values["unroll"] = placeholder(int)
  return ConfigDict(values | shape)


def _shared(seed: int, steps: int) -> ConfigDict:
  """Returns the keys that runs of all kinds share."""
  config = ConfigDict()
  # The run. Read by training/build.py and training_run/loop.py.
  # "rl"; "supervised" on demonstrations; or "preferences", pairs of texts
  config.kind = "rl"
  # Seed of the initial parameters, the problems and the samples.
  config.seed = seed
  config.steps = steps  # training steps; each samples a new batch of prompts

  # The task, with its settings; `python -m experiments.catalogue tasks`
  # lists them. Read by training/build.py.
  config.task = "countdown(count=4)"
  # Function that judges the completions of the task `jsonl`, as
  # "module:function"; "": rewards.verifiers.match:normalized. All other tasks
  # have a verifier of their own, and this must be "". Read by
  # training/build.py.
  config.verifier = ""

  # Files of text tasks. Read by training/build.py, which passes them on.
  config.data = ConfigDict(
    {
      "file": "",  # file of problems for the task `jsonl`
      "folder": "",  # folder of datasets; "": $EXTREMUM_DATA
      "cache": "~/.cache/extremum",  # folder of prepared data and tokenizers
    }
  )

  # Published weights or a published shape, which replace `model` and `base`.
  # Only these keys of `model` are still read: dtype, param_dtype, remat,
  # attention, unroll, value_head, extra_heads and lora_*. Read by
  # training/decoder.py and training/initial_state.py.
  config.policy = ConfigDict(
    {
      # Hugging Face folder whose weights, shape and tokenizer are used; "":
      # none.
      "path": "",
      # Published shape with random weights, a name of
      # `python -m experiments.catalogue presets`; "": none.
      "preset": "",
    }
  )

  # The shape of the decoder. Read by training/decoder.py.
  config.model = model()

  # The batch of a training step, and how completions are sampled. Read by
  # training/build.py.
  config.rollout = ConfigDict(
    {
      "prompts": 32,  # P, prompts per step, over all devices
      "samples": 16,  # S, completions per prompt (RL only)
      # T, largest number of tokens of a completion; 0: that of the task.
      "max_tokens": 0,
      "temperature": 1.0,  # must be above 0
      # Truncations of the distribution that is sampled from. With them, the
      # objective is that of the truncated policy: log-probs, ratios and the KL
      # are renormalised over the tokens that the sampler kept at a position,
      # whose masks take V / 8 bytes per token of the rollout.
      "top_k": 0,  # only the k most likely tokens; 0: all tokens
      # Only the most likely tokens whose probabilities sum to this value.
      "top_p": 1.0,
      # Only tokens with at least this fraction of the largest probability.
      "min_p": 0.0,
      # Completions of a prompt that are decoded at a time; 0: all. A row of the
      # decoder that finishes a completion starts the next one, so fewer rows
      # are faster if lengths differ much. Fewer rows need less memory.
      "rows": 0,
      # Sampler that replaces that of a method which draws all samples at once:
      # "greedy()" adds one greedy completion per prompt;
      # "prefix_values(continuations=4)" estimates the value of every prefix
      # from continuations. "": the method's own sampler.
      "sampler": "",
    }
  )

  # How a rollout is divided into updates. Read by rl/update_plan.py.
  config.plan = ConfigDict(
    {
      "epochs": 1,  # passes over the rollout
      "minibatches": 1,  # optimizer updates per epoch
      # Parts of a minibatch whose gradients are summed. More parts need less
      # memory; the result is the same up to rounding.
      "microbatches": 1,
      # Positions of a prompt's completions whose logits are computed at a
      # time; None: as many as fit into 512 MiB of logits.
      "chunk": placeholder(int),
      # An update is skipped if the mean importance ratio of its minibatch
      # exceeds this.
      "max_mean_ratio": 10.0,
    }
  )

  # AdamW and its learning rate. Read by training/optimizers.py.
  config.optimizer = ConfigDict(
    {
      "learning_rate": 1.5e-4,  # peak rate
      # After the warm-up: "constant", "cosine" or "linear".
      "schedule": "constant",
      "warmup_steps": 0,  # training steps of linear warm-up from 0
      # Training step at which the cosine or the line ends, warm-up included.
      "decay_steps": 0,
      "final_scale": 0.1,  # fraction of learning_rate where it ends
      "b1": 0.9,  # decay of the first moment
      "b2": 0.98,  # decay of the second moment
      "eps": 1e-8,
      "weight_decay": 0.0,
      "clip_norm": 1.0,  # largest global norm of a gradient; 0: no clipping
    }
  )

  # Number of devices along each axis of the mesh; -1: all remaining devices;
  # None: chosen from the number of devices and their memory. Read by
  # training/device_mesh.py.
  config.mesh = ConfigDict(
    {
      "replica": placeholder(int),  # across slices; None: one per slice
      "data": -1,  # splits the batch
      "fsdp": placeholder(int),  # splits the batch and the parameters
      "tensor": placeholder(int),  # splits heads and the MLP
      "context": 1,  # splits the tokens of a sequence
    }
  )
  # Number of devices as which JAX treats the host's CPU; 0: the number that is
  # fastest on this processor, measured once (cli/cpu_devices.py). Accelerators
  # are not affected. Read by cli/devices.py.
  config.cpu_devices = 1
  # Training steps that run as one program. More than 1 needs a task that is
  # scored on the device. Read by training_run/loop.py.
  config.steps_per_dispatch = 1
  # Whether passes leave out padding if completions have room for 64 tokens or
  # more. It changes the results by rounding alone. The number of real tokens is
  # rounded up to one of four sizes, each with a program of its own. Several
  # steps in one program (above) are always padded. Read by
  # training/packed_texts.py.
  config.packing = True

  # Evaluations on held-out problems, before and after training. Read by
  # evaluation/evaluator.py.
  config.evaluation = ConfigDict(
    {
      "problems": 256,  # the same problems in every run
      "samples": 64,  # completions per problem
      "batch": 64,  # problems that are sampled at a time
      # Completions of a problem that are decoded at a time; 0: all.
      "rows": 0,
      "temperature": 1.0,  # 0: greedy decoding
      "seed": 0,  # seed of the completions
    }
  )
  # Training steps between further evaluations; 0: none.
  config.evaluate_every = 0

  # Metrics. Read by training/metric_buffer.py and logging/writers.py.
  config.log_every = 1  # training steps between two lines of metrics.jsonl
  # Where metrics go besides metrics.jsonl: "tensorboard", "wandb".
  config.sinks = ("tensorboard",)
  # Training steps between samples written to `rollouts/`; 0: none.
  config.rollouts_every = 0

  # Checkpoints. Read by training_run/loop.py and
  # training/checkpoint_retention.py. The last step is always saved.
  config.checkpoint_every = 0  # training steps between checkpoints; 0: none
  config.keep_checkpoints = 2  # number of latest checkpoints that are kept
  # Checkpoints at multiples of this number of steps are kept too; 0: none.
  config.keep_every = 0
  # Metric whose best checkpoint is kept too, such as
  # "evaluation/accuracy/pass@8". The highest value is best, or with "-" in
  # front ("-loss/total") the lowest. "": none. It must be logged at every
  # multiple of checkpoint_every.
  config.keep_best = ""

  # Consecutive training steps without an update after which a run ends; 0: the
  # run never ends for this reason. rl/update_guard.py decides which updates are
  # skipped: for example those whose loss, gradient or mean importance ratio is
  # not finite, or whose ratio exceeds plan.max_mean_ratio. Read by
  # training/nan_guard.py.
  config.stop_after_skips = 10

  # Workdir of another run, whose latest parameters are those to start from; "":
  # none. Read by training/initial_state.py.
  config.init_from = ""
  return config


def rl(steps: int = 120, seed: int = 0) -> ConfigDict:
  """Reinforcement learning from the policy's own samples.

  Args:
    steps: number of training steps.
    seed: seed of the run.
  """
  config = _shared(seed, steps)
  # What is optimised: a method of rl/methods, with its hyper-parameters.
  # `python -m experiments.catalogue methods` lists them. Read by
  # training/method_from_config.py.
  config.method = "grpo(beta=0.0)"
  # The reward that replaces the task's score, such as "verdict() + 0.1 *
  # distinct_ngrams(n=2)"; "": the task's score. training/reward_expression.py
  # describes the syntax. Everything else that a method reads, such as verdicts,
  # always comes from the task: a method that reads verdicts alone, such as
  # `psr`, does not learn from the reward. Read by
  # training/reward_from_config.py.
  config.reward = ""
  # The reward of each step of reasoning, such as "gains()"; "": the scores of
  # steps are the task's. Read by training/reward_from_config.py.
  config.step_reward = ""
  # Fitted process reward models that score the steps of the samples:
  # {name: reward_model(workdir)}. The reward "model_steps(model='NAME')" reads
  # their scores. Read by training/reward_models.py.
  config.models = ConfigDict()
  # A judge that answers questions about the samples, made by `judge`; {}: none.
  # Read by training/judging.py.
  config.judge = ConfigDict()
  # Held-out prompts that a hack can answer, with a rule that recognises it,
  # made by `trip_wires`; {}: none. Read by evaluation/trip_wires.py.
  config.trip_wires = ConfigDict()
  # Optimizer settings of further learners, where several networks learn:
  # {learner: {key of `optimizer`: value}}. Read by training/optimizers.py.
  config.learners = ConfigDict()
  # Where and when the rollout is sampled: devices, mesh and time (asynchronous
  # rollouts). What is sampled is in `rollout`. Read by
  # training/rollout_pipeline.py and training/device_mesh.py.
  config.inference = ConfigDict(
    {
      # Number of devices that only sample, the last of all devices; 0: the
      # training devices sample too.
      "devices": 0,
      # 1: samples the rollout of the next training step while the present step
      # is trained, from parameters that are one step old (needs `devices`); 0:
      # samples, then trains.
      "ahead": 0,
      # Largest importance weight. The advantage of each token is multiplied by
      # min(pi / pi_sampler, importance_cap), where pi is the probability of the
      # token under the parameters at the start of the step, and pi_sampler that
      # under the sampler, whose parameters are older or less precise. 0: no
      # weights.
      "importance_cap": 0.0,
      # Mesh of the sampler, as in `mesh`; all None: the mesh of training. If
      # it has the devices of training, evaluations use it too. `tensor` may be
      # larger than the number of key and value heads, which are then repeated.
      "replica": placeholder(int),
      "data": placeholder(int),
      "fsdp": placeholder(int),
      "tensor": placeholder(int),
    }
  )
  # Supervised config that is run first, unless `init_from` is set; {}: none.
  # Read by training_run/loop.py.
  config.base = ConfigDict()
  return config


def reward_model(workdir: str) -> ConfigDict:
  """Returns a process reward model that scores the steps of a run's samples.

  Args:
    workdir: workdir of `python -m experiments.prm fit`.
  """
  return ConfigDict(
    {
      "workdir": workdir,
      # Labels on which the model is trained beside the policy, a key of
      # `training.reward_models.LABELS`: "task" (the task's step scores) or
      # "verdict" (that of the sample); "": the model is frozen.
      "labels": "",
      "every": 1,  # training steps between two updates of the model
      "learning_rate": 1e-4,  # of these updates
    }
  )


def judge(url: str, model: str, **questions: str) -> ConfigDict:
  """Returns a judge of a run's samples, a model on a server.

  Args:
    url: base URL of an OpenAI-compatible API, such as
      "http://localhost:8000/v1".
    model: name of the model on the server.
    **questions: questions of `rewards.judged` by name, such as
      `quality="grade(high=5)"`. The answer is a component of the score, which
      `config.reward = "quality"` pays; the scores of steps are step scores.
  """
  return ConfigDict(
    {
      "url": url,
      "model": model,
      "key_variable": "",  # environment variable with the API key; "": no key
      # A policy that answers in this process in place of a server: a model
      # folder, the name of a pretrained model, or the workdir of a run; "": the
      # server.
      "policy": "",
      "questions": questions,
      "workers": 8,  # requests at a time; for a policy also its batch
      "temperature": 0.0,  # 0: greedy decoding
      "max_tokens": 1024,  # of a reply
      "timeout": 60.0,  # seconds of an attempt, from the connection to the end
      "retries": 2,  # attempts after a time-out, or a status such as 429 or 503
      # File of the replies, which are asked for once; "": one in the cache.
      "cache": "",
    }
  )


def policy_judge(policy: str, **questions: str) -> ConfigDict:
  """Returns a judge of a run's samples that answers in the run's process.

  Args:
    policy: folder with Hugging Face files, whose tokenizer has a chat template;
      the name of a model of `experiments.pretrained`; or the workdir of a run.
    **questions: as in `judge`.
  """
  config = judge("", "", **questions)
  config.policy, config.max_tokens = policy, 256
  return config


def trip_wires(rule: str, task: str = "") -> ConfigDict:
  """Returns trip wires, which are answered whenever the policy is evaluated.

  Args:
    rule: verifier that calls a hack right, as "module:function", such as those
      of `rewards.verifiers.trip_wires`.
    task: task whose held-out problems are the traps; "": that of the run.
  """
  return ConfigDict({"rule": rule, "task": task, "problems": 64, "samples": 4})


def supervised(steps: int = 1000, seed: int = 0) -> ConfigDict:
  """Returns a config of supervised training on demonstrations.

  Args:
    steps: number of training steps; the cosine schedule ends with them, unless
      `optimizer.decay_steps` is set.
    seed: seed of the run.
  """
  config = _shared(seed, steps)
  config.kind = "supervised"
  # File of demonstrations, lines {"prompt": TEXT, "solution": TEXT} that the
  # task's template and tokens encode; "": the task's own demonstrations. Read
  # by training/training_texts.py.
  config.demonstrations = ""
  config.rollout.prompts = 256
  config.optimizer.learning_rate = 2e-3
  config.optimizer.schedule = "cosine"
  config.optimizer.warmup_steps = 50
  # One way: `--config.steps` moves the end of the schedule, but an override of
  # `decay_steps` does not change the number of steps.
  config.optimizer.decay_steps = config.get_oneway_ref("steps")
  config.log_every = 20
  return config


def preferences(steps: int = 32, seed: int = 0) -> ConfigDict:
  """Returns a config of training on pairs of a better and a worse completion.

  The defaults are those of Tulu 3, except the learning rate, which is for a
  small decoder: the paper has 5e-7 for 8 billion parameters.

  Args:
    steps: number of training steps; the linear schedule ends with them, after
      a tenth of warm-up, unless `optimizer.decay_steps` and
      `optimizer.warmup_steps` are set.
    seed: seed of the run.
  """
  config = _shared(seed, steps)
  config.kind = "preferences"
  # File of lines {"prompt": TEXT, "chosen": TEXT, "rejected": TEXT}, which
  # `python -m experiments.preferences` writes. Read by
  # training/training_texts.py.
  config.preferences = ""
  # `dpo` with its hyper-parameters. Read by training/method_from_config.py.
  config.method = "dpo(beta=5.0, length_normalized=True)"
  config.base = ConfigDict()  # same as in `rl`
  config.rollout.prompts = 128  # pairs per step
  config.optimizer.learning_rate = 1e-4
  config.optimizer.schedule = "linear"
  # One way, as in `supervised`.
  config.optimizer.warmup_steps = config.get_oneway_ref("steps") // 10
  config.optimizer.decay_steps = config.get_oneway_ref("steps")
  config.optimizer.final_scale = 0.0
  return config


def with_base(config: ConfigDict, base: ConfigDict) -> ConfigDict:
  """Returns `config`, changed so that the run first trains a supervised base.

  The run takes the seed, the task, the verifier, the data, the model, the mesh
  and the CPU devices of its base. From then on these keys of the base follow
  those of the run: `--config.seed=1` changes both. An override of a key of the
  base, `--config.base.seed=1`, changes the base alone, in whatever order both
  are overridden.

  Args:
    config: config of the RL run.
    base: config of the supervised run.
  """
  config.base = base
  for name in ("seed", "task", "verifier", "cpu_devices"):
    config[name] = base[name]
    base[name] = config.get_oneway_ref(name)
  for name in ("data", "model", "mesh"):
    config[name] = base[name]
    base[name] = _follow(config[name])
  return config


def _follow(block: ConfigDict) -> ConfigDict:
  """Returns a block whose values are those of `block` until they are set."""
  follower = ConfigDict()
  for key, value in block.items(preserve_field_references=True):
    if isinstance(value, ConfigDict):
      follower[key] = _follow(value)
    else:
      # A None without a type, which no command line can override, stays None.
      follower[key] = value if value is None else block.get_oneway_ref(key)
  return follower
