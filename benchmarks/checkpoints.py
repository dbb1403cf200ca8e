"""Make random checkpoints with the shapes of released models: speed depends only on the shapes.

Nothing is downloaded: transformers makes each model.
"""

import json

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
