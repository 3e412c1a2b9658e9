#!/usr/bin/env python3
"""Shows that each structural check passes a good tree and fails on each kind of bad one."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

GOOD = {
    "include/tern/types.h": "// Words.\n#include <cstdint>\nenum class Format : int { i2, s2 };\n",
    "src/base/status.h": '// Status.\n#include <string>\n#include "tern/types.h"\n',
    "src/base/options.cpp": "// Reads the environment.\nauto v = std::getenv(name);\n",
    "src/simd/avx2.h": "// Words of AVX2.\n#include <immintrin.h>\n",
    "src/ops/kernels.inc": "// The list.\nKERNEL(quant, i2, x86_avx2, Table, .needs = 1)\n"
                           "KERNEL(quant, i2, reference, Table)\n",
    "src/ops/quant/x86_avx2.cpp": '// AVX2.\n#include <cstdint>\n#include "simd/avx2.h"\n',
    "src/ops/quant/reference.cpp": '// Slow truth.\n#include <vector>\n#include "base/status.h"\n',
    "src/ops/quant/test.cpp": '// Test.\n#include "lab/selftest.h"\nauto v = getenv("HOME");\n',
    "src/ops/quant/bench.cpp": '// Bench.\n#include "lab/selftest.h"\n',
    "src/lab/selftest.h": "// Selftest.\n",
    "src/plan/plan.cpp": '// Plan.\n#include "ops/kernels.inc"\n// getenv is not called here\n',
    "apps/cli/main.cpp": '// CLI.\n#include <CLI/CLI.hpp>\n#include "lab/selftest.h"\n#include "tern/types.h"\n',
    "cmake/isa.cmake": "# Rows.\ntern_isa(reference \".*\")\ntern_isa(x86_avx2 \"x86_64\" -mavx2)\n",
    "scripts/demo": "#!/bin/sh\n# Shows.\n",
}  # fmt: skip


class Tree(unittest.TestCase):
    def run_check(self, check, changes):
        """(exit status, output) of a check on the good tree with some files changed, or removed where None."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in {**GOOD, **changes}.items():
                if text is not None:
                    path = Path(folder, name)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_text(text, encoding="utf-8")
            done = subprocess.run([sys.executable, ROOT / "tools" / f"{check}.py", folder], capture_output=True,
                                  text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def passes(self, check, changes=None):
        status, output = self.run_check(check, changes or {})
        self.assertEqual((status, output.count("\n")), (0, 1), output)

    def fails(self, check, changes, says):
        status, output = self.run_check(check, changes)
        self.assertEqual(status, 1, output)
        self.assertIn(says, output)


class Layers(Tree):
    def refuses(self, name, text, says):
        self.fails("check_layers", {name: text}, says)

    def test_good_tree(self):
        self.passes("check_layers")

    def test_room_above(self):
        self.refuses("src/base/status.h", '// S.\n#include "plan/plan.h"\n', "no file of this tree")
        self.fails("check_layers", {"src/plan/plan.h": "// P.\n", "src/base/status.h": '// S.\n#include "plan/plan.h"\n'},
                   "src/base/status.h:2: room 0 (src/base) does not see room 4")  # fmt: skip

    def test_room_beside(self):
        self.fails("check_layers", {"src/io/npy.h": "// N.\n", "src/ops/quant/reference.cpp": '// R.\n#include "io/npy.h"\n'},
                   "does not see room 3 (src/io")  # fmt: skip

    def test_unknown_room(self):
        self.refuses("src/utils/x.h", "// X.\n", "src/utils/x.h: src has no such room")

    def test_leaf_is_included_by_nobody(self):
        self.refuses("src/plan/plan.cpp", '// P.\n#include "ops/quant/test.cpp"\n', "is a leaf")

    def test_cli_sees_no_inside(self):
        for name in ("main.cpp", "bench.cpp", "selftest.cpp"):
            self.refuses(f"apps/cli/{name}", '// M.\n#include "base/status.h"\n', "apps/cli does not see src/base")

    def test_public_header_with_third_party_type(self):
        self.refuses("include/tern/types.h", "// T.\n#include <fmt/format.h>\n", "a public header includes only")
        self.refuses("include/tern/types.h", '// T.\n#include "base/status.h"\n', "room -1")

    def test_standard_header_in_kernel_file(self):
        self.refuses("src/ops/quant/x86_avx2.cpp", "// A.\n#include <algorithm>\n", "<algorithm> reaches the kernel file")

    def test_standard_header_behind_kernel_file(self):
        self.refuses("src/simd/avx2.h", "// A.\n#include <cmath>\n", "src/simd/avx2.h:2: <cmath> reaches")
        self.refuses("src/ops/quant/x86_avx2.cpp", '// A.\n#include "tern/types.h"\n#include "base/status.h"\n',
                     "<string> reaches")  # fmt: skip

    def test_second_reader_of_the_environment(self):
        self.refuses("src/plan/plan.cpp", '// P.\nauto x = std::getenv("TERN_X");\n', "only src/base/options.cpp")

    def test_library_with_one_home(self):
        self.refuses("src/plan/plan.cpp", "// P.\n#include <hwloc.h>\n", "only by src/device/topology.cpp")


class FileLength(Tree):
    def test_good_tree(self):
        self.passes("check_file_length")

    def test_first_line(self):
        for name, text in {"src/base/x.h": "#pragma once\n", "src/base/x.cpp": "\n// Late.\n", "scripts/demo": "#!/bin/sh\n",
                           "src/base/y.h": "", "tools/x.py": "import sys\n"}.items():  # fmt: skip
            self.fails("check_file_length", {name: text}, f"{name}: the first line does not say")

    def test_long_files(self):
        body = "int x;\n"
        self.passes("check_file_length", {"src/base/x.h": "// X.\n" + body * 499})
        self.fails("check_file_length", {"src/base/x.h": "// X.\n" + body * 500}, "501 lines; above 500")
        self.passes("check_file_length", {"src/base/x.h": "// X, long because it is a table.\n" + body * 500})
        self.fails("check_file_length", {"src/base/x.h": "// X, long because.\n" + body * 800}, "801 lines; the limit")


class KernelList(Tree):
    def refuses(self, lines, says):
        self.fails("check_kernel_list", {"src/ops/kernels.inc": "// The list.\n" + lines}, says)

    def test_good_tree(self):
        self.passes("check_kernel_list")

    def test_file_without_a_line(self):
        self.refuses("KERNEL(quant, i2, reference, Table)\n", "src/ops/quant/x86_avx2.cpp: no line in")

    def test_line_without_a_file(self):
        self.fails("check_kernel_list", {"src/ops/quant/x86_avx2.cpp": None}, "src/ops/quant/x86_avx2.cpp does not exist")

    def test_names(self):
        good = GOOD["src/ops/kernels.inc"]
        self.refuses("KERNEL(Quant, i2, reference, T)\n" + good, "'Quant' is not snake_case")
        self.refuses("KERNEL(quant, i9, reference, T)\n" + good, "no format i9")
        self.refuses("KERNEL(quant, i2, x86_mmx, T)\n" + good, "has no row x86_mmx")
        self.refuses("KERNEL(quant, i2, x86_avx2, T)\n" + good, "listed twice")
        self.refuses("KERNEL(quant i2)\n" + good, "3 lines, 2 of them understood")

    def test_reference_is_last(self):
        self.refuses("KERNEL(quant, i2, reference, T)\nKERNEL(quant, i2, x86_avx2, T)\n", "which must be the last")
        self.refuses("KERNEL(quant, i2, x86_avx2, T)\n", "quant.i2 has no reference")


class Symbols(unittest.TestCase):
    def check(self, source, *flags, library=False):
        """(exit status, output) of check_symbols on a compiled text."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "x.so" if library else "x.o")
            mode = ["-shared", "-fPIC"] if library else ["-c"]
            subprocess.run(["c++", "-x", "c++", "-std=c++20", *flags, *mode, "-o", path, "-"], input=source, text=True,
                           check=True)  # fmt: skip
            done = subprocess.run([sys.executable, ROOT / "tools/check_symbols.py", "--library" if library else "--object",
                                   path], capture_output=True, text=True, check=False)  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    def test_one_symbol(self):
        status, output = self.check("namespace { int f(int x) { return x; } } namespace tern { int g(int x) { return f(x); } }")
        self.assertEqual(status, 0, output)

    def test_two_symbols(self):
        status, output = self.check("int f(int x) { return x; } int g(int x) { return f(x); }")
        self.assertEqual(status, 1, output)
        self.assertIn("2 global symbols", output)

    def test_inline_function(self):
        status, output = self.check("inline int f(int x) { return x; } int g(int x) { return f(x); }", "-O0")
        self.assertEqual(status, 1, output)
        self.assertIn("W f(int)", output)

    def test_library(self):
        ours = "namespace tern { struct S { virtual ~S(); }; S::~S() {} } extern \"C\" int tern_f() { return 1; }"
        status, output = self.check(ours, library=True)
        self.assertEqual(status, 0, output)
        status, output = self.check(ours + " namespace fmt { int leak() { return 2; } }", library=True)
        self.assertEqual(status, 1, output)
        self.assertIn("exports T fmt::leak()", output)


class JunitCounts(unittest.TestCase):
    def count(self, body):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
            file.write(f"<testsuite>{body}</testsuite>")
            file.flush()
            return subprocess.run([sys.executable, ROOT / "tools/junit_counts.py", file.name], capture_output=True,
                                  text=True, check=False)  # fmt: skip

    def test_each_kind(self):
        done = self.count('<testcase name="a" status="run"/><testcase name="b" status="fail"><failure message="Failed"/>'
                          "<system-out>the reason</system-out></testcase>"
                          '<testcase name="c" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/></testcase>'
                          '<testcase name="d" status="notrun"><skipped message="Unable to find executable"/></testcase>')
        self.assertEqual(done.stdout, "1 2 1\n", done.stderr)
        self.assertIn("failed: b\nthe reason", done.stderr)
        self.assertIn("failed: d\nUnable to find executable", done.stderr)

    def test_broken_file(self):
        self.assertEqual(self.count("<testcase").returncode, 1)


if __name__ == "__main__":
    unittest.main()
