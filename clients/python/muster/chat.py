"""A proposer for `muster optimize --proposer command --command 'python3 -m muster.chat'` that asks an OpenAI-compatible chat
endpoint.

What it needs comes from the environment, the key from there alone:

    MUSTER_CHAT_URL       base of the API, such as http://127.0.0.1:8000/v1
    MUSTER_CHAT_MODEL     name of the model
    MUSTER_CHAT_KEY       sent as a bearer token where it is set
    MUSTER_CHAT_PROMPT    file with the system prompt [default: chat_prompt.txt beside this module]
    MUSTER_CHAT_TIMEOUT   seconds for one reply [120]
    MUSTER_CHAT_RETRIES   further tries after 429, 5xx, silence or a reply that is no JSON [4]
    MUSTER_CHAT_PRICE_IN, MUSTER_CHAT_PRICE_OUT, MUSTER_CHAT_CURRENCY   prices of a million tokens, for the usage

One JSON line in, one out (`docs/CAMPAIGNS.md`). Each call that was made is counted in the usage, also those that failed.
"""
from __future__ import annotations

import http.client
import json
import os
import pathlib
import re
import sys
import time
import urllib.error
import urllib.request
from typing import Any, Optional

# Longest reply that is read, in bytes: far beyond the largest source of a task.
_REPLY_MAX = 8 << 20
# Longest pause between two tries, whatever the server asks for.
_PAUSE_MAX_SECONDS = 60.0
# Attempts that a prompt tells.
_HISTORY = 12
_RETRIED = {408, 409, 425, 429, 500, 502, 503, 504}
_BLOCK = re.compile(r"```[ \t]*([A-Za-z0-9+_-]*)[ \t]*\r?\n(.*?)```", re.DOTALL)


class Usage:
    """What one proposal cost."""

    def __init__(self) -> None:
        self.calls = self.tokens_in = self.tokens_out = 0

    def as_dict(self) -> dict:
        """The form that a campaign keeps."""
        price = lambda name: float(os.environ.get(name, "0"))  # noqa: E731
        # A price of a million tokens in a currency is 10⁻⁶ of it for one.
        micros = round(self.tokens_in * price("MUSTER_CHAT_PRICE_IN") + self.tokens_out * price("MUSTER_CHAT_PRICE_OUT"))
        currency = os.environ.get("MUSTER_CHAT_CURRENCY", "") if micros else ""
        return {"calls": self.calls, "tokens_in": self.tokens_in, "tokens_out": self.tokens_out,
                "micros": micros if currency else 0, "currency": currency}


class Failed(Exception):
    """No proposal could be had."""


def ask(messages: list, usage: Usage) -> str:
    """The text of one reply, after as many tries as are allowed."""
    url = os.environ["MUSTER_CHAT_URL"].rstrip("/") + "/chat/completions"
    body = json.dumps({"model": os.environ["MUSTER_CHAT_MODEL"], "messages": messages}).encode()
    headers = {"content-type": "application/json"}
    if os.environ.get("MUSTER_CHAT_KEY"):
        headers["authorization"] = "Bearer " + os.environ["MUSTER_CHAT_KEY"]
    timeout = float(os.environ.get("MUSTER_CHAT_TIMEOUT", "120"))
    tries = 1 + int(os.environ.get("MUSTER_CHAT_RETRIES", "4"))
    cause, pause = "", 1.0
    for attempt in range(tries):
        if attempt:
            time.sleep(min(pause, _PAUSE_MAX_SECONDS))
        usage.calls += 1
        wanted: Optional[float] = None
        try:
            request = urllib.request.Request(url, body, headers)
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return _content(json.loads(answer.read(_REPLY_MAX)), usage)
        except urllib.error.HTTPError as error:
            cause = f"the endpoint answers {error.code}"
            if error.code not in _RETRIED:
                raise Failed(f"{cause}: {error.read(300).decode(errors='replace')}") from None
            wanted = _seconds(error.headers.get("retry-after"))
        except (OSError, http.client.HTTPException) as error:
            cause = f"the endpoint does not answer: {error}"
        except (ValueError, KeyError, IndexError, TypeError) as error:
            cause = f"the reply is none of a chat: {error!r}"
        pause = wanted if wanted is not None else 2.0 ** attempt
    raise Failed(f"{cause} (tried {tries} times)")


def _seconds(text: Optional[str]) -> Optional[float]:
    try:
        return max(0.0, float(text)) if text is not None else None
    except ValueError:
        return None


def _content(reply: Any, usage: Usage) -> str:
    told = reply.get("usage") or {}
    usage.tokens_in += int(told.get("prompt_tokens", 0))
    usage.tokens_out += int(told.get("completion_tokens", 0))
    content = reply["choices"][0]["message"]["content"]
    if not isinstance(content, str):
        raise TypeError("the content is no text")
    return content


def messages_of(request: dict) -> list:
    """The conversation that asks for one candidate: rules, task, the best so far, what was learnt from the last one."""
    default = pathlib.Path(__file__).with_name("chat_prompt.txt")
    system = pathlib.Path(os.environ.get("MUSTER_CHAT_PROMPT") or default).read_text(encoding="utf-8")
    task, best = request["task"], request["best"]
    tried = [f"- {one['iteration']} {one['name']}: {one['decision']}; {one['told']}" for one in request["history"][-_HISTORY:]]
    parts = [
        f"Task {task['name']}: {task['summary']}\nDevice class: {request['class']}\n\nSignature:\n{task['signature'].strip()}",
        "Cases: " + json.dumps([{"name": case["name"], "kind": case["kind"], "dims": case["dims"]} for case in task["cases"]]),
        "Launch of the baseline: " + json.dumps(task["launch"]),
        f"Best so far ({best['ratio']['ratio']} times as fast as the baseline):\n```cuda\n{best['source']}\n```",
        "Tried:\n" + ("\n".join(tried) or "nothing"),
    ]
    if request.get("last"):
        last = {key: request["last"].get(key) for key in ("status", "cause", "mismatch", "to_baseline", "cases", "hint")}
        parts.append("Feedback on the newest attempt: " + json.dumps(last))
    parts.append("Propose one candidate.")
    return [{"role": "system", "content": system}, {"role": "user", "content": "\n\n".join(parts)}]


def proposal_of(text: str) -> dict:
    """Source, launch and words of a reply."""
    blocks = _BLOCK.findall(text)
    sources = [code for _, code in blocks if "__global__" in code]
    if not sources:
        raise Failed("the reply has no code block with a kernel")
    answer: dict = {"source": sources[-1], "words": _BLOCK.sub("", text).strip()[:2000]}
    for language, code in blocks:
        if language.lower() == "json":
            try:
                launch = json.loads(code)
            except ValueError:
                raise Failed("the launch of the reply is no JSON") from None
            answer["launch"] = {key: launch[key] for key in ("grid", "block", "shared_bytes") if key in launch}
    return answer


def answer_to(request: dict) -> dict:
    """One line's answer."""
    usage, model = Usage(), os.environ.get("MUSTER_CHAT_MODEL", "")
    try:
        answer = proposal_of(ask(messages_of(request), usage))
    except Failed as failed:
        answer = {"failed": str(failed)}
    return {**answer, "model": model, "usage": usage.as_dict()}


def main() -> int:
    """Answers until the input ends."""
    missing = [name for name in ("MUSTER_CHAT_URL", "MUSTER_CHAT_MODEL") if not os.environ.get(name)]
    if missing:
        print(f"set {' and '.join(missing)}", file=sys.stderr)
        return 2
    for line in sys.stdin:
        print(json.dumps(answer_to(json.loads(line))), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
