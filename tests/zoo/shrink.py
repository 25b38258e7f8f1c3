"""Makes a configuration of transformers tiny, by what its settings are called.

A configuration is built once with its defaults, its settings are made small, and it is built again from these, so that
what a constructor derives fits. Invariant: settings that no rule knows keep their value.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

HIDDEN, HEADS, HEAD_DIM, LAYERS, VOCABULARY, POSITIONS, IMAGE, PATCH = 32, 4, 8, 2, 128, 128, 32, 8

# The first rule whose pattern is found in the setting's name decides: the largest value that stays. None: as it is.
_RULES: list[tuple[str, int | None]] = [
    (r"token_id$|token_index$|_token$|_id$|^id2|label|version|seed|^num_channels$|in_channels|out_channels$", None),
    (r"conv_kernel|kernel|stride|dilation|padding|shift|dropout|eps|theta|std|factor$|scale|bias", None),
    (r"vocab_size|n_vocab|codebook_size|vocabulary_size|n_words|num_embeddings", VOCABULARY),
    (r"max_position|n_positions|n_ctx|max_seq|seq_len|max_source|max_target|max_len|relative_attention", POSITIONS),
    (r"expert.*(per_tok|top_k)|top_k$|num_experts_per|moe_topk|moe_k$", 2),
    (r"shared_expert.*(size|dim)|expert.*(intermediate|hidden|ffn|size|dim)", HIDDEN),
    (r"expert", 4),
    (r"(key_value|kv)_heads|n_head_kv|num_kv", 2),
    (r"num_.*heads?$|n_heads?$|_heads$|attention_heads|num_heads|nhead", HEADS),
    (r"rotary_dim|rotary_ndims|rope_head_dim", HEAD_DIM // 2),
    (r"head_dim|head_size|d_kv|d_head|kv_channels|head_width|dim_head", HEAD_DIM),
    (r"every|frequency|interval|freq|period|step", None),
    (r"(num|n|encoder|decoder|_).*layers?$|^layers$|depths?$|num_blocks|n_layer|hidden_layers", LAYERS),
    (r"patch_size", PATCH),
    (r"image_size|img_size|input_size|image_length", IMAGE),
    (r"window", 4),
    (r"num_queries|num_feature_levels|num_latents|num_query", 8),
    (r"intermediate|ffn|d_ff|inner|mlp_dim|feed_?forward", 2 * HIDDEN),
    (r"lora_rank|_rank$", 8),
    (r"hidden|(^|_)dim(ension)?s?$|d_model|n_embd|embd|embed|width|channels|d_embed|_size$|features|filters", HIDDEN),
]
_COMPILED = [(re.compile(pattern), limit) for pattern, limit in _RULES]
_ALWAYS_DROPPED = {"transformers_version", "id2label", "label2id", "problem_type", "model_type", "architectures", "torch_dtype", "dtype", "_name_or_path"}


def shrink(config_class: type, extra: dict[str, Any] | None = None, base: Any = None) -> Any:
    """A tiny configuration of that class; `extra` are settings that stay as given, nested ones as dicts."""
    config = base if base is not None else config_class()
    settings = _small_settings(config)
    for name, value in (extra or {}).items():
        if isinstance(value, dict) and isinstance(settings.get(name), dict):
            settings[name] = {**settings[name], **value}
        else:
            settings[name] = value
    _fit_token_ids(settings)
    return config_class(**settings)


def _small_settings(config: Any) -> dict[str, Any]:
    names = set(inspect.signature(type(config).__init__).parameters) - {"self", "args", "kwargs"}
    own = {k: v for k, v in vars(config).items() if not k.startswith("_") and k not in _ALWAYS_DROPPED}
    kept = {k: v for k, v in own.items() if k in names or not names or _is_config(v)}
    settings = {name: _nested(value) if _is_config(value) else small(name, value) for name, value in kept.items()}
    settings = _without_aliases(config, settings)
    _fit_lists(settings)
    _fit_heads(settings)
    return settings


def _nested(config: Any) -> dict[str, Any]:
    settings = _small_settings(config)
    _fit_token_ids(settings)
    settings["model_type"] = config.model_type
    return settings


def _is_config(value: Any) -> bool:
    return hasattr(value, "to_dict") and hasattr(value, "model_type")


def _without_aliases(config: Any, settings: dict[str, Any]) -> dict[str, Any]:
    aliases = getattr(config, "attribute_map", {}) or {}
    return {k: v for k, v in settings.items() if not (k in aliases and aliases[k] in settings)}


def small(name: str, value: Any) -> Any:
    """The setting's value made small by the first rule that knows its name."""
    if isinstance(value, bool) or not isinstance(value, (int, list, tuple)):
        return value
    for pattern, limit in _COMPILED:
        if pattern.search(name):
            return value if limit is None else _limited(name, value, limit)
    return value


def _limited(name: str, value: Any, limit: int) -> Any:
    if isinstance(value, int):
        return min(value, limit)
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in value):
        return type(value)(_limited(name, item, limit) if isinstance(item, (list, tuple)) else item for item in value)
    if re.search(r"depths?$|layers$|blocks", name):
        return type(value)(min(item, 1) for item in value)
    if re.search(r"heads", name):  # a power of two divides every width
        return type(value)(min(item, 2) for item in value)
    if not value or max(value) <= limit or re.search(r"heads|image|patch|position|vocab", name):
        return type(value)(min(item, limit) for item in value)
    # A list of widths keeps its ratios: the largest becomes twice the limit, no item less than 8, all multiples of 8.
    largest = max(value)
    return type(value)(max(8, 2 * limit * item // largest // 8 * 8) for item in value)


def _fit_lists(settings: dict[str, Any]) -> None:
    """What has an entry for each layer is cut to the number of layers."""
    count = next((settings[k] for k in ("num_hidden_layers", "n_layer", "num_layers") if isinstance(settings.get(k), int)), None)
    for name, value in settings.items():
        if count is not None and isinstance(value, list) and re.search(r"layer_types|layers_block_type|_layers$|attention_types", name):
            if len(value) > count and not isinstance(value[0], int):
                settings[name] = _both_kinds(value, count)
            elif value and isinstance(value[0], int):
                settings[name] = [item for item in value if item < count] or value[:0]


def _both_kinds(kinds: list[Any], count: int) -> list[Any]:
    """As many kinds of layers as fit."""
    distinct = [kind for n, kind in enumerate(kinds) if kind not in kinds[:n]]
    return (distinct + kinds)[:count]


def _fit_heads(settings: dict[str, Any]) -> None:
    """Widths are multiples of the number of heads, key-value heads divide heads."""
    heads = next((settings[k] for k in ("num_attention_heads", "num_heads", "n_head") if isinstance(settings.get(k), int)), None)
    key_values = settings.get("num_key_value_heads")
    if heads and isinstance(key_values, int) and heads % key_values:
        settings["num_key_value_heads"] = heads
    if heads and settings.get("qk_rope_head_dim"):  # latent attention has no groups
        settings["num_key_value_heads"] = heads
    if heads and "num_key_value_heads" in settings and key_values is None:
        settings["num_key_value_heads"] = heads
    if "head_dim" in settings and settings["head_dim"] is None:
        settings["head_dim"] = HEAD_DIM
    if isinstance(settings.get("mamba_n_heads"), int):
        settings["mamba_n_heads"], settings["mamba_d_head"] = HEADS, 2 * HIDDEN // HEADS
    if heads and HEADS % heads == 0 and settings.get("hidden_size", HIDDEN) % heads:
        settings["hidden_size"] = HIDDEN
    pairs = zip(settings.get("hidden_sizes") or [], settings.get("num_attention_heads") or []) if isinstance(
        settings.get("num_attention_heads"), list
    ) and isinstance(settings.get("hidden_sizes"), list) else ()
    if any(width % number for width, number in pairs):
        settings["num_attention_heads"] = [1 if width % number else number for width, number in zip(
            settings["hidden_sizes"], settings["num_attention_heads"])]


def _fit_token_ids(settings: dict[str, Any]) -> None:
    """Ids of special tokens lie in the vocabulary: those beyond it get places of their own at its end."""
    sizes = [v for k, v in settings.items() if k == "vocab_size" and isinstance(v, int)]
    for value in settings.values():
        if isinstance(value, dict) and isinstance(value.get("vocab_size"), int):
            sizes.append(value["vocab_size"])
    if not sizes:
        return
    following, given = min(sizes) - 1, {}
    for owner in [settings, *(v for v in settings.values() if isinstance(v, dict))]:
        for name, value in owner.items():
            if not re.search(r"token_id$|token_index$|token_idx$", name):
                continue
            if isinstance(value, list):
                owner[name] = [min(item, 3) if isinstance(item, int) and item >= min(sizes) else item for item in value]
            elif isinstance(value, int) and value >= min(sizes):
                if value not in given:
                    given[value], following = following, following - 1
                owner[name] = given[value]
