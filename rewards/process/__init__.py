"""Process reward models: how they score steps, learn, and get their labels.

model          a decoder and a head, read at the last token of every step
losses         what the head is trained to say
labels         of steps: exact, by Monte Carlo, by binary search
continuations  the rollouts that the last two count
"""
