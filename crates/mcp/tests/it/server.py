"""A server of tests: each of its tools behaves in a way of its own, most of them badly.

It writes down what happens in its directory: `starts`, `calls` (one line for each call it was asked for) and `heard`
(notifications of the client).
"""

import json
import os
import subprocess
import sys
import threading
import time

lock = threading.Lock()
replies = {}
replied = threading.Condition()


def note(file, line):
    with open(file, "a") as out:
        out.write(line + "\n")


def write(text):
    with lock:
        sys.stdout.write(text)
        sys.stdout.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(id, *texts, **more):
    content = [{"type": "text", "text": text} for text in texts]
    send({"id": id, "result": {"content": content, **more}})


def tools():
    try:
        with open("tools.json") as file:
            return json.load(file)
    except FileNotFoundError:
        names = [name[5:] for name in globals() if name.startswith("tool_")]
        return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def wait_for(file):
    while not os.path.exists(file):
        time.sleep(0.005)


def tool_echo(id, arguments, params, line):
    answer(id, arguments.get("text", ""))


def tool_line(id, arguments, params, line):
    answer(id, line.strip())


def tool_environment(id, arguments, params, line):
    answer(id, json.dumps(dict(os.environ)), str(os.getpid()))


def tool_wait(id, arguments, params, line):
    wait_for(arguments["file"])
    answer(id, "waited")


def tool_fail(id, arguments, params, line):
    answer(id, "no such table", isError=True)


def tool_error(id, arguments, params, line):
    send({"id": id, "error": {"code": arguments["code"], "message": "sorry,\nno", "data": {"a": 1}}})


def tool_die(id, arguments, params, line):
    sys.stderr.write("out of memory\n")
    sys.stderr.flush()
    os._exit(3)


def tool_orphan(id, arguments, params, line):
    child = subprocess.Popen(["sleep", "1000"])
    note("child", str(child.pid))
    os._exit(3)


def tool_hang(id, arguments, params, line):
    pass


def tool_long(id, arguments, params, line):
    answer(id, "x" * arguments["bytes"])


def tool_endless_line(id, arguments, params, line):
    while True:
        write("x" * 1_000_000)


def tool_endless_logs(id, arguments, params, line):
    while True:
        send({"method": "notifications/message", "params": {"level": "info", "data": "x" * 1_000_000}})


def tool_progress(id, arguments, params, line):
    token = params["_meta"]["progressToken"]
    n = 0
    while not os.path.exists("cancelled"):
        n += 1
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": n}})
        time.sleep(0.02)


def tool_babble(id, arguments, params, line):
    for n in range(arguments["lines"]):
        write("Listening on port %d\n" % n)
    answer(id, "done")


def tool_garble(id, arguments, params, line):
    write(arguments["text"].replace("ID", str(id)) + "\n")


def tool_ask(id, arguments, params, line):
    said = []
    for n, method in enumerate(arguments["methods"]):
        question = "q%d" % n
        send({"id": question, "method": method, "params": arguments.get("params", {})})
        with replied:
            while question not in replies:
                replied.wait()
            said.append(json.dumps(replies[question], sort_keys=True))
    answer(id, *said)


def tool_flood_questions(id, arguments, params, line):
    for n in range(arguments["count"]):
        send({"id": n, "method": "ping"})
    answer(id, "asked")


def tool_change(id, arguments, params, line):
    with open("tools.json.new", "w") as out:
        json.dump(arguments["tools"], out)
    os.rename("tools.json.new", "tools.json")
    send({"method": "notifications/tools/list_changed"})
    answer(id, "changed")


def tool_deaf(id, arguments, params, line):
    answer(id, "deaf from now on")


def main():
    note("starts", str(os.getpid()))
    if os.path.exists("broken"):
        sys.stderr.write("cannot open the database\n")
        sys.exit(1)
    for line in sys.stdin:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        params = message.get("params", {})
        if method == "initialize":
            info = {"name": "tests", "version": "1"}
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {"listChanged": True}}}
            send({"id": id, "result": {**result, "serverInfo": info}})
        elif method == "tools/list":
            note("lists", "list")
            if os.path.exists("list-refused"):
                send({"id": id, "error": {"code": -32000, "message": "not today"}})
            elif os.path.exists("list-odd"):
                send({"id": id, "result": {"tools": [{"name": "echo"}]}})
            elif not os.path.exists("list-hangs"):
                send({"id": id, "result": {"tools": tools()}})
        elif method == "tools/call":
            note("calls", params["name"])
            work = globals()["tool_" + params["name"]]
            arguments = (id, params.get("arguments", {}), params, line)
            if params["name"] == "deaf":
                work(*arguments)
                wait_for("never")
            threading.Thread(target=work, args=arguments, daemon=True).start()
        elif method is None:
            with replied:
                replies[id] = message.get("error", message.get("result"))
                replied.notify_all()
        else:
            note("heard", method)
            if method == "notifications/cancelled":
                note("cancelled", str(params["requestId"]))
    note("ends", "stdin")


main()
