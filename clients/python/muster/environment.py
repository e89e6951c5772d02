"""Candidates in, rewards out: for training loops and for optimisers that want a number."""
from __future__ import annotations

import dataclasses
from typing import Any, Callable, Optional, Sequence, Tuple, Union

from .client import Candidate, Cell, Muster

#: A source, or a candidate with its launch.
Proposal = Union[str, Candidate]


class Environment:
    """One task on one device class. A reward is None where the verdict says nothing about the candidate (the fault of
    fleet, task or device): neither pay nor penalty."""

    def __init__(self, muster: Muster, task: str, on: str, *, reward: str = "relative", fresh: bool = False,
                 policy: Optional[str] = None):
        self.muster = muster
        self.task = task
        self.on = on
        self.reward = reward
        self.fresh = fresh
        self.policy = policy

    def reset(self) -> dict:
        """What a proposer knows before its first step: the task, with nothing of its sealed cases."""
        return self.muster.task(self.task)

    def step(self, source: Proposal) -> Tuple[dict, Optional[float], dict]:
        """Judges one candidate. Answers with feedback, reward, and what they were made from."""
        (cell,) = self.muster.wait(self._submit([source]))
        if cell.leaf is None or cell.state != "finished":
            return {"status": cell.detail, "hint": "the cell ended without a verdict"}, None, {"cell": cell}
        observation = self.muster.explain(cell.leaf)
        (rewarded,) = self.muster.reward([cell.leaf], self.reward)
        return observation, rewarded["reward"], {"cell": cell, "rewarded": rewarded}

    def reward_fn(self, sources: Sequence[Proposal], *, share: float = 1.0,
                  deadline: Optional[float] = None) -> list[Optional[float]]:
        """Rewards of a batch, in its order. Waits for `share` of the verdicts or for `deadline` seconds; what has no verdict
        then has None. Equal sources are judged once."""
        # Named by what they are: names given by hand may repeat.
        candidates = [dataclasses.replace(one, name=one.digest()[:24]) for one in map(_candidate, sources)]
        unique = {candidate.name: candidate for candidate in candidates}
        if not unique:
            return []
        cells = self.muster.wait(self._submit(list(unique.values())), share=share, deadline=deadline)
        leaves = {cell.name: cell.leaf for cell in cells if cell.state == "finished" and cell.leaf is not None}
        names = list(leaves)
        rewards = self.muster.reward([leaves[name] for name in names], self.reward) if names else []
        by_name = {name: rewarded["reward"] for name, rewarded in zip(names, rewards)}
        return [by_name.get(candidate.name) for candidate in candidates]

    def _submit(self, sources: Sequence[Proposal]) -> Any:
        candidates = [_candidate(source) for source in sources]
        return self.muster.submit(self.task, candidates, self.on, fresh=self.fresh, policy=self.policy)


def evaluator(environment: Environment) -> Callable[[str], dict]:
    """What OpenEvolve-style loops call: the path of a program in, a dictionary of metrics out. A masked verdict scores 0 and
    says `masked`, since such loops know no missing number."""

    def evaluate(program_path: str) -> dict:
        with open(program_path, encoding="utf-8") as file:
            observation, reward, _info = environment.step(file.read())
        ratio = (observation.get("to_baseline") or {}).get("ratio", 0.0)
        return {"combined_score": 0.0 if reward is None else reward, "masked": float(reward is None), "speedup": ratio,
                "passed": float(observation.get("status") == "ok")}

    return evaluate


def _candidate(source: Proposal) -> Candidate:
    return source if isinstance(source, Candidate) else Candidate(source)


__all__ = ["Cell", "Environment", "evaluator"]
