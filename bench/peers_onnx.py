"""onnxruntime's MatMulNBits with 2 bits for peers.py, at the fastest setting that gives the right product here."""
import dataclasses

import numpy as np
import onnx
import onnxruntime

from peers_engine import Engine, PeerError, Problem


@dataclasses.dataclass(frozen=True)
class OnnxSetting:
    """accuracy_level 4 means int8 activations, 1 means f32; lut selects MLAS's kernel with look-up tables."""
    block_size: int = 128
    accuracy_level: int = 4
    lut: bool = False

    def __str__(self):
        return f"block {self.block_size}, accuracy {self.accuracy_level}" + (", look-up tables" if self.lut else "")


ONNX_SETTINGS = [OnnxSetting(), OnnxSetting(block_size=64), OnnxSetting(block_size=32), OnnxSetting(lut=True),
                 OnnxSetting(accuracy_level=1), OnnxSetting(accuracy_level=0)]


class Onnx(Engine):
    """One model with a MatMulNBits node for each copy of the weights; one session for each number of threads."""

    def __init__(self, problem, threads, setting):
        self.name = "onnxruntime 2-bit MatMulNBits"
        self.setting = f"onnxruntime {onnxruntime.__version__}, {setting}"
        b = problem.codes(2, setting.block_size)  # 2 is the default zero point
        scales = np.ones(b.shape[:2], np.float32)
        self.weight_bytes = b.nbytes + scales.nbytes
        # Each copy begins with another row. onnxruntime would pack equal weights once and share them, and the weights
        # would stay in the cache.
        self.constants = {f"{name}{i}": np.roll(array, i, axis=0) for i in range(problem.copies)
                          for name, array in (("b", b), ("scales", scales))}
        self.x = problem.x
        self.outputs = [np.full((problem.m, problem.n), np.nan, np.float32) for _ in range(problem.copies)]
        model = self.model(problem, setting)
        self.sessions = {count: self.session(model, setting, count) for count in threads}
        self.check(problem, threads)

    def model(self, problem, setting):
        make, float_type = onnx.helper, onnx.TensorProto.FLOAT
        nodes, values, constants = [], [], []
        for i in range(problem.copies):
            nodes.append(make.make_node(
                "MatMulNBits", ["x", f"b{i}", f"scales{i}"], [f"y{i}"], domain="com.microsoft", N=problem.n,
                K=problem.k, bits=2, block_size=setting.block_size, accuracy_level=setting.accuracy_level))
            values.append(make.make_tensor_value_info(f"y{i}", float_type, [problem.m, problem.n]))
        for name, array in self.constants.items():  # stored outside the model, which cannot exceed 2 GB
            constant = onnx.TensorProto(name=name, dims=array.shape, data_location=onnx.TensorProto.EXTERNAL,
                                        data_type=make.np_dtype_to_tensor_dtype(array.dtype))
            constant.external_data.add(key="location", value="given with the session")
            constants.append(constant)
        x = make.make_tensor_value_info("x", float_type, [problem.m, problem.k])
        graph = make.make_graph(nodes, "peers", [x], values, constants)
        opsets = [make.make_opsetid("", 21), make.make_opsetid("com.microsoft", 1)]
        return make.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()

    def session(self, model, setting, threads):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        options.add_session_config_entry("mlas.use_lut_gemm", str(int(setting.lut)))
        options.add_external_initializers(
            list(self.constants), [onnxruntime.OrtValue.ortvalue_from_numpy(a) for a in self.constants.values()])
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        binding.bind_cpu_input("x", self.x)
        for i, y in enumerate(self.outputs):
            binding.bind_output(f"y{i}", "cpu", 0, np.float32, y.shape, y.ctypes.data)
        return session, binding

    def run(self, threads):
        session, binding = self.sessions[threads]
        session.run_with_iobinding(binding)

    def product(self, i):
        return np.roll(self.outputs[i], -i, axis=1)

    def close(self):
        self.sessions.clear()
        self.constants.clear()


def probe_onnx(m):
    """The fastest setting that computes the right product here, and the result of every setting."""
    problem, tried = Problem(2560, 2560, m, 1), {}
    for setting in ONNX_SETTINGS:
        try:
            engine = Onnx(problem, [1], setting)
            least_us = min(engine.median_us(1, 7) for _ in range(3))  # disturbances only make a time longer
            tried[setting] = {"us": round(least_us, 1), "error": engine.error}
            engine.close()
        except Exception as failure:  # onnxruntime has many exception types; each is recorded
            tried[setting] = {"refused": str(failure).splitlines()[0]}
    best = min(tried, key=lambda setting: tried[setting].get("us", float("inf")))
    if "us" not in tried[best]:
        raise PeerError(f"onnxruntime {onnxruntime.__version__} refuses 2-bit MatMulNBits: {tried[best]['refused']}; "
                        "scripts/peers pins its version: try another")
    return best, {str(setting): result for setting, result in tried.items()}
