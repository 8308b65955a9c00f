"""The same problems solved by pyro_unsup and by what one could install instead: time, memory, and how both grow.

    python -m benchmarks.peers                          # installs the peers into an environment of their own, runs all
    python -m benchmarks.peers --small                  # a quick look, two minutes
    python -m benchmarks.peers --only trees             # problems with this in their name
    python -m benchmarks.peers --report peers.jsonl     # the table again, and the figure
    python -m benchmarks.peers --profile --only mixture # where our own time goes

Each contender lives in a process of its own; those that are compared take turns, run by run, so that noise of the
machine hits all alike. Before its time counts, its answer must agree with ours: log-likelihood, and a checksum of the
counts or tables. Texts are drawn by :mod:`.texts` with fixed seeds.
"""
