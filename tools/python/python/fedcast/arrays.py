"""Own data: arrays and splits as files that every command of fedcast reads.

Arrays are written once, to ``<cache>/arrays/<hash>``. The hash of their content is the last component of ``data.path``
and so a part of the scenario's hash: a run on arrays is resumed, verified and repeated like any other.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import tempfile
from typing import Any, Dict, Optional, Sequence

import numpy as np


def store(data: Dict[str, Any]) -> Dict[str, Any]:
    """Write arrays and return the ``[data]`` keys that read them.

    Parameters
    ----------
    data : dict
        ``{"train": (x, y), "test": (x, y)}`` of NumPy arrays or tensors. ``x`` is ``uint8`` of shape
        (n, height, width), (n, height, width, channels) or (n, channels, height, width): images of 0 to 255; or floats
        of shape (n, channels, height, width) or (n, height, width, channels): images as the network reads them; or
        floats of shape (n, width): rows of numbers for ``backbone.kind = "pixels"``. ``y`` has n labels.

    Returns
    -------
    dict

    Raises
    ------
    ValueError
        If shapes or types do not fit.
    """
    if set(data) != {"train", "test"}:
        raise ValueError(f"data has the parts {sorted(data)}, not train and test")
    parts = {name: _part(name, *data[name]) for name in ("train", "test")}
    (x, _), (tested, _) = parts["train"], parts["test"]
    if x.dtype != tested.dtype or x.shape[1:] != tested.shape[1:]:
        raise ValueError(
            f"train has {x.dtype} of shape {x.shape[1:]}, test has {tested.dtype} of shape {tested.shape[1:]}"
        )
    digest = hashlib.blake2b(digest_size=16)
    for x, y in parts.values():
        digest.update(repr((x.dtype.str, x.shape)).encode())
        digest.update(x.tobytes())
        digest.update(y.tobytes())
    path = folder() / digest.hexdigest()
    shape = _image_shape(x)
    name = "features" if shape is None else "image"
    _once(path, lambda into: [np.savez(into / f"{part}.npz", **{name: x, "label": y}) for part, (x, y) in parts.items()])
    if shape is None:
        return {"source": "table", "path": str(path), "width": x.shape[1]}
    return {"source": "arrays", "path": str(path), "shape": shape}


def split(splits: Sequence[Any], labels: Optional[Any] = None) -> Dict[str, Any]:
    """Write a division of training samples and return the keys of a scenario that use it.

    Parameters
    ----------
    splits : sequence
        An array of sample indices per client, or per client one such array per task.
    labels : array, optional
        Labels of the training samples; with arrays per task they give the classes of the tasks.

    Returns
    -------
    dict
        Tables ``partition`` and ``federation``, and ``tasks`` with arrays per task and labels.

    Raises
    ------
    ValueError
        If a sample has two owners, or the classes of tasks do not follow one another.
    """
    per_task = [_is_nested(client) for client in splits]
    if any(per_task) and not all(per_task):
        raise ValueError("either all clients have one array per task, or none has")
    nested = bool(per_task) and all(per_task)
    owned = [np.concatenate([_indices(part) for part in client]) if nested else _indices(client)
             for client in splits]
    samples = np.concatenate(owned)
    owners = np.repeat(np.arange(len(owned)), [len(part) for part in owned])
    order = np.argsort(samples, kind="stable")
    samples, owners = samples[order], owners[order]
    twice = samples[1:][samples[1:] == samples[:-1]]
    if len(twice):
        raise ValueError(f"sample {twice[0]} has two owners")
    lines = "".join(f"{sample},{owner}\n" for sample, owner in zip(samples, owners))
    text = ("sample,client\n" + lines).encode()
    path = folder() / f"{hashlib.blake2b(text, digest_size=16).hexdigest()}.csv"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(text)
        os.replace(part, path)
    keys = {
        "partition": {"kind": "file", "file": str(path), "unlisted": "drop"},
        "federation": {"clients": len(owned)},
    }
    if nested and labels is not None:
        keys["tasks"] = _tasks(splits, np.asarray(labels))
    return keys


def folder() -> pathlib.Path:
    """Return the folder of arrays: ``FEDCAST_CACHE`` or the user's caches, ``arrays`` in it."""
    cache = os.environ.get("FEDCAST_CACHE")
    if not cache:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        cache = os.path.join(base, "fedcast")
    return pathlib.Path(cache).absolute() / "arrays"


def _array(of):
    """Return a NumPy array of an array or of a tensor on any device."""
    for method in ("detach", "cpu"):
        of = getattr(of, method)() if hasattr(of, method) else of
    return np.asarray(of)


def _part(name, x, y):
    """Return the arrays of a part, checked."""
    x, y = _array(x), _array(y)
    if y.ndim != 1 or not np.issubdtype(y.dtype, np.integer) or len(x) != len(y):
        raise ValueError(f"{name}: labels are {y.dtype} of shape {y.shape}, not {len(x)} integers")
    if len(y) == 0 or y.min() < 0:
        raise ValueError(f"{name}: there are no samples, or a label is negative")
    if x.dtype == np.uint8:
        if x.ndim not in (3, 4):
            raise ValueError(f"{name}: images have shape {x.shape[1:]}, not (height, width) or (height, width, channels)")
    elif np.issubdtype(x.dtype, np.floating):
        if x.ndim not in (2, 4):
            raise ValueError(f"{name}: values have shape {x.shape[1:]}, not (width,) or (channels, height, width)")
        x = x.astype(np.float32, copy=False)
        if not np.isfinite(x).all():
            raise ValueError(f"{name}: a value is not finite")
    else:
        raise ValueError(f"{name}: values are {x.dtype}, not uint8 or floats")
    return np.ascontiguousarray(x), y.astype(np.int64)


def _once(path, write):
    """Write a folder as a whole unless it is there."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = pathlib.Path(tempfile.mkdtemp(dir=path.parent, prefix=".part-"))
    try:
        write(part)
        os.replace(part, path)
    except OSError:
        # Another process may have been faster; its folder has the same content.
        if not path.exists():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _image_shape(x):
    """Return channels, height and width of images, or None of rows."""
    if x.ndim < 4:
        return [1, *x.shape[1:]] if x.dtype == np.uint8 else None
    # Pictures have one channel or three; where both ends have so few, bytes have them last and floats first.
    last, first = x.shape[3] in (1, 3), x.shape[1] in (1, 3)
    channels_last = last and (x.dtype == np.uint8 or not first)
    height, width, channels = x.shape[1:] if channels_last else (*x.shape[2:], x.shape[1])
    return [channels, height, width]


def _is_nested(client):
    """Return True if a client has one array per task."""
    return not hasattr(client, "dtype") and len(client) > 0 and np.ndim(client[0]) > 0


def _indices(of):
    indices = _array(of)
    if indices.size and (indices.ndim != 1 or not np.issubdtype(indices.dtype, np.integer)):
        raise ValueError(f"sample indices are {indices.dtype} of shape {indices.shape}, not a row of integers")
    return indices.astype(np.int64).reshape(-1)


def _tasks(splits, labels):
    """Return the sizes of tasks, whose classes must follow one another as they are numbered."""
    count = max(len(client) for client in splits)
    order, sizes = [], []
    for task in range(count):
        held = [_indices(client[task]) for client in splits if task < len(client)]
        classes = sorted({int(label) for label in labels[np.concatenate(held)]})
        order += classes
        sizes.append(len(classes))
    known = sorted({int(label) for label in labels})
    if order != known:
        raise ValueError(
            f"the tasks have the classes {order}, not {known}: number classes in the order of their tasks, each in one"
        )
    return {"sizes": sizes}
