"""Reads bench/results: the machines, the newest figure of each problem, and the options that repeat it."""
import json
import re

# Options of `tern bench` that describe the problem of a record, in the order of a command and of a table's columns.
OPTIONS = ("model", "shape", "image", "stride", "dilation", "padding", "groups", "m", "dtype", "order", "math", "scheme",
           "method", "granularity", "format", "y", "y-order", "from", "kernel")  # fmt: skip
WITH_SCHEME = ("ternary_quantize", "ternary_dequantize")  # the other ops have one scheme and no option for it
DOTS = ("linear", "conv2d")  # products with packed weights
FIRST_OF_MODEL = 3  # a run over a model's layers begins with three matrices: query, key, value


class ResultError(Exception):
    """A file under bench/results that cannot be understood."""


def window_options(problem):
    """The options of a convolution's problem, or of a model of them."""
    def together(values, between):  # one number where all are equal
        return str(values[0]) if len(set(values)) == 1 else between.join(str(value) for value in values)

    values = {"m": problem["images"], "y-order": problem["y_order"]}
    if "filters" in problem:
        values |= {"shape": "x".join(str(size) for size in problem["filters"]),
                   "image": "x".join(str(size) for size in problem["image"][1:]), "groups": problem["groups"],
                   "stride": together(problem["stride"], "x"), "dilation": together(problem["dilation"], "x"),
                   "padding": together(problem["padding"], ",")}  # fmt: skip
    return values


class Figure:
    """A record with its machine and its source: date, commit and file."""

    def __init__(self, record, machine, source):
        self.record, self.machine, self.source = record, machine, source
        self.op, self.problem, self.threads = record["op"], record["problem"], record["threads"]
        self.on_gpu, self.limit = record["device"] != "cpu", record["limit"]["name"]
        self.us, self.share = record["median_us"], record["limit"]["share"]
        self.baselines = {baseline["name"]: baseline["speedup"] for baseline in record["baselines"]}
        self.by_operations = self.limit.endswith("peak") and record["gops"] is not None
        self.per_second = record["gops"] if self.by_operations else record["gb_per_s"]  # GOPS or GB/s, like the limit

    def kind(self):
        """What a row of its table is: all layers of a model, layers that share an input, or a shape."""
        return "model" if "model" in self.problem else "layers" if len(self.problem.get("n", [])) > 1 else "shape"

    def options(self):
        """The value of each option that applies to the op, defaults included."""
        problem = self.problem
        values = {option: problem[option] for option in OPTIONS if option in problem}
        values["kernel"] = self.record["kernel"]
        if "layer_of" in problem:
            values["model"] = problem["layer_of"]
        if self.op not in WITH_SCHEME:
            values.pop("scheme", None)
        if "images" in problem:
            values |= window_options(problem)
        if "rows" in problem:
            rows = "+".join(str(n) for n in problem.get("n", [problem["rows"]]))
            values["shape"] = f"{rows}x{problem['cols']}"
        return {option: values[option] for option in OPTIONS if option in values}

    def default(self, option):
        """The command's default for an option; None if the option must be given."""
        if option == "dtype":
            return "i8" if self.op in DOTS and self.problem.get("math", "w2a8") == "w2a8" else "f32"
        if option == "format":
            known = self.op in DOTS or self.op in WITH_SCHEME
            return ("s2" if self.problem.get("scheme") == "int2" else "i2") if known else None
        if option == "padding":
            steps = zip(self.problem["dilation"], self.problem["filters"][2:])
            down, across = (step * (taps - 1) // 2 for step, taps in steps)
            return str(down) if down == across else f"{down},{down},{across},{across}"
        return {"m": 1, "math": "w2a8", "scheme": "absmean", "granularity": "tensor", "y": "f32", "image": "56x56",
                "stride": "1", "dilation": "1", "groups": 1, "order": "nhwc", "y-order": "nhwc"}.get(option)  # fmt: skip


def counted(threads):
    return f"{threads} thread{'' if threads == 1 else 's'}"


def slug(name):
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def complete(report):
    """All records, with one for each whole model. A CPU's report has only summaries of models, without the kernel."""
    records = report["records"]
    first = [r for r in records if len(r["problem"].get("n", [])) == FIRST_OF_MODEL]
    networks = [m for m in report.get("models", []) if "images_per_s" in m]  # of conv2d
    models = [m for m in report.get("models", []) if "images_per_s" not in m]
    if [(r["problem"]["m"], r["problem"]["dtype"], r["threads"]) for r in first] != [
            (m["m"], m["x_dtype"], m["threads"]) for m in models]:  # fmt: skip
        raise ResultError("its models are not those that its records begin")
    whole = [r for r in records if "model" in r["problem"]]
    if whole and len(whole) != len(models):
        raise ResultError("some of its models have a record and some have none")
    made, begun = [], 0
    for record in records:
        matrices = len(record["problem"].get("n", []))
        begun += matrices == FIRST_OF_MODEL
        if matrices > 1:
            record = {**record, "problem": {**record["problem"], "layer_of": models[begun - 1]["name"]}}
        if "model" not in record["problem"]:
            made.append(record)
    for i, (layer, model) in enumerate(zip(first, models)):
        shared = {key: value for key, value in layer["problem"].items() if key not in ("rows", "cols", "n")}
        problem = {"model": model["name"], **shared}
        us = 1000 * model["milliseconds"]
        made.append({**whole[i], "problem": problem} if whole else
                    {**layer, "problem": problem, "median_us": us, "gb_per_s": model["bytes"] / us / 1000, "gops": None,
                     "limit": {"name": model["limit"], "share": model["share"],
                               "value": model["bytes"] * model["floor_tokens_per_s"] / model["m"] / 1e9},
                     "baselines": []})  # fmt: skip
    return made + [network_record(network, records) for network in networks]


def network_record(network, records):
    """A record for a network as a whole. Each of its convolutions has one too, as if it had been measured alone."""
    asked = (network["m"], network["x_dtype"], network["threads"])
    layers = [r for r in records if r["op"] == "conv2d"
              and (r["problem"]["images"], r["problem"]["dtype"], r["threads"]) == asked]  # fmt: skip
    if not layers:
        raise ResultError(f"no record is of a convolution of {network['name']}")
    shared = {key: layers[0]["problem"][key] for key in ("images", "dtype", "order", "math", "granularity", "format", "y",
                                                         "y_order")}  # fmt: skip
    us = 1000 * network["milliseconds"]
    return {**layers[0], "problem": {"model": network["name"], **shared}, "median_us": us,
            "gb_per_s": network["bytes"] / us / 1000, "gops": network["operations"] / us / 1000,
            "limit": {"name": network["limit"], "share": network["share"],
                      "value": network["operations"] * network["floor_images_per_s"] / network["m"] / 1e9},
            "baselines": []}  # fmt: skip


def processor(machine):
    """The name of a CPU, with its family where the report has it: cloud machines give different ones the same name."""
    cpu = machine.get("cpu")
    return machine["name"] + (f" (family {cpu['family']} model {cpu['model']})" if cpu else "")


def read(folder):
    """(machines, figures, peers, commands): descriptions, peers' reports and whole commands by machine name, and the
    newest figures."""
    reports = []
    for path in sorted(folder.glob("*.json")):
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
            machine = report["machine"]
            source = (machine["date"], machine["commit"], path.name)
            reports.append((source, machine, report, any("engine" in r for r in report["records"])))
        except (ValueError, KeyError, TypeError) as failure:
            raise ResultError(f"{path.name}: no result of `tern bench --json` or of peers ({failure!r})") from failure
    machines, figures, peers, commands = {}, {}, {}, {}
    for source, machine, report, is_peers in sorted(reports, key=lambda item: item[0]):
        on_gpu = machine["device"] != "cpu"
        own = machine["name"] if on_gpu else f"{processor(machine)}, {counted(machine['usable_threads'])}"
        machines[own] = machine  # reports are sorted by date, so the newest description wins
        if "commands" in report:
            commands[own] = {**report, "source": source}
        try:
            if is_peers:
                peers[own] = {**report, "source": source}
                continue
            hosts = [r["threads"] for r in report["records"] if on_gpu and r["device"] == "cpu"]
            host = f"{machine['host']}, {counted(max(hosts))}" if hosts else None
            for record in complete(report):
                if record["device"] != "cpu" and not on_gpu:
                    raise ResultError("a record of a GPU under a machine that is a CPU")
                name = host if record["device"] == "cpu" and on_gpu else own
                threads = record["threads"] if record["device"] == "cpu" else 0  # the host's do not matter
                key = (name, record["device"], record["kernel"], json.dumps(record["problem"]), threads,
                       record["weights"])  # fmt: skip
                if key not in figures or figures[key].source != source:  # in one file, the first record wins
                    figures[key] = Figure(record, name, source)
                machines.setdefault(name, None)
        except ResultError as failure:
            raise ResultError(f"{source[2]}: {failure}") from failure
        except (KeyError, TypeError) as failure:
            raise ResultError(f"{source[2]}: a record lacks or has something else as {failure}") from failure
    return machines, list(figures.values()), peers, commands
