"""A server made with the Python SDK. Its first argument says how it is spoken to; over HTTP, the second is the port."""

import asyncio
import sys

from mcp.server.mcpserver import Context, Image, MCPServer

server = MCPServer("python")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("no such table")


@server.tool()
def picture() -> Image:
    """Draws nothing at all."""
    return Image(data=b"\x89PNG\r\n\x1a\n", format="png")


@server.tool()
async def slow(seconds: float, context: Context) -> str:
    """Takes its time, and says so."""
    for n in range(int(seconds * 10)):
        await context.report_progress(n, seconds * 10)
        await asyncio.sleep(0.1)
    return "done"


def subtract(a: int, b: int) -> int:
    """Subtracts one number from another."""
    return a - b


@server.tool()
async def learn(context: Context) -> str:
    """Offers one tool more from now on."""
    server.add_tool(subtract)
    await context.session.send_tool_list_changed()
    return "learned"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
