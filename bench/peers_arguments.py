"""The options of scripts/peers. Needs no installed packages, so that --help and wrong options are answered at once."""
import argparse
import pathlib

DESCRIPTION = ("Times llama.cpp's TQ2_0 and onnxruntime's 2-bit MatMulNBits beside Tern, in turns, on a quiet machine. "
               "Installs both and numpy into build/peers-venv, and builds Tern: minutes the first time.")
SHAPES = [(2560, 2560), (13824, 2560), (2560, 6912), (4096, 14336)]  # N x K: BitNet-2B's layers, and a long K


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/peers", description=DESCRIPTION,
                                     formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--build", default="build/release", help="the build of tern to time")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("bench/results"), help="folder of the results")
    parser.add_argument("--threads", default="1,2", help="thread counts, as in 1,2")
    parser.add_argument("--rounds", type=int, default=10, help="turns of all engines on a cell")
    parser.add_argument("--repetitions", type=int, default=3, help="samples of an engine in a turn")
    parser.add_argument("--shapes", default=",".join(f"{n}x{k}" for n, k in SHAPES), help="N x K, as in 2560x6912")
    arguments = parser.parse_args()
    try:
        threads = [int(count) for count in arguments.threads.split(",")]
    except ValueError:
        parser.error(f"--threads '{arguments.threads}' is not a list of numbers, as in 1,2")
    try:
        shapes = [tuple(int(side) for side in shape.split("x")) for shape in arguments.shapes.split(",")]
    except ValueError:
        parser.error(f"--shapes '{arguments.shapes}' is not a list of NxK, as in 2560x6912,4096x14336")
    if any(len(shape) != 2 or shape[0] < 1 or shape[1] < 1 or shape[1] % 256 for shape in shapes):
        parser.error(f"--shapes '{arguments.shapes}': each is NxK, K a multiple of 256, the block of TQ2_0")
    if min(*threads, arguments.rounds, arguments.repetitions) < 1:
        parser.error("--threads, --rounds and --repetitions are at least 1")
    arguments.threads, arguments.shapes = threads, shapes
    return arguments


if __name__ == "__main__":
    parse_arguments()
