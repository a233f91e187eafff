"""What the filters need to know about languages, by LSP language id; an unknown language gets the careful answer."""

_PROSE = "asciidoc bibtex git-commit git-rebase latex markdown mdx org plaintext quarto restructuredtext rmd tex"
_MARKUP = "astro handlebars html javascriptreact php razor svelte typescriptreact vue vue-html xml xsl"
PROSE = frozenset(_PROSE.split())
MARKUP = PROSE.union(_MARKUP.split())

# Brackets of these do not come in pairs (`case x)` in a shell), so nothing can be concluded from a lone closer.
UNPAIRED = frozenset(["bat", "fish", "powershell", "shellscript"]) | PROSE

# A colon at the end of a line opens a block here; elsewhere it ends a label, a key or a `case`.
COLON_BLOCKS = frozenset(["bazel", "coffeescript", "cython", "gdscript", "mojo", "nim", "python", "starlark"])

PREPROCESSED = frozenset(["c", "cpp", "csharp", "cuda-cpp", "objective-c", "objective-cpp"])

# ' starts a lifetime, a type variable or a prime here, so only a whole character literal is a string.
LONE_QUOTE = frozenset(["clojure", "fsharp", "haskell", "lisp", "ocaml", "rust", "scala", "scheme", "systemverilog"])

_HASH = (
    "cmake coffeescript cython dockerfile elixir fish gdscript graphql julia makefile mojo nim perl powershell python "
    "bazel r ruby shellscript starlark terraform toml yaml"
)
_DASH = "ada elm haskell lua sql vhdl"
_SLASH = (
    "c cpp csharp cuda-cpp dart fsharp go groovy java javascript javascriptreact jsonc kotlin objective-c "
    "objective-cpp php rust scala swift systemverilog typescript typescriptreact verilog zig"
)
_SEMICOLON = "clojure ini lisp scheme"
_LINE_COMMENTS = {
    language: mark
    for mark, names in (("#", _HASH), ("--", _DASH), ("//", _SLASH), (";", _SEMICOLON))
    for language in names.split()
}


def line_comment(language: str) -> str | None:
    """What starts a comment that runs to the end of the line, None where that is unknown."""
    return _LINE_COMMENTS.get(language)
