"""An agent as Python's own MCP client meets it. Prints what it saw."""

import asyncio
import json
import sys

from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client

TOLD = json.loads(sys.argv[1])


async def talk(path, calls, answer=None):
    seen = {"calls": []}

    async def elicited(context, params):
        seen.setdefault("asked", []).append(params.message)
        return types.ElicitResult(action="accept", content={"approve": answer})

    callback = elicited if answer is not None else None
    async with streamable_http_client(TOLD["base"] + path) as streams:
        async with ClientSession(streams[0], streams[1], elicitation_callback=callback) as session:
            hello = await session.initialize()
            seen["version"] = hello.protocol_version
            tools = (await session.list_tools()).tools
            seen["tools"] = [tool.name for tool in tools]
            seen["read_only"] = tools[0].annotations.read_only_hint
            for name, arguments in calls:
                told = []

                async def progress(number, total, message):
                    told.append([number, message])

                result = await session.call_tool(name, arguments, progress_callback=progress)
                seen["calls"].append(
                    {
                        "text": result.content[0].text,
                        "structured": result.structured_content,
                        "error": result.is_error,
                        "progress": told,
                    }
                )
    return seen


async def main():
    weather = ["helper", {"message": "weather in Lisbon"}]
    refund = ["careful", {"message": "refund 5"}]
    return {
        "helper": await talk("/agents/helper/mcp", [weather, ["helper", {"message": "hi"}]]),
        "waits": await talk("/agents/careful/mcp", [refund]),
        "approved": await talk("/agents/careful/mcp", [refund], True),
        "denied": await talk("/agents/careful/mcp", [refund], False),
    }


print(json.dumps(asyncio.run(main())))
