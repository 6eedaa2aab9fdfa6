"""Mends what componentize-py 0.25.1 and older do wrong, in the component that they have made.

Bytes that an operator hands over, to a function of the host or as its result, are copied by the
runtime in the component to where the host reads them, and the copy is never freed: memory grows by
all that is ever handed over. Every call has a list of what to free at its end, on which the runtime
puts lists of all other types; here it is made to put bytes on it too. That takes one more
function, which stands for the `wit_dylib_pop_list` that the runtime exports:

    def pop_list(call, list_type, bytes_at):
        length = wit_dylib_pop_list(call, list_type, bytes_at)
        if *bytes_at:                   # bytes; otherwise the caller allocates, and frees
            wit_dylib_dealloc_bytes(call, *bytes_at, length, align=1, defer=True)
        return length

Nothing else of the component changes. Bytes that are not as expected are an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from howdah.errors import Error

_POP_LIST, _DEALLOCATE = b"wit_dylib_pop_list", b"wit_dylib_dealloc_bytes"
_COMPONENT, _MODULE = b"\0asm\x0d\0\1\0", b"\0asm\1\0\0\0"
_CUSTOM, _CORE_MODULE = 0, 1
_TYPES, _IMPORTS, _FUNCTIONS, _EXPORTS, _CODE = 1, 2, 3, 7, 10
_I32 = b"\x7f"
_POP_LIST_TYPE = b"\x60\x03" + 3 * _I32 + b"\x01" + _I32
_DEALLOCATE_TYPE = b"\x60\x05" + 5 * _I32 + b"\x00"


def mended(component: bytes) -> bytes:
    """The component, with a runtime that frees the bytes that it handed over."""
    if not component.startswith(_COMPONENT):
        raise Error("componentize-py made no component")
    count = 0
    made = [_COMPONENT]
    for number, section in _sections(component, len(_COMPONENT)):
        if number == _CORE_MODULE and _POP_LIST in (exports := _exports(section)):
            count += 1
            section = _with_freeing(section, exports)
        made.append(_section(number, section))
    if count != 1:
        raise Error(f"{count} modules of the component export {_POP_LIST.decode()}, not one")
    return b"".join(made)


def marked(component: bytes, language: str, version: str) -> bytes:
    """The component, saying in a section `producers` what language it is in, and of which SDK."""

    def text(value: str) -> bytes:
        return _number(len(value.encode())) + value.encode()

    fields = (("language", language, ""), ("sdk", "howdah", version))
    data = text("producers") + _number(len(fields))
    for field, name, its_version in fields:
        data += text(field) + _number(1) + text(name) + text(its_version)
    return component + _section(_CUSTOM, data)


def _with_freeing(module: bytes, exports: dict[bytes, int]) -> bytes:
    """The module of the runtime with the function more."""
    sections = dict(_sections(module, len(_MODULE)))
    pop_list, deallocate = exports[_POP_LIST], exports.get(_DEALLOCATE, -1)
    imported = _imported_functions(sections.get(_IMPORTS, b"\0"))
    types, functions = _types(sections[_TYPES]), _Reader(sections[_FUNCTIONS]).numbers()
    for function, wanted in ((pop_list, _POP_LIST_TYPE), (deallocate, _DEALLOCATE_TYPE)):
        defined = function - imported
        if not 0 <= defined < len(functions) or types[functions[defined]] != wanted:
            raise Error(f"the component has another {_POP_LIST.decode()} than expected")
    added = imported + len(functions)
    body = _body(pop_list, deallocate)
    changed = {
        _FUNCTIONS: _appended(sections[_FUNCTIONS], _number(functions[pop_list - imported])),
        _EXPORTS: _exported(sections[_EXPORTS], _POP_LIST, added),
        _CODE: _appended(sections[_CODE], _number(len(body)) + body),
    }
    return _MODULE + b"".join(
        _section(number, changed.get(number, section))
        for number, section in _sections(module, len(_MODULE))
    )


def _body(pop_list: int, deallocate: int) -> bytes:
    """`pop_list` of this module's documentation."""
    call, list_type, bytes_at, length = (b"\x20" + _number(local) for local in range(4))
    load, one, empty = b"\x28\x02\x00", b"\x41\x01", b"\x40"
    return b"".join((
        b"\x01\x01" + _I32,  # one local more: the length
        call, list_type, bytes_at, b"\x10" + _number(pop_list), b"\x21\x03",
        bytes_at, load, b"\x04" + empty,  # if
        call, bytes_at, load, length, one, one, b"\x10" + _number(deallocate),
        b"\x0b", length, b"\x0b",
    ))  # fmt: skip


class _Reader:
    """Reads a section from its beginning."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    def number(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def byte(self) -> int:
        self.at += 1
        if self.at > len(self.data):
            raise Error("the component is cut off")
        return self.data[self.at - 1]

    def bytes(self) -> bytes:
        """Bytes behind their number, as names are."""
        length = self.number()
        self.at += length
        if self.at > len(self.data):
            raise Error("the component is cut off")
        return self.data[self.at - length : self.at]

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.number())]


def _number(value: int) -> bytes:
    """An unsigned number in LEB128."""
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def _sections(data: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    reader = _Reader(data, at)
    while reader.at < len(data):
        yield reader.byte(), reader.bytes()


def _section(number: int, data: bytes) -> bytes:
    return bytes([number]) + _number(len(data)) + data


def _appended(section: bytes, item: bytes) -> bytes:
    """A section that is a list, with one item more."""
    reader = _Reader(section)
    return _number(reader.number() + 1) + section[reader.at :] + item


def _types(section: bytes) -> list[bytes]:
    """Function types as they are written; their values have types of one byte each."""
    reader = _Reader(section)
    found = []
    for _ in range(reader.number()):
        begin = reader.at
        if reader.byte() != 0x60:
            raise Error("the component has types that are no function types")
        reader.bytes()
        reader.bytes()
        found.append(section[begin : reader.at])
    return found


def _imported_functions(section: bytes) -> int:
    reader = _Reader(section)
    count = 0
    for _ in range(reader.number()):
        reader.bytes()
        reader.bytes()
        kind = reader.byte()
        count += kind == 0
        if kind == 0:  # a function: its type
            reader.number()
        elif kind == 3:  # a global: its type, and whether it changes
            reader.at += 2
        elif kind in (1, 2):  # a table begins with its type; both have limits
            reader.at += kind == 1
            for _ in range(1 + (reader.byte() & 1)):
                reader.number()
        else:
            raise Error(f"the component has an import of kind {kind}")
    return count


def _each_export(section: bytes) -> Iterator[tuple[bytes, int, int]]:
    reader = _Reader(section)
    for _ in range(reader.number()):
        yield reader.bytes(), reader.byte(), reader.number()


def _exports(module: bytes) -> dict[bytes, int]:
    """The functions that a module exports."""
    for number, section in _sections(module, len(_MODULE)):
        if number == _EXPORTS:
            return {name: index for name, kind, index in _each_export(section) if kind == 0}
    return {}


def _exported(section: bytes, function: bytes, index: int) -> bytes:
    """The exports, with this function at another index."""
    exports = list(_each_export(section))
    return _number(len(exports)) + b"".join(
        _number(len(name)) + name + bytes([kind]) + _number(index if name == function else at)
        for name, kind, at in exports
    )
