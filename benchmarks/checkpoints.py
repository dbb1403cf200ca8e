"""Make random checkpoints with the shapes of released models: speed depends only on the shapes.

Nothing is downloaded. GPT-2 is made in Hugging Face's layout, then converted to the layouts that
other contenders read.
"""

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from encoder import BYTE_TO_CHAR

PROJECT = Path(__file__).resolve().parent.parent
GPT2 = {"n_vocab": 50257, "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12}  # 124M
TINY = {"n_vocab": 300, "n_ctx": 128, "n_embd": 32, "n_head": 4, "n_layer": 2}


def gpt2(folder, sizes):
    """Write a GPT-2 with random weights to folder/huggingface, in Hugging Face's layout. sizes: a
    dict such as GPT2 or TINY."""
    folder = folder / "huggingface"
    folder.mkdir(parents=True)
    write_tokenizer(folder, sizes["n_vocab"], "vocab.json", "merges.txt")
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "torch_dtype": "float32",
        "vocab_size": sizes["n_vocab"],
        "n_positions": sizes["n_ctx"],
        "bos_token_id": None,
        "eos_token_id": None,
    }
    config |= {key: sizes[key] for key in ("n_embd", "n_head", "n_layer")}
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {name: weights(name, shape) for name, shape in shapes(sizes).items()}
    save_file(arrays, folder / "model.safetensors", metadata={"format": "pt"})


def shapes(sizes):
    """Return {name: shape} of all arrays of a GPT-2. Matrices are [n_in, n_out]."""
    n, norms = sizes["n_embd"], ("ln_1", "ln_2")
    found = {"wte.weight": (sizes["n_vocab"], n), "wpe.weight": (sizes["n_ctx"], n)}
    found |= {"ln_f.weight": (n,), "ln_f.bias": (n,)}
    dense = {"attn.c_attn": (n, 3 * n), "attn.c_proj": (n, n)}
    dense |= {"mlp.c_fc": (n, 4 * n), "mlp.c_proj": (4 * n, n)}
    for i in range(sizes["n_layer"]):
        found |= {f"h.{i}.{norm}.{part}": (n,) for norm in norms for part in ("weight", "bias")}
        for name, shape in dense.items():
            found |= {f"h.{i}.{name}.weight": shape, f"h.{i}.{name}.bias": shape[1:]}
    return found


def weights(name, shape):  # -> a float32 array; the name is the seed
    if "ln_" in name and name.endswith(".weight"):
        return np.ones(shape, np.float32)
    rng = np.random.default_rng(list(name.encode()))
    return rng.standard_normal(shape, np.float32) * np.float32(0.02)


def write_tokenizer(folder, n_vocab, vocab_file, merges_file):
    """Write a vocabulary of n_vocab tokens, and its merges. The merges are arbitrary, but reading
    them takes as long as reading those of a released model."""
    letters = list(BYTE_TO_CHAR.values())
    tokens, merges = list(letters), []
    for first in letters:
        for second in letters:
            if len(tokens) < n_vocab - 1:
                merges.append(f"{first} {second}")
                tokens.append(first + second)
    tokens.append("<|endoftext|>")
    text = json.dumps({token: i for i, token in enumerate(tokens)})
    (folder / vocab_file).write_text(text, encoding="utf-8")
    text = "\n".join(["#version: 0.2", *merges]) + "\n"
    (folder / merges_file).write_text(text, encoding="utf-8")


def onnx_nodes(n_head, n_layer):
    """Return GPT-2 as a list of onnxruntime's operators. The weights have Hugging Face's names.

    Attention writes the new keys and values into the caches that it reads. So the outputs "present"
    use the same memory as the inputs "past"."""
    from onnx import helper

    nodes = []

    def node(kind, *inputs, more=(), **attributes):  # adds an operator, returns its output's name
        outputs = [f"{kind} {len(nodes)}", *more]
        nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0]

    def norm(x, name):
        return node("LayerNormalization", x, f"{name}.weight", f"{name}.bias", epsilon=1e-5)

    def linear(x, name):
        return node("Add", node("MatMul", x, f"{name}.weight"), f"{name}.bias")

    x = node("Add", node("Gather", "wte.weight", "ids"), node("Gather", "wpe.weight", "positions"))
    for i in range(n_layer):
        qkv = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn")
        inputs = qkv, "", "", f"past k {i}", f"past v {i}", "lasts", "length"
        caches = (f"present k {i}", f"present v {i}")
        heads = {"num_heads": n_head, "kv_num_heads": n_head}
        mixed = node("GroupQueryAttention", *inputs, more=caches, domain="com.microsoft", **heads)
        x = node("Add", x, linear(mixed, f"h.{i}.attn.c_proj"))
        hidden = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        hidden = node("Gelu", hidden, approximate="tanh")
        x = node("Add", x, linear(hidden, f"h.{i}.mlp.c_proj"))
    x = norm(node("Slice", x, "first", "end", "axis"), "ln_f")
    node("FusedMatMul", x, "wte.weight", transB=1, domain="com.microsoft")
    nodes[-1].output[0] = "logits"
    return nodes


def onnx(folder, theirs):
    """Convert a GPT-2 for onnxruntime. theirs: the folder that has it in Hugging Face's layout.
    Write model.onnx, its weights and the vocabulary to `folder`."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    sizes = json.loads((theirs / "config.json").read_text())
    n_head, n_layer = sizes["n_head"], sizes["n_layer"]
    arrays = load_file(theirs / "model.safetensors")  # matrices are [n_in, n_out]
    arrays |= {"axis": np.array([1]), "end": np.array([2**31])}  # for x[:, first:end]
    room = ["n_rows", n_head, sizes["n_positions"], sizes["n_embd"] // n_head]

    def caches(start):  # -> {name: (type, shape)}
        return {f"{start} {kind} {i}": ("FLOAT", room) for i in range(n_layer) for kind in "kv"}

    def declared(values):  # {name: (type, shape)} -> the graph's inputs or outputs
        return [
            helper.make_tensor_value_info(name, getattr(TensorProto, kind), shape)
            for name, (kind, shape) in values.items()
        ]

    inputs = {
        "ids": ("INT64", ["n_rows", "n_new"]),
        "positions": ("INT64", ["n_new"]),
        "first": ("INT64", [1]),
        "length": ("INT32", []),
        "lasts": ("INT32", ["n_rows"]),
    }
    outputs = {"logits": ("FLOAT", ["n_rows", "n_last", sizes["vocab_size"]])}
    graph = helper.make_graph(
        onnx_nodes(n_head, n_layer),
        "gpt2",
        declared(caches("past") | inputs),
        declared(caches("present") | outputs),
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    versions = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=versions, ir_version=10)
    folder.mkdir()
    save_model(model, folder / "model.onnx", save_as_external_data=True, location="weights")
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(theirs / name, folder)


def gguf(folder, theirs):
    """Convert a GPT-2 for llama.cpp. theirs: the folder that has it in Hugging Face's layout. Write
    the float32 weights and the vocabulary to model.gguf in `folder`."""
    from gguf import MODEL_ARCH, GGUFWriter, LlamaFileType, TokenType, get_tensor_name_map

    sizes = json.loads((theirs / "config.json").read_text())
    end = sizes["vocab_size"] - 1
    merges = (theirs / "merges.txt").read_text(encoding="utf-8").splitlines()[1:]
    folder.mkdir()
    file = GGUFWriter(folder / "model.gguf", "gpt2")
    file.add_file_type(LlamaFileType.ALL_F32)
    file.add_context_length(sizes["n_positions"])
    file.add_embedding_length(sizes["n_embd"])
    file.add_feed_forward_length(4 * sizes["n_embd"])
    file.add_block_count(sizes["n_layer"])
    file.add_head_count(sizes["n_head"])
    file.add_layer_norm_eps(1e-5)
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_merges(merges)
    file.add_token_list(list(json.loads((theirs / "vocab.json").read_text(encoding="utf-8"))))
    file.add_token_types([TokenType.NORMAL] * end + [TokenType.CONTROL])
    file.add_eos_token_id(end)
    names = get_tensor_name_map(MODEL_ARCH.GPT2, sizes["n_layer"])
    for name, array in load_file(theirs / "model.safetensors").items():
        array = array.T if name.startswith("h.") else array  # -> [n_out, n_in]
        name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        file.add_tensor(name, np.ascontiguousarray(array))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def t5_small(folder):
    """Write a T5 with t5-small's shape: 6 layers in each stack, d_model 512, 32,128 tokens."""
    import transformers

    config = transformers.T5Config()  # the defaults are t5-small's
    save(transformers.T5ForConditionalGeneration(config), folder)
    shutil.copy(PROJECT / "models" / "en-de" / "tokenizer.json", folder)  # any tokenizer will do


def bart_base(folder):
    """Write a BART with bart-base's shape: 6 layers in each stack, d_model 768, 50,265 tokens."""
    import transformers

    config = transformers.BartConfig(
        d_model=768,
        encoder_layers=6,
        decoder_layers=6,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
        forced_eos_token_id=None,
        decoder_start_token_id=0,
    )
    save(transformers.BartForConditionalGeneration(config), folder)
    write_tokenizer(folder, config.vocab_size, "vocab.json", "merges.txt")
    write_tokenizer_json(folder)


def smollm2(folder):
    """Write a Llama in bfloat16 with SmolLM2-135M's shape: 30 layers, 9 query heads, 3 key-value
    heads, 49,152 tokens."""
    import torch
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        tie_word_embeddings=True,
        eos_token_id=None,
        rope_parameters={"rope_type": "default", "rope_theta": 1e5},
    )
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
    write_tokenizer(folder, config.vocab_size, "vocab.json", "merges.txt")
    write_tokenizer_json(folder)
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def write_tokenizer_json(folder):
    """Combine the two files of write_tokenizer into tokenizer.json."""
    import tokenizers

    files = (str(folder / name) for name in ("vocab.json", "merges.txt"))
    tokenizers.ByteLevelBPETokenizer.from_file(*files).save(str(folder / "tokenizer.json"))


def save(model, folder):
    """Save an encoder-decoder from transformers. It has no end-of-text id, so that no text ends
    early."""
    model.generation_config.decoder_start_token_id = 0
    model.generation_config.eos_token_id = None
    model.save_pretrained(folder)
