// Python as an independent reader and writer of files for tests: from the tree's .venv, or the machine's.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/support/test_files.h"

namespace tern {

inline const std::string& python_path() {
  static const std::string path = [] {
    const std::filesystem::path venv = std::filesystem::path(TERN_TESTS_DIR) / "../.venv/bin/python";
    return std::filesystem::exists(venv) ? venv.string() : std::string("python3");
  }();
  return path;
}

// Why a test cannot run here, or ""; `modules` are written as after `import`.
inline std::string python_lacks(const std::string& modules) {
  const std::string command = "'" + python_path() + "' -c 'import " + modules + "' >/dev/null 2>&1";
  if (std::system(command.c_str()) == 0) return "";
  return python_path() + " has no " + modules + " (scripts/setup tests makes a .venv with it)";
}

// Runs a program in `folder`; false if it fails, for instance by one of its assertions.
inline bool run_python(const TempFolder& folder, const std::string& program) {
  write_text(folder / "program.py", program);
  return std::system(("cd '" + folder.path().string() + "' && '" + python_path() + "' program.py").c_str()) == 0;
}

}  // namespace tern
