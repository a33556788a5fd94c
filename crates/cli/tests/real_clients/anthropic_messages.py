"""Anthropic's own client."""

import json
import sys

import anthropic

told = json.loads(sys.argv[1])
keys = {"auth_token": told["token"]} if "token" in told else {"api_key": told.get("key", "none")}
client = anthropic.Anthropic(base_url=told["base"], **keys)
out = {}
ask = [{"role": "user", "content": "weather in Lisbon"}]


def raised(**asked):
    asked = {"model": "helper", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}], **asked}
    try:
        client.messages.create(**asked)
    except anthropic.APIStatusError as error:
        return {
            "class": type(error).__name__,
            "status": error.status_code,
            "type": error.body["error"]["type"],
            "request_id": error.request_id == error.body["request_id"] and bool(error.request_id),
        }
    return None


if told["part"] == "turn":
    raw = client.messages.with_raw_response.create(model="helper", max_tokens=100, messages=ask)
    answer = raw.parse()
    out["answer"] = answer.model_dump(mode="json")
    out["session"] = raw.headers["x-weir-session"]

    with client.messages.stream(model="helper", max_tokens=100, messages=ask) as stream:
        out["streamed"] = "".join(stream.text_stream)
        final = stream.get_final_message()
    out["final"] = final.model_dump(mode="json")

    history = [*ask, {"role": "assistant", "content": answer.content}]
    out["history"] = client.messages.create(
        model="helper", max_tokens=100, system="Be kind.", messages=[*history, {"role": "user", "content": "thanks"}]
    ).content[0].text
    more = client.messages.with_raw_response.create(
        model="helper",
        max_tokens=100,
        messages=[*history, {"role": "user", "content": "and then?"}],
        extra_headers={"X-Weir-Session": out["session"]},
    )
    out["more"] = more.parse().content[0].text
    out["same"] = more.headers["x-weir-session"] == out["session"]

    out["models"] = [model.id for model in client.models.list()]
    out["model"] = client.models.retrieve("helper").display_name

    asks = client.messages.create(
        model="careful", max_tokens=100, messages=[{"role": "user", "content": "refund 5"}]
    )
    out["asks"] = "".join(block.text for block in asks.content)

if told["part"] == "errors":
    out["missing"] = raised(model="nobody")
    out["tools"] = raised(tools=[{"name": "f", "input_schema": {"type": "object"}}])
    out["budget"] = raised(model="poor")
    out["failed"] = raised(messages=[{"role": "user", "content": "fail"}])
    try:
        with client.messages.stream(
            model="helper", max_tokens=100, messages=[{"role": "user", "content": "fail"}]
        ) as stream:
            stream.until_done()
    except anthropic.APIStatusError as error:
        out["in_stream"] = error.body["error"]["type"]

if told["part"] == "who":
    out["answer"] = client.messages.create(
        model="helper", max_tokens=100, messages=[{"role": "user", "content": "hi"}]
    ).content[0].text

if told["part"] == "stranger":
    out["stranger"] = raised()

print(json.dumps(out))
