"""Every rule that refuses something, in the order they are asked: its code, its function, and what it protects.

docs/errors.md is made from this table (`as_markdown`), and `WarmlineError.docs` leads there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from .conditions import CONDITIONS


class Rule(NamedTuple):
    """One rule. `function` is ``module:name`` inside the package: where the rule is asked."""

    code: str
    function: str
    protects: str


def _section(prefix: str, module: str, *rows: tuple[str, str, str]) -> tuple[Rule, ...]:
    return tuple(
        Rule(f"{prefix}.{code}", function if ":" in function else f"{module}:{function}", protects)
        for code, function, protects in rows
    )


_FILES = _section(
    "artifact",
    "validation",
    ("missing", "digests:open_regular", "The file must be there."),
    ("unreadable", "digests:open_regular", "The file must be readable, and stay as long as it is while it is read."),
    ("not_a_file", "digests:open_regular", "No folder, FIFO or device is taken for a file; opening one could hang."),
    ("pickle", "check_not_pickle", "Loading a pickle runs code from inside it: such files are never opened."),
    ("backend", "check_backend", "A format that the backend would load and not apply is refused."),
    ("folder", "store.folders:files_of", "A model folder must hold a whole exported model, and nothing but files."),
    ("digest", "check_digest", "Bytes that were promised or installed must be those that are there."),
    ("changing", "digests:DigestCache.digest_descriptor", "A file that changes while it is hashed has no digest yet."),
    ("stopped", "digests:hash_descriptor", "A process that wants to end does not wait for a long file to be hashed."),
)

_GGUF = _section(
    "artifact.gguf",
    "artifacts.gguf",
    ("magic", "_version", "The file must be GGUF, not a Git LFS pointer or something else."),
    ("version", "_version", "Only versions 2 and 3 have the layout that is read here."),
    ("endian", "_version", "A big-endian file would be read as nonsense."),
    ("count", "_counts", "Counts are held against limits and against the file before anything loops over them."),
    ("truncated", "_counts", "All that the header claims must be in the file."),
    ("string", "artifacts.gguf_bytes:Cursor.text", "Keys and names are UTF-8 without NUL, within limits."),
    ("type", "_scalar_type", "Values are of known types; a wrong one ends llama.cpp's process."),
    ("duplicate_key", "_parse", "Two readers of a key that is there twice could see two values."),
    ("duplicate_tensor", "_parse", "A tensor that is there twice means two things."),
    ("alignment", "_alignment", "The alignment is a power of two, or offsets overflow."),
    ("tensor_type", "_draft", "Tensors are of types that the library still knows."),
    ("shape", "_nbytes", "Dimensions multiply without overflow, and rows fill whole blocks."),
    ("offset", "_placed", "Tensor data is aligned and without gaps, as llama.cpp wants it."),
    ("overlap", "_placed", "No two tensors share bytes."),
    ("memory", "artifacts.gguf_bytes:Cursor.keep", "A small file cannot make its reader use much memory."),
    ("steps", "artifacts.gguf_bytes:Cursor.step", "A small file cannot keep its reader busy for long."),
)

_BASE = _section(
    "artifact.base",
    "base_rules",
    ("types", "check_types", "Each key has the exact type that llama.cpp reads it by."),
    ("kind", "check_kind", "A base is a model: no adapter, projector or vocabulary."),
    ("architecture", "check_architecture", "The file says which architecture it is of."),
    ("empty", "check_tensors", "The file holds weights."),
    ("split", "check_one_file", "Parts of a split model would be loaded by name, unverified: merge them first."),
    ("vocabulary", "check_vocabulary", "Scores and token types are as many as tokens, or memory is read past its end."),
    ("tokens", "check_tokens", "No token is there twice: llama.cpp ends its process over that."),
)

_ADAPTER = _section(
    "artifact.adapter",
    "artifacts.lora",
    ("not_adapter", "_check_general_type", "The file is an adapter, not a model."),
    ("kind", "_check_adapter_type", "The adapter is a LoRA."),
    ("alora", "_check_not_alora", "An activated LoRA applied throughout gives wrong text in silence."),
    ("architecture", "_check_architecture_named", "The adapter says which architecture it is for."),
    ("alpha", "_check_alpha", "Alpha is a finite number from 0: the strength follows from it."),
    ("empty", "pair_tensors", "An adapter without tensors loads, and changes nothing."),
    ("name", "pair_tensors", "Names that llama.cpp would read as other names are refused."),
    ("half", "pair_tensors", "Every A has its B."),
    ("tensor", "_unpaired", "Biases and whole weights would be left out in silence."),
    ("norm", "_norm_error", "llama.cpp leaves out norms: the variant would not be what was trained."),
    ("token_embd", "_check_target", "Adapters on the token embedding are not safe in llama.cpp."),
    ("target", "_check_target", "Only weights are adapted; anything else is left out in silence."),
    ("dtype", "_check_dtype", "Weights are f32, f16, bf16 or q8_0."),
    ("shape", "_check_product", "A and B can be multiplied."),
    ("rank", "uniform_rank", "One rank throughout: with several, one alpha means several strengths."),
    ("architecture_mismatch", "_check_same_architecture", "Adapter and base are of one architecture."),
    ("no_target", "_target_in_base", "Every weight that is adapted is in the base."),
    ("tied", "_target_in_base", "An adapter on the output needs a base that has one of its own."),
    ("input_width", "_check_input_width", "A takes as many inputs as the base's weight."),
    ("output_width", "_check_output_width", "B gives as many outputs as the base's weight."),
    ("experts", "_check_experts", "Too few experts, and llama.cpp writes outside of its memory."),
    ("not_finite", "weights:_tensor_nonzero", "One NaN makes all of the model's output NaN."),
    (
        "no_effect",
        "validation:check_weights",
        "An adapter of zeros loads, and the base's text passes for the variant's.",
    ),
    ("base", "validation:check_declared_base", "An adapter made for another base, by digest, is refused."),
    (
        "base_unknown",
        "validation:check_declared_base",
        "A curated adapter names its base by digest; names prove nothing.",
    ),
    ("scale", "validation:effective_scale", "The strength in force is a finite number."),
)

_PEFT = _section(
    "artifact.peft",
    "artifacts.peft_config",
    (
        "folder",
        "artifacts.peft:_open_folder",
        "An adapter of this kind is a folder: weights alone do not tell their strength.",
    ),
    ("missing", "artifacts.peft:_open_file", "Config and weights are both there."),
    ("link", "artifacts.peft:_link_error", "A link may lead anywhere, and elsewhere tomorrow."),
    ("not_a_file", "artifacts.peft:_open_file", "Config and weights are regular files."),
    ("pickle", "artifacts.peft:_pickle_error", "Weights in a pickle are never opened: it would run code."),
    ("config", "parse_config", "The config is JSON within limits."),
    ("type", "_Fields.type_error", "A field of another type is an error, never a guess."),
    ("kind", "_check_kind", "The adapter is a LoRA."),
    ("task", "_check_task", "The adapter is for text generation."),
    ("dora", "_check_not_dora", "DoRA's magnitudes are no product of two factors."),
    ("bias", "_check_no_bias", "Changed biases would be left out in silence."),
    ("lora_bias", "_check_no_lora_bias", "Biases of the adapter would be left out in silence."),
    ("modules_to_save", "_check_no_modules_to_save", "Whole modules would be left out in silence."),
    ("token_indices", "_check_no_token_indices", "Single token embeddings would be left out in silence."),
    ("rank_pattern", "_check_one_rank", "Ranks by module: one strength would be wrong for some."),
    ("alpha_pattern", "_check_one_alpha", "Alphas by module: an adapter file holds one."),
    ("alora", "_check_not_alora", "An activated LoRA applied throughout gives wrong text in silence."),
    ("fan_in_fan_out", "_check_orientation", "Transposed weights give a wrong product wherever they are square."),
    ("init", "_check_base_unchanged", "Some initialisations change the base: the adapter fits no other."),
    ("layer_replication", "_check_layers_not_replicated", "The adapter is for a base with other layers."),
    ("target_parameters", "_check_targets_are_modules", "Parameters that are no modules have no two factors."),
    ("unknown_field", "_check_nothing_unknown", "A field that nobody knows may change how the adapter applies."),
    ("rank", "_rank", "The rank is a whole number, and that of every factor."),
    ("alpha", "_alpha", "Alpha is a usable number: the strength follows from it."),
    ("target_modules", "_target_modules", "Some module is adapted."),
    ("empty", "artifacts.peft_tensors:pair_tensors", "An adapter without tensors changes nothing."),
    ("name", "artifacts.peft_tensors:_split_name", "OpenVINO drops names that are nearly right in silence."),
    ("half", "artifacts.peft_tensors:_check_complete", "Every A has its B."),
    ("tensor", "artifacts.peft_tensors:_not_a_factor", "Nothing but factors is in the file."),
    ("embedding", "artifacts.peft_tensors:_not_a_factor", "Adapters on embeddings are not supported."),
    ("full_weight", "artifacts.peft_tensors:_not_a_factor", "Whole weights would be left out in silence."),
    ("untargeted", "artifacts.peft_tensors:_check_targeted", "Weights that PEFT itself would pass over are refused."),
    ("dtype", "artifacts.peft_tensors:_check_dtypes", "Weights are float32, float16 or bfloat16."),
    ("shape", "artifacts.peft_tensors:_check_shapes", "Factors have two dimensions."),
    ("not_finite", "artifacts.peft_tensors:_check_finite", "One NaN makes all of the model's output NaN."),
    ("no_effect", "artifacts.peft_tensors:_check_effect", "An adapter saved before its training changes nothing."),
)

_SAFETENSORS = _section(
    "artifact.safetensors",
    "artifacts.safetensors",
    ("format", "_check_not_another_format", "The file is safetensors, not a Git LFS pointer or GGUF."),
    ("pickle", "_check_not_another_format", "A pickle under another name is not opened."),
    ("header_size", "_header_bytes", "The header is held against a limit before it is read."),
    ("truncated", "_header_bytes", "All that the header claims is in the file."),
    ("json", "artifacts.bounded_json:parse_object", "The header is one JSON object in UTF-8."),
    ("depth", "artifacts.bounded_json:_check_nesting", "Nesting is counted before a parser can run out of stack."),
    ("count", "artifacts.bounded_json:_check_nesting", "Entries are counted before they take memory."),
    ("number", "artifacts.bounded_json:_integer", "Numbers are whole and short."),
    (
        "duplicate_key",
        "artifacts.bounded_json:_unique",
        "Two readers of a key that is there twice could see two values.",
    ),
    ("metadata", "_metadata", "Metadata is text, within limits."),
    ("name", "_check_name", "Tensor names are text, within limits."),
    ("entry", "_tensor", "A tensor has a type, a shape and a place, and nothing else."),
    ("dtype", "_tensor", "Tensors are of known types."),
    ("shape", "_shape", "Dimensions multiply without overflow."),
    ("offsets", "_offsets", "Data begins before it ends."),
    ("size", "_tensor", "Type times shape is what the offsets leave room for."),
    ("overlap", "_placed", "No two tensors share bytes."),
    ("gap", "_placed", "No byte of the file belongs to nobody."),
    ("memory", "parse_header", "A small file cannot make its reader use much memory."),
)

_CONVERT = _section(
    "artifact.convert",
    "artifacts.architectures",
    ("architecture", "architecture_of", "Only architectures whose names and orders are known are converted."),
    ("blocks", "block_count", "The base says how many blocks it has."),
    ("module", "name_map", "Every module of the adapter is one of the base's."),
    ("heads", "heads", "The base's head counts fit its weights, or rows would change places wrongly."),
    ("proof", "artifacts.proof:proof_error", "What was written is read back, and each product compared."),
    ("write", "artifacts.convert:_replacing", "The file is written whole or not at all."),
)

_IMPORT = _section(
    "artifact.import",
    "artifacts.openvino_ir",
    (
        "architecture",
        "plan_import",
        "OpenVINO GenAI's reader knows the architecture, or it would build another network.",
    ),
    ("rope", "_check_rope", "A stretched rotary embedding would be left out in silence."),
    ("tensor", "_vectors", "Every weight of the GGUF has its place in the network."),
    ("type", "importing.weights:GGUFWeights._values", "Weights are of types whose values can be computed."),
    ("not_finite", "importing.weights:GGUFWeights._values", "One NaN makes all of the model's output NaN."),
    ("reader", "importing.worker:_read", "What GenAI's reader cannot read is said in its own words."),
    ("network", "importing.graph:assign", "The network has as many products as the GGUF has weights, of their shapes."),
    ("differs", "importing.graph:check_is", "A weight that is not the GGUF's is not given its name, nor kept."),
    ("time", "importing.process:import_gguf", "Native code that hangs is ended."),
    ("crashed", "importing.process:import_gguf", "Native code that crashes takes nothing with it."),
)

_OPENVINO = _section(
    "artifact.openvino",
    "backends.openvino_names",
    ("xml", "read_network", "The network's file is read within limits, and defines no entities."),
    ("weights", "verified_openvino:read_folder", "The weights' file holds all that the network keeps in it."),
    ("unmatched", "_check_all_there", "A factor that acts on nothing would be left out in silence."),
    ("ambiguous", "_check_alone", "A factor acts on one product, not on each whose name holds its own."),
    ("width", "_check_width", "Factors have the widths of the weight that they act on."),
    ("tokenizer", "backends.openvino_vocabulary:Vocabulary", "Without a tokenizer text cannot become tokens."),
    ("config", "backends.openvino_facts:check_config", "A folder has a config; configs are JSON within limits."),
)

_STORE = _section(
    "store",
    "store.shelf",
    ("name", "check_name", "A name becomes a path: only plain ones do."),
    ("digest", "store.blobs:Blobs.path", "A digest becomes a path: only whole ones do."),
    ("link", "inside", "No link leads out of the store."),
    ("exists", "check_free", "Nothing is overwritten unasked."),
    ("name_case", "check_free", "Two names that some file systems take for one are not both given."),
    ("unknown_model", "Shelf._unknown", "A base that is named is installed."),
    ("unknown_adapter", "Shelf._unknown", "An adapter that is named is installed."),
    ("ambiguous", "Shelf.find", "Of two artifacts with one name, the person says which."),
    ("record", "Shelf.read", "A record belongs where it lies."),
    ("needed", "store.upkeep:remove", "Nothing goes that a variant stands on."),
    ("merged", "store.install_model:_check_merged", "What a model was merged from is a short text."),
    ("changed", "store.install_adapter:_check_base_stays", "An adapter was checked against the base that is there."),
    ("locked", "store.changes:changing", "One process at a time changes the store."),
    ("full", "store.changes:_store_error", "On a full disk nothing is half-written."),
    ("read_only", "store.changes:_store_error", "A store that cannot be written is said to be so."),
    ("failed", "store.changes:_store_error", "Whatever else the disk refuses leaves the store as it was."),
)

_TRUST = _section(
    "trust",
    "trust",
    ("unapproved", "verified:Verifier._check_approved", "Nothing that a workspace brings is loaded unasked."),
    ("digest", "TrustStore.add", "Approvals are of exact bytes."),
    ("store", "TrustStore._read", "Approvals that cannot be read approve nothing."),
)

_CONFIG = _section(
    "config",
    "filemodel",
    ("missing", "load_file", "A file that is named is there."),
    ("unreadable", "load_file", "The file is a regular one that can be read."),
    ("too_large", "load_file", "Files that people write are small."),
    ("json", "parse", "The file is JSON, without a key twice."),
    ("unknown_field", "_as_config_error", "A misspelt field is an error, not a default."),
    ("field", "_as_config_error", "Every value is one that makes sense."),
    ("newer", "_as_config_error", "A record that a newer Warmline wrote is not guessed at."),
    ("package", "store.resolution:package_file", "A base in a Python package needs that package."),
    ("path", "store.resolution:contained", "A workspace names only files inside itself."),
)

_VARIANT = _section(
    "variant",
    "registry",
    ("unknown", "Store.find", "A variant that is asked for exists; nothing else answers in its place."),
    ("no_effect", "host.resident:Residents._check_effect", "An adapter that moves no logit is not passed off as one."),
    ("same_adapter", "verified:_check_unlike", "llama.cpp takes the same content once, and drops the second scale."),
    ("nan_effect", "host.resident:Residents._check_effect", "An adapter under which the output is NaN is not used."),
)

_CATALOG = _section(
    "catalog",
    "catalog",
    ("unknown", "Catalog.find", "An entry that is asked for is in the catalog."),
    ("ambiguous", "Catalog.find", "Of two entries with one name, the person says which."),
    (
        "digest",
        "_check_vouched",
        "What a catalog vouches for, it names by digest: the artifact and, for an adapter, its base.",
    ),
    ("source", "_need", "What is not installed yet has a source in the catalog itself, never in an artifact."),
    ("conflict", "_check_installed", "A name that is taken by other bytes is not taken over."),
    (
        "certificate",
        "catalog_certificates:check_certificate",
        "A curated variant comes with a certificate that it passed, of these very parts, scales and profile.",
    ),
)

SECTIONS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "Files": _FILES,
    "GGUF headers": _GGUF,
    "Bases": _BASE,
    "Adapters in GGUF, and against their base": _ADAPTER,
    "PEFT folders": _PEFT,
    "Safetensors headers": _SAFETENSORS,
    "Conversion for llama.cpp": _CONVERT,
    "Import for OpenVINO": _IMPORT,
    "OpenVINO folders, and adapters against them": _OPENVINO,
    "The store": _STORE,
    "Trust": _TRUST,
    "Variants": _VARIANT,
    "Catalogs": _CATALOG,
    "Files that people write": _CONFIG,
}
RULES: Final[tuple[Rule, ...]] = tuple(rule for rules in SECTIONS.values() for rule in rules)

_HEAD: Final = """# Errors

<!-- Made by docs/make_errors.py from engine/warmline/rules.py: change it there. -->

Every error has a stable code, the file and the field that are at fault, and says what to do next. Below is what each
rule protects, in the order in which the rules are asked. `warmline ... --json` gives the same as `{"error": {...}}`.
"""


def as_markdown() -> str:
    """Write docs/errors.md; the anchor of a code is the code with dashes for its dots (`WarmlineError.docs`)."""
    lines = [_HEAD]
    for title, rules in SECTIONS.items():
        lines += [f"## {title}", "", "| code | what it protects | where |", "|---|---|---|"]
        for rule in rules:
            module, _, name = rule.function.partition(":")
            where = f"`{module.replace('.', '/')}.py`, `{name}`"
            anchor = f'<a id="{rule.code.replace(".", "-")}"></a>'
            lines.append(f"| {anchor}`{rule.code}` | {rule.protects} | {where} |")
        lines.append("")
    for title, conditions in CONDITIONS.items():
        lines += [f"## {title}", "", "| code | what happened |", "|---|---|"]
        lines += [f'| <a id="{code.replace(".", "-")}"></a>`{code}` | {what} |' for code, what in conditions.items()]
        lines.append("")
    return "\n".join(lines)
