"""The descriptions of the C ABI, read: src/api/abi/tern_c*.abi, one for each header, and src/ops/<op>/c.abi.

A description is the header without what can be derived. Types and names are written without their tern_; what is no
keyword below (comments, blank lines, typedefs, macros) goes into the header as it is. Includes at the top come before the
declarations, later ones after them. docs/decisions/0012-c-abi-from-a-description.md shows an example of each.

  enum linear_math LinearMath tern/linear.h          the values of the C++ enum; prefix X: TERN_X_... instead of TERN_LINEAR_MATH_...
    w2a8      // comment                             the comment, in place of the one in C++; none: no comment
    automatic as AUTO | default = -1                 another name; a value that only C has
  names dtype math:linear_math | parses dtype        tern_dtype_name(), tern_dtype_parse()
  handle tensor tensor                               the opaque tern_tensor; C++ calls get its member `tensor`
  struct x [plain] [init] [-> Cpp name] [<- Cpp name, ...]
                                                     init: TERN_X_INIT, and the struct grows; ->: to_cpp() makes a Cpp of it,
                                                     <-: face_of() makes it of a Cpp; plain: without struct_size
    format format = s8  // comment                   a field with its default
      -> member = try f(given.format) <- .format()   where its C++ value does not follow from its type; here or on its line
    later                                            fields below were not in the first version of the struct
  op affine_quantize AffineQuantize                  then `problem` and `args`, which are structs of the op; declares its plan
  use affine_quantize                                the op's description goes here; without it the op has its own header
  fn name(context, view x, size* out) = expression   an entry point that returns a tern_status. Without an expression its
                                                     body is written by hand
"""
import dataclasses
import re


class Problem(Exception):
    """A description that makes no sense, with its file and line."""


@dataclasses.dataclass
class Text:
    line: str


@dataclasses.dataclass
class Value:
    name: str  # in C
    number: int
    cpp: str | None
    comment: str


@dataclasses.dataclass
class Enum:
    name: str
    cpp: str
    prefix: str
    values: list

    def c_name(self, cpp):
        """TERN_FORMAT_S8 for s8."""
        for value in self.values:
            if cpp in (value.cpp, value.name.removeprefix(self.prefix).lower()):
                return value.name
        return cpp


@dataclasses.dataclass
class Field:
    type: str
    name: str
    default: str
    to: str  # `->`: its member in C++, or its value there, or both
    of: str  # `<-`: its value from C++
    comment: str


@dataclasses.dataclass
class Struct:
    name: str
    fields: list
    comment: str = ""  # of struct_size
    first: int = 0  # how many fields the first version has
    plain: bool = False
    init: bool = False
    to: tuple = ()  # (C++ type, name of the parameter)
    made_of: str = ""  # the parameters of face_of()


@dataclasses.dataclass
class Names:
    kind: str  # "name" or "parse"
    of: list  # (parameter, enum)


@dataclasses.dataclass
class Handle:
    name: str
    member: str
    comment: str


@dataclasses.dataclass
class Function:
    returns: str
    name: str
    parameters: str
    expression: str
    comment: str


@dataclasses.dataclass
class Op:
    name: str
    cpp: str
    items: list


@dataclasses.dataclass
class Use:
    op: str


def split_comment(line):
    code, _, comment = line.partition("//")
    return code.rstrip(), comment.strip()


def arrows(code):
    """(what is before them, behind `->`, behind `<-`)"""
    code, _, of = (" " + code).partition(" <- ")
    code, _, to = code.partition(" -> ")
    return code.strip(), to.strip(), of.strip()


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
        self.where = ""

    def read(self, path):
        """The items of a description."""
        blocks = []  # an unindented line with the indented ones below it
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.startswith("  ") and blocks and self.keyword(blocks[-1][1]):
                blocks[-1][2].append(line.strip())
            else:
                blocks.append((number, line, []))
        items, op = [], None
        for number, line, below in blocks:
            self.where = f"{path.relative_to(self.root)}:{number}"
            try:
                item = self.item(line, below, op)
            except Problem as problem:
                raise Problem(f"{self.where}: {problem}") from None
            except (ValueError, IndexError, TypeError, AttributeError):
                raise Problem(f"{self.where}: cannot read '{line}'") from None
            if isinstance(item, Op):
                op = item
            items.append(item)
        if op is not None:
            op.items = [item for item in items if item is not op]
            return [op]
        return items

    def keyword(self, line):
        word = line.split(" ", 1)[0]
        return word if word in ("enum", "names", "parses", "handle", "struct", "op", "problem", "args", "use", "fn") else ""

    def item(self, line, below, op):
        keyword = self.keyword(line)
        if not keyword:
            return Text(line)
        code, comment = split_comment(line)
        words = code.split()
        if keyword == "enum":
            return self.enum(words, below)
        if keyword in ("names", "parses"):
            pairs = [word.partition(":") for word in words[1:] + " ".join(below).split()]
            return Names(keyword[:-1], [(first, last or first) for first, _, last in pairs])
        if keyword == "handle":
            return Handle(words[1], words[2] if len(words) > 2 else "", comment)
        if keyword == "struct":
            return self.struct(words[1], code, comment, below)
        if keyword == "op":
            return Op(words[1], words[2], [])
        if keyword in ("problem", "args"):
            by_hand = words[1:] == ["by", "hand"]
            made = self.struct(f"{op.name}_{keyword}", "init", comment, below)
            made.to = (f"{op.cpp}::{keyword.capitalize()}", keyword) if not by_hand else ()
            return made
        if keyword == "use":
            return Use(words[1])
        return self.function(line, below)

    def enum(self, words, below):
        name, cpp, header = words[1:4]
        prefix = "TERN_" + (words[5] if words[4:5] == ["prefix"] else name.upper()) + "_"
        prefix = prefix.replace("TERN_-_", "TERN_")
        notes, names, extra = {}, {}, []
        for line in below:
            code, comment = split_comment(line)
            if "=" in code:
                only, number = code.split("=")
                extra.append(Value(prefix + only.strip().upper(), int(number), None, comment))
                continue
            if " as " in code:
                code, names[code.split()[0]] = code.split(" as ")
            for word in code.split():
                notes[word.strip()] = comment
        text = (self.root / "include" / header).read_text(encoding="utf-8")
        values = [
            Value(prefix + names.get(value, value).upper(), number, value, notes.get(value, comment))
            for number, (value, comment) in enumerate(cpp_enum(text, cpp))
        ]
        unknown = set(notes) - {value.cpp for value in values}
        if unknown:
            raise Problem(f"{cpp} has no {', '.join(sorted(unknown))}")
        return Enum(name, cpp, prefix, extra + values)

    def struct(self, name, code, comment, below):
        made = Struct(name, [], comment)
        flags, to, of = arrows(code)
        made.to = tuple(to.split())
        made.made_of = re.sub(r"^(\w+) ", r"const \1& ", of)
        made.plain, made.init = "plain" in flags.split(), "init" in flags.split()
        for line in below:
            if line == "later":
                made.first = len(made.fields)
            elif line.startswith("//"):
                made.fields.append(Field("", "", "", "", "", line))
            elif line.startswith(("-> ", "<- ")):
                last = made.fields[-1]
                last.to, last.of = arrows(line)[1:]
            else:
                made.fields.append(self.field(line))
        made.first = made.first or len(made.fields)
        return made

    def field(self, line):
        code, comment = split_comment(line)
        code, to, of = arrows(code)
        code, _, default = code.partition(" = ")
        if code.endswith(")"):  # a pointer to a function
            return Field(code, re.search(r"\(\*(\w+)\)", code)[1], "", "", "", comment)
        kind, name = re.fullmatch(r"(.+?) (\w+(?:\[\d+\])?(?:, \w+)*)", code.strip()).groups()
        return Field(kind, name, default.strip(), to, of, comment)

    def function(self, line, below):
        code, comment = split_comment(line)
        for more in below:
            more, note = split_comment(more)
            code, comment = f"{code} {more}", comment or note
        returns, name, parameters, expression = re.fullmatch(
            r"fn (.*?)(\w+)\(([^()]*)\)(?: = (.*))?", code.strip()
        ).groups()
        return Function(returns.strip(), name, parameters, expression or "", comment)
