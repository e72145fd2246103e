"""Process reward models: how they score steps, learn, and get their labels.

model          a decoder and a head, read at the last token of every step
dual_head      two judgements: a step is correct, and can still lead on
losses         what the head is trained to say
labels         of steps: exact, by Monte Carlo, by binary search
continuations  the rollouts that the last two count
soft_values    labels by the log-expectation of what follows a step
prefix_values  how often an answer that goes on from a prefix is right
segmentation   where steps begin and end, in tokens
metrics        how good step scores are
"""
