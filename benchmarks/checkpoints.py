"""Make random checkpoints with the shapes of released models: speed depends only on the shapes.

Nothing is downloaded. transformers makes each model. The GPT-2 is also converted for onnxruntime.
"""

import json

import numpy as np
from safetensors.numpy import load_file

from encoder import BYTE_TO_CHAR

ENDLESS = {"bos_token_id": None, "eos_token_id": None}  # so no text ends early
MODELS = {  # name -> its config in transformers, and what differs from the config's defaults
    "124M": ("GPT2Config", ENDLESS),
    "SmolLM2-135M": (
        "LlamaConfig",
        ENDLESS
        | {"dtype": "bfloat16", "vocab_size": 49152, "max_position_embeddings": 8192}
        | {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
        | {"num_attention_heads": 9, "num_key_value_heads": 3, "rms_norm_eps": 1e-5}
        | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e5}}
        | {"tie_word_embeddings": True},
    ),
}


def make(folder, name):
    """Write the model of this name, with random weights, and a tokenizer of its size."""
    import transformers

    kind, settings = MODELS[name]
    config = getattr(transformers, kind)(**settings)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=config.dtype)
    model.generation_config = transformers.GenerationConfig.from_model_config(config)
    model.save_pretrained(folder)
    write_tokenizer(folder, config.vocab_size)


def write_tokenizer(folder, n_vocab):
    """Write a vocabulary of n_vocab tokens, and its merges. The merges are arbitrary, but reading
    them takes as long as reading those of a released model."""
    import tokenizers

    letters = list(BYTE_TO_CHAR.values())
    tokens, merges = list(letters), []
    for first in letters:
        for second in letters:
            if len(tokens) < n_vocab - 1:
                merges.append(f"{first} {second}")
                tokens.append(first + second)
    tokens.append("<|endoftext|>")
    vocab, pairs = folder / "vocab.json", folder / "merges.txt"
    vocab.write_text(json.dumps({token: i for i, token in enumerate(tokens)}), encoding="utf-8")
    pairs.write_text("\n".join(["#version: 0.2", *merges]) + "\n", encoding="utf-8")
    both = tokenizers.ByteLevelBPETokenizer.from_file(str(vocab), str(pairs))
    both.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


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
    Write model.onnx and its weights to `folder`."""
    from onnx import TensorProto, helper, numpy_helper, save_model

    sizes = json.loads((theirs / "config.json").read_text())
    n_head, n_layer = sizes["n_head"], sizes["n_layer"]
    arrays = load_file(theirs / "model.safetensors")  # matrices are [n_in, n_out]
    arrays = {name.removeprefix("transformer."): array for name, array in arrays.items()}
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
