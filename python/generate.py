#!/usr/bin/env python3
"""Makes the declarations of the Python package out of the public C headers, so that they cannot differ.

usage: generate.py native FOLDER OUT [DEPENDENCIES]    the ctypes declarations: shoal/native.py
       generate.py ops FOLDER OUT [DEPENDENCIES]       a Python function for each operator of shoal/graph.h: shoal/ops.py
       generate.py check FOLDER OUT                    C code that compiles only where the declarations above are right

FOLDER holds the headers; they are read as they are written, comments included, which become the docstrings.
"""
from __future__ import annotations

import keyword
import pathlib
import re
import sys
from dataclasses import dataclass, field

WORDS = {"bool": "c_bool", "char": "c_char", "int": "c_int", "float": "c_float", "double": "c_double", "size_t": "c_size_t",
         "int32_t": "c_int32", "int64_t": "c_int64", "uint8_t": "c_uint8", "uint32_t": "c_uint32", "uint64_t": "c_uint64",
         "time_t": "c_int64"}
TOKEN = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"])*\"|[A-Za-z_]\w*|0x[0-9a-fA-F]+|\d+\w*|\.\.\.|\S", re.DOTALL)


@dataclass
class Type:
    """What a parameter, a member or a result is."""
    base: str                                          # "int", "shoal_model", "function"
    pointers: int = 0
    arrays: list[str] = field(default_factory=list)
    result: "Type | None" = None                       # of a function
    parameters: "list[Item]" = field(default_factory=list)


@dataclass
class Item:
    """A named thing: parameter, member, function, struct, enum."""
    name: str
    type: Type
    doc: str = ""
    text: str = ""                                     # as it stands in the header
    header: str = ""


@dataclass
class Headers:
    """All that they declare, in their order."""
    structs: dict[str, list[Item]] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    enums: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    enum_docs: dict[str, str] = field(default_factory=dict)
    callbacks: dict[str, Item] = field(default_factory=dict)
    functions: dict[str, Item] = field(default_factory=dict)
    constants: dict[str, str] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)


def clean(comment: str) -> str:
    """The words of a comment."""
    body = re.sub(r"^/\*\*?<?|\*/$", "", comment)
    return " ".join(line.strip().lstrip("*").strip() for line in body.splitlines()).strip()


class Parser:
    """Declarations out of tokens. A comment belongs to what follows it, or with /**< to what it follows."""

    def __init__(self, text: str, header: str, into: Headers) -> None:
        self.into, self.header, self.at = into, header, 0
        for name, value in re.findall(r"^#define (SHOAL_\w+) \(?(\(int64_t\)1 << \d+|-?\d+)\)?\s*(?:/\*.*)?$", text, re.MULTILINE):
            into.constants.setdefault(name, value.replace("(int64_t)", ""))
        text = re.sub(r"^\s*#.*?[^\\]$", "", text, flags=re.MULTILINE | re.DOTALL)
        text = text.replace('extern "C" {', "")
        if "__cplusplus" not in text:
            text = re.sub(r"\n}\s*$", "\n", text.rstrip())
        self.tokens = TOKEN.findall(text)

    def peek(self, ahead: int = 0) -> str:
        return self.tokens[self.at + ahead] if self.at + ahead < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise SystemExit(f"{self.header}: expected {expected or 'more'} near {' '.join(self.tokens[max(0, self.at - 12):self.at + 3])}")
        self.at += 1
        return token

    def comments(self) -> str:
        """Of those here, the last one that belongs to what follows."""
        doc = ""
        while self.peek().startswith("/*"):
            token = self.take()
            doc = clean(token) if token.startswith("/**") and not token.startswith("/**<") else doc
        return doc

    def trailing(self) -> str:
        return clean(self.take()) if self.peek().startswith("/**<") else ""

    def balanced(self, first: str, last: str) -> list[str]:
        """What is between them, which are passed over."""
        self.take(first)
        depth, inside = 1, []
        while depth:
            token = self.take()
            depth += (token == first) - (token == last)
            inside.append(token)
        return inside[:-1]

    def base(self) -> str:
        name = ""
        while True:
            token = self.peek()
            if token in ("const", "struct", "SHOAL_API", "SHOAL_CHECKED", "extern"):
                self.take()
            elif token.startswith("/*"):
                self.take()
            elif re.match(r"[A-Za-z_]", token) and not name:
                name = self.take()
            else:
                return name

    def pointers(self) -> int:
        count = 0
        while self.peek() in ("*", "const"):
            count += self.take() == "*"
        return count

    def declarator(self, base: str) -> Item:
        """A name with the pointers before and the arrays behind it, or a pointer to a function."""
        type_ = Type(base, self.pointers())
        if self.peek() == "(" and self.peek(1) == "*":
            self.take("(")
            self.take("*")
            name = self.take()
            arrays = self.arrays()
            self.take(")")
            return Item(name, Type("function", 0, arrays, type_, self.parameters()))
        name = self.take() if re.match(r"[A-Za-z_]", self.peek()) else ""
        type_.arrays = self.arrays()
        return Item(name, type_)

    def arrays(self) -> list[str]:
        sizes = []
        while self.peek() == "[":
            sizes.append(" ".join(self.balanced("[", "]")))
        return sizes

    def parameters(self) -> list[Item]:
        tokens = [t for t in self.balanced("(", ")") if not t.startswith("/*")]
        if tokens in (["void"], []):
            return []
        found, inner = [], Parser("", self.header, self.into)
        inner.tokens = tokens
        while inner.peek():
            if inner.peek() == "...":
                found.append(Item(inner.take(), Type("...")))
            else:
                found.append(inner.declarator(inner.base()))
            if inner.peek() == ",":
                inner.take()
        return found

    def members(self) -> list[Item]:
        self.take("{")
        found = []
        while True:
            doc = self.comments()
            if self.peek() == "}":
                break
            base = self.base()
            item = self.declarator(base)
            names = [item]
            while self.peek() == ",":
                self.take()
                names.append(self.declarator(base))
            self.take(";")
            item.doc = self.trailing() or doc
            found += names
        self.take("}")
        return found

    def enumerators(self) -> list[tuple[str, str]]:
        tokens = [t for t in self.balanced("{", "}") if not t.startswith("/*")]
        found: list[tuple[str, str]] = []
        for part in " ".join(tokens).split(","):
            if part.strip():
                name, _, value = (word.strip() for word in part.partition("="))
                found.append((name, value or (f"{found[-1][0]} + 1" if found else "0")))
        return found

    def typedef(self, doc: str) -> None:
        into = self.into
        kind = self.peek()
        if kind == "enum":
            self.take()
            values = self.enumerators()
            name = self.take()
            into.enums[name], into.enum_docs[name] = values, doc
            into.order.append(("enum", name))
        elif kind == "struct" and "{" in (self.peek(1), self.peek(2)):
            self.take()
            if self.peek() != "{":
                self.take()
            members = self.members()
            name = self.take()
            into.structs[name] = members
            into.order.append(("struct", name))
        else:
            base = self.base()
            item = self.declarator(base)
            if item.type.base == "function":
                into.callbacks[item.name] = item
                into.order.append(("callback", item.name))
            elif item.name != "shoal_status":
                into.opaque.add(item.name)
        self.take(";")

    def declarations(self) -> None:
        while True:
            doc = self.comments()
            if not self.peek():
                return
            begin = self.at
            if self.peek() == "typedef":
                self.take()
                self.typedef(doc)
            elif self.peek() == "enum":
                self.take()
                name = f"enum {self.header} {begin}"
                self.into.enums[name] = self.enumerators()
                self.into.order.append(("enum", name))
                self.take(";")
            else:
                item = self.declarator(self.base())
                item.type = Type("function", 0, [], item.type, self.parameters())
                item.text = " ".join(t for t in self.tokens[begin:self.at] if not t.startswith("/*"))
                while self.peek() != ";":
                    self.take()
                self.take(";")
                item.doc, item.header = self.trailing() or doc, self.header
                self.into.functions[item.name] = item


def read(paths: list[str]) -> Headers:
    """Each after those it includes."""
    into, texts = Headers(), {pathlib.Path(p).name: pathlib.Path(p).read_text(encoding="utf-8") for p in sorted(paths)}
    done: set[str] = set()

    def visit(name: str) -> None:
        if name in done or name not in texts:
            return
        done.add(name)
        for included in re.findall(r'^#include "shoal/(\w+\.h)"', texts[name], re.MULTILINE):
            visit(included)
        text = re.sub(r"#ifdef __cplusplus\n.*?#endif\n", "", texts[name], flags=re.DOTALL)
        Parser(text, name, into).declarations()

    for name in texts:
        visit(name)
    return into


# ---- the ctypes declarations


def ctype(h: Headers, t: Type) -> str:
    """As ctypes calls it. Opaque objects are addresses; a status is one, which a check turns into an exception."""
    if t.base == "function":
        name = f"CFUNCTYPE({', '.join([result_type(h, t.result)] + [ctype(h, p.type) for p in t.parameters])})"  # type: ignore[arg-type]
    elif t.base in h.callbacks:
        name = t.base
    elif t.base in ("void", "shoal_status", "shoal_error") or t.base in h.opaque:
        levels = t.pointers + (t.base == "shoal_status") - 1
        name = "POINTER(" * levels + "c_void_p" + ")" * levels
    elif t.base == "char" and t.pointers + len(t.arrays[:1]) and not (t.arrays and not t.pointers):
        levels = t.pointers - 1
        name = "POINTER(" * levels + "c_char_p" + ")" * levels
    else:
        base = t.base if t.base in h.structs else "c_int" if t.base in h.enums else WORDS[t.base]
        name = "POINTER(" * t.pointers + base + ")" * t.pointers
    for size in reversed(t.arrays):
        name = f"({name} * ({size}))"
    return name


def parameter_type(h: Headers, t: Type) -> str:
    """An array that is a parameter is a pointer."""
    if t.arrays and t.base == "char":
        return "c_char_p"
    if t.arrays:
        return ctype(h, Type(t.base, t.pointers + 1))
    return ctype(h, t)


def result_type(h: Headers, t: Type) -> str:
    return "None" if t.base == "void" and not t.pointers else ctype(h, t)


def raises(item: Item) -> bool:
    """Whether its status becomes an exception: not of those that make statuses."""
    result = item.type.result
    return result is not None and result.base == "shoal_status" and item.header != "status.h"


def owned_text(item: Item) -> bool:
    """`char *`, for free: ctypes would lose the address."""
    result = item.type.result
    return result is not None and result.base == "char" and result.pointers == 1 and not item.text.replace(
        "SHOAL_API ", "").replace("SHOAL_CHECKED ", "").startswith("const")


def native(h: Headers) -> str:
    out = ['"""The public C interface, as it stands in include/shoal: made by generate.py, not by hand.',
           "", "Every function is an attribute of `lib`. One that returns a shoal_status raises what it says instead.", '"""',
           "# ruff: noqa", "# mypy: ignore-errors",
           "from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t,",
           "                    c_uint8, c_uint32, c_uint64, c_void_p)", "", "from ._library import check, load", ""]
    out += [f"{name} = {value}" for name, value in h.constants.items()]
    for kind, name in h.order:
        if kind == "enum":
            out += [f"{key} = {value}" for key, value in h.enums[name]]
        elif kind == "callback":
            out.append(f"{name} = {ctype(h, h.callbacks[name].type)}")
        else:
            out += ["", f"class {name}(Structure):"]
            out += ["    _fields_ = ["] + [f'        ("{m.name}", {ctype(h, m.type)}),' for m in h.structs[name]] + ["    ]", ""]
    out += ["", "lib = load()", "", "", "def _declare(name, result, raises, *parameters):", "    function = getattr(lib, name)",
            "    function.restype, function.argtypes = result, parameters", "    if raises:", "        function.errcheck = check", "", ""]
    for item in h.functions.values():
        if any(p.type.base == "va_list" for p in item.type.parameters):
            continue
        result = "c_void_p" if owned_text(item) else result_type(h, item.type.result)  # type: ignore[arg-type]
        words = [parameter_type(h, p.type) for p in item.type.parameters if p.name != "..."]
        words = ["POINTER(c_void_p)" if p.type.base == "char" and p.type.pointers == 2 and "char * *" in item.text and p.name == "out" else w
                 for p, w in zip(item.type.parameters, words)]
        out.append(f'_declare({", ".join([repr(item.name), result, str(raises(item)), *words])})')
    return "\n".join(out) + "\n"


# ---- a function for each operator


SCALARS = {"int": "int", "int64_t": "int", "double": "float", "bool": "bool"}
CHOICES = {"shoal_dtype": "dtype_code", "shoal_padding": "padding_code", "shoal_pad_mode": "pad_mode_code",
           "shoal_pooling": "pooling_code"}
STRUCTS = {"shoal_window": "window", "shoal_recurrent": "recurrent", "shoal_attention_weights": "attention_weights"}
ELSEWHERE = {"placeholder", "placeholder_ragged", "constant", "scalar", "variable", "group"}
# The usual, for what comes last.
NULLABLE = {"mask", "scale", "offset"}
USUAL = {"transpose_a": "False", "transpose_b": "False", "keep": "False", "causal": "False", "mask": "None", "axes": "()", "axis": "-1",
         "exclusive": "False", "reverse": "False", "descending": "False", "align_corners": "False", "stride": "1", "padding": '"valid"',
         "epsilon": "1e-3", "bilinear": "False", "on": "1.0", "off": "0.0", "mode": '"constant"', "value": "0.0", "o": "None",
         "offset": "None", "scale": "None", "message": '""', "dtype": '"f32"', "low": "0.0", "high": "1.0", "mean": "0.0", "stddev": "1.0"}


def python_name(name: str) -> str:
    return {"o": "window", "r": "recurrent", "w_": "weights"}.get(name, name + "_" if keyword.iskeyword(name) else name)


def operator(item: Item) -> "str | None":
    """Its Python function; None: its parameters are of a kind that is written by hand."""
    name = item.name[len("shoal_"):]
    parameters = item.type.parameters[1:]
    signature, arguments, values, lines = [], [], [], []
    skip = False
    for i, p in enumerate(parameters):
        word, t = python_name(p.name), p.type
        following = parameters[i + 1] if i + 1 < len(parameters) else None
        if skip:
            skip = False
            continue
        if t.base == "shoal_value" and t.pointers == 1:
            may_be_null = bool(values) and p.name in NULLABLE
            signature.append((word, "Optional[Operand]" if may_be_null else "Operand", p.name))
            values.append(word)
            arguments.append(f"g.operand({word}, like_)")
        elif t.base == "shoal_value" and t.pointers == 2 and following is not None and following.name == "n":
            signature.append((word, "Sequence[Operand]", p.name))
            values.append("*" + word)
            arguments += [f"g.operands({word}, like_)", f"len({word})"]
            skip = True
        elif t.base == "shoal_shape":
            signature.append((word, "Shape", p.name))
            arguments.append(f"shape_struct({word})")
        elif t.base in CHOICES:
            signature.append((word, "DType" if t.base == "shoal_dtype" else "str", p.name))
            arguments.append(f"{CHOICES[t.base]}({word})")
        elif t.base in STRUCTS:
            python = {"shoal_window": "Optional[Window]", "shoal_recurrent": "Recurrent",
                      "shoal_attention_weights": "AttentionWeights"}[t.base]
            signature.append((word, python, p.name))
            arguments.append(f"{STRUCTS[t.base]}_struct({'' if t.base == 'shoal_window' else 'g, '}{word})")
        elif t.base in SCALARS and not t.pointers:
            signature.append((word, SCALARS[t.base], p.name))
            arguments.append(word)
        elif t.base == "char" and t.pointers == 1:
            signature.append((word, "str", p.name))
            arguments.append(f"{word}.encode()")
        else:
            return None
    defaults = len(signature)
    while defaults and signature[defaults - 1][2] in USUAL and signature[defaults - 1][0] != (values or [""])[0]:
        defaults -= 1
    usual = {plain: "1" if plain == "axes" and kind == "int" else USUAL.get(plain, "") for _, kind, plain in signature}
    words = [f"{word}: {kind}" + (f" = {usual[plain]}" if i >= defaults else "") for i, (word, kind, plain) in enumerate(signature)]
    doc = (item.doc or name).replace("\\", "\\\\")
    lines += [f"def {python_name(name)}({', '.join(words)}) -> Value:", f'    """{doc[0].upper() + doc[1:] if doc[1:2].islower() else doc}"""',
              f"    g, like_ = graph_of({', '.join(values)})",
              f'    return g.made(lib.{item.name}({", ".join(["g.handle", *arguments])}), "{name}")']
    return "\n".join(lines)


def operators(h: Headers) -> tuple[list[str], list[str]]:
    """The functions, and the names of those that are not among them."""
    made, others = [], []
    for item in h.functions.values():
        result = item.type.result
        if item.header != "graph.h":
            continue
        takes_graph = item.type.parameters and item.type.parameters[0].type.base == "shoal_graph"
        text = None
        if result is not None and result.base == "shoal_value" and takes_graph and item.name[len("shoal_"):] not in ELSEWHERE \
                and "shoal_graph_" not in item.name:
            text = operator(item)
        if text:
            made.append(text)
        else:
            others.append(item.name)
    return made, others


def ops(h: Headers) -> str:
    made, _ = operators(h)
    head = ['"""Operators of graphs, one function each: made by generate.py from include/shoal/graph.h, not by hand.', "",
            "An operand is a value of a graph, a number or an array, which becomes a constant.", '"""',
            "# ruff: noqa", "from __future__ import annotations", "", "from typing import Optional, Sequence", "",
            "from .arrays import DType, Shape, dtype_code, shape_struct",
            "from .graph import (AttentionWeights, Operand, Recurrent, Value, Window, attention_weights_struct, graph_of, pad_mode_code,",
            "                    padding_code, pooling_code, recurrent_struct, window_struct)",
            "from .native import lib", "", ""]
    return "\n".join(head) + "\n\n\n".join(made) + "\n"


# ---- the check


def c_constant(text: str) -> str:
    return text.replace("1 <<", "(int64_t)1 <<")


def check(h: Headers) -> str:
    """Structs of the same members, constants of the same values, functions of the same types."""
    out = ["#include <shoal/shoal.h>", "#include <stdio.h>", "int main(void) {"]
    for item in h.functions.values():
        out.insert(2, item.text.replace("SHOAL_API", "").replace("SHOAL_CHECKED", "") + ";")
    for name, members in h.structs.items():
        out.append(f'  printf("size {name} %zu\\n", sizeof({name}));')
        out += [f'  printf("offset {name}.{m.name} %zu\\n", offsetof({name}, {m.name}));' for m in members]
    names = [key for values in h.enums.values() for key, _ in values] + list(h.constants)
    out += [f'  printf("constant {name} %lld\\n", (long long)({name}));' for name in names]
    return "\n".join(out + ["  return 0;", "}"]) + "\n"


def main() -> None:
    if len(sys.argv) not in (4, 5) or sys.argv[1] not in ("native", "ops", "check"):
        raise SystemExit(__doc__)
    what, folder, out = sys.argv[1:4]
    headers = sorted(str(path) for path in pathlib.Path(folder).glob("*.h"))
    with open(out, "w", encoding="utf-8") as file:
        file.write({"native": native, "ops": ops, "check": check}[what](read(headers)))
    if len(sys.argv) == 5:
        with open(sys.argv[4], "w", encoding="utf-8") as file:
            file.write(f"{out}: {' '.join(headers)}\n")


if __name__ == "__main__":
    main()
