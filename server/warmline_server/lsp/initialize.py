"""`initialize`: what the client can do, what the server answers.

Works on plain JSON and imports neither pygls nor lsprotocol, whose 550 generated classes cost some 0.4 s of CPU: the
editor gets its answer first, and that work goes on while it opens the document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from warmline import __version__

ENCODINGS: Final = ("utf-8", "utf-16", "utf-32")
STATUS_COMMAND: Final = "warmline.status"
#: What the editor runs when a suggestion was accepted.
ACCEPTED_COMMAND: Final = "warmline.accepted"
#: All commands; `commands.HANDLERS` has what each does.
COMMANDS: Final = (
    "warmline.chat",
    "warmline.explain",
    "warmline.edit",
    "warmline.fix",
    "warmline.selectVariant",
    "warmline.listVariants",
    "warmline.trust",
    "warmline.reload",
    "warmline.showLog",
    "warmline.statistics",
    STATUS_COMMAND,
    ACCEPTED_COMMAND,
)
_NEOVIM: Final = "Neovim"
_AS_IS: Final = 1  # LSP's InsertTextMode.asIs
_ANY_FILE: Final = {"filters": [{"scheme": "file", "pattern": {"glob": "**/*"}}]}


@dataclass(frozen=True, slots=True)
class Client:
    """The editor at the other end.

    Attributes
    ----------
    encoding
        Position encoding of the session.
    roots
        URIs of the workspace folders, as given.
    process_id
        Whose death ends the session, or None.
    watches_files, relative_patterns
        Whether it takes file watchers from the server, also for folders outside the workspace.
    markdown
        Whether hovers are wanted as Markdown.
    markdown_documentation
        Whether the documentation of completion items is wanted as Markdown.
    label_details
        Whether completion items may have label details.
    snippets
        Whether completion items may be snippets.
    as_is
        Whether completion items may say that their indentation is to be left alone.
    related_information
        Whether diagnostics may point at other places.
    progress
        Whether the server may begin progress reports of its own.
    pulls_settings, watches_settings
        Whether it answers `workspace/configuration`, and whether it wants to be told that changes of it are awaited.
    shows_documents
        Whether it opens a document that the server names.
    versioned_edits, annotated_edits
        Whether a workspace edit may say which version of a document it is for, and ask to be confirmed.
    literal_actions, resolves_actions
        Whether code actions may be more than commands, and whether their edits may be asked for later.
    refreshes_lenses
        Whether it asks for code lenses again when told to.
    restricted
        Whether the person has not said that they trust the workspace, so that nothing it says counts:
        ``initializationOptions.server.restricted``.
    options
        `initializationOptions`, as sent: settings, until the client's own configuration is known.
    """

    name: str = ""
    version: str = ""
    encoding: str = "utf-16"
    roots: tuple[str, ...] = ()
    process_id: int | None = None
    watches_files: bool = False
    relative_patterns: bool = False
    markdown: bool = False
    markdown_documentation: bool = False
    label_details: bool = False
    snippets: bool = False
    as_is: bool = False
    related_information: bool = False
    progress: bool = False
    pulls_settings: bool = False
    watches_settings: bool = False
    shows_documents: bool = False
    versioned_edits: bool = False
    annotated_edits: bool = False
    literal_actions: bool = False
    resolves_actions: bool = False
    refreshes_lenses: bool = False
    restricted: bool = False
    options: Any = None

    @property
    def is_neovim(self) -> bool:
        """Whether it is Neovim, which does some things otherwise than its capabilities say."""
        return self.name == _NEOVIM

    @property
    def asks_again(self) -> bool:
        """Whether it asks a second time for candidates of which the first answer to an explicit request had only one.

        VS Code takes that answer for all that there is, until something changes.
        """
        return self.is_neovim

    def line_end_for(self, eol: str) -> str:
        r"""Give the line end that inserted text should have in a document whose own is `eol`.

        Neovim holds the lines of a CRLF file without their ``\r`` and splits an accepted inline completion at ``\n``
        only (its runtime, ``lsp/inline_completion.lua``), so ``\r\n`` would leave a ``\r`` in each line.
        """
        return "\n" if self.is_neovim else eol


def read_client(params: Mapping[str, Any]) -> Client:
    """Read `InitializeParams`; what is malformed counts as not there."""
    capabilities = params.get("capabilities")
    info = _get(params, "clientInfo")
    watching = _get(capabilities, "workspace", "didChangeWatchedFiles")
    item = _get(capabilities, "textDocument", "completion", "completionItem")
    insert_modes = _get(item, "insertTextModeSupport", "valueSet")
    name = str(_get(info, "name") or "")
    edits = _get(capabilities, "workspace", "workspaceEdit")
    actions = _get(capabilities, "textDocument", "codeAction")
    resolved = _get(actions, "resolveSupport", "properties")
    process = params.get("processId")
    return Client(
        name=name,
        version=str(_get(info, "version") or ""),
        encoding=_encoding(_get(capabilities, "general", "positionEncodings")),
        roots=_roots(params),
        process_id=process if isinstance(process, int) and not isinstance(process, bool) and process > 0 else None,
        watches_files=_get(watching, "dynamicRegistration") is True,
        relative_patterns=_get(watching, "relativePatternSupport") is True,
        markdown=_wants_markdown(name, _get(capabilities, "textDocument", "hover", "contentFormat")),
        markdown_documentation=_wants_markdown(name, _get(item, "documentationFormat")),
        label_details=_get(item, "labelDetailsSupport") is True,
        snippets=_get(item, "snippetSupport") is True,
        as_is=isinstance(insert_modes, list) and _AS_IS in insert_modes,
        related_information=_get(capabilities, "textDocument", "publishDiagnostics", "relatedInformation") is True,
        progress=_get(capabilities, "window", "workDoneProgress") is True,
        pulls_settings=_get(capabilities, "workspace", "configuration") is True,
        watches_settings=_get(capabilities, "workspace", "didChangeConfiguration", "dynamicRegistration") is True,
        shows_documents=_get(capabilities, "window", "showDocument", "support") is True,
        versioned_edits=_get(edits, "documentChanges") is True,
        annotated_edits=isinstance(_get(edits, "changeAnnotationSupport"), Mapping),
        literal_actions=isinstance(_get(actions, "codeActionLiteralSupport"), Mapping),
        resolves_actions=isinstance(resolved, list) and "edit" in resolved,
        refreshes_lenses=_get(capabilities, "workspace", "codeLens", "refreshSupport") is True,
        restricted=_get(params, "initializationOptions", "server", "restricted") is True,
        options=params.get("initializationOptions"),
    )


def answer(client: Client) -> dict[str, Any]:
    """Give the `InitializeResult`."""
    return {
        "capabilities": {
            "positionEncoding": client.encoding,
            "textDocumentSync": {"openClose": True, "change": 2, "save": {"includeText": False}},
            "inlineCompletionProvider": True,
            "completionProvider": {"completionItem": {"labelDetailsSupport": True}},
            "hoverProvider": True,
            "codeLensProvider": {},
            "documentLinkProvider": {},
            "codeActionProvider": {"codeActionKinds": ["quickfix"], "resolveProvider": True},
            "executeCommandProvider": {"commands": list(COMMANDS), "workDoneProgress": True},
            "workspace": {
                "workspaceFolders": {"supported": True, "changeNotifications": True},
                "fileOperations": {"willRename": _ANY_FILE, "didRename": _ANY_FILE},
            },
        },
        "serverInfo": {"name": "warmline", "version": __version__},
    }


def _encoding(offered: object) -> str:
    # The list is in the client's order of preference; without a known one the specification's default holds.
    if isinstance(offered, list):
        for name in offered:
            if name in ENCODINGS:
                return str(name)
    return "utf-16"


def _wants_markdown(name: str, formats: object) -> bool:
    """Tell whether Markdown is what the client likes best.

    Neovim puts Markdown first and then shows its source, so plain text is better for it wherever it takes both.
    """
    known = [each for each in formats if each in ("markdown", "plaintext")] if isinstance(formats, list) else []
    if name == _NEOVIM and "plaintext" in known:
        return False
    return known[:1] == ["markdown"]


def _roots(params: Mapping[str, Any]) -> tuple[str, ...]:
    folders = params.get("workspaceFolders")
    if isinstance(folders, list) and folders:
        return tuple(uri for uri in (_get(folder, "uri") for folder in folders) if isinstance(uri, str))
    root = params.get("rootUri")
    return (root,) if isinstance(root, str) else ()


def _get(value: object, *names: str) -> Any:
    for name in names:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value
