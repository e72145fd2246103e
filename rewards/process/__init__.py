"""Process reward models: their scores of reasoning steps, losses and labels.

model          a decoder, and a head that scores the last token of every step
dual_head      two scores of a step: it is correct; it can lead to the answer
losses         losses of step scores
labels         labels of steps: exact, by Monte Carlo, or by binary search
continuations  completions of prefixes, counted by Monte Carlo and search
soft_values    labels by a log-mean-exp over continuations
prefix_values  a sampler that estimates the chance of success after each step
segmentation   the step of each token
metrics        the quality of step scores
"""
