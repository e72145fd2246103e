"""Process reward models: labels of reasoning steps, losses and scores.

label_sources  labels of steps without people, one file each
forest         the samples that label sources read and continue
step_losses    losses of process reward models, one file each
step_data      labelled samples in tokens, and transforms of them
step_model     a decoder, a head and a loss
model          what a head reads of a step
losses         cross-entropies of step scores
continuations  prefixes of samples as prompts, and what follows them
prefix_values  a sampler that estimates the chance of success after each step
segmentation   the step of each token
metrics        the quality of step scores
"""
