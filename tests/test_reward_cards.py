"""The table of cards is whole, and what it names is there."""

import ast
import functools
import importlib
import pathlib

import pytest
from reward_cards import CARDS

from experiments import tasks
from experiments.cli import spec
from experiments.configs import method as method_configs
from experiments.configs import reward as reward_configs
from rewards import sources

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Every card of sections A to I, and the one-liners of section J.
NAMES = [
  "pure_min_form",
  "sum_form_process_reward",
  "prm_aggregations",
  "clip_delta",
  "potential_shaping",
  "gated_accumulation",
  "renorm",
  "capo",
  "tp_grpo",
  "igpo",
  "spa_rl",
  "vsrm",
  "treerpo",
  "pav",
  "mrt",
  "rltr_transfer",
  "behavior_alignment_barfi",
  "implicit_prm",
  "prime",
  "oprl_istar",
  "er_prm",
  "t_reg",
  "rlfr",
  "dual_head_compound",
  "prof",
  "fapo",
  "posterior_grpo",
  "trust_grpo",
  "hero",
  "confclip",
  "crf_conciseness",
  "pspo_wrs",
  "grpo_lambda",
  "adaptive_length_penalty",
  "bingo",
  "pear",
  "self_aligned_reward",
  "par_shaping_suite",
  "log_sigmoid_centered",
  "reward_ensembles",
  "odin",
  "chi2_regularisation",
  "noisy_verifier_correction",
  "reasoning_pattern_reward_and_noise",
  "spurious_rewards",
  "rnd_bonus",
  "majority_self_training",
  "co_reward",
  "empo",
  "rent",
  "compute_as_teacher",
  "self_certainty",
  "crew",
  "genius_aco",
  "likelihood_reward_family",
  "verifree",
  "rlpr",
  "covrl",
  "flr",
  "rubrics_as_rewards",
  "chasing_the_tail",
  "rlbff",
  "rlvrr",
  "verif",
  "ifdecorator",
  "ifbench_verifiable",
  "toolrl",
  "rltr_tool",
  "reasoning_sql",
  "planner_r1",
  "brier_forecast",
  "semantic_encoder_reward",
  "r3_regularized_relevance",
  "acre",
  "armed_adaptive_semantic",
  "drm",
  "grpo_care",
  "fidelity_ranking_reward",
  "ranking_metrics",
  "mah_dpo",
  "combine_objectives",
]
NEIGHBOURS = [
  "lare",
  "eager",
  "oni",
  "teacher_variance",
  "generative_reward_models",
  "spark_prm",
  "writing_zero",
  "pref_grpo",
  "tango",
  "tinyv",
  "soft_model_score",
  "rise",
  "deepseekmath_v2",
  "pf_ppo",
  "heron",
  "domain_features",
  "judge_rlvr",
  "pass_at_k_shaping",
]


def test_every_card_has_its_row_and_no_row_is_of_no_card():
  assert list(CARDS) == NAMES + NEIGHBOURS


@pytest.mark.parametrize("name", CARDS)
def test_a_card_is_somewhere_with_its_oracle_or_says_why_not(name):
  card = CARDS[name]
  if card.open:
    assert name in NEIGHBOURS
    assert (card.where, card.tests, card.config) == ((), (), ())
    assert not card.no_config
    assert len(card.open) > 20
  else:
    assert card.where
    assert card.tests
    assert bool(card.config) != bool(card.no_config)
  assert len(set(card.where)) == len(card.where)
  assert len(set(card.tests)) == len(card.tests)


@pytest.mark.parametrize("name", CARDS)
def test_what_implements_a_card_is_documented_code_of_ours(name):
  for place in CARDS[name].where:
    module, _, attribute = place.partition(":")
    assert module.split(".")[0] in ("rl", "rewards"), place
    found = getattr(importlib.import_module(module), attribute)
    assert callable(found), place
    assert found.__doc__, place


@functools.cache
def functions_in(path):
  """Names of the test functions of a file, by parsing it."""
  tree = ast.parse((ROOT / path).read_text())
  return {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


@pytest.mark.parametrize("name", CARDS)
def test_the_oracle_of_a_card_is_a_test_that_exists(name):
  for node in CARDS[name].tests:
    path, _, test = node.partition("::")
    assert test.startswith("test_"), node
    assert test in functions_in(path), node


@pytest.mark.parametrize("name", CARDS)
def test_what_runs_a_card_is_there(name):
  """Files that are, tasks that are, terms that can be made."""
  folders = {"methods": method_configs, "rewards": reward_configs}
  for text in CARDS[name].config:
    kind, _, value = text.partition("=")
    if kind == "task":
      assert value in tasks.names(), text
    elif kind == "reward":
      reward, settings = spec.parse(value)
      assert sources.get(reward, **settings).takes == "none", text
    else:
      folder, _, file = text.partition("/")
      assert file in folders[folder].names(), text
