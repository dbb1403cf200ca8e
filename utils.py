"""Checkpoints: find, download, load, convert once.

    load(name or folder) -> (encoder, model)

Two kinds are read. OpenAI's release of GPT-2 is a TensorFlow checkpoint: it is converted, once,
into a file that every later start maps into memory. Folders in the layout of Hugging Face have
config.json and model.safetensors. In both, every array's name and shape is checked.
"""

import contextlib
import difflib
import importlib.util
import math
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path

import interface
from encoder import Encoder
from gpt2 import GPT2, gpt2_shapes
from loading.download import (
    HUB,
    NotFound,
    Refused,
    UserError,
    clear_errors,
    download,
    explained,
    locked,
)
from loading.layouts import ARCHITECTURES, TOKENIZERS, read_sizes, read_stop_ids
from loading.tensors import (
    CONVERT,
    Shapes,
    check_names,
    fill_from,
    flat,
    float32,
    parse_object,
    read_checkpoint,
    read_json,
    read_places,
    read_safetensors,
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
HUB_NAMES = ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "distilgpt2", "t5-small", "t5-base",
             "t5-large")  # fmt: skip  # all others are called owner/name
MARK = {"format": "tokenwise", "layout": "out_in"}  # a square matrix does not tell its layout


Loaded = tuple[interface.Encoder, interface.Model]


def load(
    name_or_folder: str | Path, models_dir: str | Path | None = None, fetch: bool = True
) -> Loaded:
    """Find a model, download it if it is an official one not yet here, and load it.

    name_or_folder: an official size (124M, 355M, 774M, 1558M), an embedded model (stories), a
    folder of `models_dir` by name, the path of any folder with a model, or a repository of the
    Hugging Face hub (t5-small, google/flan-t5-small); the first of these that it fits.
    models_dir defaults to the environment's TOKENWISE_MODELS, or models/ beside this file.
    fetch=False downloads nothing. -> (Encoder, model). Raises UserError, with a next step.
    """
    try:
        return load_folder(find(str(name_or_folder), models_dir, fetch))
    except OSError as error:  # no permission to look, a name that is too long
        raise UserError(f"cannot load {name_or_folder}: {error.strerror or error}") from None


def load_folder(folder: Path) -> Loaded:
    """A folder's files tell what it is -> (encoder, model). Raises UserError."""
    remedy = "if a file is damaged, fetch or save it again"
    with explained(f"the model or tokenizer in {folder} cannot be used", remedy):
        encoder: interface.Encoder
        model: interface.Model
        if (folder / "hparams.json").is_file():
            encoder, model = load_openai(folder)
        elif (folder / "config.json").is_file():
            config = read_json(folder / "config.json")
            encoder, model = ARCHITECTURES[check_architecture(folder, config)](folder, config)
        else:
            raise UserError(f"{folder} holds no model: neither config.json nor hparams.json")
        surplus = set(range(model.n_vocab, encoder.n_vocab))  # tokens without an embedding
        if surplus - {*encoder.special.values()}:
            raise UserError(
                f"{folder}: the tokenizer has {encoder.n_vocab} tokens, the model {model.n_vocab}:"
                " one of them belongs to another model"
            )
        if encoder.end_of_text in surplus:
            encoder.end_of_text = None
        return encoder, model


def is_repository(name: str, places: Iterable[Path]) -> bool:
    """OWNER/NAME, and no path into one of the places where models are, such as models/storys?"""
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name, re.ASCII):
        return False
    return Path(name).parent.resolve() not in [place.resolve() for place in places]


def holds(folder: Path) -> bool:
    """Is there a model in it?"""
    names = "config.json", "hparams.json"
    return any(os.path.isfile(folder / name) for name in names)  # no error where we may not look


def check_architecture(place: str | Path, config: dict) -> str:
    """config.json's model_type, where we know it; else UserError."""
    architecture = str(config.get("model_type"))
    if architecture not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UserError(f"{place}: model_type is {architecture[:50]}, only {known} can be loaded")
    return architecture


def find(name: str, models_dir: str | Path | None = None, fetch: bool = True) -> Path:
    """The folder of a model; an official size, or one of the hub, is downloaded first (if `fetch`)
    where it is not here."""
    models_dir = Path(models_dir or os.environ.get("TOKENWISE_MODELS") or HERE / "models")
    if name in SIZES:
        return fetch_openai(name, models_dir / name, fetch)
    places = models_dir, HERE / "models"
    known = {folder.name: folder for place in places for folder in place.glob("*") if holds(folder)}
    path = snapshot(Path(name))
    if name in known or holds(path):
        return known.get(name, path)
    if name in HUB_NAMES or (is_repository(name, places) and not path.exists()):
        return fetch_hub(name, models_dir / name, fetch)
    if path.is_dir():
        return path
    if path.is_file():
        raise UserError(f"{name} is a file: name its folder, {path.parent}")
    names = [*sorted(known.keys() - SIZES.keys()), *SIZES]
    lower = {known_name.lower(): known_name for known_name in (*HUB_NAMES, *names)}
    close = difflib.get_close_matches(name.lower(), lower, 1)
    guess = f"did you mean {lower[close[0]]}? Or " if close else ""
    raise UserError(
        f"no model {name!r:.100}: {guess}use {', '.join(names)}, or a folder, or of the Hugging"
        f" Face hub {', '.join(HUB_NAMES)}, or any OWNER/NAME"
    )


def check_may_fetch(name: str, fetch: bool) -> None:
    """Raises UserError where `fetch` is false."""
    if not fetch:
        raise UserError(
            f"{name} is not here, and is fetched only where it is named on the command line:"
            f" python generate.py TEXT --model {name}"
        )


# --- the Hugging Face hub ------------------------------------------------------------------------


def snapshot(folder: Path) -> Path:
    """A repository as Hugging Face's libraries cache it (models--OWNER--NAME) -> the folder with
    its files, those of refs/main if they are there; any other folder -> itself."""
    if not (folder / "snapshots").is_dir():
        return folder
    found = [place for place in folder.glob("snapshots/*") if holds(place)]
    main = folder / "refs" / "main"
    commit = main.read_bytes().strip() if main.is_file() else b""
    return max(found, key=lambda place: os.fsencode(place.name) == commit, default=folder)


def cached(name: str) -> Path | None:
    """A repository's folder in the cache of Hugging Face's libraries; None if it is incomplete."""
    home = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    cache = Path(os.path.expanduser(os.environ.get("HF_HUB_CACHE") or f"{home}/hub"))
    folder = snapshot(cache / f"models--{name.replace('/', '--')}")
    with contextlib.suppress(UserError, ValueError, OSError):
        read_checkpoint(folder)
        files = TOKENIZERS[check_architecture(name, read_json(folder / "config.json"))]
        return folder if all((folder / file).is_file() for file in files) else None
    return None


def fetch_hub(name: str, folder: Path, fetch: bool) -> Path:
    """Download a repository of the hub: configuration, tokenizer, and weights as safetensors."""
    if (folder / "config.json").is_file():
        return folder
    if found := cached(name):
        return found
    check_may_fetch(name, fetch)
    base = f"{os.environ.get('TOKENWISE_HUB', HUB).rstrip('/')}/{name}/resolve/main"
    config = folder / "config.json.new"  # it gets its name last: where it is, all the rest is
    with locked(folder):
        if (folder / "config.json").is_file():  # made by another process while we waited
            return folder
        config.unlink(missing_ok=True)  # of a process that was killed
        try:
            absent = f"the hub has no {name}, or it is gated or private"
            remedy = "check the name, accept its terms on its page, set a valid HF_TOKEN"
            with explained(absent, remedy, (Refused,)):
                download(f"{base}/config.json", config)
            for file in TOKENIZERS[check_architecture(name, read_json(config))]:
                download(f"{base}/{file}", folder / file)
            for file in ("generation_config.json", "added_tokens.json"):
                with contextlib.suppress(NotFound):
                    download(f"{base}/{file}", folder / file)
            fetch_weights(name, base, folder)
            config.replace(folder / "config.json")
        finally:
            config.unlink(missing_ok=True)  # it may be at fault: the next start asks again
    return folder


def fetch_weights(name: str, base: str, folder: Path) -> None:
    """model.safetensors, or the index and its shards. UserError where there is neither."""
    try:
        return download(f"{base}/model.safetensors", folder / "model.safetensors", limit=math.inf)
    except NotFound:
        pass
    index = folder / "model.safetensors.index.json"
    try:
        download(f"{base}/{index.name}", index)
    except NotFound:
        raise UserError(
            f"{name} has no model.safetensors; {CONVERT}, AutoTokenizer likewise"
        ) from None
    remedy = "its index was deleted, run this again"
    with explained(f"{name} cannot be used", remedy, (ValueError,)):
        try:
            shards = set(read_places(index).values())
            if any((folder / shard).is_symlink() for shard in shards):
                raise ValueError(f"a shard in {folder} is a link")
        except ValueError:
            index.unlink()
            raise
    for shard in sorted(shards):
        download(f"{base}/{shard}", folder / shard, limit=math.inf)


# --- OpenAI's release of GPT-2: a TensorFlow checkpoint ------------------------------------------


def fetch_openai(size: str, folder: Path, fetch: bool) -> Path:
    """Download what is missing of an official model: its checkpoint too, until it is converted."""
    names = ["hparams.json", *RELEASED]
    if not (folder / CONVERTED).is_file():
        names += CHECKPOINT
    missing = [name for name in names if not (folder / name).is_file()]
    if not missing:
        return folder
    check_may_fetch(size, fetch)
    if CHECKPOINT[-1] in missing:
        need_tensorflow()  # better said before half a gigabyte has been fetched
    base = os.environ.get("TOKENWISE_MIRROR", OPENAI).rstrip("/")
    data = {CHECKPOINT[-1]: (4 * SIZES[size], None)}  # it holds the float32 parameters, only them
    with locked(folder):
        for name in missing:
            n_bytes, sha256 = (RELEASED | data).get(name, (None, None))
            download(f"{base}/{size}/{name}", folder / name, n_bytes, sha256)
    return folder


def load_openai(folder: Path) -> tuple[Encoder, GPT2]:
    """GPT-2 as OpenAI released it -> (encoder, model). The first time it is converted."""
    with explained(f"{folder / 'hparams.json'} is damaged", "delete it and run this again"):
        n_head, sizes = read_sizes(parse_object((folder / "hparams.json").read_bytes()))
    shapes = gpt2_shapes(n_inner=4 * sizes["n_embd"], **sizes)
    path = folder / CONVERTED
    if not path.is_file():
        with locked(folder):
            if not path.is_file():  # while we waited, another process may have made it
                convert(folder, shapes)
    with explained(f"{path} is damaged", "delete it, and it is made anew from the checkpoint"):
        tensors, metadata = read_safetensors(path)
        if not MARK.items() <= metadata.items():
            raise ValueError(f"its header does not say {MARK}")
        params = fill_from(tensors, shapes)
    encoder = Encoder.from_folder(folder)
    return encoder, GPT2(params, n_head, read_stop_ids({}, {}, encoder, sizes["n_vocab"]))


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
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # no talk of processors and drivers
    import tensorflow as tf

    print(f"converting {folder}, this once", file=sys.stderr)
    shapes = flat(shapes)
    theirs = {  # blocks.0.mlp.c_fc.w -> model/h0/mlp/c_fc/w
        name: "model/" + name.replace("blocks.", "h").replace(".", "/") for name in shapes
    }

    def tensor(name):  # our name -> float32 of our shape
        array, shape = reader.get_tensor(theirs[name]), shapes[name]
        if name.endswith(".w"):  # [1, n_in, n_out]
            return float32(theirs[name], array, (1, *shape[::-1]))[0].T
        return float32(theirs[name], array, shape)

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
