"""Every card of process rewards, credit and shaping: where it is, what proves it.

tests/test_reward_cards.py checks that all of it is there.
"""

from typing import NamedTuple


class Card(NamedTuple):
  """One card.

  Attributes:
    number: the paper's in the list of papers, None of a utility.
    where: what implements it, "module:name".
    tests: its oracle, "file::function".
    config: what runs it: a file of experiments/configs, "methods/oprl"; a term
      of `--config.mix`, "reward=coins()"; or a task, "task=sql". Components
      that a term names are given by the user's task, or by other terms.
    no_config: where nothing runs it, what that would need.
    open: of a card that nobody has implemented, why.
  """

  number: int | None
  where: tuple[str, ...] = ()
  tests: tuple[str, ...] = ()
  config: tuple[str, ...] = ()
  no_config: str = ""
  open: str = ""


CARDS = {
  # A. Return forms and placement
  "pure_min_form": Card(
    18,
    (
      "rl.credit:min_form_rewards",
      "rl.methods.process.min_form:min_form",
      "rl.methods.process.strict_min_form:strict_min_form",
      "rl.methods.process.pure_verl:pure_verl",
      "rl.methods.process.pure_openrlhf:pure_openrlhf",
      "rewards.process.segmentation:segment_steps",
      "rewards.process.losses:two_class_cross_entropy",
    ),
    (
      "tests/rl/methods/test_pure.py::test_the_worked_example_before_whitening",
      "tests/rl/test_credit.py::test_min_form_of_the_worked_example",
    ),
    config=(
      "methods/min_form",
      "methods/strict_min_form",
      "methods/pure_verl",
      "methods/pure_openrlhf",
    ),
  ),
  "sum_form_process_reward": Card(
    18,
    (
      "rl.methods.process.sum_form:sum_form",
      "rewards.turns:normalize_in_group",
    ),
    (
      "tests/rl/test_credit.py::test_the_padding_hack_pays_under_sum_form_and_not_under_min_form",
      "tests/test_rewards_process.py::test_steps_of_a_group_are_normalised_together",
    ),
    config=("methods/sum_form", "rewards/normalized_steps"),
  ),
  "prm_aggregations": Card(
    100,
    (
      "rewards.process.metrics:worst_step",
      "rewards.process.metrics:mean_step",
      "rl.methods.process.step_rewards:product",
      "rl.methods.process.step_transforms:max_steps",
    ),
    ("tests/rl/methods/test_pure.py::test_aggregations_of_the_card",),
    config=("rewards/worst_step", "rewards/mean_step", "rewards/step_product"),
  ),
  "clip_delta": Card(
    4,
    (
      "rl.methods.process.step_rewards:clip_rewards",
      "rl.methods.process.step_rewards:delta_rewards",
      "rl.methods.process.clip_delta:clip_delta",
    ),
    (
      "tests/rl/methods/test_pure.py::test_clip_and_delta_of_the_card",
      "tests/rl/methods/test_pure.py::test_delta_telescopes_to_a_look_one_step_ahead",
    ),
    config=("methods/clip_delta",),
  ),
  "potential_shaping": Card(
    None,
    (
      "rewards.turns:shape_by_potential",
      "rl.transforms.library:log_ratios",
      "rl.losses.terms:kl",
    ),
    ("tests/test_rewards_process.py::test_a_potential_moves_no_optimum",),
    config=("methods/reinforce_pp",),
  ),
  "gated_accumulation": Card(
    10,
    ("rewards.gates:gated_accumulation",),
    (
      "tests/test_rewards_process.py::test_levels_count_behind_those_above_them",
    ),
    no_config="needs a judge that grades levels of a criterion",
  ),
  "renorm": Card(
    2,
    ("rewards.turns:outcome_centered",),
    ("tests/test_rewards_process.py::test_turns_are_paid_against_the_outcome",),
    config=("rewards/outcome_centered",),
  ),
  "capo": Card(
    56,
    ("rewards.turns:critique_share", "rewards.turns:outcome_minus_errors"),
    (
      "tests/test_rewards_process.py::test_critiques_vote_in_nested_sets",
      "tests/test_rewards_process.py::test_tokens_of_wrong_steps_are_charged",
    ),
    no_config="needs a judge's critiques of the steps",
  ),
  "tp_grpo": Card(
    0,
    ("rewards.progress:judged_thoughts",),
    (
      "tests/test_rewards_process.py::test_thoughts_in_closed_form_are_sums_of_their_rewards",
    ),
    no_config="needs a judge of thoughts",
  ),
  "igpo": Card(
    13,
    ("rewards.turns:information_gain", "rewards.turns:normalize_in_group"),
    ("tests/test_rewards_process.py::test_information_gain_s_numbers",),
    config=("rewards/information_gain",),
  ),
  "spa_rl": Card(
    264,
    ("rewards.turns:attribution_loss", "rewards.turns:attributed"),
    (
      "tests/test_rewards_process.py::test_attribution_recovers_what_each_turn_brings",
    ),
    no_config="needs a model of what each turn brings, trained beside the policy",
  ),
  "vsrm": Card(
    42,
    (
      "rewards.progress:significant_gains",
      "rewards.process.prefix_values:prefix_values",
    ),
    (
      "tests/test_rewards_process.py::test_clear_gains_reach_back_to_the_steps_before",
    ),
    config=("rewards/significant_gains",),
  ),
  "treerpo": Card(
    59,
    ("rewards.progress:node_values", "rewards.progress:sibling_advantages"),
    ("tests/test_rewards_process.py::test_a_tree_of_two_levels",),
    no_config="needs a stage that samples trees; prefix_values continues one chain",
  ),
  "pav": Card(
    1,
    (
      "rewards.progress:gains",
      "rewards.progress:best_of",
      "rewards.process.prefix_values:prefix_values",
    ),
    (
      "tests/test_rewards_process.py::test_progress_of_the_best_of_four",
      "tests/test_rewards_process.py::test_the_best_of_k_on_a_chain",
    ),
    config=("rewards/gains",),
  ),
  "mrt": Card(
    6,
    ("rewards.progress:gains", "rewards.process.prefix_values:prefix_values"),
    (
      "tests/test_rewards_process.py::test_own_gains_are_advantages",
      "tests/test_rewards_process.py::test_steps_after_the_answer_is_known_gain_nothing",
    ),
    config=("rewards/gains",),
  ),
  "rltr_transfer": Card(
    236,
    ("rewards.transfer:transferred", "rewards.transfer:kept_tokens"),
    (
      "tests/test_rewards_learned.py::test_a_receiver_that_is_shown_all_pays_the_verdict",
    ),
    no_config="needs a stage with a second model that goes on from the thought",
  ),
  "behavior_alignment_barfi": Card(
    63,
    (
      "rewards.behavior_alignment:outer_gradient",
      "rewards.behavior_alignment:next_weights",
    ),
    (
      "tests/test_rewards_learned.py::test_one_unrolled_step_is_the_finite_difference",
      "tests/test_rewards_learned.py::test_a_misleading_reward_loses_its_weight",
    ),
    no_config="needs a gradient for every component between two steps, which no train step takes",
  ),
  # B. Learned and implicit process rewards
  "implicit_prm": Card(
    26,
    (
      "rl.methods.process.implicit:implicit_rewards",
      "rl.methods.process.implicit:implicit_cross_entropy",
    ),
    ("tests/rl/methods/test_prime.py::test_a_prefix_is_worth_its_soft_value",),
    config=("methods/prime",),
  ),
  "prime": Card(
    5,
    (
      "rl.methods.process.prime:prime",
      "rl.methods.process.implicit:leave_one_out_tokens",
    ),
    (
      "tests/rl/methods/test_prime.py::test_the_process_baseline_worked_by_hand",
      "tests/rl/methods/test_prime.py::test_the_whole_advantage_against_the_loops_of_its_definition",
    ),
    config=("methods/prime",),
  ),
  "oprl_istar": Card(
    23,
    ("rl.methods.process.oprl:oprl",),
    (
      "tests/rl/methods/test_oprl.py::test_without_the_process_it_is_leave_one_out",
      "tests/rl/methods/test_oprl.py::test_steps_collect_the_log_ratio_of_the_whole",
    ),
    config=("methods/oprl",),
  ),
  "er_prm": Card(
    90,
    (
      "rewards.process.soft_values:log_mean_exp",
      "rewards.process.soft_values:entropy_regularized",
    ),
    ("tests/test_rewards_learned.py::test_the_cards_log_expectations",),
    no_config="makes labels for a process reward model, which no config trains",
  ),
  "t_reg": Card(
    296,
    (
      "rewards.t_reg:token_rewards",
      "rewards.t_reg:regularizer",
      "rewards.t_reg:regularized_dpo",
    ),
    (
      "tests/test_rewards_learned.py::test_without_the_regulariser_it_is_dpo",
      "tests/test_rewards_learned.py::test_the_regularisers_slope_is_minus_beta_r",
    ),
    no_config="needs a task that gives the views better and worse",
  ),
  "rlfr": Card(
    92,
    (
      "rewards.flow:matching_loss",
      "rewards.flow:score",
      "rewards.flow:token_rewards",
    ),
    (
      "tests/test_rewards_learned.py::test_a_perfect_field_finds_nothing_amiss",
      "tests/test_rewards_learned.py::test_few_tokens_are_charged_and_only_those_far_off",
    ),
    no_config="needs hidden states of several layers, and a field trained beside the policy",
  ),
  "dual_head_compound": Card(
    55,
    ("rewards.process.dual_head:compound", "rewards.process.dual_head:loss"),
    ("tests/test_rewards_learned.py::test_a_compound_score_asks_for_both",),
    no_config="needs a process reward model of two heads",
  ),
  # C. Coupling process and outcome
  "prof": Card(
    52,
    ("rl.methods.sampling.prof:prof",),
    (
      "tests/rl/methods/test_sampling.py::test_the_counts_of_the_card",
      "tests/rl/methods/test_sampling.py::test_the_counts_of_prof_by_trying_all_of_them",
      "tests/rl/methods/test_sampling.py::test_all_of_a_group_is_grpo",
    ),
    config=("methods/prof",),
  ),
  "fapo": Card(
    33,
    ("rewards.flaws:flaw_aware", "rewards.flaws:located"),
    (
      "tests/test_reward_functions.py::test_without_flaws_it_is_the_signed_verdict",
      "tests/test_reward_functions.py::test_a_flawed_answer_turns_bad_once_clean_ones_outnumber_wrong_ones",
    ),
    config=("reward=flaw_aware(flawed='flawed')",),
  ),
  "posterior_grpo": Card(
    79,
    ("rewards.gates:posterior",),
    (
      "tests/test_rewards_process.py::test_a_thought_counts_where_the_answer_is_right",
    ),
    config=("rewards/posterior",),
  ),
  "trust_grpo": Card(
    49,
    ("rewards.hybrid:trust", "rewards.hybrid:trusted"),
    ("tests/test_rewards_process.py::test_trust_s_numbers",),
    config=("rewards/trusted",),
  ),
  "hero": Card(
    85,
    ("rewards.hybrid:stratified", "rewards.hybrid:prompt_weights"),
    ("tests/test_rewards_process.py::test_strata_have_the_paper_s_numbers",),
    config=("rewards/stratified",),
  ),
  "confclip": Card(
    67,
    ("rewards.confidence:clipped_confidence",),
    ("tests/test_rewards_likelihood.py::test_confident_errors_cost_most",),
    config=("rewards/clipped_confidence",),
  ),
  "crf_conciseness": Card(
    127,
    ("rewards.gates:concise",),
    (
      "tests/test_rewards_process.py::test_conciseness_is_bounded_and_needs_a_right_answer",
    ),
    config=("reward=concise(conciseness='judge')",),
  ),
  "pspo_wrs": Card(
    64,
    ("rewards.step_count:nonlinear", "rewards.step_count:weibull"),
    (
      "tests/test_rewards_length.py::test_the_shape_of_steps_has_the_paper_s_numbers",
      "tests/test_rewards_length.py::test_the_weibull_s_mode",
    ),
    config=("rewards/nonlinear", "rewards/weibull"),
  ),
  # D. Length and efficiency
  "grpo_lambda": Card(
    38,
    (
      "rewards.length:relative_length",
      "rewards.length:easiest",
      "rewards.sources.outcome:charged_where_easy",
    ),
    (
      "tests/test_rewards_length.py::test_right_answers_pay_for_length_and_wrong_ones_have_nothing",
      "tests/test_rewards_length.py::test_the_easiest_prompts_by_fraction",
    ),
    config=("rewards/charged_where_easy",),
  ),
  "adaptive_length_penalty": Card(
    95,
    (
      "rewards.length:token_price",
      "rewards.length:next_price",
      "rewards.sources.outcome:adaptive_token_price",
    ),
    ("tests/test_rewards_length.py::test_price_of_a_token_and_its_controller",),
    config=("rewards/adaptive_token_price",),
  ),
  "bingo": Card(
    25,
    (
      "rewards.significance:counts",
      "rewards.significance:reward",
      "rewards.significance:next_gain",
    ),
    (
      "tests/test_rewards_length.py::test_bingo_s_numbers",
      "tests/test_rewards_length.py::test_bingo_s_bounds",
    ),
    no_config="needs a model of how much each token matters",
  ),
  "pear": Card(
    70,
    ("rewards.confidence:phase_entropy",),
    ("tests/test_rewards_likelihood.py::test_entropy_of_thought_and_answer",),
    config=("rewards/phase_entropy",),
  ),
  "self_aligned_reward": Card(
    112,
    (
      "rewards.self_aligned:self_aligned",
      "rewards.length:harmonized_length",
      "rewards.length:relative_length",
    ),
    ("tests/test_rewards_likelihood.py::test_alignment_s_numbers",),
    config=("rewards/self_aligned_reward",),
  ),
  # E. Transforms, robustness, regularisation
  "par_shaping_suite": Card(
    8,
    (
      "rewards.shaping:preference",
      "rewards.shaping:late_preference",
      "rewards.shaping:centered",
      "rewards.shaping:tanh",
      "rewards.shaping:arctan",
      "rewards.shaping:polynomial",
      "rewards.shaping:standardized",
      "rewards.shaping:clipped",
      "rewards.shaping:min_max",
      "rewards.shaping:ceiling",
      "rewards.shaping:length_charge",
    ),
    (
      "tests/test_rewards_shaping.py::test_par_s_number_and_its_ends",
      "tests/test_rewards_shaping.py::test_streaming_moments_are_those_of_all_batches",
    ),
    config=(
      "rewards/preference",
      "rewards/late_preference",
      "rewards/centered",
      "rewards/tanh",
      "rewards/arctan",
      "rewards/polynomial",
      "rewards/standardized",
      "rewards/clipped",
      "rewards/min_max",
      "rewards/ceiling",
      "rewards/length_charge",
    ),
  ),
  "log_sigmoid_centered": Card(
    311,
    ("rewards.shaping:log_sigmoid", "rewards.shaping:reference_quantile"),
    (
      "tests/test_rewards_shaping.py::test_log_sigmoid_s_numbers",
      "tests/test_rewards_shaping.py::test_a_sum_of_log_sigmoids_is_the_log_of_a_product",
    ),
    config=("rewards/log_sigmoid",),
  ),
  "reward_ensembles": Card(
    312,
    (
      "rewards.ensembles:center_members",
      "rewards.ensembles:mean",
      "rewards.ensembles:median",
      "rewards.ensembles:worst",
      "rewards.ensembles:less_spread",
      "rewards.ensembles:less_variance",
    ),
    ("tests/test_rewards_shaping.py::test_aggregates_of_three_members",),
    config=("rewards/ensemble",),
  ),
  "odin": Card(
    77,
    (
      "rewards.disentangled:loss",
      "rewards.disentangled:correlation",
    ),
    (
      "tests/test_reward_functions.py::test_the_parts_of_odins_loss",
      "tests/test_reward_functions.py::test_the_quality_head_is_rid_of_length",
    ),
    no_config="trains a reward model of two heads, which no config does",
  ),
  "chi2_regularisation": Card(
    300,
    ("rl.methods.surrogates.chi_squared:chi_squared",),
    (
      "tests/rl/methods/test_chi_squared.py::test_its_gradient_is_that_of_the_divergence_and_0_at_the_reference",
    ),
    config=("methods/chi_squared",),
  ),
  "noisy_verifier_correction": Card(
    153,
    (
      "rl.methods.verdicts.noise:backward_correction",
      "rl.methods.verdicts.noise:forward_weights",
      "rl.methods.verdicts.noisy_backward:noisy_backward",
      "rl.methods.verdicts.noisy_forward:noisy_forward",
    ),
    (
      "tests/rl/methods/test_verdicts.py::test_numbers_of_the_card",
      "tests/rl/methods/test_verdicts.py::test_corrections_have_the_clean_expectation",
    ),
    config=("methods/noisy_backward", "methods/noisy_forward"),
  ),
  "reasoning_pattern_reward_and_noise": Card(
    20,
    (
      "rewards.patterns:reasoning_patterns",
      "rewards.patterns:calibrated",
      "rewards.patterns:instead_of_nothing",
      "rewards.controls:flipped_groups",
    ),
    (
      "tests/test_reward_functions.py::test_the_score_of_patterns_by_hand",
      "tests/test_reward_functions.py::test_flipped_groups_expect_what_the_card_says",
    ),
    config=(
      "reward=reasoning_patterns(phrases=(((4,),), ((5,), (6, 7))))",
      "reward=calibrated(model='judge', phrases='patterns')",
      "reward=instead_of_nothing(phrases='patterns')",
      "reward=flipped_groups(probability=0.2)",
    ),
  ),
  "spurious_rewards": Card(
    28,
    (
      "rewards.controls:coins",
      "rewards.controls:wrong_vote",
      "rewards.controls:opposite",
      "rewards.patterns:says",
      "rewards.labelfree:majority",
    ),
    (
      "tests/test_reward_functions.py::test_coins_teach_nothing_on_average",
      "tests/rl/methods/test_group.py::test_random_rewards_teach_nothing_on_policy",
    ),
    config=(
      "reward=coins()",
      "reward=wrong_vote()",
      "reward=opposite()",
      "reward=says(phrases=(((4,),),))",
      "rewards/majority",
    ),
  ),
  "rnd_bonus": Card(
    3,
    (
      "rewards.novelty:init",
      "rewards.novelty:next_bonus",
      "rewards.hybrid:stratified",
    ),
    (
      "tests/test_reward_functions.py::test_what_is_seen_again_and_again_is_no_longer_new",
      "tests/test_reward_functions.py::test_the_scale_is_the_deviation_of_all_discounted_sums",
    ),
    config=("reward=novelty_bonus(size=64)",),
  ),
  # F. Label-free rewards
  "majority_self_training": Card(
    165,
    ("rewards.labelfree:majority", "rewards.labelfree:cluster_share"),
    (
      "tests/test_rewards_labelfree.py::test_majority_is_the_verdict_where_the_mode_is_right",
      "tests/test_rewards_labelfree.py::test_expected_share_is_the_collision_probability",
    ),
    config=("rewards/majority", "rewards/cluster_share"),
  ),
  "co_reward": Card(
    53,
    ("rewards.labelfree:co_reward",),
    (
      "tests/test_rewards_labelfree.py::test_each_wording_is_labelled_by_the_other",
    ),
    config=("reward=co_reward()",),
  ),
  "empo": Card(
    306,
    ("rewards.labelfree:cluster_share", "rewards.labelfree:answer_entropy"),
    ("tests/test_rewards_labelfree.py::test_shares_and_their_gates",),
    config=("rewards/cluster_share",),
  ),
  "rent": Card(
    252,
    ("rewards.confidence:negative_entropy",),
    ("tests/test_rewards_likelihood.py::test_entropy_s_ends",),
    config=("rewards/negative_entropy",),
  ),
  "compute_as_teacher": Card(
    19,
    ("rewards.labelfree:agreement", "rewards.labelfree:fraction_satisfied"),
    (
      "tests/test_rewards_labelfree.py::test_an_anchor_that_votes_is_the_majority",
      "tests/test_rewards_labelfree.py::test_a_rubric_pays_by_the_criterion",
    ),
    no_config="needs answers or rubrics that a frozen model makes of the whole group",
  ),
  "self_certainty": Card(
    142,
    ("rewards.confidence:self_certainty", "rewards.confidence:borda_votes"),
    (
      "tests/test_rewards_likelihood.py::test_self_certainty_of_three_words",
      "tests/test_rewards_likelihood.py::test_borda_is_a_majority_at_0_and_the_surest_at_infinity",
    ),
    config=("rewards/self_certainty",),
  ),
  "crew": Card(
    83,
    (
      "rewards.confidence:answer_confidence",
      "rewards.confidence:confidence_gaps",
    ),
    (
      "tests/test_rewards_likelihood.py::test_confidence_of_an_answer_is_its_probability",
      "tests/test_rewards_likelihood.py::test_pairs_of_right_and_wrong",
    ),
    config=("rewards/answer_confidence",),
  ),
  "genius_aco": Card(
    97,
    ("rl.methods.pairs.aco:aco",),
    (
      "tests/rl/methods/test_pairs.py::test_aco_at_the_reference_is_log_2_whatever_the_factor",
      "tests/rl/methods/test_pairs.py::test_aco_pushes_the_worst_down_by_how_far_it_is_behind",
    ),
    config=("methods/aco",),
  ),
  # G. Likelihood of a reference
  "likelihood_reward_family": Card(
    172,
    (
      "rewards.likelihood:probability",
      "rewards.likelihood:mean_probability",
      "rewards.likelihood:log_probability",
      "rewards.likelihood:mean_log_probability",
      "rewards.likelihood:group_log_mean",
      "rewards.likelihood:group_log_mean_advantages",
    ),
    ("tests/test_rewards_likelihood.py::test_the_family_s_numbers",),
    config=(
      "rewards/probability",
      "rewards/mean_probability",
      "rewards/log_probability",
      "rewards/mean_log_probability",
      "rewards/group_log_mean_advantages",
    ),
  ),
  "verifree": Card(
    154,
    ("rewards.likelihood:verifree",),
    ("tests/test_rewards_likelihood.py::test_verifree_is_the_exact_gradient",),
    no_config="its reward is rewards/probability; its second loss term, on the reference's tokens, is in no method",
  ),
  "rlpr": Card(
    39,
    (
      "rewards.likelihood:debiased_probability",
      "rewards.likelihood:spread_enough",
    ),
    (
      "tests/test_rewards_likelihood.py::test_rlpr_takes_off_what_needs_no_thought",
      "tests/test_rewards_likelihood.py::test_groups_of_little_spread_are_left_out",
    ),
    config=("rewards/debiased_probability",),
  ),
  "covrl": Card(
    162,
    ("rewards.variational:log_ratios", "rewards.variational:divergence"),
    (
      "tests/test_rewards_likelihood.py::test_the_divergence_is_unbiased_and_never_negative",
      "tests/test_rewards_likelihood.py::test_equal_templates_are_on_policy",
    ),
    no_config="needs a task that words each prompt by two templates",
  ),
  "flr": Card(
    110,
    ("rewards.likelihood:followup_likelihood",),
    (
      "tests/test_rewards_likelihood.py::test_followups_of_both_kinds_exchanged_negate",
      "tests/test_rewards_likelihood.py::test_a_model_that_does_not_read_the_answer_gives_a_constant",
    ),
    no_config="needs a task that gives follow-ups of both kinds as views",
  ),
  # H. Rubrics, constraints, tools, task metrics
  "rubrics_as_rewards": Card(
    86,
    (
      "rewards.verifiers.rubric:explicit",
      "rewards.verifiers.rubric:implicit",
      "rewards.verifiers.rubric:explicit_score",
    ),
    (
      "tests/test_judge.py::test_explicit_by_the_papers_weights",
      "tests/test_judge.py::test_explicit_score_scales_and_is_bounded",
    ),
    no_config="needs a judge",
  ),
  "chasing_the_tail": Card(
    16,
    ("rewards.verifiers.rubric:explicit", "rewards.verifiers.rubric:refine"),
    (
      "tests/test_judge.py::test_a_missing_criterion_counts_as_no_in_the_total",
    ),
    no_config="needs a judge",
  ),
  "rlbff": Card(
    128,
    ("rewards.principles:log_odds", "rewards.principles:mean_log_odds"),
    (
      "tests/test_rewards_learned.py::test_log_odds_are_those_of_yes_against_no",
    ),
    no_config="needs the logits of a judge",
  ),
  "rlvrr": Card(
    160,
    (
      "rewards.overlap:key_points",
      "rewards.verifiers.constraints:key_point_score",
    ),
    (
      "tests/test_rewards_ranking.py::test_longest_common_subsequence_by_brute_force",
      "tests/test_rewards_ranking.py::test_key_points_in_order",
      "tests/test_constraints.py::test_key_points_in_the_order_of_the_reference",
    ),
    no_config="needs a task that gives key points of its references",
  ),
  "verif": Card(
    196,
    ("rewards.verifiers.constraints:verif_reward",),
    ("tests/test_constraints.py::test_verif_is_zero_if_either_is",),
    no_config="needs a judge beside the constraints",
  ),
  "ifdecorator": Card(
    201,
    ("rewards.verifiers.constraints:ifdecorator_reward",),
    ("tests/test_constraints.py::test_ifdecorator_is_a_chain_of_gates",),
    no_config="needs a judge of the intent beside the constraints",
  ),
  "ifbench_verifiable": Card(
    234,
    (
      "rewards.verifiers.constraints:verify",
      "rewards.verifiers.constraints:ifbench_reward",
    ),
    (
      "tests/test_constraints.py::test_ifbench_mixes_in_the_preference",
      "tests/test_constraints.py::test_the_instruction_means_what_it_says",
    ),
    config=("task=instructions",),
  ),
  "toolrl": Card(
    283,
    (
      "rewards.verifiers.tools:toolrl_reward",
      "rewards.verifiers.tools:correctness",
      "rewards.verifiers.tools:verify",
    ),
    (
      "tests/test_tools.py::test_the_cards_number",
      "tests/test_tools.py::test_bounds_and_invariance_under_order",
    ),
    config=("task=tools",),
  ),
  "rltr_tool": Card(
    31,
    ("rewards.verifiers.tools:completeness_reward",),
    ("tests/test_tools.py::test_completeness",),
    no_config="needs a judge of whether the calls are complete",
  ),
  "reasoning_sql": Card(
    69,
    ("rewards.verifiers.sql:verify", "rewards.verifiers.sql:parts"),
    (
      "tests/test_sql.py::test_parts_of_the_reference_are_full",
      "tests/test_sql.py::test_jaccard_is_symmetric_and_bounded",
    ),
    config=("task=sql",),
  ),
  "planner_r1": Card(
    45,
    ("rewards.staged:dense", "rewards.staged:by_kind", "rewards.staged:sparse"),
    (
      "tests/test_rewards_combine.py::test_stages_are_ordered_and_agree_at_the_ends",
    ),
    no_config="needs an environment whose stages can be told",
  ),
  "brier_forecast": Card(
    246,
    ("rewards.calibration:brier",),
    (
      "tests/test_rewards_ranking.py::test_to_say_what_one_believes_is_best",
      "tests/test_rewards_ranking.py::test_dividing_by_the_deviation_biases_a_forecast",
    ),
    config=("reward=brier(forecast='forecast', stated='stated')",),
  ),
  "semantic_encoder_reward": Card(
    108,
    ("rewards.similarity:cosine",),
    ("tests/test_rewards_ranking.py::test_cosine_is_of_the_angle_alone",),
    no_config="needs an encoder of texts",
  ),
  "r3_regularized_relevance": Card(
    136,
    (
      "rewards.similarity:open_relevance",
      "rewards.similarity:closed_relevance",
      "rewards.overlap:distinct_ngrams",
    ),
    (
      "tests/test_rewards_ranking.py::test_relevance_s_length_and_repetition",
      "tests/test_rewards_ranking.py::test_repeating_a_text_halves_what_is_distinct",
    ),
    config=("rewards/distinct_ngrams",),
  ),
  "acre": Card(
    130,
    ("rewards.consistency:answer_consistency", "rewards.consistency:restored"),
    (
      "tests/test_reward_functions.py::test_who_follows_the_options_gets_the_top_value_under_every_shuffle",
    ),
    config=("reward=answer_consistency()",),
  ),
  "armed_adaptive_semantic": Card(
    116,
    (
      "rewards.spread:stretched",
      "rewards.spread:stretched_with_progress",
      "rewards.overlap:token_f1",
    ),
    (
      "tests/test_reward_functions.py::test_stretching_keeps_the_order_and_has_width_1",
    ),
    config=("reward=stretched_with_progress(over=100)", "rewards/token_f1"),
  ),
  "drm": Card(
    137,
    ("rewards.dimensions:dimension_level",),
    ("tests/test_reward_functions.py::test_one_hot_weights_recover_each_side",),
    config=(
      "reward=dimension_level(relevances=('thought', 'answer'), coherence='judge')",
    ),
  ),
  "grpo_care": Card(
    118,
    ("rl.methods.pairs.grpo_care:grpo_care",),
    (
      "tests/rl/methods/test_pairs.py::test_care_pays_every_right_answer_where_all_are_as_likely",
    ),
    config=("methods/grpo_care",),
  ),
  "fidelity_ranking_reward": Card(
    139,
    ("rewards.ranking:fidelity",),
    (
      "tests/test_rewards_ranking.py::test_fidelity_s_number",
      "tests/test_rewards_ranking.py::test_fidelity_against_loops",
    ),
    no_config="needs a task whose prompts have grades to be ranked by",
  ),
  "ranking_metrics": Card(
    151,
    (
      "rewards.ranking:listwise",
      "rewards.ranking:ndcg",
      "rewards.ranking:recall",
      "rewards.ranking:rank_biased_overlap",
    ),
    (
      "tests/test_rewards_ranking.py::test_lists_and_the_null_audit",
      "tests/test_rewards_ranking.py::test_ndcg_and_recall_of_every_permutation",
    ),
    no_config="needs a task whose answers are lists",
  ),
  # I. Multi-objective
  "mah_dpo": Card(
    275,
    (
      "rl.methods.pairs.mah_dpo:mah_dpo",
      "rl.methods.pairs.mah_dpo:copied_heads",
      "rl.methods.pairs.mah_dpo:mixed_head",
    ),
    (
      "tests/rl/methods/test_pairs.py::test_mah_dpo_of_one_objective_is_dpo",
      "tests/rl/methods/test_pairs.py::test_heads_start_as_the_models_and_mix_by_their_weights",
    ),
    config=("methods/mah_dpo",),
  ),
  "combine_objectives": Card(
    None,
    (
      "rewards.combine:combine",
      "rewards.mix:mix",
      "rl.methods.group.gdpo:gdpo",
    ),
    (
      "tests/test_rewards_combine.py::test_one_term_is_itself",
      "tests/test_rewards_combine.py::test_z_scores_do_not_see_the_scale_of_a_term",
    ),
    config=(
      "rewards/product",
      "rewards/z_scores",
      "rewards/linear_schedule",
      "methods/gdpo",
    ),
  ),
  # J. Neighbours of one line
  "lare": Card(
    30,
    open="needs an LLM to write the factors; with given ones, rewards.turns:attribution_loss is the decoder's loss",
  ),
  "eager": Card(
    9,
    open="needs a question-answering model; its subtraction is rewards.turns:shape_by_potential",
  ),
  "oni": Card(
    96, open="needs an environment whose messages an LLM annotates online"
  ),
  "teacher_variance": Card(
    47,
    ("rewards.spread:group_variance",),
    (
      "tests/test_reward_functions.py::test_the_variance_of_each_group_is_numpys",
    ),
    no_config="a measure of a reward, and none itself",
  ),
  "generative_reward_models": Card(
    58,
    ("rewards.verifiers.judge:graded", "rewards.verifiers.judge:preferences"),
    ("tests/test_judge.py::test_pairs",),
    no_config="needs a judge",
  ),
  "spark_prm": Card(
    114,
    (
      "rewards.turns:critique_share",
      "rewards.process.metrics:mean_step",
      "rewards.process.metrics:last_step",
    ),
    (
      "tests/test_rewards_process.py::test_critiques_vote_in_nested_sets",
      "tests/rl/methods/test_pure.py::test_aggregations_of_the_card",
    ),
    config=("rewards/mean_step", "rewards/last_step"),
  ),
  "writing_zero": Card(
    125,
    ("rl.methods.pairs.brpo_writing:brpo_writing",),
    (
      "tests/rl/methods/test_pairs.py::test_brpo_is_the_sign_of_the_gap_to_a_uniform_reference",
    ),
    config=("methods/brpo_writing",),
  ),
  "pref_grpo": Card(
    145,
    ("rl.methods.pairs.pref_grpo:pref_grpo",),
    (
      "tests/rl/methods/test_pairs.py::test_win_rates_average_one_half_and_read_only_the_order",
    ),
    config=("methods/pref_grpo",),
  ),
  "tango": Card(
    156,
    open="needs a second language model that writes verdicts and is trained beside the policy",
  ),
  "tinyv": Card(
    157,
    open="needs a second verifier that is asked about what the rule rejects; rewards.verifiers has no such pair",
  ),
  "soft_model_score": Card(
    186,
    ("rewards.verifiers.judge:graded", "rl.advantages:group_normalize"),
    ("tests/rl/test_credit.py::test_group_advantages_of_the_cards",),
    no_config="needs a judge",
  ),
  "rise": Card(
    210, open="needs rollouts of two tasks, solving and verifying, in one batch"
  ),
  "deepseekmath_v2": Card(
    235,
    open="needs proofs with grades; the parts are rewards.verifiers.judge:graded and a product of combine",
  ),
  "pf_ppo": Card(
    301,
    ("rl.methods.sampling.pf_ppo:pf_ppo",),
    (
      "tests/rl/methods/test_sampling.py::test_the_worst_and_the_best_survive_and_no_other",
    ),
    config=("methods/pf_ppo",),
  ),
  "heron": Card(
    313, open="needs factors in an order of importance, of pairs of answers"
  ),
  "domain_features": Card(
    307,
    ("rewards.combine:combine",),
    ("tests/test_rewards_combine.py::test_rules_by_hand",),
    config=("rewards/verdict_and_process",),
  ),
  "judge_rlvr": Card(
    175,
    open="two stages of training on plain verdicts: a schedule of runs, no reward of its own",
  ),
  "pass_at_k_shaping": Card(
    73,
    ("rl.objectives:pass_at_k_advantages",),
    (
      "tests/rl/test_objectives.py::test_numbers_of_the_pass_at_k_paper_and_of_pkpo",
    ),
    config=("methods/pass_at_k",),
  ),
}
