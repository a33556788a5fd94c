import importlib.metadata
import json

print(json.dumps({name: importlib.metadata.version(name) for name in ["openai", "anthropic", "mcp", "schemathesis"]}))
