#!/usr/bin/env python3
"""Checks the chat proposer against an endpoint of its own on loopback, through a campaign: $MUSTER_STATE, $MUSTER_BINARY,
$MUSTER_CLASS. The endpoint answers with what endpoints answer with on bad days."""
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading

from check_client import BROKEN, RIGHT, WRONG

HANG = threading.Event()
SEEN: list = []


def reply(source: str) -> tuple:
    """A whole reply, as (status, headers, body)."""
    content = f"An idea.\n```cuda\n{source}```\n```json\n{{\"grid\": [\"ceil_div(n, 128)\"], \"block\": [128]}}\n```\n"
    usage = {"prompt_tokens": 100, "completion_tokens": 20}
    return 200, {}, json.dumps({"choices": [{"message": {"content": content}}], "usage": usage}).encode()


SCRIPT = [
    reply(RIGHT),
    reply(WRONG),
    reply(BROKEN),
    (200, {}, b"{\"choices\": ["),                       # no JSON: asked again
    (429, {"retry-after": "0"}, b"slowly"),              # asked again at once
    (500, {}, b"oh"),                                    # asked again
    reply(RIGHT.replace("2.5f", "2.50f")),
    "hang",                                              # asked again once the time is up
    reply(RIGHT.replace("2.5f", "2.500f")),
    (200, {}, json.dumps({"choices": [{"message": {"content": "no code today"}}],
                          "usage": {"prompt_tokens": 5, "completion_tokens": 1}}).encode()),
    (401, {}, b"no such key"),                           # never asked again
]


class Endpoint(http.server.BaseHTTPRequestHandler):
    """Plays the script, one answer a call."""

    def do_POST(self) -> None:  # noqa: N802, a name of the library
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        step = SCRIPT[len(SEEN)] if len(SEEN) < len(SCRIPT) else (500, {}, b"over")
        SEEN.append((self.path, self.headers.get("authorization"), body))
        if step == "hang":
            HANG.wait(60)
            return
        status, headers, data = step
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_arguments) -> None:
        """Nothing."""


def main() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        **os.environ, "MUSTER_CHAT_URL": f"http://127.0.0.1:{server.server_port}/v1", "MUSTER_CHAT_MODEL": "local-1",
        "MUSTER_CHAT_KEY": "a-secret-key", "MUSTER_CHAT_TIMEOUT": "3", "MUSTER_CHAT_RETRIES": "3",
        "MUSTER_CHAT_PRICE_IN": "2", "MUSTER_CHAT_PRICE_OUT": "10", "MUSTER_CHAT_CURRENCY": "EUR",
    }
    out = tempfile.mkdtemp()
    command = [os.environ["MUSTER_BINARY"], "--state", os.environ["MUSTER_STATE"], "--json", "optimize", "client-saxpy",
               "--on", os.environ["MUSTER_CLASS"], "--proposer", "command", "--command", f"{sys.executable} -m muster.chat",
               "--iterations", "7", "--out", out, "--no-verify"]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    HANG.set()
    assert done.returncode == 0, (done.stdout, done.stderr)
    summary = json.loads(done.stdout)
    with open(f"{out}/run-001/history.json", encoding="utf-8") as file:
        history = json.load(file)
    told = [(one["status"], one["reason"]) for one in history]
    assert [status for status, _ in told[1:4]] == ["valid", "rejected", "rejected"], told
    assert [status for status, _ in told[4:6]] == ["valid", "valid"], told
    assert told[6:] == [("rejected", "proposer/failed")] * 2, told
    # One call for each of the first three, four for the fourth, two for the fifth, one each for the last two.
    calls = [one["usage"]["calls"] for one in history[1:]]
    assert calls == [1, 1, 1, 4, 2, 1, 1] and len(SEEN) == sum(calls), calls
    usage = summary["usage"]
    assert (usage["calls"], usage["tokens_in"], usage["tokens_out"]) == (11, 505, 101), usage
    assert usage["currency"] == "EUR" and usage["micros"] == 505 * 2 + 101 * 10, usage
    assert summary["termination"] == "max_iterations", summary
    assert all(path == "/v1/chat/completions" and key == "Bearer a-secret-key" for path, key, _ in SEEN), SEEN[0][:2]
    prompt = SEEN[2][2]["messages"][1]["content"]
    assert "void saxpy" in prompt and "wrong_result" in prompt, "the next request tells what went wrong"
    for folder, _, names in os.walk(out):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                assert b"a-secret-key" not in file.read(), f"the key is in {name}"
    print("the chat proposer is right")


if __name__ == "__main__":
    sys.exit(main())
