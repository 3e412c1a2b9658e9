"""The generated files of the C ABI: headers, and the C++ behind what follows from the descriptions."""
import itertools
import re
import textwrap

from c_abi_read import Enum, Function, Handle, Op, Problem, Struct, Text, last_of

WIDTH = 120
C_WORDS = {"int64": "int64_t", "int32": "int32_t", "uint64": "uint64_t", "size": "size_t", "bool": "int32_t",
           "bounds": "int32_t", "text": "const char*", "word": "const char*", "limit": "double"}  # fmt: skip
C_TYPES = {"int", "void", "double", "float", "char", "const"}

# Fields: the type in C, the default, and the value in C++ (`try`: a Result of it); @ is the parameter, $ the field.
FIELDS = {
    "shape": ("int32_t rank;\n  int64_t $[8]", "0, {0}", 'try to_shape(where, "@->$", given.rank, given.$)'),
    "view": ("tern_tensor_view $", "TERN_TENSOR_VIEW_INIT", 'try to_view(where, "$", given.$)'),
    "bool": ("int32_t $", "0", "given.$ != 0"),
    "bounds": ("int32_t $", "0", "given_bound(given, given.$)"),
    "granularity": ("tern_granularity $", "{TERN_GRANULARITY_TENSOR, 0}", "try to_granularity(where, given.$)"),
    "affine_granularity": ("tern_affine_granularity $", "{TERN_AFFINE_TENSOR, -1, 0}",
                           'try to_affine_granularity(where, "@->$", given.$)'),
    "text": ("const char* $", "NULL", "text_or_empty(given.$)"),
    "limit": ("double $", "NAN", "limit(given.$)"),
    "const preference*": ("const tern_preference* $", "NULL", "try to_preference(where, given.$)"),
    "const granularity*": ("const tern_granularity* $", "NULL", "if given.$ != nullptr: try to_granularity(where, *given.$)"),
}  # fmt: skip

# Fields that are not plain values: what they are filled with from C++.
FACES = {"view": "face_of({})", "granularity": "face_of({})", "device_id": "face_of({})", "word": "name({}).data()",
         "bool": "{} ? 1 : 0"}  # fmt: skip

# Parameters: their declaration in C, which of them must not be NULL, and their value in C++.
PARAMETERS = {
    "view": ("const tern_tensor_view* $", "$", 'try to_view(where, "$", *$)'),
    "text": ("const char* $", "$", "$"),
    "granularity": ("tern_granularity $", "", "try to_granularity(where, $)"),
    "affine_granularity": ("tern_affine_granularity $", "", 'try to_affine_granularity(where, "$", $)'),
    "shape": ("int32_t rank, const int64_t* $", "", 'try to_shape(where, "$", rank, $)'),
    "sizes": ("int32_t rank, const int64_t* $", "", 'try to_sizes(where, "$", rank, $)'),
    "tensor_shape": ("int32_t rank, const int64_t* $", "", 'try to_shape(where, "the tensor", rank, $)'),
    "bytes": ("const void* bytes, size_t byte_count", "", "try to_array<const std::uint8_t>(%)"),
    "out_bytes": ("void* bytes, size_t byte_count", "", "try to_array<std::uint8_t>(%)"),
    "scales": ("const float* scales, size_t scale_count", "", "try to_array<const float>(%)"),
    "out_scales": ("float* scales, size_t scale_count", "", "try to_array<float>(%)"),
    "preference": ("const tern_preference* $", "", "try to_preference(where, $)"),
    "workspace": ("void* workspace, size_t workspace_bytes", "", "try to_array<std::byte>(%)"),
    "memory": ("void* memory, size_t memory_bytes", "", "try to_array<std::byte>(%)"),
    "buffer": ("char* buffer, size_t buffer_bytes, size_t* length", "length", "buffer"),
    "progress": ("tern_progress_fn $, void* $_user", "", "adapt($, $_user)"),
    "model_progress": ("tern_model_progress_fn $, void* $_user", "", "adapt(watch, $, $_user)"),
    "writer": ("tern_write_fn writer, void* writer_user", "reinterpret_cast<const void*>(writer)",
               "adapt(writer, writer_user, where)"),
}  # fmt: skip


def wrapped(start, parts, end):
    """start + parts separated by commas + end, on lines of WIDTH, the later ones indented as far as the first part."""
    text = (start + ",\n".join(parts) + end).replace(" ", "\0").replace("\n", " ")
    lines = textwrap.wrap(text, WIDTH, subsequent_indent="\0" * len(start), break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def with_comment(code, comment):
    return f"{code}  // {comment}" if comment else code


def column(rows):
    """Indented lines of (code, comment), with the comments of neighbours below each other."""
    for has_comment, run in itertools.groupby(rows, key=lambda row: bool(row[1])):
        run = list(run)
        width = max(len(code) for code, _ in run) if has_comment else 0
        for code, comment in run:
            yield "  " + with_comment(code.ljust(width) if width + len(comment) + 7 <= WIDTH else code, comment)


def grows(struct):
    return "init" in struct.flags and "plain" not in struct.flags


class Abi:
    """All descriptions together: what the names in them are."""

    def __init__(self, items):
        items = [*items, *(inner for item in items if isinstance(item, Op) for inner in [*item.items, *item.plan])]
        self.enums, self.structs, self.handles = (
            {item.name: item for item in items if isinstance(item, kind)} for kind in (Enum, Struct, Handle)
        )
        self.known = {*self.enums, *self.structs, *self.handles}
        texts = [item.line for item in items if isinstance(item, Text)]
        self.known |= set(re.findall(r"^typedef .*?\btern_(\w+_fn)\)", "\n".join(texts), re.MULTILINE))

    def c_type(self, text):
        """`const layout_spec*` as C writes it."""

        def word(match):
            if match[0] in self.known:
                return "tern_" + match[0]
            if match[0] not in C_WORDS and match[0] not in C_TYPES:
                raise Problem(f"there is no type {match[0]}")
            return C_WORDS.get(match[0], match[0])

        return re.sub(r"\w+", word, text)

    # Fields.

    def declaration(self, field):
        if field.type.endswith(")"):  # a pointer to a function
            return re.sub(r"\b(\w+) (?=\w+[,)])", lambda match: self.c_type(match[1]) + " ", field.type) + ";"
        if field.type in FIELDS:
            return FIELDS[field.type][0].replace("$", field.name) + ";"
        return f"{self.c_type(field.type)} {field.name};"

    def defaults(self, field):
        """The initial values: one, or as many as the field has parts."""
        if field.type in self.enums:
            values = self.enums[field.type].values
            wanted = f"{self.enums[field.type].prefix}{field.default}".upper()
            first = next(value.name for value in values if value.cpp)
            return [next((value.name for value in values if value.name == wanted), field.default) or first]
        if field.default or field.type in FIELDS:
            text = field.default or FIELDS[field.type][1]
            return re.split(r", (?![^{]*\})", text) * (field.name.count(",") + 1)
        return ["NULL" if field.type.endswith(("*", "_fn", ")")) or field.type == "word" else "{0}" if "[" in field.name else "0"]

    def to_cpp(self, field, parameter):
        """[(member of the C++ struct, expression, condition)] that read this field."""
        member, text = field.name, field.to
        if text == "skip" or not member:  # or a comment
            return
        if match := re.fullmatch(r"([\w.]+)(?: = (.*))?", text):
            member, text = match[1], match[2] or ""
        for name in member.split(", "):
            value = text or self.value_in_cpp(field, name if "," in member else field.name, parameter)
            condition, _, value = value[3:].partition(": ") if value.startswith("if ") else ("", "", value)
            yield name, value, condition

    def value_in_cpp(self, field, name, parameter):
        if field.type in self.enums:
            enum = self.enums[field.type]
            value = f'try to_enum(where, "{parameter}->{name}", given.{name}, {last_of(enum.cpp)})'
            none = f"{enum.prefix}DEFAULT"
            return f"if given.{name} != {none}: {value}" if self.defaults(field) == [none] else value
        return (FIELDS[field.type][2] if field.type in FIELDS else "given.$").replace("@", parameter).replace("$", name)

    def from_cpp(self, field, variable):
        """The expression that fills this field from C++."""
        value = field.of or "." + (field.to if re.fullmatch(r"[\w.]+", field.to) else field.name.partition("[")[0])
        value = variable + value if value.startswith(".") else value
        if field.type in self.enums:
            return f"static_cast<tern_{field.type}>({value})"
        if field.type == "text" and not field.of:
            return value + ".c_str()"
        if field.of and C_WORDS.get(field.type, "").endswith("_t") and field.type != "bool" and "[" not in field.name:
            return f"static_cast<{C_WORDS[field.type]}>({value})"
        return FACES.get(field.type, "{}").format(value)

    # Parameters.

    def parameters(self, function):
        """[(C declaration, what to check for NULL, name, value in C++)]"""
        made = []
        for text in filter(None, map(str.strip, function.parameters.split(","))):
            kind, _, name = text.rstrip("?").rpartition(" ")
            kind = kind or (f"const {name}*" if name in self.handles else name)
            base = kind.removeprefix("const ").rstrip("*")
            if kind in PARAMETERS:
                declaration, check, value = (entry.replace("$", name) for entry in PARAMETERS[kind])
                array, count = (re.findall(r"\w+(?=,|$)", declaration) + ["", ""])[:2]
                value = value.replace("%", f'where, "{array}", {array}, "{count}", {count}')
            else:
                declaration, check, value = f"{self.c_type(kind)} {name}", name if "*" in kind else "", name
                if base in self.handles and kind.endswith("*") and not kind.endswith("**"):
                    value = f"{name}->{self.handles[base].member}"
                elif kind in self.enums:
                    value = f'try to_enum(where, "{name}", {name}, {last_of(self.enums[kind].cpp)})'
                elif kind.startswith("const ") and base in self.structs and self.structs[base].to:
                    value = f"try to_cpp(where, {name})"
            made.append((declaration, "" if text.endswith("?") else check, name, value))
        return made

    def signature(self, function, before, end):
        parts = [part for entry in self.parameters(function) for part in entry[0].split(", ")]
        start = f"{before}{self.c_type(function.returns) or 'tern_status'} tern_{function.name}("
        return wrapped(start, parts or ["void"], end)


# Headers.


def enum_in_header(enum):
    ends = ["," for _ in enum.values[1:]] + [""]
    rows = [(f"{value.name} = {value.number}{end}", value.comment) for value, end in zip(enum.values, ends)]
    return [f"typedef enum tern_{enum.name} TERN_ENUM_TYPE {{", *column(rows), f"}} tern_{enum.name};"]


def struct_in_header(abi, struct):
    name, is_plain = f"tern_{struct.name}", "plain" in struct.flags
    rows, values = ([], []) if is_plain else ([("size_t struct_size;", struct.comment)], [f"sizeof({name})"])
    for field in struct.fields:
        *before, last = abi.declaration(field).split("\n  ") if field.name else [field.comment]
        rows += [*((line, "") for line in before), (last, field.comment if field.name else "")]
        values += abi.defaults(field) if field.name else []
    before, after = ("", "") if struct.name in abi.handles else ("typedef ", f" {name}")
    lines = [f"{before}struct {name} {{", *column(rows), f"}}{after};"]
    if "init" in struct.flags:
        macro = wrapped("  {", values, "}").replace("\n", " \\\n")
        lines += [f"#define {name.upper()}_INIT \\", macro]
    return lines


def header_body(abi, items):
    for item in items:
        if isinstance(item, Text):
            yield item.line
        elif isinstance(item, Enum):
            yield from enum_in_header(item)
        elif isinstance(item, Struct):
            yield from struct_in_header(abi, item)
        elif isinstance(item, Handle):
            yield with_comment(f"typedef struct tern_{item.name} tern_{item.name};", item.comment)
        elif isinstance(item, Function):
            yield with_comment(abi.signature(item, "TERN_API ", ");"), item.comment)
        elif isinstance(item, Op):
            yield from [*header_body(abi, item.items), f"\nTERN_DECLARE_PLAN({item.name});"]


def header(abi, first_line, items, own_headers):
    head, before, body = [], [], []
    for line in "\n".join(header_body(abi, items)).split("\n"):
        part = before if line.startswith("#include") and not any(body) else body
        (head if line.startswith("//") and not before and not body else part).append(line)
    after = [line for line in body if line.startswith("#include")] + [f'#include "tern/{name}"' for name in own_headers]
    body = [line for line in body if not line.startswith("#include")]
    text = [first_line, "// clang-format off", *head, "#pragma once", "", *before, "", "#ifdef __cplusplus", 'extern "C" {',
            "#endif", "", *body, "", "#ifdef __cplusplus", '}  // extern "C"', "#endif", "", *after]  # fmt: skip
    return re.sub(r"\n{3,}", "\n\n", "\n".join(text)).rstrip("\n") + "\n"


# C++.


def to_cpp_signature(struct):
    return f"Result<{struct.to[0]}> to_cpp(const char* where, const tern_{struct.name}* {struct.to[1]})"


def declarations(abi, first_line):
    """generated/c_structs.h: what hand-written files need of the descriptions. Included by c_abi.h."""
    lines = [first_line, "// clang-format off", "#pragma once", "", "namespace tern::c {", ""]
    for enum in abi.enums.values():
        lines.append(f"inline constexpr {enum.cpp} {last_of(enum.cpp)} = {enum.cpp}::{enum.values[-1].cpp};")
    for struct in filter(grows, abi.structs.values()):
        last = [field.name for field in struct.fields[: struct.first] if field.name][-1]
        last = last.split(", ")[-1].partition("[")[0]
        lines.append(f"TERN_C_STRUCT(tern_{struct.name}, {last}, TERN_{struct.name.upper()}_INIT);")
    for struct in abi.structs.values():
        lines += [f"{to_cpp_signature(struct)};"] if struct.to and struct.to[0] else []
        lines += [f"tern_{struct.name} face_of({struct.made_of});"] if struct.made_of else []
    return "\n".join([*lines, "", "}  // namespace tern::c"]) + "\n"


def to_cpp_definition(abi, struct):
    cpp, parameter = struct.to
    yield f"{to_cpp_signature(struct)} {{"
    yield f'  TERN_ASSIGN(given, read_struct(where, "{parameter}", {parameter}));'
    yield f"  {cpp} cpp{{}};"
    for member, value, condition in (read for field in struct.fields for read in abi.to_cpp(field, parameter)):
        is_plain, value = not value.startswith("try "), value.removeprefix("try ")
        line = f"cpp.{member} = {value};" if is_plain else f"TERN_RETURN_IF_ERROR(set(&cpp.{member}, {value}));"
        yield f"  if ({condition}) {{ {line} }}" if condition else "  " + line
    yield from ["  return cpp;", "}"]


def face_definition(abi, struct):
    variable = re.match(r"const \w+& (\w+)", struct.made_of)[1]
    values = [] if "plain" in struct.flags else [f".struct_size = sizeof(tern_{struct.name})"]
    values += [f".{field.name.partition('[')[0]} = {abi.from_cpp(field, variable)}" for field in struct.fields if field.name]
    return [f"tern_{struct.name} face_of({struct.made_of}) {{", "  return {" + ",\n          ".join(values) + "};", "}"]


def function_definition(abi, function):
    opening, parameters, call = abi.signature(function, "", ") {"), abi.parameters(function), function.expression
    if function.returns:
        return [f"{opening} {f'delete {parameters[0][2]}' if call == 'delete' else f'return {call}'}; }}"]
    last = parameters[-1]
    out = last[2] if re.search(r"\* (out|index)$", last[0]) and not last[0].startswith("const tern_tensor_view") else ""
    is_pointer = last[0].endswith("** out") and not last[0].startswith("void")
    checks = ", ".join(f'{{"{name}", {check}}}' for _, check, name, _ in parameters if check and not (is_pointer and name == out))
    checks = checks.replace('"buffer", length', '"length", length')
    lines = [f"TERN_RETURN_IF_ERROR({f'cleared(where, {out}, ' if is_pointer else 'not_null(where, '}{{{checks}}}));"]
    struct = abi.structs.get(last[0].split("*")[0].removeprefix("tern_"))
    if out and struct and grows(struct):
        lines.append(f'TERN_RETURN_IF_ERROR(check_struct_size(where, "{out}", {out}));')
    # The call has the names of the parameters; they stand for their values in C++.
    for _, _, name, value in parameters:
        place = rf'(?<![\w.>"&:*]){name}(?!\w|->|\(|::|")'
        if name == out or not re.search(place, call):
            continue
        if value.startswith("try "):
            lines.append(f"TERN_ASSIGN(cpp_{name}, {value.removeprefix('try ')});")
            value = f"cpp_{name}"
        call = re.sub(place, lambda _, value=value: value, call)
    *statements, call = call.split("; ")
    if call.startswith("at "):
        statements.append(f"within {call[3:]}")
        call = f"face({call[3:]}[index])" if is_pointer else f"{call[3:]}[index]"
    for statement in statements:
        within = f"TERN_RETURN_IF_ERROR(check_index(where, index, {statement[7:]}.size()))"
        lines.append((within if statement.startswith("within ") else statement) + ";")
    if call.startswith("watch "):
        first = call.startswith("watch first ")
        call = call[12 if first else 6 :]
        check = f"{'' if first else 'if (made.ok()) '}TERN_RETURN_IF_ERROR(watch.status(where));"
        lines += ["const ParallelForWatch watch;", f"auto made = {call};", check]
        call = "std::move(made)" if out else "made"
    if last[2] == "buffer":
        call = f"write_text(where, {call}, buffer, buffer_bytes, length)"
    lines += [call, "return {};"] if call.endswith(";") else [f"return put({out}, {call});" if out else f"return {call};"]
    opening += f'\n  return guarded("tern_{function.name}", [&](const char* where) -> Status {{'
    return [opening, *("    " + line for line in lines), "  });", "}"]


def definitions(abi, items):
    """The C++ of a header: conversions inside tern::c, and entry points."""
    inside, outside = [], []
    for item in items:
        if isinstance(item, Enum):
            inside += [f"static_assert(static_cast<int>({value.name}) == static_cast<int>({item.cpp}::{value.cpp}));"
                       for value in item.values if value.cpp]  # fmt: skip
        elif isinstance(item, Struct):
            inside += to_cpp_definition(abi, item) if item.to and item.to[0] else []
            inside += face_definition(abi, item) if item.made_of else []
        elif isinstance(item, Function) and item.expression:
            outside += function_definition(abi, item)
        elif isinstance(item, Op):
            conversions, functions = definitions(abi, [*item.items, *item.plan])
            plan = f"struct tern_{item.name}_plan : PlanHandle<{item.cpp}> {{ using PlanHandle::PlanHandle; }};"
            inside, outside = inside + conversions, [*outside, plan, *functions]
    return inside, outside


def source(abi, first_line, items):
    inside, outside = definitions(abi, items)
    return "\n".join([first_line, "// clang-format off", '#include "api/c_plan.h"', "",
                      "namespace tern::c {", *inside, "}  // namespace tern::c", "",
                      "using namespace tern;  // NOLINT(google-build-using-namespace): entry points are the global C names",
                      "using namespace tern::c;  // NOLINT(google-build-using-namespace)", "", *outside]) + "\n"  # fmt: skip
