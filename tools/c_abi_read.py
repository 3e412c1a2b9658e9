"""The descriptions of the C ABI, read: src/api/abi/tern_c*.abi, one for each header, and src/ops/<op>/c.abi.

A description is the header without what can be derived, names without their tern_. What begins with no keyword (comments,
blank lines, typedefs, macros) goes into the header as it is; includes below the first declaration come after the last.

  enum linear_math LinearMath tern/linear.h   the values of a C++ enum; `prefix GRID`: their names begin with TERN_GRID_
    w2a8      // comment                      the comment, in place of the one in C++; none: no comment
    automatic as auto | default = -1          another name; a value that only C has
  names dtype math:linear_math | parses dtype tern_dtype_name(dtype), tern_linear_math_name(math) | tern_dtype_parse()
  handle model model close                    an opaque type, which C++ calls get as its member `model`, and what frees it
  struct x [plain] [init] [-> Cpp name] [<- Cpp name, more parameters]
                                              init: has TERN_X_INIT and may grow; plain: without struct_size;
                                              ->: to_cpp() makes a Cpp of it; <-: face_of() makes it of a Cpp
    format format = s8  // comment            a field with its default; without a comment several names may follow a type
      -> member = try f(given.format) <- .get()   its value in C++ and from C++, where they do not follow from its type
    later                                     fields below were not in the first version of the struct
  op affine_quantize AffineQuantize           then `problem` and `args`, structs of the op; plan.abi has its plan's functions
  use affine_quantize                         the op's description goes here; an op that no header uses gets its own
  fn name(context, view x, size* out) = call  an entry point. The call uses the parameters' values in C++. Before it,
                                              `watch` checks the caller's parallel-for after it (`watch first`: even if it
                                              failed), `at` takes the element at index; statements may stand before it,
                                              `within x;` checks index. Without a call it is written by hand
"""
import re
from collections import namedtuple

Text = namedtuple("Text", "line")
Value = namedtuple("Value", "name number cpp comment")  # cpp is None where only C has it
Enum = namedtuple("Enum", "name cpp prefix values")
Field = namedtuple("Field", "type name default to of comment")  # to, of: the expressions behind -> and <-
Struct = namedtuple("Struct", "name fields comment first flags to made_of")  # first: the fields of the first version
Handle = namedtuple("Handle", "name member comment")
Function = namedtuple("Function", "returns name parameters expression comment")
Op = namedtuple("Op", "name cpp items plan")  # plan: what plan.abi yields for it
Use = namedtuple("Use", "op")
KEYWORDS = ("enum", "names", "parses", "handle", "struct", "op", "problem", "args", "use", "fn")


class Problem(Exception):
    """A description that makes no sense, with its file and line."""


def split_comment(line):
    code, _, comment = line.partition("//")
    return code.rstrip(), comment.strip()


def arrows(code):
    """(what is before them, behind `->`, behind `<-`)"""
    code, _, of = f" {code} ".partition(" <- ")
    code, _, to = code.partition(" -> ")
    return code.strip(), to.strip(), of.strip()


def last_of(cpp):
    """The constant that c_structs.h has for the last value of a C++ enum."""
    return "kLast" + cpp.replace("::", "")


def cpp_enum(text, name):
    """(enumerator, comment) of an enum class, which may be nested: Granularity::Kind."""
    *outer, inner = name.split("::")
    for scope in outer:
        text = text[re.search(rf"\bstruct (?:TERN_API )?{scope} \{{", text).end() :]
    body = re.search(rf"\benum class {inner}\b[^{{;]*\{{(.*?)\}}", text, re.DOTALL)
    if body is None:
        raise Problem(f"there is no enum {name}")
    for line in body[1].splitlines():
        code, comment = split_comment(line)
        words = [word.strip() for word in code.split(",") if word.strip()]
        for word in words:
            if not re.fullmatch(r"\w+", word):
                raise Problem(f"{name}: values are counted, so '{word}' is not supported")
            yield word, comment if len(words) == 1 else ""


class Reader:
    def __init__(self, root):
        self.root = root
        self.enums = {}
        self.current = None  # the op that c.abi is of

    def read(self, path, name="$", cpp="%"):
        """The items of a description; plan.abi has $ and % where each op has its names."""
        text = path.read_text(encoding="utf-8").replace("$", name).replace("%", cpp)
        blocks, items = [], []  # a block is an unindented line with the indented ones below it
        for number, line in enumerate(text.splitlines(), 1):
            if line.startswith("  ") and blocks and blocks[-1][1].split(" ", 1)[0] in KEYWORDS:
                blocks[-1][2].append(line.strip())
            else:
                blocks.append((number, line, []))
        for number, line, below in blocks:
            where = f"{path.relative_to(self.root).as_posix()}:{number}"
            keyword = line.split(" ", 1)[0]
            try:
                items += getattr(self, keyword)(line, below) if keyword in KEYWORDS else [Text(line)]
            except Problem as problem:
                raise Problem(f"{where}: {problem}") from None
            except (ValueError, IndexError, TypeError, AttributeError, KeyError):
                raise Problem(f"{where}: cannot read '{line}'") from None
        return items

    def enum(self, line, below):
        _, name, cpp, header, *prefix = line.split()
        prefix = f"TERN_{prefix[1] if prefix else name.upper()}_".replace("TERN_-_", "TERN_")
        notes, names, values = {}, {}, []
        for code, comment in map(split_comment, below):
            if "=" in code:
                values.append(Value(prefix + code.split()[0].upper(), int(code.split()[2]), None, comment))
                continue
            if " as " in code:
                code, names[code.split()[0]] = code.split(" as ")
            notes.update({word: comment for word in code.split()})
        text = (self.root / "include" / header).read_text(encoding="utf-8")
        for number, (value, comment) in enumerate(cpp_enum(text, cpp)):
            values.append(Value(prefix + names.get(value, value).upper(), number, value, notes.pop(value, comment)))
        if notes:
            raise Problem(f"{cpp} has no {', '.join(sorted(notes))}")
        self.enums[name] = Enum(name, cpp, prefix, values)
        return [self.enums[name]]

    def names(self, line, _):
        for word in line.split()[1:]:
            parameter, _, name = word.rpartition(":")
            call = f"word({parameter or name}, {last_of(self.enums[name].cpp)})"
            yield Function("const char*", f"{name}_name", f"{name} {parameter or name}", call, "")

    def parses(self, line, _):
        for name in line.split()[1:]:
            yield Function("", f"{name}_parse", f"text text, {name}* out", f"parse_{name}(text)", "")

    def handle(self, line, _):
        code, comment = split_comment(line)
        _, name, member, *end = [*code.split(), ""] if len(code.split()) < 3 else code.split()
        yield Handle(name, member, comment)
        if end:
            yield Function("void", f"{name}_{end[0]}", f"{name}* {name.split('_')[-1]}", "delete", "")

    def struct(self, line, below, name="", to=None):
        code, comment = split_comment(line)
        flags, arrow, of = arrows(code)
        fields, first = [], 0
        for line in below:
            code, note = split_comment(line)
            code, into, out = arrows(code)
            if line == "later":
                first = len(fields)
            elif not code and note:
                fields.append(Field("", "", "", "", "", line))
            elif not code:
                fields[-1] = fields[-1]._replace(to=into, of=out)
            else:
                code, _, default = code.partition(" = ")
                if pointer := re.search(r"\(\*(\w+)\)", code):
                    fields.append(Field(code, pointer[1], "", "", "", note))
                    continue
                kind, names = re.fullmatch(r"(.+?) (\w+(?:\[\d+\])?(?:, \w+)*)", code).groups()
                for one in [names] if note else names.split(", "):
                    fields.append(Field(kind, one, default, into, out, note))
        made_of = re.sub(r"^(\w+) ", r"const \1& ", of)
        to = tuple(arrow.split()) if to is None else to
        return [Struct(name or flags.split()[1], fields, comment, first or len(fields), flags.split(), to, made_of)]

    def op_struct(self, line, below):
        kind, *by_hand = split_comment(line)[0].split()
        to = ("" if by_hand else f"{self.current.cpp}::{kind.capitalize()}", kind)
        return self.struct(line.replace(kind, f"{kind} {kind} init", 1), below, f"{self.current.name}_{kind}", to)

    problem = args = op_struct

    def op(self, line, _):
        self.current = Op(*line.split()[1:], [], [])
        return []

    def use(self, line, _):
        return [Use(line.split()[1])]

    def fn(self, line, below):
        pieces = [split_comment(piece) for piece in [line, *below]]
        code, comment = " ".join(piece for piece, _ in pieces), " ".join(note for _, note in pieces).strip()
        returns, name, parameters, call = re.fullmatch(r"fn (.*?)(\w+)\(([^()]*)\)(?: = (.*))?", code).groups()
        return [Function(returns.strip(), name, parameters, call or "", comment)]
