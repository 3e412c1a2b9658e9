"""Makes the golden files of tests/data and the npy and npz corpora of tests/corpus with numpy, not with tern.

Run it from anywhere with a Python that has numpy and xxhash; the files it makes are committed, so tests need neither.
In the corpora, a file whose name begins with ok_ must load; every other file must be refused.
"""

import io
import json
import pathlib
import struct
import zipfile

import numpy as np
import xxhash

TESTS = pathlib.Path(__file__).resolve().parent.parent


def npy(array, version=None):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version, allow_pickle=True)
    return out.getvalue()


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def pack_i2(codes):
    """Four trits a byte, the first in the lowest bits, code = trit + 1, padded with code 1."""
    rows, k = codes.shape
    padded = np.zeros((rows, -(-k // 4) * 4), np.int64)
    padded[:, :k] = codes
    quads = (padded + 1).reshape(rows, -1, 4)
    return (quads << np.array([0, 2, 4, 6])).sum(axis=2).astype(np.uint8)


def quantized(codes, scales, **changes):
    digest = xxhash.xxh64(codes.tobytes() + scales.tobytes()).hexdigest()
    meta = dict(scheme="absmax", granularity="group:3", format="i2", shape=[2, 5], version=1, tern="0.1.0",
                checksum=digest)
    meta.update(changes)
    return dict(codes=codes, scales=scales, meta=np.array(json.dumps(meta).encode()))


class Pipe(io.BytesIO):
    """A file that cannot seek, so that zipfile writes sizes and CRCs after the bytes."""

    def seek(self, *_):
        raise io.UnsupportedOperation("seek")

    tell = seek


def zipped(out, arrays):
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in arrays.items():
            with archive.open(name + ".npy", "w") as member:  # unlike writestr, writes no time stamp
                member.write(npy(array))
    return out.getvalue()


def header(text, version=1, data=b""):
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def main():
    trits = np.array([[1, 0, -1, 1, 1], [0, 0, -1, -1, 1]])
    codes = pack_i2(trits)
    scales = np.array([[0.5, 0.25], [1.5, 2.0]], np.float32)
    good = quantized(codes, scales)
    f32 = np.array([[1.5, -2, 0], [3, 4.25, -0.0]], np.float32)

    (TESTS / "data/f32_2x3.npy").write_bytes(npy(f32))
    (TESTS / "data/absmax_group3_i2_2x5.npz").write_bytes(npz(**good))

    d = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n"
    files = {
        "ok_f32_2x3": npy(f32),
        "ok_f64_scalar": npy(np.array(2.5)),
        "ok_f16_empty": npy(np.zeros((3, 0), np.float16)),
        "ok_i8_version2": npy(np.arange(4, dtype=np.int8), version=(2, 0)),
        "ok_i32_version3": npy(np.arange(3, dtype=np.int32), version=(3, 0)),
        "ok_u8_unpadded": header('{"shape":(2,),"fortran_order":False,"descr":"|u1"}', data=b"ab"),
        "fortran_order": npy(np.asfortranarray(f32)),
        "object": npy(np.array([{}, None])),
        "structured": npy(np.zeros(2, [("a", "<f4"), ("b", "<i4")])),
        "big_endian": npy(np.ones(2, ">f4")),
        "overflow": header(d % ("<f4", "(4611686018427387904, 4)")),
        "above_64_bits": header(d % ("<f4", "(99999999999999999999,)")),
        "negative": header(d % ("<f4", "(-1, 4)")),
        "nine_axes": header(d % ("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), data=b"1234"),
        "huge_header": b"\x93NUMPY\2\0\xff\xff\xff\x7f{",
        "truncated": npy(f32)[:-1],
        "trailing": npy(f32) + b"x",
        "empty": b"",
    }
    for name, data in files.items():
        (TESTS / f"corpus/npy/{name}.npy").write_bytes(data)

    valid = npz(**good)
    deflated = io.BytesIO()
    np.savez_compressed(deflated, **good)
    streamed = zipped(Pipe(), good)
    twice = zipped(io.BytesIO(), dict(good, xodes=good["codes"]))
    encrypted = bytearray(valid)
    encrypted[6] |= 1
    encrypted[valid.index(b"PK\1\2") + 8] |= 1
    i8 = trits.astype(np.int8)
    int2 = np.array([[-2, 1, 0]], np.int8)
    files = {
        "ok_group_i2": valid,
        "ok_streamed": streamed,
        "ok_row_i8": npz(**quantized(i8, scales[:, :1].copy(), format="i8", granularity="row", scheme="mse")),
        "ok_tensor_int2": npz(**quantized(int2, np.float32([0.5]), format="i8", granularity="tensor", scheme="int2",
                                          shape=[1, 1, 3])),
        "no_rows": npz(**quantized(codes[:0], scales[:0], shape=[0, 5])),
        "deflated": deflated.getvalue(),
        "encrypted": bytes(encrypted),
        "twice": twice.replace(b"xodes.npy", b"codes.npy"),
        "truncated": valid[:-1],
        "no_scales": npz(codes=good["codes"], meta=good["meta"]),
        "wrong_checksum": npz(**quantized(codes, scales, checksum="0123456789abcdef")),
        "wrong_shape": npz(**quantized(codes, scales, shape=[2, 9])),
        "endless_rows": npz(**quantized(np.zeros((2**62, 0), np.uint8), np.float32([1]), shape=[2**62, 0], granularity="tensor")),
        "newer_version": npz(**quantized(codes, scales, version=2)),
        "code_three": npz(**quantized(codes | 3, scales)),
        "zero_scale": npz(**quantized(codes, scales * 0)),
        "not_json": npz(codes=codes, scales=scales, meta=np.array(b"{scheme:")),
        "no_entries": b"PK\5\6" + bytes(18),
        "empty": b"",
    }
    for name, data in files.items():
        (TESTS / f"corpus/npz/{name}.npz").write_bytes(data)


if __name__ == "__main__":
    main()
