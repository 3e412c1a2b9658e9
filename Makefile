# Short names for the scripts; they are plain shell and need no make.
.PHONY: demo test test-deep bench peers format clean

demo test test-deep:
	scripts/$@

bench peers:
	scripts/$@

format:
	find include src apps tests \( -name '*.cpp' -o -name '*.h' -o -name '*.c' \) -exec clang-format -i {} +

clean:
	rm -rf build
