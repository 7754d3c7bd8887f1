"""The benchmark: kha's kernels and training step beside their peers, in one run.

`python -m bench` is started by scripts/bench (`make bench`). Parity comes first: while a contender
differs from the double composition, nothing is timed and the exit code is 1.
"""
