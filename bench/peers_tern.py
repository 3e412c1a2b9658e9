"""Tern for peers.py: plans of linear through the C ABI of libtern.so, on the weights and activations of the peers."""
import ctypes

import numpy as np

from peers_engine import Engine, PeerError

I32, I64, SIZE, POINTER = ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t, ctypes.c_void_p
DTYPES = {"float32": 0, "int8": 4, "uint8": 5}  # tern_dtype


def struct(name, **fields):
    return type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})


# The structs of tern_c.h. The library compares struct_size, so it refuses a struct of another size.
Granularity = struct("Granularity", kind=I32, group_size=I64)
View = struct("View", data=POINTER, dtype=I32, rank=I32, shape=I64 * 8, strides=I64 * 8, device=I32 * 2)
Config = struct("Config", struct_size=SIZE, threads=I32, count_memory=I32, allocate=POINTER, deallocate=POINTER,
                memory_user=POINTER, parallel_for=POINTER, parallel_for_user=POINTER, observer=POINTER)
Matrix = struct("Matrix", struct_size=SIZE, n=I64, granularity=Granularity, y_dtype=I32, bias=I32, activation=I32,
                residual=I32)
LinearProblem = struct("LinearProblem", struct_size=SIZE, m_max=I64, k=I64, x_dtype=I32, math=I32, non_finite=I32,
                       format=I32, matrices=ctypes.POINTER(Matrix), matrix_count=SIZE)
Output = struct("Output", struct_size=SIZE, weights=POINTER, y=View, bias=View, residual=View)
Args = struct("Args", struct_size=SIZE, x=View, x_scales=View, outputs=ctypes.POINTER(Output), output_count=SIZE)
LastError = struct("LastError", struct_size=SIZE, status=I32, message=ctypes.c_char_p, where=ctypes.c_char_p,
                   text=ctypes.c_char_p, index=I64)
PlanInfo = struct("PlanInfo", struct_size=SIZE, id=ctypes.c_char_p, op=ctypes.c_char_p, kernel=ctypes.c_char_p)


def sized(kind, **fields):
    return kind(struct_size=ctypes.sizeof(kind), **fields)


def view(array):
    return View(array.ctypes.data, DTYPES[array.dtype.name], array.ndim, (I64 * 8)(*array.shape))


class Library:
    """libtern.so; a failed call raises PeerError."""

    def __init__(self, path):
        self.path = path
        try:
            self.tern = ctypes.CDLL(str(path))
        except OSError as failure:
            raise PeerError(f"{failure}; scripts/peers builds it") from failure
        self.tern.tern_last_error.restype = ctypes.POINTER(LastError)

    def call(self, function, *arguments):
        if getattr(self.tern, f"tern_{function}")(*arguments) != 0:
            raise PeerError(f"tern_{function}: {self.tern.tern_last_error().contents.text.decode()}")

    def make(self, function, *arguments, kind=POINTER):
        """Calls a function and returns what it writes through its last argument."""
        out = kind()
        self.call(function, *arguments, ctypes.byref(out))
        return out


class Tern(Engine):
    """A context and a plan for each number of threads; they share the packed weights."""

    def __init__(self, library, problem, threads, dtype):
        self.name = f"Tern {dtype}"
        self.library = library
        self.weight_bytes = problem.n * problem.k // 4 + 4
        self.x, self.x_scales = problem.x, np.ones(problem.m, np.float32)
        if dtype == "int8":  # quantized as token_i8 does
            self.x_scales = 127 / np.abs(problem.x).max(axis=1)
            self.x = np.rint(problem.x * self.x_scales[:, None]).astype(np.int8)
        self.outputs = [np.empty((problem.m, problem.n), np.float32) for _ in range(problem.copies)]
        self.plans, self.weights, self.contexts = {}, [], []
        matrix = sized(Matrix, n=problem.n)
        description = sized(LinearProblem, m_max=problem.m, k=problem.k, x_dtype=DTYPES[self.x.dtype.name],
                            matrices=ctypes.pointer(matrix), matrix_count=1)
        for count in threads:
            context = library.make("context_open", ctypes.byref(sized(Config, threads=count)))
            self.contexts.append(context)
            plan = library.make("linear_select", context, ctypes.byref(description), None)
            workspace_bytes = library.make("linear_plan_workspace_bytes", plan, kind=SIZE)
            workspace = np.empty(workspace_bytes.value + 64, np.uint8)
            aligned = POINTER(-(-workspace.ctypes.data // 64) * 64)
            stream = library.make("context_stream", context)
            self.plans[count] = (plan, stream, aligned, workspace_bytes, workspace)
        codes, scales = problem.codes(1, problem.k).reshape(problem.n, -1), np.ones(1, np.float32)
        self.weights = [library.make("packed_weights_create", self.contexts[0], ctypes.byref(view(codes)),
                                     ctypes.byref(view(scales)), I64(problem.n), I64(problem.k), Granularity(), None,
                                     SIZE(0)) for _ in range(problem.copies)]
        self.args = [self.arguments(weights, y) for weights, y in zip(self.weights, self.outputs)]
        info = library.make("linear_plan_get_info", self.plans[threads[0]][0], kind=ctypes.POINTER(PlanInfo))
        self.setting = info.contents.kernel.decode()
        self.check(problem, threads)

    def arguments(self, weights, y):
        output = sized(Output, weights=weights, y=view(y))
        args = sized(Args, x=view(self.x), outputs=ctypes.pointer(output), output_count=1)
        if self.x.dtype == np.int8:
            args.x_scales = view(self.x_scales)
        return ctypes.byref(args)

    def run(self, threads):
        plan, stream, workspace, workspace_bytes, _ = self.plans[threads]
        run = self.library.tern.tern_linear_plan_run
        for args in self.args:
            if run(plan, stream, workspace, workspace_bytes, args) != 0:
                self.library.call("linear_plan_run", plan, stream, workspace, workspace_bytes, args)

    def close(self):
        tern = self.library.tern
        for weights in self.weights:
            tern.tern_packed_weights_destroy(weights)
        for plan, *_ in self.plans.values():
            tern.tern_linear_plan_destroy(plan)
        for context in self.contexts:
            tern.tern_context_close(context)
        self.weights, self.plans, self.contexts = [], {}, []
