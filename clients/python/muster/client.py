"""The coordinator's API over its Unix socket, and the ledger through the command line."""
from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import os
import pathlib
import socket
import subprocess
import time
import urllib.parse
from typing import Any, Iterator, Mapping, Optional, Sequence, Union

# Between two looks at the cells of a submission whose event stream has ended early.
_PAUSE_SECONDS = 0.2
# Records that one call of the command line names: well below what a system allows a command line.
_RECORDS_A_CALL = 500


class MusterError(Exception):
    """A refusal: its stable code, the place, the cause and the next step."""

    def __init__(self, refusal: Mapping[str, Any]):
        self.code = str(refusal.get("code", "client/unknown"))
        self.place = str(refusal.get("place", ""))
        self.cause = str(refusal.get("cause", ""))
        self.next = str(refusal.get("next", ""))
        super().__init__(f"{self.place}: {self.cause} [{self.code}]; {self.next}")


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A source with how it is launched; without `grid` and `block` it is launched as the task's baseline is."""

    source: str
    name: str = ""
    grid: Sequence[Union[int, str]] = ()
    block: Sequence[Union[int, str]] = ()
    shared_bytes: Union[int, str] = 0
    licence: str = ""
    agent: str = ""
    model: str = ""

    def label(self) -> str:
        """Its name, or the first digits of its hash."""
        return self.name or self.digest()[:12]

    def digest(self) -> str:
        """Of source and launch: what runs."""
        launch = json.dumps([list(self.grid), list(self.block), self.shared_bytes])
        return hashlib.sha256(f"{launch}\n{self.source}".encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Submission:
    """An accepted submission with its signed receipt."""

    id: str
    receipt: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One candidate on one device class."""

    cell: str
    candidate: str
    name: str
    device_class: str
    #: `queued`, `running`, `ending`, `finished`, or `ended` without a verdict.
    state: str
    #: The stage of a running cell, the status of a finished one.
    detail: str
    #: The leaf of the record; none before there is one.
    leaf: Optional[int]
    #: Whether an earlier result answered.
    reused: bool

    @property
    def is_over(self) -> bool:
        return self.state in ("finished", "ended")


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str, timeout: float):
        super().__init__("muster", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Muster:
    """A coordinator by its state folder. `binary` is the command line, for what is read from the ledger."""

    def __init__(self, state: Union[str, os.PathLike, None] = None, *, binary: str = "muster", timeout: float = 60.0):
        folder = state or os.environ.get("MUSTER_STATE")
        if not folder:
            raise ValueError("name the coordinator's state folder, or set MUSTER_STATE")
        self.state = pathlib.Path(folder)
        self.binary = binary
        self.timeout = timeout

    # --- the coordinator -------------------------------------------------------------------------------------------

    def summary(self) -> dict:
        """Totals, origin, verifier key, newest submissions."""
        return self._ask("GET", "/v1/summary")

    def nodes(self) -> list:
        """Nodes with their devices."""
        return self._ask("GET", "/v1/nodes")

    def task(self, name: str) -> dict:
        """A task by name, id or prefix of its id."""
        return self._ask("GET", "/v1/tasks/" + urllib.parse.quote(name, safe=""))

    def task_id(self, name: str) -> str:
        """The full id of a task."""
        views = [view for view in self._ask("GET", "/v1/tasks") if name in (view["name"], view["task"])]
        if not views:
            views = [view for view in self._ask("GET", "/v1/tasks") if view["task"].startswith(name)]
        if len(views) != 1:
            raise MusterError({"code": "client/task", "place": name, "cause": f"{len(views)} tasks have this name or prefix",
                               "next": "see `muster task list`"})
        return views[0]["task"]

    def submit(self, task: str, candidates: Sequence[Union[Candidate, str, os.PathLike]], on: Union[str, Sequence[str]], *,
               fresh: bool = False, policy: Optional[str] = None, nonce: Optional[str] = None) -> Submission:
        """Submits candidates (or paths of sources) to device classes. With a `nonce` of your own, the same submission made
        twice is one."""
        name = self.task(task)
        documents = [self._document(_candidate(candidate), name["entry"]) for candidate in candidates]
        body = {
            "task": self.task_id(task), "candidates": documents, "targets": [on] if isinstance(on, str) else list(on),
            "policy": policy, "screens": None, "reuse": "fresh" if fresh else "allowed", "nonce": nonce,
        }
        receipt = self._ask("POST", "/v1/submissions", json.dumps(body).encode())
        return Submission(receipt["submission"], receipt)

    def cells(self, submission: Union[Submission, str]) -> list[Cell]:
        """How the cells of a submission stand."""
        views = self._ask("GET", f"/v1/submissions/{_id(submission)}")
        return [Cell(view["cell"], view["candidate"], view["name"], view["class"], view["state"], view["detail"],
                     view["index"], view["reused"]) for view in views]

    def events(self, submission: Union[Submission, str], after: int = 0) -> Iterator[dict]:
        """What happens to a submission, one event after another, until it is over; `after` resumes behind an event's
        `sequence`."""
        connection = _Connection(str(self.state / "api.sock"), self.timeout)
        try:
            connection.request("GET", f"/v1/submissions/{_id(submission)}/events?after={after}")
            answer = connection.getresponse()
            if answer.status != 200:
                raise _refusal(answer.read())
            for line in answer:
                if line.startswith(b"data:"):
                    yield json.loads(line[5:])
        finally:
            connection.close()

    def wait(self, submission: Union[Submission, str], *, share: float = 1.0, deadline: Optional[float] = None) -> list[Cell]:
        """Waits until `share` of the cells are over, or for `deadline` seconds, and answers with all of them."""
        end = None if deadline is None else time.monotonic() + deadline
        while True:
            cells = self.cells(submission)
            over = sum(cell.is_over for cell in cells)
            if over >= share * len(cells) or (end is not None and time.monotonic() >= end):
                return cells
            time.sleep(_PAUSE_SECONDS)

    def cancel(self, submission: Union[Submission, str]) -> int:
        """Cancels what is open; answers how many cells that were."""
        return self._ask("POST", f"/v1/submissions/{_id(submission)}/cancel", b"{}")["count"]

    # --- the ledger ------------------------------------------------------------------------------------------------

    def explain(self, record: Union[int, str]) -> dict:
        """A result as feedback (`muster.feedback/1`)."""
        return self.run("explain", str(record))

    def reward(self, records: Sequence[Union[int, str]], function: str = "relative") -> list[dict]:
        """Rewards of results (`muster.reward/1`), in their order; a masked one has `reward` None."""
        rewards: list[dict] = []
        for at in range(0, len(records), _RECORDS_A_CALL):
            some = [str(record) for record in records[at:at + _RECORDS_A_CALL]]
            rewards.extend(self.run("reward", "--function", function, *some))
        return rewards

    def rank(self, task: str, as_of: Optional[int] = None) -> dict:
        """The ranking of a task."""
        return self.run("rank", task, *([] if as_of is None else ["--as-of", str(as_of)]))

    def show(self, record: Union[int, str]) -> dict:
        """One record with its evidence."""
        return self.run("show", str(record))

    def verify(self) -> dict:
        """The outside check of the whole ledger."""
        return self.run("ledger", "verify")

    def run(self, *arguments: str) -> Any:
        """Any command of `muster --json`."""
        command = [self.binary, "--state", str(self.state), "--json", *arguments]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        try:
            answer = json.loads(done.stdout)
        except ValueError:
            cause = done.stderr.decode(errors="replace").strip()[-500:] or f"exit code {done.returncode}"
            raise MusterError({"code": "client/command", "place": " ".join(arguments), "cause": cause,
                               "next": "run it by hand"}) from None
        if isinstance(answer, dict) and "error" in answer:
            raise MusterError(answer["error"])
        return answer

    # --- inside ----------------------------------------------------------------------------------------------------

    def _document(self, candidate: Candidate, entry: str) -> dict:
        blob = self._ask("PUT", "/v1/blobs", candidate.source.encode())
        return {
            "format": "muster.candidate/1", "name": candidate.label(),
            "source": {"main": "candidate.cu", "files": [{"path": "candidate.cu", "blob": blob}]},
            "plan": _plan(candidate, entry), "family": None,
            "provenance": {"author": "", "agent": candidate.agent, "model": candidate.model, "parent": None, "cost": None,
                           "origin": ""},
            "licence": candidate.licence,
        }

    def _ask(self, method: str, path: str, body: Optional[bytes] = None) -> Any:
        connection = _Connection(str(self.state / "api.sock"), self.timeout)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
        except OSError as error:
            raise MusterError({"code": "coordinator/not-running", "place": str(self.state / "api.sock"), "cause": str(error),
                               "next": "start one with `muster up`"}) from error
        finally:
            connection.close()
        if answer.status != 200:
            raise _refusal(data)
        return json.loads(data)


def _candidate(given: Union[Candidate, str, os.PathLike]) -> Candidate:
    if isinstance(given, Candidate):
        return given
    path = pathlib.Path(given)
    return Candidate(path.read_text(), name=path.stem)


def _plan(candidate: Candidate, entry: str) -> Optional[dict]:
    if not candidate.grid and not candidate.block:
        return None
    three = lambda sides: [str(side) for side in [*sides, 1, 1][:3]]  # noqa: E731
    return {"scratch": [], "steps": [{"kernel": {
        "entry": entry, "grid": three(candidate.grid or (1,)), "block": three(candidate.block or (1,)),
        "shared_bytes": str(candidate.shared_bytes), "arguments": [], "attributes": {"cooperative": False, "cluster": None},
    }}]}


def _id(submission: Union[Submission, str]) -> str:
    return submission.id if isinstance(submission, Submission) else submission


def _refusal(data: bytes) -> MusterError:
    try:
        return MusterError(json.loads(data))
    except (ValueError, AttributeError):
        return MusterError({"code": "coordinator/no-answer", "cause": data.decode(errors="replace")[:300]})
