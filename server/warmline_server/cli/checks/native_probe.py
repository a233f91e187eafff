"""Run as `python -m warmline_server.cli.checks.native_probe`: says as JSON what llama.cpp is here, without a model.

In a process of its own, since a library built for another processor ends the process that calls it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Final

# What Warmline calls, in groups; a build without one of them cannot run variants.
NEEDED: Final = {
    "models": ("llama_model_load_from_file_ptr", "llama_model_free", "llama_model_get_vocab", "llama_vocab_is_eog"),
    "adapters": ("llama_adapter_lora_init_from_file_ptr", "llama_adapter_lora_free", "llama_set_adapters_lora"),
    "contexts": ("llama_init_from_model", "llama_free", "llama_decode", "llama_set_abort_callback"),
    "KV": ("llama_memory_seq_rm", "llama_state_seq_get_data", "llama_state_seq_set_data"),
}


def probe() -> dict[str, Any]:
    """Load the library and ask it."""
    from warmline.backends.native import llama, version

    module = llama()
    missing = [name for names in NEEDED.values() for name in names if not callable(getattr(module, name, None))]
    return {
        "version": version(),
        "missing": missing,
        "probed": sum(map(len, NEEDED.values())),
        "system": module.llama_print_system_info().decode("utf-8", "replace"),
    }


def main() -> None:
    """Print one JSON value on the real stdout; the library may print to file descriptor 1 as it likes."""
    stdout = os.dup(1)
    os.dup2(2, 1)
    from warmline.errors import WarmlineError

    try:
        found = probe()
    except WarmlineError as error:
        found = {"error": error.to_dict()}
    os.write(stdout, json.dumps(found).encode())
    sys.stdout.flush()


if __name__ == "__main__":
    main()
