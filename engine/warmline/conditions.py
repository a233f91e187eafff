"""Codes that no rule about a file stands behind: the engine, prompts, downloads, the command line and editors.

docs/errors.md lists them below the rules (`rules.as_markdown`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

CONDITIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "What is loaded": {
        "artifact.adapter.load": "The native library refuses the adapter; its own words are quoted.",
        "artifact.base.load": "The native library refuses the base; its own words are quoted.",
        "artifact.quarantined": "This content crashed the engine twice, and is not loaded again until it is released.",
        "artifact.not_quarantined": "Nothing of that digest is in quarantine.",
    },
    "The engine": {
        "backend.adapters": "The native library refuses the set of adapters.",
        "backend.closed": "The context or model was closed meanwhile.",
        "backend.context": "The native library cannot make the context: mostly for want of memory.",
        "backend.crashed": "The engine's process ended while it was at work; it is started anew at the next request.",
        "backend.decode": "The native library cannot decode, or the context is full.",
        "backend.device": "The device of the profile is not on this machine.",
        "backend.file": "The open file cannot be handed to the native library.",
        "backend.host_missing": "No engine runs for this store.",
        "backend.host_running": "An engine of this version and store runs already.",
        "backend.host_protocol": "An engine of the same version but of other source is at work for another program.",
        "backend.host_start": "The engine's process does not come up; its log is quoted.",
        "backend.import": "The native library or a package it needs cannot be imported.",
        "backend.internal": "The engine failed in a way that it should not.",
        "backend.kv_type": "The backend has no such type of KV.",
        "backend.message": "A message between client and engine is malformed.",
        "backend.message_size": "A request is larger than the engine takes.",
        "backend.metrics_port": "A running engine has another metrics port, or none.",
        "backend.missing": "The backend's package is not installed.",
        "backend.prompt": "The prompt is empty, or longer than the context.",
        "backend.protocol": "The engine told something that no client expects.",
        "backend.runtime_folder": "There is no private folder for the engine's socket.",
        "backend.schema": "The JSON schema cannot be turned into a grammar.",
        "backend.unavailable": "The backend that the variant names cannot run here.",
        "backend.unsupported": "The backend or the variant cannot do what is asked.",
        "backend.cancelled": "The request was taken back.",
        "backend.superseded": "A newer request took its place.",
        "backend.preempted": "More urgent work came first.",
        "backend.stopping": "The engine is about to leave.",
        "backend.failed": "The work failed outside of its own error handling.",
    },
    "Prompts": {
        "prompt.bos": "The profile asks for a BOS token that the base has not.",
        "prompt.fim_token": "A text of the FIM format is not exactly one token of the vocabulary.",
        "prompt.messages": "The chat template refuses this sequence of messages.",
        "prompt.room": "The context has no room for a prompt and an answer.",
        "prompt.invalid": "The prompt cannot be made from what was asked.",
        "prompt.template_failed": "The chat template raised an error.",
        "prompt.template_limit": "The chat template does more than it is given time or memory for.",
        "prompt.template_refused": "The chat template itself refuses these messages, in its own words.",
        "prompt.template_security": "The chat template reaches for what no template may touch.",
        "prompt.template_syntax": "The chat template is not Jinja.",
        "prompt.template_undefined": "The chat template uses a value that nobody gave it.",
    },
    "Downloads": {
        "hub.busy": "Another process downloads this very thing.",
        "hub.choose": "The repository holds several models: one has to be named.",
        "hub.empty": "The repository holds no model.",
        "hub.failed": "The hub answered with an error.",
        "hub.gated": "The repository wants an account that has accepted its terms.",
        "hub.missing": "The package that downloads is not installed.",
        "hub.reference": "This is no name of a repository, or of a file in one.",
        "hub.short": "Fewer bytes came than the hub promised.",
        "hub.unknown": "The hub knows no such repository, revision or file.",
        "hub.unreachable": "The hub cannot be reached.",
        "catalog.exists": "A catalog of that name was added already.",
        "catalog.fetch": "The catalog, or what it names, cannot be fetched.",
        "catalog.too_large": "What is fetched is larger than a catalog, or than its entry says.",
    },
    "The command line and editors": {
        "config.examples": "The shipped examples are not where they should be.",
        "config.no_workspace": "No workspace file is found upward from here.",
        "config.secret": "The file is one whose text no model is shown.",
        "document.encoding": "The document is not UTF-8.",
        "document.line": "The document has no such line or column.",
        "document.missing": "The document is not there.",
        "document.too_large": "The document is larger than is read.",
        "document.unreadable": "The document cannot be read.",
        "trust.ambiguous": "More than one approval begins like that.",
        "trust.unknown": "No approval is of that digest or name.",
    },
}
