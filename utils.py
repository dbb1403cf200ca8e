"""Checkpoints: find, download, load, convert once.

    load(name or folder) -> (encoder, model)

Two kinds are read. OpenAI's release of GPT-2 is a TensorFlow checkpoint: it is converted, once,
into a file that every later start maps into memory. Folders in the layout of Hugging Face have
config.json and model.safetensors. In both, every array's name and shape is checked.
"""

import contextlib
import importlib.util
import math
import os
import re
import sys
from pathlib import Path

import numpy as np

from activations import ACTIVATIONS
from download import NotFound, UserError, clear_errors, download, locked
from encoder import Encoder
from gpt2 import GPT2
from layouts import bart_name, bart_shapes, t5_name, t5_shapes
from pieces import mbart_pieces, t5_pieces
from seq2seq import T5, Bart
from tensors import (
    check_names,
    check_shape,
    parse_object,
    read_checkpoint,
    read_places,
    read_safetensors,
    widen,
    write_safetensors,
)

HERE = Path(__file__).resolve().parent
OPENAI = "https://openaipublic.blob.core.windows.net/gpt-2/models"
SIZES = {"124M": 124439808, "355M": 354823168, "774M": 774030080, "1558M": 1557611200}  # parameters
CHECKPOINT = "checkpoint", "model.ckpt.index", "model.ckpt.data-00000-of-00001"
RELEASED = {  # bytes and SHA-256 of the files that are the same for every size
    "encoder.json": (1042301, "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"),
    "vocab.bpe": (456318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"),
}
CONVERTED = "tokenwise.safetensors"
HUB = "https://huggingface.co"
HUB_NAMES = "distilgpt2", "t5-small", "t5-base", "t5-large"  # all others are called owner/name
MARK = {"format": "tokenwise", "layout": "out_in"}  # a square matrix does not tell its layout


def load(name_or_folder, models_dir=None):
    """Find a model, download it if it is an official one not yet here, and load it.

    name_or_folder: an official size (124M, 355M, 774M, 1558M), an embedded model (stories), a
    folder of `models_dir` by name, the path of any folder with a model, or a repository of the
    Hugging Face hub (t5-small, google/flan-t5-small); the first of these that it fits.
    models_dir defaults to the environment's TOKENWISE_MODELS, or models/ beside this file.
    -> (Encoder, model). Raises UserError: one line that says what to do.
    """
    try:
        return load_folder(find(str(name_or_folder), models_dir))
    except OSError as error:  # no permission to look, a name that is too long
        raise UserError(f"cannot load {name_or_folder}: {error.strerror or error}") from None


def load_folder(folder):
    """A folder's files tell what it is -> (encoder, model). Raises UserError."""
    if (folder / "hparams.json").is_file():
        return load_openai(folder)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder} holds no model: neither config.json nor hparams.json")
    config = read_json(folder / "config.json")
    return ARCHITECTURES[check_architecture(folder, config)](folder, config)


def check_architecture(place, config):
    """config.json's model_type, where we know it; else UserError."""
    architecture = str(config.get("model_type"))
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UserError(f"{place}: model_type is {architecture}, only {known} can be loaded")
    return architecture


def find(name, models_dir=None):
    """The folder of a model; an official size, or one of the hub, is downloaded first."""
    models_dir = Path(models_dir or os.environ.get("TOKENWISE_MODELS") or HERE / "models")
    if name in SIZES:
        return fetch_openai(name, models_dir / name)
    configs = [*models_dir.glob("*/config.json"), *HERE.glob("models/*/config.json")]
    known = {config.parent.name: config.parent for config in configs}
    if name in known:
        return known[name]
    if Path(name).is_dir():
        return Path(name)
    if name in HUB_NAMES or re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name, re.ASCII):
        return fetch_hub(name, models_dir / name)
    names = ", ".join([*sorted(known), *SIZES])
    raise UserError(
        f"no model {name!r}: use {names}, or a folder, or of the Hugging Face hub"
        f" {', '.join(HUB_NAMES)}, or any OWNER/NAME"
    )


# --- the Hugging Face hub ------------------------------------------------------------------------


def fetch_hub(name, folder):
    """Download a repository of the hub: configuration, tokenizer, and weights as safetensors."""
    if (folder / "config.json").is_file():
        return folder
    base = f"{os.environ.get('TOKENWISE_HUB', HUB).rstrip('/')}/{name}/resolve/main"
    config = folder / "config.json.new"  # it gets its name last: where it is, all the rest is
    with locked(folder):
        if (folder / "config.json").is_file():  # made by another process while we waited
            return folder
        download(f"{base}/config.json", config)
        architecture = check_architecture(name, read_json(config))
        for file in TOKENIZERS[architecture]:
            download(f"{base}/{file}", folder / file)
        with contextlib.suppress(NotFound):
            download(f"{base}/generation_config.json", folder / "generation_config.json")
        fetch_weights(name, base, folder)
        config.rename(folder / "config.json")
    return folder


def fetch_weights(name, base, folder):
    """model.safetensors, or the index and its shards. UserError where there is neither."""
    try:
        return download(f"{base}/model.safetensors", folder / "model.safetensors")
    except NotFound:
        pass
    index = folder / "model.safetensors.index.json"
    try:
        download(f"{base}/{index.name}", index)
    except NotFound:
        raise UserError(
            f"{name} has no model.safetensors, and other formats are never opened, for they can run"
            " code: convert it to safetensors elsewhere, and give the folder"
        ) from None
    with explained(f"{index} cannot be used", "delete it and run this again"):
        for shard in sorted(set(read_places(index).values())):
            download(f"{base}/{shard}", folder / shard)


# --- OpenAI's release of GPT-2: a TensorFlow checkpoint ------------------------------------------


def fetch_openai(size, folder):
    """Download what is missing of an official model: its checkpoint too, until it is converted."""
    names = ["hparams.json", *RELEASED]
    if not (folder / CONVERTED).is_file():
        names += CHECKPOINT
    missing = [name for name in names if not (folder / name).is_file()]
    if not missing:
        return folder
    if CHECKPOINT[-1] in missing:
        need_tensorflow()  # better said before half a gigabyte has been fetched
    base = os.environ.get("TOKENWISE_MIRROR", OPENAI).rstrip("/")
    data = {CHECKPOINT[-1]: (4 * SIZES[size], None)}  # it holds the float32 parameters, only them
    with locked(folder):
        for name in missing:
            n_bytes, sha256 = (RELEASED | data).get(name, (None, None))
            download(f"{base}/{size}/{name}", folder / name, n_bytes, sha256)
    return folder


def load_openai(folder):
    """GPT-2 as OpenAI released it -> (encoder, model). The first time it is converted."""
    with explained(f"{folder / 'hparams.json'} is damaged", "delete it and fetch it anew"):
        n_head, sizes = read_sizes(parse_object((folder / "hparams.json").read_bytes()))
    shapes = gpt2_shapes(**sizes, n_inner=4 * sizes["n_embd"])
    path = folder / CONVERTED
    if not path.is_file():
        with locked(folder):
            if not path.is_file():  # while we waited, another process may have made it
                convert(folder, shapes)
    with explained(f"{path} is damaged", "delete it, and it is made anew from the checkpoint"):
        params = read_converted(path, shapes)
    encoder = read_encoder(folder, sizes["n_vocab"])
    return encoder, GPT2(params, n_head, stop_ids=(encoder.end_of_text,))


def need_tensorflow():
    """Raises UserError where TensorFlow is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        raise UserError(
            "OpenAI's checkpoints are read with TensorFlow, once: pip install tensorflow (Python"
            " 3.10 to 3.13); a Hugging Face folder (config.json, model.safetensors) needs none"
        )


def convert(folder, shapes):
    """TensorFlow checkpoint -> CONVERTED, one array in memory at a time. Raises UserError."""
    need_tensorflow()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # no talk of processors and drivers
    import tensorflow as tf

    print(f"converting {folder}, this once", file=sys.stderr)
    shapes = flat(shapes)
    theirs = {  # blocks.0.mlp.c_fc.w -> model/h0/mlp/c_fc/w
        name: "model/" + name.replace("blocks.", "h").replace(".", "/") for name in shapes
    }

    def tensor(name):
        array, shape = reader.get_tensor(theirs[name]), shapes[name]
        if name.endswith(".w"):  # [1, n_in, n_out]
            return check_shape(theirs[name], array, (1, *shape[::-1]))[0].T
        return check_shape(theirs[name], array, shape)

    remedy = f"delete {CHECKPOINT[1]} and {CHECKPOINT[2]} and fetch them anew"
    with explained(f"the checkpoint in {folder} is damaged", remedy):
        try:
            reader = tf.train.load_checkpoint(str(folder / "model.ckpt"))
            check_names(theirs.values(), reader.get_variable_to_shape_map())
            with clear_errors(folder / CONVERTED):
                write_safetensors(folder / CONVERTED, shapes, tensor, MARK)
        except UserError:
            raise
        except Exception as error:  # what TensorFlow raises is of many kinds
            raise ValueError(" ".join(str(error).split())) from None


def read_converted(path, shapes):
    """CONVERTED -> params: views of the mapped file, nothing is copied. Raises ValueError."""
    tensors, metadata = read_safetensors(path)
    if not MARK.items() <= metadata.items():
        raise ValueError(f"its header does not say {MARK}")
    check_names(flat(shapes), tensors)
    return fill(shapes, lambda name, shape: widen(check_shape(name, tensors[name], shape)))


# --- folders in the layout of Hugging Face -------------------------------------------------------


def load_gpt2(folder, config):
    """Any GPT-2 (gpt2, distilgpt2, our stories) -> (encoder, model). Raises UserError."""
    with explained(f"{folder / 'config.json'} cannot be used", "fetch the folder anew"):
        n_head, sizes = read_sizes(config)
        n_inner = read_count(config, "n_inner", default=4 * sizes["n_embd"])
        activation = read_activation(config)
        eps = config.get("layer_norm_epsilon", 1e-5)
        if not isinstance(eps, float) or not 0 < eps < 1:
            raise ValueError(f"layer_norm_epsilon = {eps!r}")
    shapes = gpt2_shapes(**sizes, n_inner=n_inner, tied=config.get("tie_word_embeddings", True))
    with explained(f"the model in {folder} cannot be used", "fetch the folder anew"):
        params = read_gpt2(folder, shapes)
    scale_scores(params, n_head, config)
    encoder = read_encoder(folder, sizes["n_vocab"])
    path = folder / "generation_config.json"
    defaults = read_json(path) if path.is_file() else {}
    stop_ids = read_stop_ids(defaults, config, encoder, sizes["n_vocab"])
    model = GPT2(params, n_head, stop_ids, activation, eps)
    model.defaults = defaults
    return encoder, model


def read_gpt2(folder, shapes):
    """Arrays named h.0.attn.c_attn.weight, [n_in, n_out] -> params, [n_out, n_in]."""
    stored = read_checkpoint(folder)
    tensors = {
        name.removeprefix("transformer."): array
        for name, array in stored.items()
        if not name.endswith((".attn.bias", ".attn.masked_bias"))  # the causal mask
    }
    if "lm_head" not in shapes:
        tensors.pop("lm_head.weight", None)  # tied: it is wte once more
    check_names(map(their_name, flat(shapes)), tensors)

    def tensor(name, shape):
        theirs = their_name(name)
        if name.endswith(".w"):
            return np.ascontiguousarray(widen(check_shape(theirs, tensors[theirs], shape[::-1])).T)
        return widen(check_shape(theirs, tensors[theirs], shape))

    return fill(shapes, tensor)


def their_name(name):
    """blocks.0.ln_1.g -> h.0.ln_1.weight"""
    *path, last = name.replace("blocks.", "h.").split(".")
    endings = {"b": ["bias"], "w": ["weight"], "g": ["weight"]}
    return ".".join(path + endings.get(last, [last, "weight"]))


def scale_scores(params, n_head, config):
    """Variants that scale the scores otherwise than by 1/sqrt(d_head): put it into the queries."""
    n_embd = params["wte"].shape[1]
    for layer, block in enumerate(params["blocks"]):
        scale = 1 if config.get("scale_attn_weights", True) else math.sqrt(n_embd / n_head)
        if config.get("scale_attn_by_inverse_layer_idx", False):
            scale /= layer + 1
        if scale != 1:
            c_attn = block["attn"]["c_attn"]  # [3 * n_embd, n_embd]: queries, keys, values
            c_attn["b"] = c_attn["b"].copy()  # a mapped file is read-only; w is a copy already
            c_attn["w"][:n_embd] *= scale
            c_attn["b"][:n_embd] *= scale


def read_activation(config):
    """activation_function by its name -> function. Raises ValueError for an unknown one."""
    name = str(config.get("activation_function", "gelu_new"))
    if name not in ACTIVATIONS:
        raise ValueError(f"activation_function is {name}, known are {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[name]


def read_stop_ids(defaults, config, encoder, n_vocab):
    """eos_token_id of generation_config.json, or of config.json: an id, a list of ids, or none."""
    ids = defaults.get("eos_token_id", config.get("eos_token_id", encoder.end_of_text))
    ids = ids if isinstance(ids, list) else [ids]
    return tuple(id for id in ids if type(id) is int and 0 <= id < n_vocab)


def read_sizes(config):
    """config.json or hparams.json -> n_head, {n_vocab, n_ctx, n_embd, n_layer}, or ValueError."""
    names = {"vocab_size": "n_vocab", "n_positions": "n_ctx"}  # Hugging Face's, where they differ
    config = config | {ours: config[theirs] for theirs, ours in names.items() if theirs in config}
    n_head = read_count(config, "n_head")
    sizes = {key: read_count(config, key) for key in ("n_vocab", "n_ctx", "n_embd", "n_layer")}
    if sizes["n_embd"] % n_head:
        raise ValueError(f"n_embd = {sizes['n_embd']} is no multiple of n_head = {n_head}")
    return n_head, sizes


def read_count(config, key, default=None):
    """A positive int, and no absurd one: layers are made by it before their weights are seen."""
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or not 1 <= value <= (1000 if key == "n_layer" else 10**9):
        raise ValueError(f"{key} = {value!r}")
    return value


# --- encoder-decoders in the layout of Hugging Face ----------------------------------------------


def load_t5(folder, config):
    """T5, v1.1, flan -> (Pieces, T5). Raises UserError."""
    with explained(f"{folder / 'config.json'} cannot be used", "fetch the folder anew"):
        n_head, n_layer = read_count(config, "num_heads"), read_layers(config, "num_layers")
        n_layer = n_layer, read_layers(config, "num_decoder_layers", n_layer)
        n_buckets = read_count(config, "relative_attention_num_buckets", 32)
        max_distance = read_count(config, "relative_attention_max_distance", 128)
        if n_buckets % 4 or max_distance <= n_buckets // 2:
            raise ValueError(f"{n_buckets} buckets do not reach a distance of {max_distance}")
        form, _, name = str(config.get("feed_forward_proj", "relu")).rpartition("-")
        name = "gelu_new" if (form, name) == ("gated", "gelu") else name  # as v1.1 was trained
        if form not in ("", "gated") or name not in ACTIVATIONS:
            raise ValueError(f"feed_forward_proj = {config['feed_forward_proj']!r}")
        sizes = [read_count(config, key) for key in ("vocab_size", "d_model", "d_kv", "d_ff")]
        n_ctx = read_count(config, "n_positions", 512)  # T5 itself knows no bound
        eps = read_eps(config, "layer_norm_epsilon", 1e-6)
        tied = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True))
        defaults, start_ids, stop_ids = read_ends(folder, config)
    gated = form == "gated"

    def shapes(untied):
        return t5_shapes(*sizes, n_head, n_layer, n_buckets, gated, untied)

    params = read_encoder_decoder(folder, shapes, lambda name: t5_name(name, gated))
    encoder = read_pieces(folder, "spiece.model", t5_pieces, sizes[0])
    ends = {"start_ids": start_ids, "stop_ids": stop_ids, "wrapping": ((), stop_ids[:1])}
    activation = ACTIVATIONS[name]
    model = T5(params, n_head, n_ctx, activation, tied is not False, max_distance, eps, **ends)
    model.defaults = defaults
    return encoder, model


def load_bart(folder, config):
    """BART -> (Encoder, Bart); mBART -> (Pieces, Bart). Raises UserError."""
    is_mbart, sides = config["model_type"] == "mbart", ("encoder", "decoder")
    with explained(f"{folder / 'config.json'} cannot be used", "fetch the folder anew"):
        n_head = [read_count(config, f"{side}_attention_heads") for side in sides]
        n_layer = [read_layers(config, f"{side}_layers") for side in sides]
        d_ff = [read_count(config, f"{side}_ffn_dim") for side in sides]
        n_vocab, d_model = read_count(config, "vocab_size"), read_count(config, "d_model")
        n_ctx = read_count(config, "max_position_embeddings")
        if any(d_model % n for n in n_head):
            raise ValueError(f"d_model = {d_model} is no multiple of the heads {n_head}")
        activation = read_activation({"activation_function": "gelu"} | config)
        defaults, start_ids, stop_ids = read_ends(folder, config)

    def shapes(untied):
        return bart_shapes(n_vocab, n_ctx, d_model, d_ff, n_layer, is_mbart, untied)

    params = read_encoder_decoder(folder, shapes, bart_name)
    begin = () if is_mbart else (defaults.get("bos_token_id", 0),)
    scale_embedding = config.get("scale_embedding", False) is True
    ends = {"start_ids": start_ids, "stop_ids": stop_ids, "wrapping": (begin, stop_ids[:1])}
    model = Bart(params, n_head, n_ctx, activation, is_mbart, scale_embedding, **ends)
    model.defaults = defaults
    if not is_mbart:
        return read_encoder(folder, n_vocab), model
    encoder = read_pieces(folder, "sentencepiece.bpe.model", mbart_pieces, n_vocab)
    if "en_XX" in encoder.languages:
        model = model.between(encoder.languages["en_XX"])
    return encoder, model


def read_encoder_decoder(folder, shapes, rename):
    """model.safetensors -> params, all of it mapped. shapes(untied) is the tree; rename(name) is
    how the checkpoint calls a name of ours. Raises UserError."""
    with explained(f"the model in {folder} cannot be used", "fetch the folder anew"):
        tensors = {
            name.removeprefix("model."): array
            for name, array in read_checkpoint(folder).items()
            if not name.endswith("EncDecAttention.relative_attention_bias.weight")  # not used
        }
        for copy in ("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"):
            if copy in tensors:  # one matrix, under some of its names
                tensors.setdefault("shared.weight", tensors.pop(copy))
        tree = shapes("lm_head.weight" in tensors)
        if "logits_bias" in tree and "final_logits_bias" not in tensors:
            tensors["final_logits_bias"] = np.zeros(tree["logits_bias"], np.float32)
        check_names(map(rename, flat(tree)), tensors)

        def tensor(name, shape):
            return widen(check_shape(rename(name), tensors[rename(name)], shape))

        return fill(tree, tensor)


def read_pieces(folder, file, read, n_vocab):
    """The folder's SentencePiece tokenizer. Raises UserError."""
    with explained(f"the tokenizer in {folder} cannot be used", "fetch its file anew"):
        pieces = read(folder / file, n_vocab)
        if pieces.n_vocab > n_vocab:
            raise ValueError(f"it has {pieces.n_vocab} tokens, the model {n_vocab}")
        return pieces


def read_ends(folder, config):
    """What generation begins and ends with -> defaults, start_ids, stop_ids. Raises ValueError."""
    path = folder / "generation_config.json"
    found = read_json(path) if path.is_file() else config
    ends = {f"{name}_token_id" for name in ("decoder_start", "bos", "eos", "pad")}
    defaults = {"do_sample": False} | {key: config[key] for key in ends & set(config)} | found
    for theirs, ours in {"max_length": "max_new_tokens", "min_length": "min_new_tokens"}.items():
        if type(defaults.get(theirs)) is int and defaults[theirs] > 1:
            defaults.setdefault(ours, defaults[theirs] - 1)  # theirs counts the start token

    def ids(key):
        value = defaults.get(key)
        some = value if isinstance(value, list) else [value] * (value is not None)
        if not all(type(id) is int and 0 <= id < config["vocab_size"] for id in some):
            raise ValueError(f"{key} = {value!r}")
        return some

    for key in ("forced_bos_token_id", "forced_eos_token_id"):
        defaults[key] = next(iter(ids(key)), None)
    first = {"t5": "pad_token_id", "bart": "eos_token_id", "mbart": "bos_token_id"}
    start = ids("decoder_start_token_id") or ids(first[config["model_type"]])
    if not start:
        raise ValueError("no decoder_start_token_id")
    return defaults, start[:1], tuple(ids("eos_token_id"))


def read_layers(config, key, default=None):
    """A number of layers: a positive int, and no absurd one."""
    n_layer = read_count(config, key, default)
    if n_layer > 1000:
        raise ValueError(f"{key} = {n_layer}")
    return n_layer


def read_eps(config, key, default):
    """A small number that keeps a norm from dividing by 0. Raises ValueError."""
    eps = config.get(key, default)
    if not isinstance(eps, float) or not 0 < eps < 1:
        raise ValueError(f"{key} = {eps!r}")
    return eps


ARCHITECTURES = {  # config.json's model_type -> f(folder, config)
    "gpt2": load_gpt2,
    "t5": load_t5,
    "bart": load_bart,
    "mbart": load_bart,
}
TOKENIZERS = {
    "gpt2": ("vocab.json", "merges.txt"),
    "t5": ("spiece.model",),
    "bart": ("vocab.json", "merges.txt"),
    "mbart": ("sentencepiece.bpe.model",),
}


# --- for both ------------------------------------------------------------------------------------


def gpt2_shapes(n_vocab, n_ctx, n_embd, n_layer, n_inner, tied=True):
    """GPT-2's parameters, a tree that has a shape in the place of every array."""
    norm = {"g": (n_embd,), "b": (n_embd,)}

    def linear(n_in, n_out):
        return {"w": (n_out, n_in), "b": (n_out,)}

    block = {
        "ln_1": norm,
        "attn": {"c_attn": linear(n_embd, 3 * n_embd), "c_proj": linear(n_embd, n_embd)},
        "ln_2": norm,
        "mlp": {"c_fc": linear(n_embd, n_inner), "c_proj": linear(n_inner, n_embd)},
    }
    shapes = {"wte": (n_vocab, n_embd), "wpe": (n_ctx, n_embd)}
    shapes |= {"blocks": [block] * n_layer, "ln_f": norm}
    return shapes if tied else shapes | {"lm_head": (n_vocab, n_embd)}


def fill(shapes, tensor, name=""):
    """The same tree with tensor(name, shape) for every shape; a name is like blocks.0.ln_1.g"""
    if isinstance(shapes, tuple):
        return tensor(name, shapes)
    if isinstance(shapes, list):
        return [fill(part, tensor, f"{name}.{i}") for i, part in enumerate(shapes)]
    return {key: fill(part, tensor, f"{name}.{key}".lstrip(".")) for key, part in shapes.items()}


def flat(shapes):
    """The tree as {name: shape}."""
    names = {}
    fill(shapes, names.setdefault)
    return names


def read_encoder(folder, n_vocab):
    """The folder's Encoder. Raises UserError, also when it has more tokens than the model."""
    with explained(f"the tokenizer in {folder} cannot be used", "fetch its files anew"):
        encoder = Encoder.from_folder(folder)
        if encoder.n_vocab > n_vocab:
            raise ValueError(f"it has {encoder.n_vocab} tokens, the model {n_vocab}")
        return encoder


def read_json(path):
    """A JSON file that holds an object -> dict. Raises UserError."""
    with explained(f"{path} is damaged", "fetch it anew"):
        return parse_object(path.read_bytes())


@contextlib.contextmanager
def explained(what, remedy):
    """Turn a ValueError or OSError about a file into a UserError that also says what to do."""
    try:
        yield
    except (ValueError, OSError) as error:
        raise UserError(f"{what}: {error}; {remedy}") from None
