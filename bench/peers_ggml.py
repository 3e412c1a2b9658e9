"""llama.cpp's TQ2_0 for peers.py: a graph of ggml_mul_mat, through the libraries of llama-cpp-python."""
import ctypes
import importlib.metadata
import importlib.util
import pathlib

import numpy as np

from peers_engine import Engine, PeerError


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def load_ggml():
    """ggml from llama-cpp-python, with the types of the functions used here."""
    pointer, i64, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
    folder = pathlib.Path(importlib.util.find_spec("llama_cpp").submodule_search_locations[0]) / "lib"
    try:
        ggml = ctypes.CDLL(str(folder / "libggml-cpu.so"))  # its dependency libggml-base.so is found through it
        for name, result, arguments in [
            ("init", pointer, [InitParams]), ("free", None, [pointer]), ("tensor_overhead", size, []),
            ("graph_overhead_custom", size, [size, ctypes.c_bool]), ("type_name", ctypes.c_char_p, [ctypes.c_int]),
            ("new_tensor_2d", pointer, [pointer, ctypes.c_int, i64, i64]), ("nbytes", size, [pointer]),
            ("row_size", size, [ctypes.c_int, i64]), ("get_data", pointer, [pointer]),
            ("mul_mat", pointer, [pointer, pointer, pointer]),
            ("new_graph_custom", pointer, [pointer, size, ctypes.c_bool]),
            ("build_forward_expand", None, [pointer, pointer]),
            ("quantize_chunk", size, [ctypes.c_int, pointer, pointer, i64, i64, i64, pointer]),
            ("backend_cpu_init", pointer, []), ("backend_cpu_set_n_threads", None, [pointer, ctypes.c_int]),
            ("backend_graph_compute", ctypes.c_int, [pointer, pointer]), ("backend_free", None, [pointer]),
        ]:
            function = getattr(ggml, f"ggml_{name}")
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as failure:
        raise PeerError(f"llama-cpp-python's ggml cannot be used: {failure}; remove build/peers-venv and run again") \
            from failure
    return ggml


class Ggml(Engine):
    """One graph for ggml's CPU backend, with a multiplication for each copy of the weights."""
    F32 = 0  # GGML_TYPE_F32; the file format fixes the numbers of all types

    def __init__(self, problem, threads):
        self.name = "llama.cpp TQ2_0"
        self.setting = f"llama-cpp-python {importlib.metadata.version('llama-cpp-python')}, TQ2_0 x Q8_K"
        self.ggml = ggml = load_ggml()
        tq2_0 = next(t for t in range(64) if ggml.ggml_type_name(t) == b"tq2_0")
        self.weight_bytes = problem.n * ggml.ggml_row_size(tq2_0, problem.k)
        nodes = problem.copies + 16
        per_copy = self.weight_bytes + 4 * problem.m * problem.n + 2 * ggml.ggml_tensor_overhead() + 256
        self.context = ggml.ggml_init(InitParams(
            problem.copies * per_copy + 4 * problem.m * problem.k + ggml.ggml_graph_overhead_custom(nodes, False)
            + (1 << 20), None, False))
        if not self.context:
            raise PeerError(f"ggml_init refused {problem.copies * per_copy} bytes; free some memory")
        self.backend = ggml.ggml_backend_cpu_init()
        self.graph = ggml.ggml_new_graph_custom(self.context, nodes, False)
        packed = np.empty(self.weight_bytes, np.uint8)
        weights = np.ascontiguousarray(problem.trits, np.float32)
        ggml.ggml_quantize_chunk(tq2_0, weights.ctypes.data, packed.ctypes.data, 0, problem.n, problem.k, None)
        x = ggml.ggml_new_tensor_2d(self.context, self.F32, problem.k, problem.m)
        self.copy_in(x, problem.x)
        self.outputs = []
        for _ in range(problem.copies):
            w = ggml.ggml_new_tensor_2d(self.context, tq2_0, problem.k, problem.n)
            self.copy_in(w, packed)
            y = ggml.ggml_mul_mat(self.context, w, x)
            ggml.ggml_build_forward_expand(self.graph, y)
            floats = (ctypes.c_float * (problem.m * problem.n)).from_address(ggml.ggml_get_data(y))
            self.outputs.append(np.frombuffer(floats, np.float32).reshape(problem.m, problem.n))
        self.check(problem, threads)

    def copy_in(self, tensor, array):
        assert self.ggml.ggml_nbytes(tensor) == array.nbytes
        ctypes.memmove(self.ggml.ggml_get_data(tensor), array.ctypes.data, array.nbytes)

    def run(self, threads):
        self.ggml.ggml_backend_cpu_set_n_threads(self.backend, threads)
        status = self.ggml.ggml_backend_graph_compute(self.backend, self.graph)
        if status != 0:
            raise PeerError(f"ggml_backend_graph_compute returned {status}")

    def close(self):
        self.outputs = []
        self.ggml.ggml_backend_free(self.backend)
        self.ggml.ggml_free(self.context)
