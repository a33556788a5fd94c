"""OpenAI's own client, responses."""

import json
import sys

import openai

told = json.loads(sys.argv[1])
client = openai.OpenAI(base_url=told["base"] + "/v1", api_key="none")
out = {}

answer = client.responses.create(model="helper", input="weather in Lisbon")
out["answer"] = answer.model_dump(mode="json")
out["text"] = answer.output_text

with client.responses.stream(model="helper", input="weather in Lisbon") as stream:
    events = list(stream)
    final = stream.get_final_response()
out["kinds"] = list(dict.fromkeys(event.type for event in events))
out["sequence"] = [event.sequence_number for event in events if hasattr(event, "sequence_number")]
out["streamed"] = "".join(event.delta for event in events if event.type == "response.output_text.delta")
out["thought"] = "".join(event.delta for event in events if event.type == "response.reasoning_summary_text.delta")
out["final"] = final.model_dump(mode="json")
out["final_text"] = final.output_text

# The next turn, in both ways that clients go on: with what came out as input, and with the id of what came before.
history = [{"role": "user", "content": "weather in Lisbon"}, *[item.model_dump() for item in answer.output]]
out["history"] = client.responses.create(
    model="helper", instructions="Be kind.", input=[*history, {"role": "user", "content": "thanks"}]
).output_text
follow = client.responses.create(model="helper", input="and then?", previous_response_id=answer.id)
out["follow"] = {"text": follow.output_text, "previous": follow.previous_response_id == answer.id}

# Another way from the first answer on, and on from there: the SDK knows nothing of branches.
other = client.responses.create(model="helper", input="or what?", previous_response_id=answer.id)
more = client.responses.create(model="helper", input="and on", previous_response_id=other.id)
out["other"] = {"text": other.output_text, "id": other.id, "more": more.output_text, "more_id": more.id}
with client.responses.stream(model="helper", input="or so?", previous_response_id=answer.id) as stream:
    stream.until_done()
    out["streamed_other"] = {"text": stream.get_final_response().output_text, "id": stream.get_final_response().id}

out["asks"] = client.responses.create(model="careful", input="refund 5").output_text


def raised(**asked):
    try:
        client.responses.create(**{"model": "helper", "input": "hi", **asked})
    except openai.APIError as error:
        return {"class": type(error).__name__, "code": error.code, "param": error.param}
    return None


out["missing"] = raised(model="nobody")
out["tools"] = raised(tools=[{"type": "function", "name": "f", "parameters": {}, "strict": False}])
out["no_previous"] = raised(previous_response_id="resp_nothing")
out["budget"] = raised(model="poor")
with client.responses.stream(model="helper", input="fail") as stream:
    last = list(stream)[-1]
out["failed"] = {"type": last.type, "status": last.response.status, "code": last.response.error.code}
print(json.dumps(out))
