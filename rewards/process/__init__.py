"""Process reward models: their scores of steps, losses and labels.

model          a decoder and a head that scores the last token of every step
dual_head      two scores of a step: it is correct, and it can lead to the
answer losses         losses of the head labels         labels of steps: exact,
by Monte Carlo, by binary search continuations  the rollouts that the last two
kinds of labels count soft_values    labels by the log-expectation of what
follows a step prefix_values  a sampler that estimates the chance of success
after each step segmentation   where steps start and end, in tokens metrics
the quality of step scores
"""
