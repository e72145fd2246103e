"""Refusals of `validate` before a run starts, and their messages."""

import dataclasses
import json
import math
import re
import types

import ml_collections
import pytest
from helpers import small_run

from experiments.configs import defaults
from experiments.data import pretrained
from experiments.evaluation import evaluator, trip_wires
from experiments.training import build
from experiments.training_run import validate
from models import hf
from rl import methods, scoring
from rl.minibatches import Plan

PASS_AT_2 = "evaluation/accuracy/pass@2"


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"rollout__temperature": 0.0}, "rollout.temperature = 0.0"),
    ({"method": "rloo", "plan__epochs": 2}, "strictly on-policy"),
    ({"plan__max_mean_ratio": -1.0}, "max_mean_ratio = -1.0 must be above 1"),
    ({"plan__max_mean_ratio": math.nan}, "max_mean_ratio = nan must be above"),
    ({"stop_after_skips": -1}, "stop_after_skips = -1 must be at least 0"),
    ({"evaluate_every": -1}, "evaluate_every = -1 must be at least 0"),
    (
      {"rollout.sampler": "greedy("},
      r"rollout.sampler: cannot read .*prefix_values\(cont",
    ),
    (
      {"reward__step_reward": "gains("},
      r"reward.step_reward: cannot read .*gains\(\)",
    ),
    ({"method": "ppo"}, "add --config.model.value_head=True"),
    ({"method": "grpo(clip=-0.2)"}, "low = -0.2 must be at least 0"),
    ({"optimizer__schedule": "cosine"}, "usual value is 120, which is"),
    (
      {
        "optimizer__schedule": "cosine",
        "optimizer__warmup_steps": 50,
        "optimizer__decay_steps": 50,
      },
      "decay_steps = 50 must be .* falls to final_scale = 0.1 of its peak",
    ),
    (
      {"method": "prime", "learners": {"prm": {"b1": 2}}},
      r"learners.prm.b1 = 2 must .* below 1, such as 0.999",
    ),
    (
      {"method": "prime", "learners": {"prm": {"b1": "a"}}},
      r"learners.prm.b1 = 'a' must",
    ),
  ],
)
def test_what_cannot_learn_is_refused(changes, message):
  with pytest.raises(ValueError, match=message):
    validate.check_and_build(small_run.config(**changes))


@pytest.mark.parametrize(
  ("key", "value", "message"),
  [
    ("clip_norm", -1.0, "at least 0 and finite, such as 0$"),
    ("learning_rate", -1e-3, "at least 0 and finite, such as 0$"),
    ("learning_rate", math.nan, "such as 0.00015$"),
    ("learning_rate", math.inf, "such as 0.00015$"),
    ("b1", 2.0, "at least 0 and below 1, such as 0.999$"),
    ("b2", 1.0, "at least 0 and below 1, such as 0.999$"),
    ("eps", -1.0, "at least 1e-30 and finite, such as 1e-08$"),
    ("weight_decay", -1.0, "such as 0$"),
    ("warmup_steps", -5, "such as 0$"),
    ("final_scale", -0.1, "such as 0$"),
    ("decay_steps", -1, "such as 0$"),
    ("final_scale", math.inf, "such as 0.1$"),
    ("weight_decay", math.inf, "such as 0$"),
    ("clip_norm", math.inf, "such as 1$"),
    ("b1", 1.0, "such as 0.999$"),
    ("b1", -0.1, "such as 0$"),
    ("b2", -0.1, "such as 0$"),
  ],
)
def test_an_optimiser_of_no_sense_is_refused(key, value, message):
  config = defaults.rl()
  config.optimizer[key] = value
  start = re.escape(f"optimizer.{key} = {value} must be ")
  with pytest.raises(ValueError, match=f"{start}.*{message}"):
    validate.check_optimizers(config, ["policy"])


def test_a_run_that_ends_while_it_warms_up_meets_no_cosine():
  config = defaults.supervised(steps=20)  # of 50 steps of warm-up
  validate.check_optimizers(config, ["policy"])


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({}, "preferences is empty; name a file of lines with 'prompt', 'chosen'"),
    ({"method": "grpo()"}, "unknown method of kind = 'preferences' 'grpo'"),
    ({"method": "dpo(beta=-1.0)"}, "beta=-1.0 must be above 0"),
    ({"preferences": "/no/such.jsonl"}, "preferences: no file '/no/such.jsonl"),
  ],
)
def test_preferences_have_a_file_and_a_method_of_pairs(changes, message):
  config = small_run.config("preferences", **changes)
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_and_build(config)


@pytest.mark.parametrize("kind", ["supervised", "preferences"])
def test_lines_of_a_file_are_selected_on_the_host(kind, tmp_path):
  file = tmp_path / "lines.jsonl"
  line = {"prompt": "1 2 = d0 d3", "solution": "1 + 2"}
  line |= {"chosen": "1 + 2", "rejected": "2 * 1"}
  file.write_text(json.dumps(line))
  key = {"supervised": "demonstrations"}.get(kind, kind)
  config = small_run.config(
    kind, **{key: str(file)}, steps=4, steps_per_dispatch=2
  )
  config.optimizer.warmup_steps = 0
  config.rollout.prompts = 8
  with pytest.raises(ValueError, match=r"steps_per_dispatch = 2 must be 1"):
    validate.check_and_build(config)
  config.steps_per_dispatch = 1
  e = validate.check_and_build(config)
  assert e.abstract_rollout.scores.shape == (8, 2 if kind == key else 1)


RETENTION = [
  ({"keep_checkpoints": 0}, "keep_checkpoints = 0 must be at least 1"),
  (
    {"keep_every": 7, "checkpoint_every": 5},
    "keep_every = 7 must be a multiple of checkpoint_every = 5; nearest: 5",
  ),
  (
    {"keep_best": "evaluation/reward/maen", "evaluate_every": 5},
    "'evaluation/reward/maen'; did you mean 'evaluation/reward/mean'",
  ),
  ({"keep_best": "-los/total"}, "'los/total'; did you mean 'loss/total'"),
  (
    {"keep_best": PASS_AT_2, "checkpoint_every": 5, "evaluate_every": 10},
    "checkpoint_every = 5 must be a multiple of evaluate_every = 10",
  ),
  (
    {"keep_best": PASS_AT_2, "checkpoint_every": 5},
    "checkpoint_every = 5 must be a multiple of evaluate_every = 0",
  ),
]


@pytest.mark.parametrize(("changes", "message"), RETENTION)
def test_what_would_keep_nothing_is_refused(changes, message, tmp_path):
  config = small_run.config(**changes)
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_and_build(config, tmp_path / "new")
  assert not (tmp_path / "new").exists()


def with_base(**base_changes):
  """Config of a run that starts from a supervised base."""
  base = small_run.config("supervised", **base_changes)
  return defaults.with_base(small_run.config(), base)


@pytest.mark.parametrize(
  ("base_changes", "message"),
  [
    ({"steps": 0}, "base.steps = 0 must be at least 1"),
    ({"plan__chunk": 0}, "base: plan.chunk = 0 must be at least 1 position"),
  ],
)
def test_a_base_is_checked_before_it_is_trained(
  base_changes, message, tmp_path
):
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_and_build(with_base(**base_changes), tmp_path / "new")
  assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("chunk", [0, -3])
def test_a_chunk_has_at_least_one_position(chunk):
  config = small_run.config(plan__chunk=chunk)
  with pytest.raises(ValueError, match=f"plan.chunk = {chunk} must be at leas"):
    validate.check_and_build(config)


@pytest.mark.parametrize("key", ["seed", "evaluation.seed"])
def test_a_seed_that_jax_would_cut_is_refused(key):
  config = small_run.config()
  config.unlock()
  config.update_from_flattened_dict({key: 99999999999999999999})
  with pytest.raises(ValueError, match=f"^{key} = 99999999999999999999 must"):
    validate.check_and_build(config)


def test_a_rollout_that_no_index_reaches_is_refused():
  config = small_run.config(rollout__max_tokens=100_000_000)
  message = r"rollout.max_tokens = 100000000: with 8 prompts and 4 samples"
  with pytest.raises(ValueError, match=message):
    validate.check_and_build(config)


@pytest.mark.parametrize("key", ["warmup_steps", "decay_steps"])
def test_a_learner_warms_up_and_decays_in_finitely_many_steps(key):
  config = small_run.config(learners={"prm": {key: math.inf}})
  message = f"learners.prm.{key} = inf must be .* finite, such as 0$"
  with pytest.raises(ValueError, match=message):
    validate.check_optimizers(config, ["policy", "prm"])


def test_the_smallest_values_of_an_optimiser_are_allowed():
  config = defaults.rl()
  config.optimizer.schedule = "constant"
  for key in validate.OPTIMIZER_RANGES:
    config.optimizer[key] = 1e-30 if key == "eps" else 0
  validate.check_optimizers(config, ["policy"])


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({"plan__max_mean_ratio": 1.0}, "max_mean_ratio = 1.0 must be above 1"),
    ({"steps_per_dispatch": 0}, "steps_per_dispatch = 0 must be at least 1"),
    ({"log_every": 0}, "log_every = 0 must be at least 1"),
    ({"steps": 11, "steps_per_dispatch": 4}, "nearest: 12"),
    ({"steps": 1, "steps_per_dispatch": 4}, "nearest: 4"),
    ({"keep_every": 13, "checkpoint_every": 5}, "nearest: 15"),
    ({"keep_every": 2, "checkpoint_every": 5}, "nearest: 5"),
    ({"keep_every": -1}, "checkpoint_every = 0; nearest: 0"),
    (
      {"task": "jsonl(file='a')", "data__file": "b"},
      "sets file='a', and the key of the config is 'b'",
    ),
  ],
)
def test_wrong_values_of_a_config_are_refused(changes, message):
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_config(small_run.config(**changes))


@pytest.mark.parametrize(
  "changes",
  [
    {"plan__chunk": 1},
    {"plan__max_mean_ratio": 1.5},
    {"stop_after_skips": 0},
    {"steps": 12, "steps_per_dispatch": 4},
    {"keep_checkpoints": 1, "keep_every": 10, "checkpoint_every": 5},
    {"task": "jsonl(file='a')", "data__file": "a"},
    {"task": "jsonl", "data__file": "b"},
    {"rollout__sampler": "greedy()", "method": "grpo()"},
  ],
)
def test_values_at_the_border_are_allowed(changes):
  validate.check_config(small_run.config(**changes))


def test_a_method_has_one_sampler():
  config = small_run.config(method="remax", rollout__sampler="greedy()")
  with pytest.raises(
    ValueError, match=r"remax.* has the sampler greedy\(\) al"
  ):
    validate.check_config(config)


def test_a_decay_lies_behind_the_warm_up():
  config = defaults.rl(steps=20)
  config.optimizer.schedule = "linear"
  config.optimizer.warmup_steps, config.optimizer.decay_steps = 5, 6
  validate.check_optimizers(config, ["policy"])
  config.optimizer.decay_steps = 4
  with pytest.raises(ValueError, match="decay_steps = 4 must be more than"):
    validate.check_optimizers(config, ["policy"])


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({}, None),
    ({"final": 0.5}, "schedule_steps = 0 and final = 0.5 have no meaning"),
    ({"schedule_steps": 1}, "schedule_steps = 1 and final = 0.0 have no"),
    ({"schedule": "linear", "schedule_steps": 1, "final": 0.5}, None),
    ({"schedule": "linear"}, "t.schedule_steps = 0 must be at least 1"),
    ({"schedule": "linaer"}, "did you mean 'linear'"),
  ],
)
def test_only_a_weight_that_changes_has_a_schedule(settings, message):
  block = defaults.reward(t=defaults.term("verdict()", **settings))
  if message is None:
    validate.check_reward(block)
    return
  with pytest.raises(ValueError, match=re.escape(message)):
    validate.check_reward(block)


def test_a_reward_names_each_of_its_terms_once_in_its_order():
  block = defaults.reward(a="verdict()", b="verdict()")
  validate.check_reward(block)
  block.order = ("a",)
  with pytest.raises(ValueError, match="must name the terms"):
    validate.check_reward(block)


def test_a_reward_model_learns_at_most_in_every_step():
  settings = defaults.reward_model("none")
  validate._check_models({"prm": settings})
  settings.learning_rate = 0.0
  with pytest.raises(ValueError, match=r"models.prm.learning_rate = 0.0 must"):
    validate._check_models({"prm": settings})


def of_processes(*processes, platform="cpu"):
  return [
    types.SimpleNamespace(platform=platform, process_index=process)
    for process in processes
  ]


@pytest.mark.parametrize(
  ("changes", "processes", "message"),
  [
    ({}, (0,), None),
    ({"sampling": {}}, (0,), None),
    ({"sampling__devices": 1}, (0, 0), None),
    ({"sampling__devices": 1, "sampling__ahead": 1}, (0, 0), None),
    ({"sampling__devices": -1}, (0, 0), "some of the 2 devices to .*: 0 to 1"),
    ({"sampling__devices": 2}, (0, 0), "sampling.devices = 2 must leave some"),
    ({"sampling__devices": 1}, (0, 1), "across processes"),
    ({"sampling__devices": 0}, (0, 1), None),
    ({"sampling__ahead": 2, "sampling__devices": 1}, (0, 0), "must be 0 or 1"),
    ({"sampling__ahead": 1}, (0, 0), "sampling.ahead = 1: on the same devices"),
    ({"steps_per_dispatch": 2}, (0, 0), None),
    (
      {"steps_per_dispatch": 2, "sampling__devices": 1},
      (0, 0),
      "steps_per_dispatch = 2: a fused program has one mesh",
    ),
    (
      {"steps_per_dispatch": 2, "sampling__tensor": 2},
      (0, 0),
      "steps_per_dispatch = 2: a fused program has one mesh",
    ),
    ({"sampling__tensor": 2}, (0, 0), None),
  ],
)
def test_devices_that_sample_are_left_over_by_training(
  changes, processes, message
):
  config = small_run.config(**changes)
  devices = of_processes(*processes)
  if message is None:
    validate.check_devices(config, devices)
    return
  with pytest.raises(ValueError, match=message):
    validate.check_devices(config, devices)


@pytest.mark.parametrize(
  ("attention", "context", "platform", "message"),
  [
    (None, 2, "cpu", None),
    ("blocked", 2, "cpu", None),
    ("splash", None, "tpu", None),
    ("splash", 1, "tpu", None),
    ("splash", 2, "tpu", "with mesh.context = 2 use 'blocked', or None"),
    ("splash", None, "cpu", "'splash' runs on tpu, not on cpu"),
    ("blocked", None, "gpu", None),
  ],
)
def test_a_form_of_attention_suits_the_platform_and_the_mesh(
  attention, context, platform, message
):
  config = small_run.config(model__attention=attention, mesh__context=context)
  devices = of_processes(0, platform=platform)
  if message is None:
    validate.check_devices(config, devices)
    return
  with pytest.raises(ValueError, match=message):
    validate.check_devices(config, devices)


def test_heads_of_a_folder_keep_their_size(monkeypatch):
  e = build.build(small_run.config())
  folder_heads = [("value", 3)]
  checked = []
  monkeypatch.setattr(pretrained, "resolve", lambda path: "folder")
  monkeypatch.setattr(
    hf,
    "load_config",
    lambda folder: types.SimpleNamespace(extra_heads=folder_heads),
  )
  monkeypatch.setattr(
    hf, "check_tokenizer", lambda *arguments: checked.append(arguments)
  )
  validate._check_model(e)
  assert checked == [(e.model, e.task.vocab_size, "folder")]
  e.config.model.extra_heads = (("value", 3), ("other", 1))
  validate._check_model(e)
  e.config.model.extra_heads = (("value", 2),)
  with pytest.raises(ValueError, match="has 3 outputs, not 2; use 3"):
    validate._check_model(e)


def test_the_decoder_has_an_output_for_each_token():
  e = build.build(small_run.config())
  size = e.task.vocab_size

  def with_vocabulary(vocab_size):
    model = dataclasses.replace(e.model, vocab_size=vocab_size)
    return dataclasses.replace(e, model=model)

  validate._check_model(with_vocabulary(size))
  validate._check_model(with_vocabulary(size + 1))
  with pytest.raises(ValueError, match=f"is smaller than the {size} tokens"):
    validate._check_model(with_vocabulary(size - 1))


def mesh(data=1, tensor=1, context=1):
  sizes = {"replica": 1, "data": data, "fsdp": 1}
  return types.SimpleNamespace(
    shape={**sizes, "tensor": tensor, "context": context}
  )


def divided(
  train, sample=None, evaluate=None, plan=(1, 1), kind="rl", batch=8, **rollout
):
  """The parts of an experiment that meshes divide; 8 prompts of 8 samples."""
  rollout = types.SimpleNamespace(**{"prompts": 8, "samples": 8, **rollout})
  return types.SimpleNamespace(
    config=types.SimpleNamespace(
      rollout=rollout, evaluation=types.SimpleNamespace(batch=batch)
    ),
    plan=Plan(minibatches=plan[0], microbatches=plan[1]),
    is_rl=kind == "rl",
    mesh=train,
    sampling_mesh=sample or train,
    evaluation_mesh=evaluate or train,
    model=types.SimpleNamespace(heads=4, kv_heads=2),
  )


@pytest.mark.parametrize(
  ("parts", "message"),
  [
    (divided(mesh()), None),
    (divided(mesh(), prompts=0), r"rollout.prompts = 0 (nearest: 1)"),
    (divided(mesh(), prompts=1, batch=1), None),
    (divided(mesh(data=2), plan=(2, 2)), None),
    (
      divided(mesh(data=4), plan=(2, 2)),
      "rollout.prompts / (plan.minibatches * plan.microbatches) = 2 "
      "(nearest: 4): not divisible by the mesh's",
    ),
    (divided(mesh(data=4), batch=9), "evaluation.batch = 9 (nearest: 8)"),
    # The largest of the two nearest numbers of samples, and at least one part.
    (divided(mesh(context=3)), "rollout.samples = 8 is not divisible by"),
    (divided(mesh(context=3)), "nearest: 9"),
    (divided(mesh(context=3), samples=1), "nearest: 3"),
    (divided(mesh(context=3), kind="supervised"), None),
    # Evaluations use the mesh that samples, if they have the same devices.
    (divided(mesh(), mesh(data=3)), "rollout.prompts = 8 (nearest: 9): not di"),
    (divided(mesh(), mesh(data=2), batch=9), None),
    (
      divided(mesh(), *[mesh(data=2)] * 2, batch=9),
      "evaluation.batch = 9 (nearest: 8): not divisible by the sampler's",
    ),
    (divided(mesh(data=2), mesh(), mesh(), batch=9), None),
    (divided(mesh(), mesh(tensor=4)), None),
    (divided(mesh(), mesh(tensor=3)), "sampling.tensor = 3 cannot split"),
  ],
)
def test_meshes_divide_what_they_split(parts, message):
  if message is None:
    validate._check_divisibility(parts)
    return
  with pytest.raises(ValueError, match=re.escape(message)):
    validate._check_divisibility(parts)


@pytest.mark.parametrize("part", ["signal_needs", "term_needs"])
def test_a_critic_needs_a_value_head(part):
  value = scoring.Need("policy", scoring.values)
  method = {"signal_needs": set(), "term_needs": set(), part: {value}}
  e = types.SimpleNamespace(
    methods={"policy": types.SimpleNamespace(**method)},
    method=types.SimpleNamespace(name="critic"),
    model=types.SimpleNamespace(value_head=True),
  )
  validate._check_value_head(e)
  e.model.value_head = False
  with pytest.raises(ValueError, match="critic reads a value head"):
    validate._check_value_head(e)


@pytest.mark.parametrize(
  ("prompts", "samples", "tokens", "nearest"),
  [
    (1, 1, 2**31 - 1, None),
    (1, 1, 2**31, 2**31 - 1),
    (2, 4, 2**28, 2**28 - 1),
    (2**20, 2**20, 2, 1),
  ],
)
def test_the_tokens_of_a_rollout_have_numbers_of_32_bits(
  prompts, samples, tokens, nearest
):
  e = types.SimpleNamespace(
    is_rl=True,
    config=types.SimpleNamespace(
      rollout=types.SimpleNamespace(prompts=prompts)
    ),
    sampling=types.SimpleNamespace(samples=samples, max_tokens=tokens),
  )
  if nearest is None:
    validate._check_rollout_size(e)
    return
  with pytest.raises(ValueError, match=f"nearest: {nearest}$"):
    validate._check_rollout_size(e)


def test_a_model_learns_from_step_scores_that_exist():
  table = types.SimpleNamespace(shape=(64, 16))
  model = types.SimpleNamespace(
    shapes={"decoder": {"embed": {"table": table}}}, labels="task"
  )
  e = types.SimpleNamespace(
    reward_models={"prm": model},
    model=types.SimpleNamespace(vocab_size=64),
    task=types.SimpleNamespace(name="flat"),
    abstract_rollout=types.SimpleNamespace(step_scores=None),
  )
  with pytest.raises(ValueError, match="'task': flat does not score steps"):
    validate._check_reward_models(e)


@pytest.mark.parametrize(
  ("method", "reward", "message"),
  [
    ("grpo", {"a": "verdict()"}, None),
    ("grpo", {"step_reward": "gains()"}, "grpo.* reads no step scores"),
    ("min_form", {"step_reward": "gains()"}, None),
    ("min_form", {"a": "verdict()"}, "min_form.* learns from step scores, not"),
    ("remax", {"a": "verdict()"}, "remax.* score of the greedy sample"),
  ],
)
def test_a_method_reads_the_reward_that_is_set(method, reward, message):
  config = defaults.rl()
  config.reward = defaults.reward(**reward)
  paid = dataclasses.replace(
    methods.get(method), reward=build.make_reward(config.reward)
  )
  if message is None:
    validate._check_reward(paid)
    return
  with pytest.raises(ValueError, match=message):
    validate._check_reward(paid)


@pytest.mark.parametrize(
  ("name", "changes", "message"),
  [
    ("loss/total", {"log_every": 5}, None),
    ("loss/total", {"log_every": 1}, None),
    ("loss/total", {"log_every": 4}, "must be a multiple of log_every = 4"),
    (trip_wires.METRIC, {"evaluate_every": 5}, None),
    (trip_wires.METRIC, {"evaluate_every": 0}, "of evaluate_every = 0"),
    (PASS_AT_2, {"evaluate_every": 5, "log_every": 4}, None),
  ],
)
def test_the_best_checkpoint_is_chosen_by_a_metric_of_its_step(
  name, changes, message, monkeypatch
):
  names = ["loss/total", trip_wires.METRIC, PASS_AT_2]
  monkeypatch.setattr(validate, "_logged_metrics", lambda e: names)
  config = small_run.config(keep_best=name, checkpoint_every=5, **changes)
  e = types.SimpleNamespace(config=config)
  if message is None:
    validate._check_keep_best(e)
    return
  with pytest.raises(ValueError, match=message):
    validate._check_keep_best(e)


@pytest.mark.parametrize(
  ("changes", "message"),
  [
    ({}, None),
    ({"problems": 0}, "evaluation.problems = 0 must be at least 1"),
    ({"trap_problems": 0}, "trip_wires.problems = 0 must be at least 1"),
    ({"trap_samples": 0}, "trip_wires.samples = 0 must be at least 1"),
    ({"trap_tokens": 9}, "has a vocabulary of 9 tokens, and .* of 8"),
  ],
)
def test_an_evaluation_has_at_least_one_problem(changes, message, monkeypatch):
  monkeypatch.setattr(evaluator, "sampling_settings", lambda e: None)
  config = ml_collections.ConfigDict(
    {
      "evaluation": {"problems": changes.get("problems", 1)},
      "trip_wires": {
        "task": "traps",
        "problems": changes.get("trap_problems", 1),
        "samples": changes.get("trap_samples", 1),
      },
    }
  )
  e = types.SimpleNamespace(
    config=config,
    task=types.SimpleNamespace(test=lambda n: None, vocab_size=8),
    traps=types.SimpleNamespace(
      test=lambda n: None, vocab_size=changes.get("trap_tokens", 8)
    ),
  )

  def check():
    evaluator.check(e)
    trip_wires.check(e)

  if message is None:
    check()
    return
  with pytest.raises(ValueError, match=message):
    check()
