"""OpenAI's own client, chat completions."""

import json
import sys

import openai

told = json.loads(sys.argv[1])
client = openai.OpenAI(base_url=told["base"] + "/v1", api_key=told.get("key", "none"))
out = {}


def raised(**asked):
    """The class of what is raised, and what it knows."""
    asked = {"model": "helper", "messages": [{"role": "user", "content": "hi"}], **asked}
    try:
        client.with_options(max_retries=told.get("retries", 2)).chat.completions.create(**asked)
    except openai.APIError as error:
        status = getattr(error, "status_code", None)
        return {"class": type(error).__name__, "status": status, "code": error.code, "param": error.param}
    return None


ask = [{"role": "user", "content": "weather in Lisbon"}]

if told["part"] == "turn":
    raw = client.chat.completions.with_raw_response.create(model="helper", messages=ask)
    answer = raw.parse()
    out["answer"] = answer.model_dump()
    out["session"] = raw.headers["x-weir-session"]

    stream = client.chat.completions.create(
        model="helper", messages=ask, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    out["streamed"] = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    out["finish"] = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    out["usage"] = chunks[-1].usage.model_dump()

    # The helper that joins a stream again.
    with client.chat.completions.stream(model="helper", messages=ask) as helper:
        for _ in helper:
            pass
        out["joined"] = helper.get_final_completion().choices[0].message.content

    # A history, and a session that goes on.
    history = [*ask, {"role": "assistant", "content": answer.choices[0].message.content}]
    out["history"] = client.chat.completions.create(
        model="helper", messages=[{"role": "system", "content": "Be kind."}, *history, {"role": "user", "content": "thanks"}]
    ).choices[0].message.content
    more = client.chat.completions.with_raw_response.create(
        model="helper",
        messages=[*history, {"role": "user", "content": "and then?"}],
        extra_headers={"X-Weir-Session": out["session"]},
    )
    out["more"] = more.parse().choices[0].message.content
    out["same"] = more.headers["x-weir-session"] == out["session"]

    listed = client.models.list()
    out["models"] = [model.id for model in listed]
    out["model"] = client.models.retrieve("helper").model_dump()

    out["asks"] = client.chat.completions.create(
        model="careful", messages=[{"role": "user", "content": "refund 5"}]
    ).choices[0].message.content

if told["part"] == "errors":
    out["missing"] = raised(model="nobody")
    out["tools"] = raised(tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}])
    out["several"] = raised(n=2)
    out["budget"] = raised(model="poor")
    out["failed"] = raised(messages=[{"role": "user", "content": "fail"}])
    try:
        for _ in client.chat.completions.create(
            model="helper", messages=[{"role": "user", "content": "fail"}], stream=True
        ):
            pass
    except openai.APIError as error:
        out["in_stream"] = {"class": type(error).__name__, "message": error.message, "type": error.type}
    try:
        client.models.retrieve("nobody")
    except openai.NotFoundError as error:
        out["model"] = error.code

if told["part"] == "stranger":
    out["stranger"] = raised()

print(json.dumps(out))
