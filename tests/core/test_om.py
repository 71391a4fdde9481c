# SPDX-License-Identifier: Apache-2.0
"""The om container: what a reader must believe, and what it must refuse by name."""

import json
import os
import struct
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from npu_oms import npu_om

from ge_core_pyx import om
from ge_core_pyx.errors import ModelFileError

MANIFEST = {
    "schema": 1,
    "generator": "ge_core test",
    "soc": "Ascend910B3",
    "name": "resnet",
    "kind": "graph",
    "inputs": [{"name": "x", "dtype": "float32", "shape": [-1, 3, 4, 4], "format": "NCHW", "tensor": "x"}],
    "outputs": [
        {"name": "fc:0:y", "dtype": "float16", "shape": [-1, 10], "gear_shapes": [[1, 10], [4, 10]], "tensor": "y"}
    ],
    "gears": {"kind": "batch", "values": [1, 4]},
    "ranges": None,
    "exec_us": [100, 250.5],
    "weight_bytes": 12,
    "work_bytes": 0,
}
SYNTHETIC = MANIFEST | {"kind": "synthetic"}
ONNX = b"\x08\x08:\x02ab" * 7
WRITTEN = MANIFEST | {"onnx_crc32": f"{zlib.crc32(ONNX):08x}"}


@pytest.fixture
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("om")


@pytest.fixture
def file(folder):
    def make(content, name="model.om"):
        path = folder / name
        path.write_bytes(content)
        return path

    return make


def test_cpu_om_has_the_real_layout(folder):
    path = folder / "m.om"
    assert om.write(path, MANIFEST, ONNX) == path.stat().st_size
    raw = path.read_bytes()
    text = json.dumps(WRITTEN, separators=(",", ":")).encode()
    assert raw[:12] == b"IMOD" + struct.pack("<II", 256, 0x20000000)
    assert struct.unpack_from("<I", raw, 76) == (len(raw) - 256,)
    assert struct.unpack_from("<4B", raw, 80) == (0, 0, 0, 0)
    assert raw[84:116].rstrip(b"\0") == b"resnet"
    assert struct.unpack_from("<I", raw, 156) == (1,)
    assert raw[160:180].rstrip(b"\0") == b"CPU"
    assert struct.unpack_from("<QBB", raw, 184) == (len(raw) - 256, 0, 0)
    assert struct.unpack_from("<II", raw, 256) == (2, 0)
    assert struct.unpack_from("<IIQQ", raw, 264) == (1000, 0, 0, len(text))
    assert struct.unpack_from("<IIQQ", raw, 288) == (1001, 0, len(text), len(ONNX))
    assert raw[312:] == text + ONNX


def test_cpu_om_is_read_back(folder):
    path = folder / "m.om"
    om.write(path, MANIFEST, ONNX)
    header = om.read_header(path)
    assert (header.is_cpu, header.name, header.model_kind, header.table_bits) == (True, "resnet", "IR", 64)
    assert (header.encrypted, header.is_unknow_model, header.model_num) == (False, False, 1)
    assert om.read_manifest(path) == WRITTEN
    assert om.read_partition(path, om.ONNX) == ONNX
    assert [(part.name, part.nbytes) for part in om.read_partitions(path)] == [
        ("CPU_MANIFEST", len(json.dumps(WRITTEN, separators=(",", ":")))),
        ("CPU_ONNX", len(ONNX)),
    ]


def test_onnx_may_come_from_a_file(folder):
    (folder / "m.onnx").write_bytes(ONNX * 100_000)
    om.write(folder / "m.om", MANIFEST, folder / "m.onnx")
    assert om.read_partition(folder / "m.om", om.ONNX) == ONNX * 100_000
    assert om.read_manifest(folder / "m.om")["onnx_crc32"] == f"{zlib.crc32(ONNX * 100_000):08x}"
    assert om.check(folder / "m.om", "cpu").is_cpu


def test_damaged_onnx_is_refused(folder):
    path = folder / "m.om"
    om.write(path, MANIFEST, ONNX)
    raw = path.read_bytes()
    for at in range(len(raw) - len(ONNX), len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ 1 << at % 8]) + raw[at + 1 :])
        with pytest.raises(ModelFileError, match=f"expected ONNX bytes with checksum {zlib.crc32(ONNX):08x}, got"):
            om.check(path, "cpu")


def test_manifests_without_a_checksum_still_load(folder):
    path = folder / "m.om"
    om.write(path, MANIFEST, ONNX)
    text, old = (json.dumps(manifest, separators=(",", ":")).encode() for manifest in (WRITTEN, MANIFEST))
    raw = path.read_bytes().replace(text, old.ljust(len(text)))
    path.write_bytes(raw)
    assert om.check(path, "cpu").is_cpu and om.read_manifest(path) == MANIFEST


def test_synthetic_om_has_no_onnx(folder):
    om.write(folder / "m.om", SYNTHETIC)
    assert [part.type for part in om.read_partitions(folder / "m.om")] == [1000]
    with pytest.raises(ModelFileError, match="expected partition CPU_ONNX, got only CPU_MANIFEST"):
        om.read_partition(folder / "m.om", om.ONNX)


def test_range_models_are_marked(folder):
    ranges = {"x": [[1, 8], [3, 3], [4, -1], [4, 4]]}
    inputs = [MANIFEST["inputs"][0] | {"shape": [-1, 3, -1, 4]}]
    outputs = [{"name": "fc:0:y", "dtype": "float16", "shape": [-1, 10], "tensor": "y"}]
    manifest = MANIFEST | {"gears": None, "ranges": ranges, "inputs": inputs, "outputs": outputs, "exec_us": 5}
    om.write(folder / "m.om", manifest, ONNX)
    assert om.read_header(folder / "m.om").is_unknow_model
    assert om.read_manifest(folder / "m.om")["ranges"] == ranges


def test_long_names_are_cut_between_characters(folder):
    om.write(folder / "m.om", SYNTHETIC | {"name": "模" * 20})
    assert om.read_header(folder / "m.om").name == "模" * 10


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize("models", [0, 1, 3])
def test_npu_oms(file, bits, models):
    path = file(npu_om([(0, b"graph" * 20), (1, b"w" * 1000), (3, b""), (77, b"?")], bits, models=models, unknown=1))
    header = om.read_header(path)
    assert (header.is_cpu, header.platform_version, header.name, header.ops) == (False, "1.84.T9", "bert_base", 7)
    assert (header.table_bits, header.model_num, header.ir_version) == (bits, models, 3)
    assert header.is_unknow_model and header.need_check_os_cpu_info and not header.encrypted
    parts = om.read_partitions(path)
    assert [part.name for part in parts] == ["MODEL_DEF", "WEIGHTS", "TBE_KERNELS", "type 77"] * max(models, 1)
    assert [part.model for part in parts] == [model for model in range(max(models, 1)) for _ in range(4)]
    raw = path.read_bytes()
    assert [raw[part.offset : part.offset + part.nbytes] for part in parts[-4:]] == [
        b"graph" * 20,
        b"w" * 1000,
        b"",
        b"?",
    ]


@pytest.mark.parametrize(
    "kind, name", [(0, "IR"), (1, "standard"), (2, "tiny"), (3, "flow"), (4, "lite"), (5, "bundle"), (9, "kind 9")]
)
def test_model_kinds(file, kind, name):
    assert om.read_header(file(npu_om([(0, b"x")], kind=kind))).model_kind == name


def test_encrypted_models_say_so(file):
    assert om.read_header(file(npu_om([(0, b"x")], encrypted=1))).encrypted


def test_a_large_file_is_not_read_whole(folder):
    path = folder / "large.om"
    raw = bytearray(npu_om([(0, b"x"), (1, b"")]))
    size = 6 << 30
    struct.pack_into("<Q", raw, 184, size - 256)
    struct.pack_into("<Q", raw, 256 + 8 + 24 + 16, size - 256 - 8 - 48 - 1)
    with path.open("wb") as sparse:
        sparse.write(raw)
        sparse.truncate(size)
    assert om.read_header(path).file_nbytes == size
    assert om.read_partitions(path)[1].nbytes == size - 313


@pytest.mark.parametrize(
    "content, text",
    [
        (b"", "got an empty file; copy or compile it again"),
        (b"IMOD", "expected a header of 256 bytes, got 4 bytes in all; the file is truncated"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "got a git-lfs pointer; .*git lfs pull"),
        (b"\x08\x07\x12\x07pytorch", "got what looks like an ONNX file; compile it with `ge-core compile`"),
        (b"PK\x03\x04abc", "got a ZIP archive; if it is an OM2 model"),
        (b' {"inputs": []}', "got JSON; if it describes a synthetic model"),
        (b"<html>", "begins with b'<html>' instead of b'IMOD'"),
        (npu_om([(0, b"abc")])[:-1], r"expected 291 bytes, got 290; the file is truncated"),
        (npu_om([(0, b"abc")], extra=b"!"), "expected 291 bytes, got 292; the file is longer than its header says"),
    ],
)
def test_what_is_no_om_is_named(file, content, text):
    path = file(content)
    with pytest.raises(ModelFileError, match=text) as caught:
        om.read_header(path)
    assert str(caught.value).startswith(f"{path}: expected ")


def test_header_size_is_checked(file):
    raw = bytearray(npu_om([(0, b"x")]))
    struct.pack_into("<I", raw, 4, 255)
    with pytest.raises(ModelFileError, match="expected a header size of 256, got 255"):
        om.read_header(file(raw))


@pytest.mark.parametrize("offset, nbytes", [(0, 4), (4, 0), (1, 3), (2**64 - 1, 1), (0, 2**64 - 1), (2**63, 2**63)])
def test_partitions_outside_the_file_are_refused(file, offset, nbytes):
    raw = bytearray(npu_om([(0, b"abc")]))
    struct.pack_into("<QQ", raw, 256 + 8 + 8, offset, nbytes)
    with pytest.raises(ModelFileError, match=f"got offset {offset} and size {nbytes}; the file is damaged"):
        om.read_partitions(file(raw))


@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize(
    "count, text", [(0, "got 0"), (5000, "got 5000"), (2**32 - 1, "got 4294967295"), (9, "truncated")]
)
def test_partition_counts_are_checked(file, bits, count, text):
    raw = bytearray(npu_om([(0, b"abc")], bits))
    struct.pack_into("<I", raw, 256, count)
    with pytest.raises(ModelFileError, match=text):
        om.read_partitions(file(raw))


def test_more_models_than_the_file_holds(file):
    raw = bytearray(npu_om([(0, b"abc")], models=2))
    struct.pack_into("<I", raw, 156, 2**32 - 1)
    with pytest.raises(ModelFileError, match="partition table 2: expected 8 bytes at offset"):
        om.read_partitions(file(raw))


def test_places_without_an_om(folder):
    with pytest.raises(ModelFileError, match="found nothing there; check the path"):
        om.read_header(folder / "none.om")
    with pytest.raises(ModelFileError, match=r"got a folder; name the \.om file itself"):
        om.read_header(folder)
    with pytest.raises(ModelFileError, match="null byte"):
        om.read_header("a\0b")
    os.mkfifo(folder / "pipe.om")
    with pytest.raises(ModelFileError, match="not a regular file"):
        om.read_header(folder / "pipe.om")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(file):
    path = file(b"IMOD")
    path.chmod(0)
    with pytest.raises(ModelFileError, match="got Permission denied; check the path and its permissions"):
        om.read_header(path)


def test_each_runtime_refuses_the_other_one(file, folder):
    om.write(folder / "cpu.om", SYNTHETIC)
    npu = file(npu_om([(0, b"x")]), "npu.om")
    assert om.check(folder / "cpu.om", "cpu").is_cpu and not om.check(npu, "npu").is_cpu
    with pytest.raises(ModelFileError, match=r"cpu\.om: expected an om for an NPU, got one compiled for the CPU"):
        om.check(folder / "cpu.om", "npu")
    with pytest.raises(
        ModelFileError, match=r"npu\.om: expected an om for the CPU runtime, got one compiled for an NPU"
    ):
        om.check(npu, "cpu")
    with pytest.raises(ModelFileError, match="got one compiled for an NPU"):
        om.read_manifest(npu)


def change(path, *place):
    """A manifest with one value replaced; `place` ends with the value."""
    *keys, last, value = place
    manifest = json.loads(json.dumps(MANIFEST))
    inner = manifest
    for key in keys:
        inner = inner[key]
    inner[last] = value
    return manifest


@pytest.mark.parametrize(
    "place, text",
    [
        (("onnx_crc32", "123"), "onnx_crc32: expected 8 hexadecimal digits"),
        (("onnx_crc32", 1), "onnx_crc32: expected 8 hexadecimal digits"),
        (("colour", 1), "the manifest: unknown key 'colour'"),
        (("schema", 2), "manifest schema: expected 1, got 2"),
        (("schema", True), "manifest schema: expected 1, got True"),
        (("soc", None), "soc: expected a string, got None"),
        (("kind", "other"), "kind: expected 'graph' or 'synthetic', got 'other'"),
        (("weight_bytes", -1), "weight_bytes: expected a number of bytes >= 0, got -1"),
        (("work_bytes", 1.5), "work_bytes: expected a number of bytes >= 0, got 1.5"),
        (("inputs", []), "inputs: expected a list of tensors, not empty"),
        (("outputs", {}), "outputs: expected a list of tensors, not empty"),
        (("inputs", 0, "dtype", "float99"), "dtype: expected one of float32, .*got 'float99'"),
        (("inputs", 0, "format", "NHWC"), "format: expected 'NCHW' or 'ND', got 'NHWC'"),
        (("inputs", 0, "shape", [-2]), "shape: expected a list of at most 128 numbers >= 0, or -1"),
        (("inputs", 0, "shape", [True]), "shape: expected a list of at most 128 numbers >= 0, or -1"),
        (("inputs", 0, "shape", [1] * 129), "shape: expected a list of at most 128 numbers >= 0, or -1"),
        (("inputs", 0, "name", ""), "name: expected a name, got ''"),
        (("inputs", 0, {"name": "x"}), r"inputs\[0\]: expected the keys"),
        (("inputs", 0, "x"), r"inputs\[0\]: expected an object, got str"),
        (("outputs", 0, "gear_shapes", [[1, 10]]), "gear_shapes: expected one for each gear"),
        (("outputs", 0, "gear_shapes", [[1, 10], [4, 11]]), "gear_shapes: expected shapes that go with"),
        (("outputs", 0, "gear_shapes", [[1, 10], [4]]), "gear_shapes: expected shapes that go with"),
        (("gears", {"kind": "batch", "values": []}), "gears.values: expected a list that is not empty"),
        (("gears", {"kind": "batch", "values": [4, 1]}), "gears.values: expected ascending, no gear twice"),
        (("gears", {"kind": "batch", "values": [1, 1]}), "gears.values: expected ascending, no gear twice"),
        (("gears", {"kind": "batch", "values": [0, 1]}), "numbers? *.*>= 1 for each gear"),
        (("gears", {"kind": "image_size", "values": [[1, 2, 3]]}), "gears.values: expected 2 number"),
        (("gears", {"kind": "dims", "values": [[1, 2], [4, 2]]}), "gears.values: expected 1 numbers, one for each -1"),
        (("gears", {"kind": [], "values": [1]}), "gears.kind: expected 'batch', 'image_size' or 'dims'"),
        (("gears", None), r"outputs\[0\]|shape: expected no -1 without gears or ranges"),
        (("ranges", {"x": [[1, 8]]}), "ranges.x: expected one \\[lower, upper\\] for each dim"),
        (("ranges", {"y": []}), "ranges: expected every input"),
        (("exec_us", [1]), "exec_us: expected null, microseconds"),
        (("exec_us", "fast"), "exec_us: expected null, microseconds"),
        (("exec_us", -1), "exec_us: expected null, microseconds"),
        (("exec_us", float("nan")), "exec_us: expected null, microseconds"),
    ],
)
def test_bad_manifests_are_not_written(folder, place, text):
    with pytest.raises(ValueError, match=text):
        om.write(folder / "m.om", change(folder, *place), ONNX)
    assert not any(folder.iterdir())


def test_missing_keys_are_named(folder):
    manifest = {key: value for key, value in MANIFEST.items() if key != "gears"}
    with pytest.raises(ValueError, match="missing gears"):
        om.write(folder / "m.om", manifest, ONNX)
    with pytest.raises(ValueError, match="the manifest: expected an object, got list"):
        om.check_manifest([])


def test_onnx_goes_with_the_kind(folder):
    for manifest, onnx in ((MANIFEST, None), (SYNTHETIC, ONNX)):
        with pytest.raises(ValueError, match="expected ONNX bytes for 'graph' and none for 'synthetic'"):
            om.write(folder / "m.om", manifest, onnx)


def test_a_failed_write_leaves_what_was_there(folder, monkeypatch):
    om.write(folder / "m.om", MANIFEST, ONNX)
    before = (folder / "m.om").read_bytes()
    monkeypatch.setattr(zlib, "crc32", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        om.write(folder / "m.om", MANIFEST, ONNX)
    assert (folder / "m.om").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["m.om"]


def test_a_file_that_cannot_take_its_place_is_removed(folder):
    (folder / "m.om").mkdir()
    with pytest.raises(IsADirectoryError):
        om.write(folder / "m.om", SYNTHETIC)
    assert [path.name for path in folder.iterdir()] == ["m.om"]


@pytest.mark.parametrize(
    "text, message",
    [
        (b"\xff\xfe", "the manifest is not JSON"),
        (b"[" * 100_000, "the manifest is not JSON"),
        (b"null", "the manifest: expected an object, got NoneType; compile the model again"),
        (json.dumps(MANIFEST | {"schema": 7}).encode(), "manifest schema: expected 1, got 7; compile the model again"),
    ],
)
def test_damaged_manifest_in_a_file(file, text, message):
    with pytest.raises(ModelFileError, match=message):
        om.read_manifest(file(npu_om([(1000, text)], platform=b"CPU")))


SAMPLES = [
    npu_om([(0, b"graph"), (1, b"w" * 50)]),
    npu_om([(0, b"graph"), (1, b"w" * 50)], 32),
    npu_om([(0, b"g"), (1, b"w")], models=3),
    npu_om([(1000, json.dumps(SYNTHETIC).encode())], platform=b"CPU"),
]
quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_all(path):
    """Everything the reader has; it may only return or raise ModelFileError."""
    try:
        header = om.read_header(path)
        for part in om.read_partitions(path):
            assert 256 <= part.offset <= part.offset + part.nbytes <= header.file_nbytes
        om.read_manifest(path)
    except ModelFileError as error:
        assert str(path) in str(error)
        return False
    return True


@given(sample=st.sampled_from(SAMPLES), cut=st.floats(0, 1, exclude_max=True))
@quick
def test_truncated_files_are_refused(file, sample, cut):
    assert not read_all(file(sample[: int(len(sample) * cut)]))


@given(
    sample=st.sampled_from(SAMPLES),
    edits=st.lists(st.tuples(st.integers(0, 330), st.sampled_from([0, 1, 2, 127, 128, 255])), min_size=1, max_size=6),
)
@quick
def test_damaged_files_never_surprise(file, sample, edits):
    raw = bytearray(sample)
    for at, value in edits:
        raw[at % len(raw)] = value
    read_all(file(raw))


@given(st.binary(max_size=600))
@quick
def test_foreign_bytes_are_refused(file, raw):
    assert not read_all(file(raw))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.floats(allow_nan=False) | st.sampled_from(["x", "batch", ""]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "kind", "values"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(key=st.sampled_from(sorted(MANIFEST)), value=json_values)
@quick
def test_damaged_manifests_raise_value_error_only(key, value):
    try:
        om.check_manifest(MANIFEST | {key: value})
    except ValueError:
        return
    json.dumps(value)
