"""Talks to `muster mcp` through the protocol's own Python library: lists tools and tasks, reads the rules, submits, waits
with progress, explains, ranks, reads the record, and is refused. Run by tests/e2e/mcp.rs.

Needs MUSTER_BINARY, MUSTER_STATE, MUSTER_CLASS and MUSTER_SOURCE (a candidate of the task `saxpy`), and `pip install mcp`;
without the library it says so and exits 77. Exits 1 on any difference.
"""

import asyncio
import json
import os
import pathlib
import sys

try:
    from importlib.metadata import version

    from mcp import ClientSession
    from mcp.client.stdio import StdioServerParameters, stdio_client
except ImportError as error:
    print(f"not talked to: {error}; pip install mcp")
    sys.exit(77)

WAITS_MAX = 10


def said(result, *, refused=False):
    """The one JSON object that a tool answered with; text and structure must say the same."""
    dumped = result.model_dump(by_alias=True)
    assert bool(dumped.get("isError")) is refused, dumped
    assert json.loads(dumped["content"][0]["text"]) == dumped["structuredContent"], dumped
    return dumped["structuredContent"]


async def talk(session):
    welcome = await session.initialize()
    name = welcome.model_dump(by_alias=True)["serverInfo"]["name"]
    assert name == "muster", welcome
    tools = [tool.name for tool in (await session.list_tools()).tools]
    print("tools:", ", ".join(tools))
    rules = (await session.read_resource("muster://rules")).contents[0].text
    assert "## Rules" in rules
    tasks = said(await session.call_tool("list_tasks", {}))["tasks"]
    assert [task["name"] for task in tasks] == ["saxpy"], tasks
    source = pathlib.Path(os.environ["MUSTER_SOURCE"]).read_text()
    candidate = {"source": source, "name": "by-library"}
    submit = {"task": "saxpy", "candidates": [candidate], "on": [os.environ["MUSTER_CLASS"]]}
    submission = said(await session.call_tool("submit", submit))["submission"]
    told = []

    async def progress(done, total, message):
        told.append(message)

    for _ in range(WAITS_MAX):
        wait = {"submission": submission, "seconds": 50}
        cells = said(await session.call_tool("wait", wait, progress_callback=progress))
        if cells["over"]:
            break
    (cell,) = cells["cells"]
    assert cell["state"] == "finished" and cell["detail"] == "ok", cell
    record = str(cell["index"])
    feedback = said(await session.call_tool("explain", {"record": record}))
    print("told:", feedback["told"])
    shown = said(await session.call_tool("record", {"record": record}))
    assert shown["candidate"]["name"] == "by-library" and shown["leaf"] == cell["index"], shown
    ranking = said(await session.call_tool("rank", {"task": "saxpy"}))
    assert "by-library" in json.dumps(ranking)
    refusal = said(await session.call_tool("explain", {"record": "1000000"}), refused=True)["error"]
    assert refusal["code"] == "show/unknown", refusal
    print("progress:", "; ".join(told[-3:]))


async def main():
    command = StdioServerParameters(
        command=os.environ["MUSTER_BINARY"], args=["--state", os.environ["MUSTER_STATE"], "mcp"]
    )
    async with stdio_client(command) as (read, write):
        async with ClientSession(read, write) as session:
            await talk(session)
    print(f"the server is right for mcp {version('mcp')}")


asyncio.run(main())
