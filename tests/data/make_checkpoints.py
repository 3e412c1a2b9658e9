"""Makes the fuzzing corpora of checkpoints with PyPI's gguf and safetensors, or by hand what these refuse to write.

Run it from anywhere with the Python of .venv; the files it makes are committed, so tests need neither. A file whose name
begins with ok_ must load; every other file must be refused.
"""

import json
import pathlib
import struct
import tempfile

import gguf
import numpy as np
import safetensors.numpy

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "corpus"


def with_gguf(fill, alignment=None):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.gguf"
        writer = gguf.GGUFWriter(path, "bitnet-b1.58")
        if alignment:
            writer.add_custom_alignment(alignment)
        fill(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


def every_kind(w):
    w.add_uint8("u8", 200)
    w.add_int8("i8", -3)
    w.add_uint16("u16", 60000)
    w.add_int16("i16", -300)
    w.add_uint32("u32", 4000000000)
    w.add_int32("i32", -70000)
    w.add_float32("f32", 0.1)
    w.add_bool("bool", True)
    w.add_uint64("u64", 2**64 - 1)
    w.add_int64("i64", -(2**63))
    w.add_float64("f64", 0.1)
    w.add_array("floats", [1.5, 0.1])
    w.add_array("flags", [True, False])
    w.add_array("words", ["a", "", "\u2581the"])
    w.add_array("nested", [[1, 2], ["x"]])


def tensors(w):
    w.add_tensor("f32", np.arange(6, dtype=np.float32).reshape(2, 3))
    w.add_tensor("f16", np.zeros((3, 1), np.float16))
    w.add_tensor("tq2_0", np.zeros((2, 66), np.uint8), raw_dtype=gguf.GGMLQuantizationType.TQ2_0)
    w.add_tensor("mxfp4", np.zeros((2, 17), np.uint8), raw_dtype=gguf.GGMLQuantizationType.MXFP4)


def text(value):
    return struct.pack("<Q", len(value)) + value


def key(name, kind, value):
    return text(name) + struct.pack("<I", kind) + value


def tensor(name, sizes, kind, offset):
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def by_hand(keys, infos, data, version=3):
    out = b"GGUF" + struct.pack("<IQQ", version, len(infos), len(keys)) + b"".join(keys) + b"".join(infos)
    return out + bytes(-len(out) % 32) + data


def gguf_files():
    yield "ok_every_kind", with_gguf(every_kind)
    yield "ok_tensors", with_gguf(tensors)
    yield "ok_aligned_8", with_gguf(tensors, 8)
    yield "ok_version_2", by_hand([], [tensor(b"a", [3], 24, 0)], b"abc", version=2)
    yield "ok_i2_s", by_hand([], [tensor(b"w", [128, 2], 36, 0), tensor(b"n", [2], 0, 96)], bytes(104))
    yield "ok_tl1_and_scale", by_hand([], [tensor(b"w", [128, 2], 38, 0), tensor(b"w_scale", [1], 0, 64)], bytes(68))
    bitnet = key(b"general.architecture", 8, text(b"bitnet"))
    yield "ok_tl2_by_architecture", by_hand([bitnet], [tensor(b"w", [512, 2], 42, 0)], bytes(288))
    two = [tensor(b"tl2", [256, 2], 42, 0), tensor(b"mxfp4", [32, 2], 39, 160)]  # 39 could also mean TL2
    yield "ok_two_types_of_one_id", by_hand([bitnet], two, bytes(160 + 34))
    yield "ok_empty_tensor", by_hand([], [tensor(b"e", [0, 3], 0, 0)], b"")
    yield "ambiguous_42", by_hand([], [tensor(b"w", [512, 2], 42, 0)], bytes(288))
    yield "escape_in_name", by_hand([], [tensor(b"\x1b[2J\0", [3], 99, 0)], b"abc")
    yield "big_endian", b"GGUF" + struct.pack(">IQQ", 3, 0, 0)
    yield "huge_counts", b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**63)
    yield "huge_string", by_hand([text(b"k") + struct.pack("<IQ", 8, 2**63)], [], b"")
    yield "huge_array", by_hand([key(b"k", 9, struct.pack("<IQ", 4, 2**62))], [], b"")
    yield "deep_array", by_hand([key(b"k", 9, struct.pack("<IQ", 9, 1) * 40)], [], b"")
    yield "huge_shape", by_hand([], [tensor(b"w", [2**40, 2**40], 0, 0)], bytes(32))
    yield "same_name", by_hand([], [tensor(b"w", [8], 0, 0), tensor(b"w", [8], 0, 32)], bytes(64))
    yield "overlap", by_hand([], [tensor(b"a", [16], 0, 0), tensor(b"b", [8], 0, 32)], bytes(64))
    yield "hole", by_hand([], [tensor(b"a", [8], 0, 0), tensor(b"b", [8], 0, 96)], bytes(128))
    yield "truncated", with_gguf(tensors)[:-40]
    yield "alignment_0", by_hand([key(b"general.alignment", 4, bytes(4))], [], b"")
    yield "empty", b""


def header(entries, data=b"", tail=b""):
    body = (entries if isinstance(entries, str) else json.dumps(entries)).encode() + tail
    return struct.pack("<Q", len(body)) + body + data


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def safetensors_files():
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.zeros(3, np.int8), "s": np.array(1.5)}
    whole = safetensors.numpy.save(arrays, {"format": "np", "k": "\u00e9"})
    a = '"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
    yield "ok_library", whole
    yield "ok_none", safetensors.numpy.save({})
    yield "ok_sub_byte", header({"f4": entry("F4", [2, 2], 0, 2), "f6": entry("F6_E3M2", [4], 2, 5)}, bytes(5))
    yield "ok_empty_tensor", header({"e": entry("BF16", [0, 9], 0, 0), "b": entry("BOOL", [2], 0, 2)}, bytes(2))
    yield "ok_null_metadata", header({"__metadata__": None})
    yield "ok_escapes", header({"\x1b[2J\0": entry("U8", [1], 0, 1), "__metadata__": {"\n": "\u2028"}}, b"x")
    yield "truncated", whole[:-1]
    yield "trailing", whole + b"x"
    yield "huge_length", struct.pack("<Q", 2**63) + b"{}"
    yield "no_brace", header("[]")
    yield "not_json", header("{]")
    yield "hidden_by_nul", header("{}", tail=b"\0{}")
    yield "same_name", header("{" + a + "," + a + "}", b"x")
    yield "same_key", header('{"__metadata__":{"k":"1","k":"2"}}')
    yield "number_in_metadata", header({"__metadata__": {"k": 1}})
    yield "overlap", header({"a": entry("U8", [2], 0, 2), "b": entry("U8", [2], 1, 3)}, bytes(3))
    yield "hole", header({"a": entry("U8", [1], 0, 1), "b": entry("U8", [1], 2, 3)}, bytes(3))
    yield "huge_shape", header({"a": entry("U8", [2**40, 2**40], 0, 1)}, b"x")
    yield "negative", header({"a": entry("U8", [-1], 0, 1)}, b"x")
    yield "fraction", header({"a": entry("U8", [1.0], 0, 1)}, b"x")
    yield "unknown_dtype", header({"a": entry("F7", [1], 0, 1)}, b"x")
    yield "deep", header("{" + '"a":{' * 500)
    yield "an_index", b'{"metadata":{"total_size":1},"weight_map":{"a":"m-1.safetensors","b":"s/m-2.safetensors"}}'
    yield "an_index_outside", b'{"weight_map":{"a":"../x"}}'
    yield "empty", b""


def main():
    for name, files in {"gguf": gguf_files, "safetensors": safetensors_files}.items():
        (CORPUS / name).mkdir(exist_ok=True)
        for stem, data in files():
            (CORPUS / name / f"{stem}.{name}").write_bytes(data)


if __name__ == "__main__":
    main()
