#!/usr/bin/env python3
"""An MCP server over stdio that tries to do what it should not. See confined.rs."""

import ctypes
import json
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SUPERVISOR = os.getppid()


def write(place):
    with open(place, "w") as out:
        out.write("x")
    return "written"


def read(place):
    with open(place) as file:
        return file.read()


def chmod(place):
    before = os.stat(place).st_mode & 0o777
    os.chmod(place, before ^ 0o010)
    if os.stat(place).st_mode & 0o777 == before:
        raise OSError("nothing changed")
    return "changed"


def connect(place):
    socket.create_connection(("127.0.0.1", int(place)), timeout=30).close()
    return "connected"


def unix(place):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(place)
    return "connected"


def ptrace(_place):
    # PTRACE_SEIZE: the process that watches over it, which is its parent or, seen from its own process namespace, not there.
    libc = ctypes.CDLL(None, use_errno=True)
    child = subprocess.Popen(["sleep", "1000"])
    try:
        if libc.ptrace(0x4206, child.pid, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "ptrace")
    finally:
        child.kill()
    return "attached"


def signal(_place):
    if SUPERVISOR == 0:
        raise OSError("its parent cannot be named")
    os.kill(SUPERVISOR, 18)
    return "sent"


def temporary(_place):
    import tempfile

    with tempfile.TemporaryDirectory() as directory:
        write(os.path.join(directory, "x"))
    return tempfile.gettempdir()


def multiply(seconds):
    for _ in range(2000):
        subprocess.Popen(["sleep", seconds])
    return "multiplied"


def module(_place):
    import beside

    return beside.ANSWER


ATTEMPTS = {
    "write": write,
    "read": read,
    "list": lambda place: " ".join(os.listdir(place)),
    "chmod": chmod,
    "connect": connect,
    "unix": unix,
    "ptrace": ptrace,
    "signal": signal,
    "temporary": temporary,
    "multiply": multiply,
    "import": module,
}


def attempt(arguments):
    try:
        return "HAPPENED " + ATTEMPTS[arguments["what"]](arguments["where"])
    except Exception as error:
        return "REFUSED %s: %s" % (type(error).__name__, error)


def answer(method, params):
    if method == "initialize":
        info = {"name": "hostile", "version": "1"}
        return {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        with open(os.path.join(HERE, "tools.json")) as file:
            return {"tools": json.load(file)}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": attempt(params["arguments"])}]}
    return {}


def main():
    trap = os.path.join(HERE, "trap")
    if os.path.exists(trap):
        try:
            write(read(trap))
        except OSError:
            pass
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            result = answer(message["method"], message.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)


main()
