// For builds that count coverage: stands in for libgcov in the command, whose counts nobody reads. Adding them to files
// at the end of each process takes time, and a command that is killed meanwhile would break the counts of the tests.
extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the names that compiled code calls
void __gcov_init(void*) {}
void __gcov_exit() {}
void __gcov_merge_add(long*, unsigned) {}
// NOLINTEND(bugprone-reserved-identifier)
}
