"""OpenAI's release of GPT-2: fetched, and converted once from a TensorFlow checkpoint into a file
that every later start maps into memory."""

import importlib.util
import os
import sys
from pathlib import Path

from encoder import Tokenizer
from gpt2 import GPT2
from loading.config import read_json
from loading.download import download, locked
from loading.errors import UserError, clear_errors, explained
from loading.gpt2 import read_sizes, read_stop_ids
from loading.params import gpt2_shapes, Shapes, build_params, flatten
from loading.safetensors import check_names, float32, read_safetensors, write_safetensors
from loading.tokenizers import read_gpt2_tokenizer

MIRROR = "https://openaipublic.blob.core.windows.net/gpt-2/models"
SIZES = {"124M": 124439808, "355M": 354823168, "774M": 774030080, "1558M": 1557611200}  # parameters
CHECKPOINT = "checkpoint", "model.ckpt.index", "model.ckpt.data-00000-of-00001"
RELEASED = {  # bytes and SHA-256 of the files that are the same for every size
    "encoder.json": (1042301, "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"),
    "vocab.bpe": (456318, "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"),
}
CONVERTED = "tokenwise.safetensors"


def missing(folder: Path) -> list[str]:
    """The files that are still to be fetched; no checkpoint once it is converted."""
    checkpoint = () if (folder / CONVERTED).is_file() else CHECKPOINT
    names = "hparams.json", *RELEASED, *checkpoint
    return [name for name in names if not (folder / name).is_file()]


def local(size: str, folder: Path) -> Path | None:
    """The folder if all of the model is in it, or None."""
    return None if missing(folder) else folder


def fetch(size: str, folder: Path) -> None:
    """Download the missing files of an official model. Raises UserError."""
    names = missing(folder)
    if CHECKPOINT[-1] in names:
        need_tensorflow()  # refused before half a gigabyte is fetched, not after
    base = os.environ.get("TOKENWISE_MIRROR", MIRROR).rstrip("/")
    known = RELEASED | {CHECKPOINT[-1]: (4 * SIZES[size], None)}  # float32, and nothing else
    for name in names:
        n_bytes, sha256 = known.get(name, (None, None))
        download(f"{base}/{size}/{name}", folder / name, n_bytes, sha256)


def load_openai(folder: Path) -> tuple[Tokenizer, GPT2]:
    """GPT-2 as OpenAI released it -> (tokenizer, model). The first time it is converted."""
    n_head, sizes = read_sizes(read_json(folder / "hparams.json"))
    shapes = gpt2_shapes(n_inner=4 * sizes["n_embd"], **sizes)
    path = folder / CONVERTED
    if not path.is_file():
        with locked(folder):
            if not path.is_file():  # another process may have made it while we waited
                convert(folder, shapes)
    with explained(f"{path} is damaged", "delete it, and it is made again from the checkpoint"):
        params = build_params(read_safetensors(path)[0], shapes)
    tokenizer = read_gpt2_tokenizer(folder)
    return tokenizer, GPT2(params, n_head, read_stop_ids({}, tokenizer, sizes["n_vocab"]))


def need_tensorflow() -> None:
    """Raises UserError where TensorFlow is not installed."""
    if importlib.util.find_spec("tensorflow") is None:
        raise UserError(
            "OpenAI's checkpoints are read with TensorFlow, once: pip install tensorflow (Python"
            " 3.10 to 3.13); the Hugging Face hub's, called gpt2, gpt2-medium, gpt2-large and"
            " gpt2-xl, need none"
        )


def convert(folder: Path, shapes: Shapes) -> None:
    """TensorFlow checkpoint -> CONVERTED, one array in memory at a time. Raises UserError."""
    need_tensorflow()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # silence TensorFlow's start-up log
    import tensorflow as tf  # type: ignore

    print(f"converting {folder} (only this once)", file=sys.stderr)
    shapes = flatten(shapes)  # blocks.0.mlp.c_fc.w, which is theirs as model/h0/mlp/c_fc/w
    theirs = {name: "model/" + name.replace("blocks.", "h").replace(".", "/") for name in shapes}

    def tensor(name):  # our name -> float32 of our shape
        array, shape = reader.get_tensor(theirs[name]), shapes[name]
        if name.endswith(".w"):  # [1, n_in, n_out]
            return float32(theirs[name], array, (1, *shape[::-1]))[0].T
        return float32(theirs[name], array, shape)

    try:
        reader = tf.train.load_checkpoint(str(folder / "model.ckpt"))
        check_names(theirs.values(), reader.get_variable_to_shape_map())
        with clear_errors(folder / CONVERTED):
            write_safetensors(folder / CONVERTED, shapes, tensor, {"format": "tokenwise"})
    except UserError:
        raise
    except Exception as error:  # TensorFlow raises many kinds of exception
        raise UserError(
            f"the checkpoint in {folder} is damaged: {str(error)[:500]}; delete {CHECKPOINT[1]} and"
            f" {CHECKPOINT[2]} and fetch them again"
        ) from None
