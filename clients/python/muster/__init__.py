"""Client of a Muster coordinator: submit candidate GPU kernels, wait for verdicts, rank, reward.

    from muster import Muster, Environment

    muster = Muster("/var/lib/muster")
    cells = muster.wait(muster.submit("matmul-f32", ["tiled.cu"], on="cpu:x86-64-v3"))
    environment = Environment(muster, "matmul-f32", on="cpu:x86-64-v3")
    observation, reward, info = environment.step(open("tiled.cu").read())

Pure Python, standard library alone. Submissions go to the coordinator's Unix socket; what is read from the ledger comes from
the command line `muster --json`, so that it can be checked the same way by hand.
"""
from .client import Candidate, Cell, Muster, MusterError, Submission
from .environment import Environment, evaluator

__all__ = ["Candidate", "Cell", "Environment", "Muster", "MusterError", "Submission", "evaluator"]
