#!/usr/bin/env python3
"""Checks the Python client against a running fleet: $MUSTER_STATE, $MUSTER_BINARY, $MUSTER_CLASS. Prints what it did."""
import os
import sys

from muster import Candidate, Environment, Muster, MusterError, evaluator

KERNEL = """extern "C" __global__ void saxpy(const float* x, const float* y, float* z, int n) {{
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  {body}
}}
"""
RIGHT = KERNEL.format(body="if (i < n) z[i] = 2.5f * x[i] + y[i];")
WRONG = KERNEL.format(body="if (i < n) z[i] = 0.25f;")
BROKEN = KERNEL.format(body="if (i < n) z[i] = oops;")


def main() -> None:
    muster = Muster(os.environ["MUSTER_STATE"], binary=os.environ["MUSTER_BINARY"])
    environment = Environment(muster, "client-saxpy", on=os.environ["MUSTER_CLASS"])
    assert environment.reset()["entry"] == "saxpy"

    observation, reward, info = environment.step(RIGHT)
    assert observation["status"] == "ok" and reward is not None and 0.0 <= reward < 1.0, (observation, reward)
    assert info["rewarded"]["function"] == "relative/1" and not info["cell"].reused
    for source, status in [(WRONG, "wrong_result"), (BROKEN, "compile_error")]:
        observation, reward, _ = environment.step(source)
        assert (observation["status"], reward) == (status, -1.0), observation
    assert observation["cause"]["source"]["line"] == 3 and "oops" in observation["cause"]["line"], observation["cause"]

    # A batch: order kept, equal sources once, a launch of its own, everything answered or measured.
    wide = Candidate(RIGHT, name="the same name", grid=["ceil_div(n, 64)"], block=[64])
    other = Candidate(WRONG, name="the same name")
    rewards = environment.reward_fn([BROKEN, RIGHT, wide, BROKEN, other], deadline=400)
    assert len(rewards) == 5 and rewards[0] == rewards[3] == rewards[4] == -1.0, rewards
    assert all(reward is not None and reward >= 0.0 for reward in rewards[1:3]), rewards
    assert environment.reward_fn([]) == []

    submission = muster.submit("client-saxpy", [Candidate(RIGHT, name="once")], os.environ["MUSTER_CLASS"], nonce="mine")
    again = muster.submit("client-saxpy", [Candidate(RIGHT, name="once")], os.environ["MUSTER_CLASS"], nonce="mine")
    assert submission.id == again.id, "the same nonce is the same submission"
    kinds = [event["kind"] for event in muster.events(submission)]
    assert kinds[-1] == "done", kinds
    (cell,) = muster.wait(submission)
    assert cell.is_over and muster.show(cell.leaf)["leaf"] == cell.leaf

    path = os.path.join(os.environ["MUSTER_STATE"], "..", "evolved.cu")
    with open(path, "w", encoding="utf-8") as file:
        file.write(RIGHT)
    metrics = evaluator(environment)(path)
    assert metrics["passed"] == 1.0 and metrics["speedup"] > 0.0, metrics

    rows = muster.rank("client-saxpy")["tables"][0]["rows"]
    assert any(row["name"] == "once" for row in rows), rows
    assert muster.verify()["verified"] is True
    try:
        muster.submit("no-such-task", [RIGHT_FILE], "cpu:x86-64-v2")
    except MusterError as error:
        assert error.code == "task/unknown-task" and error.next, error
    else:
        raise AssertionError("an unknown task was not refused")
    try:
        muster.explain(0)
    except MusterError as error:
        assert error.code == "explain/no-result", error
    else:
        raise AssertionError("the genesis entry was explained")
    print("the client is right")


RIGHT_FILE = os.devnull

if __name__ == "__main__":
    sys.exit(main())
