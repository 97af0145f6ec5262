"""Own data and own splits."""

import numpy as np
import pytest

import fedcast
from fedcast import arrays

SIDE = 8


@pytest.fixture
def images():
    """Images of four classes that differ in a bright stripe, in no order."""
    random = np.random.default_rng(0)
    y = random.permutation(np.repeat(np.arange(4), 30))
    x = random.integers(0, 50, (len(y), SIDE, SIDE), dtype=np.uint8)
    for at, label in enumerate(y):
        x[at, 2 * label : 2 * label + 2] += 150
    return x, y


@pytest.fixture
def small(table):
    return {**table, "tasks": {"count": 2}}


def with_data(table, train, test=None, **options):
    return fedcast.Scenario.from_dict({**table, "data": {"train": train, "test": test or train}}, **options)


def test_images_and_rows_are_learned(small, images, tmp_path):
    x, y = images
    floats = x[:, None].astype(np.float32) / 255
    kinds = [("gray", x), ("colors", np.repeat(x[..., None], 3, axis=3)), ("floats", floats),
             ("flat", floats.reshape(len(y), -1))]
    for name, of in kinds:
        learning = with_data(small, (of, y), overrides={"client.epochs": 20})
        run = learning.run(out=tmp_path / name)
        first = run.matrix().to_pandas().iloc[0]
        assert first.accuracy > 0.9 and first.total == 60, name
    # Bytes are divided by 255, and both are normalized.
    gray, same = (fedcast.Run.open(tmp_path / name).matrix().to_pandas() for name in ("gray", "floats"))
    assert gray.equals(same)
    plain = with_data(small, (floats, y), overrides={"data.train.normalize": "none", "client.epochs": 20})
    flat = fedcast.Run.open(tmp_path / "flat")
    assert plain.run(out=tmp_path / "plain").matrix().to_pandas().equals(flat.matrix().to_pandas())


NETWORK = {"kind": "resnet18", "weights": "random", "width": 4}


def test_floats_reach_a_network_and_its_transforms(small, images, tmp_path):
    x, y = images
    network = {**small, "backbone": NETWORK, "method": {"name": "fedavg"}}
    colors = np.repeat(x[..., None], 3, axis=3)
    floats = colors.transpose(0, 3, 1, 2).astype(np.float32) / 255
    runs = [with_data(network, (of, y), overrides={"data.train": {"normalize": "half", "flip": 0.5}}).run(out=tmp_path / name)
            for name, of in (("bytes", colors), ("first", floats), ("last", floats.transpose(0, 2, 3, 1)),
                             ("other", floats + 0.1))]
    numbers = [run.digests["numbers"] for run in runs]
    assert numbers[0] == numbers[1] == numbers[2] != numbers[3]


@pytest.mark.parametrize(
    "shape, kind, expected",
    [
        ((5, 8, 6), np.uint8, [1, 8, 6]),
        ((5, 8, 6, 3), np.uint8, [3, 8, 6]),
        ((5, 3, 8, 6), np.uint8, [3, 8, 6]),
        ((5, 3, 8, 3), np.uint8, [3, 3, 8]),
        ((5, 3, 8, 6), np.float32, [3, 8, 6]),
        ((5, 8, 6, 1), np.float64, [1, 8, 6]),
        ((5, 3, 8, 3), np.float32, [3, 8, 3]),
        ((5, 7, 8, 6), np.float16, [7, 8, 6]),
    ],
)
def test_channels_are_first_or_last(shape, kind, expected):
    part = (np.zeros(shape, kind), np.arange(5))
    assert arrays.store({"train": part, "test": part})["shape"] == expected


def test_pixels_arrive_without_loss(small, images, tmp_path):
    x, y = images
    run = with_data(small, (x, y)).run(out=tmp_path / "run")
    exact = run.manifest["data"]["digest"]
    x = x.copy()
    x[3, 4, 5] += 1
    other = with_data(small, (x, y)).run(out=tmp_path / "other")
    assert other.manifest["data"]["digest"] != exact


def test_hash_of_arrays_is_part_of_the_scenario(small, images):
    x, y = images
    rows = x.reshape(len(y), -1).astype(np.float32)
    scenario = with_data(small, (rows, y))
    assert scenario.hash == with_data(small, (rows.copy(), y.astype(np.int32))).hash
    changed = rows.copy()
    changed[0, 0] += 1
    assert scenario.hash != with_data(small, (changed, y)).hash
    assert scenario.hash != with_data(small, (rows, y[::-1])).hash
    assert scenario.hash != with_data(small, (rows, y), (changed, y)).hash


def test_run_on_arrays_is_verified_and_resumed_by_the_program(small, images, tmp_path):
    x, y = images
    rows = x.reshape(len(y), -1).astype(np.float32)
    run = with_data(small, (rows, y)).run(out=tmp_path / "run")
    assert fedcast.Run.open(tmp_path / "run").verify().digests == run.digests


def test_tensors_are_arrays(small, images):
    class Tensor:
        """What a tensor of torch is for NumPy."""

        def __init__(self, of):
            self.of = of

        def detach(self):
            return self

        def cpu(self):
            return self.of

    x, y = images
    rows = x.reshape(len(y), -1).astype(np.float32)
    assert with_data(small, (Tensor(rows), Tensor(y))).hash == with_data(small, (rows, y)).hash


@pytest.mark.parametrize(
    "x, y, message",
    [
        (np.zeros((4, 8), np.uint8), [0, 1, 2, 3], "images have shape"),
        (np.zeros((4, 8)), [0, 1, 2], "labels"),
        (np.zeros((4, 8)), [0.0, 1.0, 2.0, 3.0], "labels"),
        (np.zeros((4, 8)), [0, 1, 2, -1], "negative"),
        (np.full((4, 8), np.nan), [0, 1, 2, 3], "not finite"),
        (np.zeros((4, 8), np.int64), [0, 1, 2, 3], "not uint8 or floats"),
        (np.zeros((4, 8, 8)), [0, 1, 2, 3], "values have shape"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(small, x, y, message):
    with pytest.raises(ValueError, match=message):
        with_data(small, (x, np.array(y)))


def test_clients_hold_the_given_samples(small, images, tmp_path):
    x, y = images
    rows = x.reshape(len(y), -1).astype(np.float32)
    first = np.flatnonzero(y <= 2)
    splits = [first[:10], first[10:50], np.flatnonzero(y == 3)]
    run = with_data(small, (rows, y), splits=splits).run(out=tmp_path / "run")
    held = run.table("partition").to_pandas().groupby(["client", "class"]).samples.sum()
    expected = {(client, label): int((y[part] == label).sum())
                for client, part in enumerate(splits) for label in range(4)}
    assert held.to_dict() == {key: count for key, count in expected.items() if count}


def test_splits_by_task_give_the_tasks(small, images, tmp_path):
    x, y = images
    rows = x.reshape(len(y), -1).astype(np.float32)
    of = [np.flatnonzero(y == label) for label in range(4)]
    splits = [[of[0][:20], np.concatenate([of[1], of[2][:5]]), of[3][:3]], [of[0][20:], of[2][5:], of[3][3:]]]
    run = with_data(small, (rows, y), splits=splits).run(out=tmp_path / "run")
    held = run.table("partition").to_pandas().set_index(["task", "client", "class"]).samples
    assert held[(1, 0, 0)] == 20 and held[(1, 1, 0)] == 10
    assert held[(2, 0, 1)] == 30 and held[(2, 0, 2)] == 5 and held[(2, 1, 2)] == 25
    assert held[(3, 0, 3)] == 3 and held[(3, 1, 3)] == 27
    assert held.sum() == 120


def test_wrong_splits_are_refused(small, images):
    x, y = images
    rows = x.reshape(len(y), -1).astype(np.float32)
    with pytest.raises(ValueError, match="sample 1 has two owners"):
        with_data(small, (rows, y), splits=[[0, 1], [1, 2]])
    low, high = np.flatnonzero(y < 2), np.flatnonzero(y >= 2)
    with pytest.raises(ValueError, match="in the order of their tasks"):
        with_data(small, (rows, y), splits=[[high, low]])
