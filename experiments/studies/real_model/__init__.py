"""RL of a real pretrained model: arms with several seeds, and their tables."""
