"""Our side of a comparison: programs that hold our code warm.

They speak `experiments.studies.benchmark.peers.protocol`, as the peers' programs do,
and are told the same job.
"""
