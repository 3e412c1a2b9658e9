#!/usr/bin/env python3
"""Writes normally distributed f32 weights as an .npy file, with the standard library only."""
import argparse
import array
import random
import sys

BLOCK_ROWS = 256  # drawn once and repeated, because drawing tens of millions of values would take a minute


def main(path, rows, columns):
    generator = random.Random(1)
    block = array.array("f", (generator.gauss(0.0, 0.02) for _ in range(min(rows, BLOCK_ROWS) * columns)))
    if sys.byteorder == "big":
        block.byteswap()
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}".encode()
    head += b" " * (-(10 + len(head) + 1) % 64) + b"\n"  # the data begins at a multiple of 64
    row_bytes = columns * block.itemsize
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
        for row in range(0, rows, BLOCK_ROWS):
            file.write(memoryview(block).cast("B")[: min(BLOCK_ROWS, rows - row) * row_bytes])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", metavar="PATH.npy")
    parser.add_argument("rows", type=int, metavar="ROWS")
    parser.add_argument("columns", type=int, metavar="COLUMNS")
    arguments = parser.parse_args()
    if arguments.rows < 1 or arguments.columns < 1:
        parser.error(f"{arguments.rows} x {arguments.columns} has no elements; both are 1 or more")
    main(arguments.path, arguments.rows, arguments.columns)
