"""Evidence runs: do the paper's orderings reproduce at a size that two cores finish?

`python -m evidence` is started by scripts/evidence (`make evidence`). A plan (plan.toml) names arms,
seeds and the orderings to judge; each run is a normal `kha train`, so a kill costs at most the steps
since its last checkpoint, and finished runs are used again.
"""
