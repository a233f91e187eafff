"""Replays one lineage in a process of its own: reads what to do from stdin, writes the fingerprint of the logits."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))

from warmline.backends.base import AdapterOnDisk, ContextConfig
from warmline.backends.llama import LlamaBackend
from warmline.backends.llama_session import LlamaSession
from warmline.digests import DigestCache

from harness.replaying import replay


def main() -> None:
    """Do what stdin says."""
    work = json.load(sys.stdin)
    digests = DigestCache()
    backend = LlamaBackend(digests)
    base = Path(work["base"])
    model = backend.load(base, digests.digest(base))
    adapters = [AdapterOnDisk(name, Path(path), digest, scale) for name, path, digest, scale in work["adapters"]]
    session = model.open_session(adapters, ContextConfig(**work["context"]))
    assert isinstance(session, LlamaSession)
    for _ in replay(session, work["lineage"]):
        pass
    print(hashlib.blake2b(session.logits().tobytes(), digest_size=16).hexdigest())
    backend.close()


if __name__ == "__main__":
    main()
