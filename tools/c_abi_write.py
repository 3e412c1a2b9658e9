"""The generated files of the C ABI: headers, and the C++ behind what follows from the descriptions."""
import re
import textwrap

from c_abi_read import Enum, Function, Handle, Names, Op, Problem, Struct, Text, Use

WIDTH = 120
C_WORDS = {"int64": "int64_t", "int32": "int32_t", "uint64": "uint64_t", "size": "size_t", "bool": "int32_t",
           "bounds": "int32_t", "text": "const char*", "limit": "double"}  # fmt: skip
C_TYPES = {"int", "void", "double", "float", "char", "const", "size_t", "int32_t", "int64_t", "uint64_t"}

# Fields: the type in C where it is not one word, its default, and its value in C++ (`try`: a Result of it).
FIELDS = {
    "shape": ("int32_t rank;\n  int64_t $[8]", "0, {0}", 'try to_shape(where, "@$", given.rank, given.$)'),
    "view": ("tern_tensor_view $", "TERN_TENSOR_VIEW_INIT", 'try to_view(where, "$", given.$)'),
    "bool": ("int32_t $", "0", "given.$ != 0"),
    "bounds": ("int32_t $", "0", "given_bound(given, given.$)"),
    "granularity": ("tern_granularity $", "{TERN_GRANULARITY_TENSOR, 0}", "try to_granularity(where, given.$)"),
    "affine_granularity": ("tern_affine_granularity $", "{TERN_AFFINE_TENSOR, -1, 0}",
                           'try to_affine_granularity(where, "@$", given.$)'),
    "text": ("const char* $", "NULL", "text_or_empty(given.$)"),
    "limit": ("double $", "NAN", "limit(given.$)"),
    "word": ("const char* $", "NULL", ""),
    "const preference*": ("const tern_preference* $", "NULL", "try to_preference(where, given.$)"),
    "const granularity*": ("const tern_granularity* $", "NULL", "try to_granularity(where, *given.$)"),
}  # fmt: skip

# Fields that face_of() fills: the value in C.
FACES = {"view": "from_view({})", "granularity": "from_granularity({})", "device_id": "from_device({})",
         "word": "name({}).data()", "bool": "{} ? 1 : 0"}  # fmt: skip

# Parameters: their declaration in C, which of them must not be NULL, and their value in C++.
PARAMETERS = {
    "view": ("const tern_tensor_view* $", "$", 'try to_view(where, "$", *$)'),
    "text": ("const char* $", "$", "$"),
    "granularity": ("tern_granularity $", "", "try to_granularity(where, $)"),
    "affine_granularity": ("tern_affine_granularity $", "", 'try to_affine_granularity(where, "$", $)'),
    "bytes": ("const void* bytes, size_t byte_count", "",
              'try to_array<const std::uint8_t>(where, "bytes", bytes, "byte_count", byte_count)'),
    "out_bytes": ("void* bytes, size_t byte_count", "",
                  'try to_array<std::uint8_t>(where, "bytes", bytes, "byte_count", byte_count)'),
    "scales": ("const float* scales, size_t scale_count", "",
               'try to_array<const float>(where, "scales", scales, "scale_count", scale_count)'),
    "out_scales": ("float* scales, size_t scale_count", "",
                   'try to_array<float>(where, "scales", scales, "scale_count", scale_count)'),
    "memory": ("void* memory, size_t memory_bytes", "",
               'try to_array<std::byte>(where, "memory", memory, "memory_bytes", memory_bytes)'),
    "buffer": ("char* buffer, size_t buffer_bytes, size_t* length", "length", ""),
    "progress": ("tern_progress_fn $, void* $_user", "", "adapt($, $_user)"),
    "model_progress": ("tern_model_progress_fn progress, void* progress_user", "", ""),
    "writer": ("tern_write_fn writer, void* writer_user", "reinterpret_cast<const void*>(writer)",
               "adapt(writer, writer_user, where)"),
    "lossy": ("int32_t $", "", "$ != 0 ? Lossy::allow : Lossy::refuse"),
    "bool": ("int32_t $", "", "$ != 0"),
}  # fmt: skip


def wrapped(start, parts, end, indent=None):
    """start + parts separated by commas + end, on lines of WIDTH that go on below the start's last bracket."""
    pad = " " * (len(start) if indent is None else indent)
    lines, line = [], start
    for i, part in enumerate(parts):
        last = i == len(parts) - 1
        piece = part + (end if last else ",")
        if line.strip() and len(line) + len(piece) + (not line.endswith(("(", "{", pad))) > WIDTH:
            lines.append(line)
            line = pad + piece
        else:
            line += piece if line.endswith(("(", "{")) or line == pad else " " + piece
    return "\n".join([*lines, line if parts else start + end])


def with_comment(code, comment):
    """The comment after the code, or above it where the line would be too long."""
    if not comment:
        return code
    if len(code.rsplit("\n", 1)[-1]) + 5 + len(comment) <= WIDTH:
        return f"{code}  // {comment}"
    return "\n".join(textwrap.wrap(comment, WIDTH, initial_indent="// ", subsequent_indent="// ")) + "\n" + code


def column(rows):
    """Indented lines of (code, comment) with the comments of neighbours below each other."""
    lines, run = [], []

    def flush():
        width = max((len(code) for code, _ in run), default=0)
        for code, comment in run:
            fits = width + 5 + len(comment) <= WIDTH - 2
            lines.append("  " + with_comment(code.ljust(width) if fits else code, comment).replace("\n", "\n  "))
        run.clear()

    for code, comment in rows:
        if comment:
            run.append((code, comment))
        else:
            flush()
            lines.append("  " + code)
    flush()
    return lines


class Abi:
    """All descriptions together: what the names in them are."""

    def __init__(self, files):
        everything = [item for items in files.values() for item in items]
        everything += [inner for item in everything if isinstance(item, Op) for inner in item.items]
        self.enums = {item.name: item for item in everything if isinstance(item, Enum)}
        self.structs = {item.name: item for item in everything if isinstance(item, Struct)}
        self.handles = {item.name: item for item in everything if isinstance(item, Handle)}
        self.known = {*self.enums, *self.structs, *self.handles}
        self.known |= {name.removeprefix("tern_") for item in everything if isinstance(item, Text)
                       for name in re.findall(r"^typedef .*?\b(tern_\w+_fn)\)", item.line)}  # fmt: skip

    def c_type(self, text):
        """`const layout_spec*` as C writes it."""

        def word(match):
            name = match[0]
            if name in self.known:
                return "tern_" + name
            if name in C_WORDS or name in C_TYPES:
                return C_WORDS.get(name, name)
            raise Problem(f"there is no type {name}")

        return re.sub(r"\w+", word, text)

    # What fields are.

    def declaration(self, field):
        if field.type.endswith(")"):
            return re.sub(r"\b(\w+) (?=\w+[,)])", lambda m: self.c_type(m[1]) + " ", field.type) + ";"
        if field.type in FIELDS:
            return FIELDS[field.type][0].replace("$", field.name) + ";"
        return f"{self.c_type(field.type)} {field.name};"

    def defaults(self, field):
        if field.default and field.type in self.enums:
            return self.enums[field.type].c_name(field.default)
        count = field.name.count(",") + 1
        if field.default:
            return field.default
        if field.type in FIELDS:
            return ", ".join([FIELDS[field.type][1]] * count)
        if field.type in self.enums:
            return next(value.name for value in self.enums[field.type].values if value.cpp)
        if "*" in field.type or field.type.endswith("_fn"):
            return "NULL"
        return "{0}" if "[" in field.name else ", ".join(["0"] * count)

    def to_cpp(self, field, parameter):
        """[(member of the C++ struct, expression, condition)] that read this field."""
        member, text = field.name, field.to
        if text == "skip":
            return []
        if match := re.fullmatch(r"([\w.]+)(?: = (.*))?", text):
            member, text = match[1], match[2] or ""
        condition, _, value = text.removeprefix("if ").rpartition(": ") if text.startswith("if ") else ("", "", text)
        if value:
            return [(member, value, condition)]
        names = field.name.split(", ")
        return [(name if len(names) > 1 else member, *self.value_in_cpp(field, name, parameter)) for name in names]

    def value_in_cpp(self, field, name, parameter):
        """(expression, condition) of a field whose type says what it is in C++."""
        if field.type in self.enums:
            enum = self.enums[field.type]
            value = f'try to_enum(where, "{parameter}->{name}", given.{name}, {last_of(enum)})'
            optional = self.defaults(field) == enum.prefix + "DEFAULT"
            return value, f"given.{name} != {enum.prefix}DEFAULT" if optional else ""
        value = FIELDS[field.type][2] if field.type in FIELDS else "given.$"
        value = value.replace("@", f"{parameter}->").replace("$", name)
        return value, f"given.{name} != nullptr" if field.type == "const granularity*" else ""

    def from_cpp(self, field, variable):
        """The expression that fills this field from C++."""
        name = field.name.partition("[")[0]
        value = field.of or "." + (field.to if re.fullmatch(r"[\w.]+", field.to) else name)
        value = variable + value if value.startswith(".") else value
        if field.type in self.enums:
            return f"static_cast<tern_{field.type}>({value})"
        if field.type in FACES:
            return FACES[field.type].format(value)
        if field.type == "text":
            return value if field.of else value + ".c_str()"
        return f"static_cast<{C_WORDS[field.type]}>({value})" if field.of and field.type in C_WORDS and "[" not in field.name else value

    # What parameters are: a list of [C declaration, names to check for NULL, name, C++ value].

    def parameters(self, function):
        made = []
        for text in filter(None, (part.strip() for part in function.parameters.split(","))):
            optional = text.endswith("?")
            text = text.rstrip("?")
            kind, _, name = text.rpartition(" ")
            if not kind:
                kind = name
                if name in self.handles:
                    kind = f"const {name}*"
            base = kind.replace("const ", "").rstrip("*")
            if kind in PARAMETERS:
                declaration, check, value = (entry.replace("$", name) for entry in PARAMETERS[kind])
            else:
                declaration, check, value = f"{self.c_type(kind)} {name}", name if "*" in kind else "", name
                if base in self.handles and kind.endswith("*") and not kind.endswith("**"):
                    value = f"{name}->{self.handles[base].member}"
                elif kind in self.enums:
                    value = f'try to_enum(where, "{name}", {name}, {last_of(self.enums[kind])})'
                elif kind.startswith("const ") and base in self.structs and self.structs[base].to:
                    value = f"try to_cpp(where, {name})"
            made.append((declaration, "" if optional else check, name, value))
        return made


def last_of(enum):
    return "kLast" + enum.cpp.replace("::", "")


# Headers.


def enum_in_header(enum):
    rows = [(f"{value.name} = {value.number}" + "," * (value is not enum.values[-1]), value.comment) for value in enum.values]
    return [f"typedef enum tern_{enum.name} TERN_ENUM_TYPE {{", *column(rows), f"}} tern_{enum.name};"]


def init_macro(abi, struct):
    name = f"tern_{struct.name}"
    values = [] if struct.plain else [f"sizeof({name})"]
    values += [part for field in struct.fields if field.name for part in re.split(r", (?![^{]*\})", abi.defaults(field))]
    lines = wrapped("  {", values, "}", 3).splitlines()
    return [f"#define {name.upper()}_INIT \\", *(line + " \\" for line in lines[:-1]), lines[-1]]


def struct_in_header(abi, struct, declared):
    rows = [] if struct.plain else [("size_t struct_size;", struct.comment)]
    for field in struct.fields:
        if not field.name:
            rows.append((field.comment, ""))
            continue
        *before, last = abi.declaration(field).split("\n  ")
        rows += [*((line, "") for line in before), (last, field.comment)]
    name = f"tern_{struct.name}"
    lines = [f"{'' if declared else 'typedef '}struct {name} {{", *column(rows), f"}}{'' if declared else ' ' + name};"]
    return lines + (init_macro(abi, struct) if struct.init else [])


def signature(abi, function):
    parts = [part for entry in abi.parameters(function) for part in entry[0].split(", ")]
    returns = function.returns or "tern_status"
    returns = returns if returns.startswith("tern_") else abi.c_type(returns)
    return f"{returns} tern_{function.name}(", parts or ["void"]


def names_in_header(names):
    for parameter, enum in names.of:
        if names.kind == "name":
            yield f"TERN_API const char* tern_{enum}_name(tern_{enum} {parameter});"
        else:
            yield f"TERN_API tern_status tern_{enum}_parse(const char* text, tern_{enum}* out);"


def header_body(abi, items, ops):
    for item in items:
        if isinstance(item, Text):
            yield item.line
        elif isinstance(item, Enum):
            yield from enum_in_header(item)
        elif isinstance(item, Struct):
            yield from struct_in_header(abi, item, item.name in abi.handles)
        elif isinstance(item, Names):
            yield from names_in_header(item)
        elif isinstance(item, Handle):
            yield with_comment(f"typedef struct tern_{item.name} tern_{item.name};", item.comment)
        elif isinstance(item, Function):
            start, parts = signature(abi, item)
            yield with_comment(wrapped(f"TERN_API {start}", parts, ");"), item.comment)
        elif isinstance(item, (Op, Use)):
            op = item if isinstance(item, Op) else ops[item.op]
            yield from header_body(abi, op.items, ops)
            yield f"\nTERN_DECLARE_PLAN({op.name});"


def header(abi, first_line, items, ops, own_headers):
    lines = "\n".join(header_body(abi, items, ops)).split("\n")
    head, before, after, body = [], [], [], []
    for line in lines:
        if not before and not body and line.startswith("//"):
            head.append(line)
        elif line.startswith("#include"):
            (after if any(body) else before).append(line)
        elif line or body:
            body.append(line)
    after += [f'#include "tern/{name}"' for name in own_headers]
    text = [first_line, "// clang-format off", *head, "#pragma once", "", *before, "", "#ifdef __cplusplus", 'extern "C" {',
            "#endif", "", *"\n".join(body).strip("\n").split("\n"), "", "#ifdef __cplusplus", '}  // extern "C"', "#endif",
            *([""] + after if after else [])]  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", "\n".join(text)) + "\n"


# C++.


def cpp_declarations(abi, first_line):
    """generated/c_structs.h: what hand-written files need of the descriptions. Included by c_abi.h."""
    lines = [first_line, "// clang-format off", "#pragma once", "", "namespace tern::c {", ""]
    for enum in abi.enums.values():
        lines.append(f"inline constexpr {enum.cpp} {last_of(enum)} = {enum.cpp}::{enum.values[-1].cpp};")
    lines.append("")
    for struct in abi.structs.values():
        if struct.init and not struct.plain:
            fields = [field for field in struct.fields[: struct.first] if field.name]
            last = fields[-1].name.split(", ")[-1].partition("[")[0]
            lines.append(f"TERN_C_STRUCT(tern_{struct.name}, {last}, TERN_{struct.name.upper()}_INIT);")
    lines.append("")
    for struct in abi.structs.values():
        if struct.to:
            lines.append(f"{to_cpp_signature(struct)};")
        if struct.made_of:
            lines.append(f"tern_{struct.name} face_of({struct.made_of});")
    return "\n".join([*lines, "", "}  // namespace tern::c"]) + "\n"


def to_cpp_signature(struct):
    return f"Result<{struct.to[0]}> to_cpp(const char* where, const tern_{struct.name}* {struct.to[1]})"


def assigned(name, value):
    """A local variable with the value."""
    return f"TERN_ASSIGN({name}, {value.removeprefix('try ')})" if value.startswith("try ") else f"const auto {name} = {value}"


def to_cpp_definition(abi, struct):
    cpp, parameter = struct.to
    lines = [f"{to_cpp_signature(struct)} {{", f'  TERN_ASSIGN(given, read_struct(where, "{parameter}", {parameter}));',
             f"  {cpp} cpp{{}};"]  # fmt: skip
    for field in struct.fields:
        for member, value, condition in abi.to_cpp(field, parameter) if field.name else ():
            if not value.startswith("try "):
                lines.append(f"  cpp.{member} = {value};")
                continue
            local = re.sub(r"\W", "_", member)
            both = [f"{assigned(local, value)};", f"cpp.{member} = std::move({local});"]
            if condition:
                both = [f"if ({condition}) {{", *("  " + line for line in both), "}"]
            lines += ["  " + line for line in both]
    return [*lines, "  return cpp;", "}"]


def face_definition(abi, struct):
    variable = struct.made_of.split(",")[0].split()[-1].lstrip("&*")
    values = [f".struct_size = sizeof(tern_{struct.name})"]
    values += [f".{field.name.partition('[')[0]} = {abi.from_cpp(field, variable)}" for field in struct.fields if field.name]  # fmt: skip
    return [f"tern_{struct.name} face_of({struct.made_of}) {{", "  return {" + ",\n          ".join(values) + "};", "}"]


def function_definition(abi, function):
    start, parts = signature(abi, function)
    opening = wrapped(start, parts, ") {")
    parameters = abi.parameters(function)
    if function.expression == "delete":
        return [f"{opening} delete {parameters[0][2]}; }}"]
    lines, expression = [], function.expression
    out = parameters[-1] if re.search(r"^(?!const tern_tensor_view).*\* (out|index)$", parameters[-1][0]) else None
    is_pointer = out is not None and out[0].endswith("** out") and not out[0].startswith("void")
    checks = [entry[1] for entry in parameters if entry[1] and not (is_pointer and entry is out)]
    pairs = ", ".join(f'{{"{next(e[2] for e in parameters if e[1] == name)}", {name}}}' if "(" in name else f'{{"{name}", {name}}}'
                      for name in checks)  # fmt: skip
    if is_pointer:
        lines.append(f"TERN_RETURN_IF_ERROR(cleared(where, out, {{{pairs}}}));")
    elif checks:
        lines.append(f"TERN_RETURN_IF_ERROR(not_null(where, {{{pairs}}}));")
    if out is not None and out[0].split("*")[0] in {f"tern_{name}" for name, s in abi.structs.items() if s.init and not s.plain}:
        lines.append(f'TERN_RETURN_IF_ERROR(check_struct_size(where, "{out[2]}", {out[2]}));')
    # The expression uses the names of the parameters; they stand for their values in C++.
    for declaration, _, name, value in parameters:
        if value == name or (out is not None and name == out[2]):
            continue
        pattern = rf'(?<![\w.>"&:*]){name}(?!\w|->|\(|::|")'
        if value.startswith("try "):
            if re.search(pattern, expression):
                lines.append(f"{assigned('cpp_' + name, value)};")
                value = "cpp_" + name
        expression = re.sub(pattern, lambda _, value=value: value, expression)
    watched = expression.startswith("watch ")
    if watched:
        lines.append("const ParallelForWatch watch;")
        expression = expression.removeprefix("watch ")
    if expression.startswith("at "):
        places = expression.removeprefix("at ")
        lines.append(f"TERN_RETURN_IF_ERROR(check_index(where, index, {places}.size()));")
        expression = f"face({places}[index])"
    if parameters[-1][2] == "buffer":
        lines.append(f"return write_text(where, {expression}, buffer, buffer_bytes, length);")
    elif watched and out is None:
        lines += [f"TERN_RETURN_IF_ERROR({expression});", "return watch.status(where);"]
    elif out is None:
        lines.append(f"return {expression};")
    elif watched:
        lines += [f"TERN_ASSIGN(made, {expression});", "TERN_RETURN_IF_ERROR(watch.status(where));",
                  f"return put({out[2]}, std::move(made));"]  # fmt: skip
    else:
        lines.append(f"return put({out[2]}, {expression});")
    entry = f'  return guarded("tern_{function.name}", [&](const char* where) -> Status {{'
    if not any(re.search(r"\bwhere\b", line) for line in lines):
        entry = entry.replace(" where)", ")")
    return [opening, entry, *("    " + line for line in lines), "  });", "}"]


def names_definition(abi, names):
    for parameter, name in names.of:
        enum = abi.enums[name]
        if names.kind == "name":
            yield f"const char* tern_{name}_name(tern_{name} {parameter}) {{ return word({parameter}, {last_of(enum)}); }}"
        else:
            yield f"tern_status tern_{name}_parse(const char* text, tern_{name}* out) {{"
            yield f'  return parse("tern_{name}_parse", text, out, parse_{name});'
            yield "}"


def same_values(enum):
    for value in enum.values:
        if value.cpp:
            yield f"static_assert(static_cast<int>({value.name}) == static_cast<int>(tern::{enum.cpp}::{value.cpp}));"


def definitions(abi, items, ops):
    """The C++ of a header: conversions inside tern::c, then entry points."""
    inside, outside, plans = [], [], []
    for item in items:
        if isinstance(item, Enum):
            inside += same_values(item)
        elif isinstance(item, Struct):
            inside += to_cpp_definition(abi, item) if item.to else []
            inside += face_definition(abi, item) if item.made_of else []
        elif isinstance(item, Names):
            outside += names_definition(abi, item)
        elif isinstance(item, Function) and item.expression:
            outside += function_definition(abi, item)
        elif isinstance(item, (Op, Use)):
            op = item if isinstance(item, Op) else ops[item.op]
            parts = definitions(abi, op.items, ops)
            inside, outside, plans = inside + parts[0], outside + parts[1], plans + parts[2]
            plans.append(f"TERN_DEFINE_PLAN({op.name}, {op.cpp});")
    return inside, outside, plans


def source(abi, first_line, items, ops):
    inside, outside, plans = definitions(abi, items, ops)
    using = ["using namespace tern;  // NOLINT(google-build-using-namespace): entry points are the global C names",
             "using namespace tern::c;  // NOLINT(google-build-using-namespace)"]  # fmt: skip
    return "\n".join([first_line, "// clang-format off", '#include "api/c_plan.h"' if plans else '#include "api/c_handles.h"', "",
                      "namespace tern::c {", *inside, "}  // namespace tern::c", "", *using, "", *outside, *plans]) + "\n"  # fmt: skip
