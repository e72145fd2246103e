"""Programs of our side, which is this project: each keeps its code compiled.

They serve `experiments.studies.benchmark.peers.protocol` and get the same job
as the programs of the peers (`experiments.studies.benchmark.peers`).
"""
