"""A compiled program without what only the compiler needed, for a server that loads many.

XLA keeps the whole optimised HLO of a program that it loads, some four kilobytes an instruction,
and four of five stand inside fusions, which are machine code by then. Here the body of a loop
fusion becomes its parameters and one opaque root, in the serialised program: that halves the memory
of a loaded program and the time to load it. Fusions that update an array in place stay as they are,
since XLA looks inside them to see which buffers are one, and so do custom fusions, which it hands
to a library when they are first run.

The numbers of fields are those of XLA's hlo.proto, written where they are used; a program of
another form is handed back as it came.
"""

import pickletools
from collections.abc import Callable, Iterator
from typing import NamedTuple

EXECUTABLE, RESULT, MODULE = 1, 1, 1
"""The path from what PJRT serialises to the HLO module: compilation result, module with its
configuration, module."""

IN_PLACE = (b"dynamic-update-slice", b"scatter")
"""Operations that write into an operand's own buffer."""


class Field(NamedTuple):
    """A field of a protocol buffer's message."""

    number: int
    value: bytes | int
    raw: bytes
    """Tag and value, as they stand."""


def slim(payload: bytes) -> bytes:
    """A program as `serialize_executable.serialize` pickled it, its executable without bodies."""
    try:
        start, end, executable = _longest(payload)
        head, rest = _header(executable)
        slimmed = head + _change(rest, (EXECUTABLE, RESULT, MODULE), _slim_module)
    except (ValueError, IndexError, TypeError):
        return payload
    return payload[:start] + b"B" + len(slimmed).to_bytes(4, "little") + slimmed + payload[end:]


def _longest(payload: bytes) -> tuple[int, int, bytes]:
    """The longest bytes in a pickle, and where their opcode begins and ends."""
    found = [
        (position, value)
        for opcode, value, position in pickletools.genops(payload)
        if opcode.name == "BINBYTES" and isinstance(value, bytes) and position is not None
    ]
    start, executable = max(found, key=lambda pair: len(pair[1]))
    return start, start + 5 + len(executable), executable


def _header(executable: bytes) -> tuple[bytes, bytes]:
    """IFRT's own message, which stands first with its length, and PJRT's."""
    length, start = _varint(executable, 0)
    return executable[: start + length], executable[start + length :]


def _change(message: bytes, path: tuple[int, ...], change: Callable[[bytes], bytes]) -> bytes:
    """A message in which the submessage at a path is another."""
    if not path:
        return change(message)
    first, *rest = path
    return b"".join(
        _message(first, _change(_bytes(field), tuple(rest), change))
        if field.number == first
        else field.raw
        for field in _fields(message)
    )


def _slim_module(module: bytes) -> bytes:
    """HloModuleProto: computations (3)."""
    own = list(_fields(module))
    computations = {
        place: list(_fields(_bytes(field))) for place, field in enumerate(own) if field.number == 3
    }
    loops = {
        called
        for computation in computations.values()
        for instruction in _instructions(computation)
        for called in _loop_fusion_of(instruction)
    }
    return b"".join(
        _message(3, _slim_computation(computations[place], loops))
        if place in computations
        else field.raw
        for place, field in enumerate(own)
    )


def _instructions(computation: list[Field]) -> list[list[Field]]:
    """HloComputationProto: instructions (2)."""
    return [list(_fields(_bytes(field))) for field in computation if field.number == 2]


def _loop_fusion_of(instruction: list[Field]) -> list[int]:
    """HloInstructionProto: the computations called (38) where the fusion's kind (11) is a loop."""
    if not any(field.number == 11 and field.value == b"kLoop" for field in instruction):
        return []
    found, called = [], b"".join(_bytes(field) for field in instruction if field.number == 38)
    at = 0
    while at < len(called):
        number, at = _varint(called, at)
        found.append(number)
    return found


def _slim_computation(computation: list[Field], loops: set[int]) -> bytes:
    """HloComputationProto: id (5), the root's id (6); HloInstructionProto: opcode (2), id (35)."""
    instructions = _instructions(computation)
    in_place = any(_value(instruction, 2) in IN_PLACE for instruction in instructions)
    if in_place or _value(computation, 5) not in loops:
        return b"".join(field.raw for field in computation)
    root, kept = _value(computation, 6), []
    for instruction in instructions:
        if _value(instruction, 2) == b"parameter":
            kept.append(b"".join(field.raw for field in instruction))
        elif _value(instruction, 35) == root:
            kept.append(_opaque(instruction))
    rest = b"".join(field.raw for field in computation if field.number != 2)
    return b"".join(_message(2, instruction) for instruction in kept) + rest


def _opaque(instruction: list[Field]) -> bytes:
    """An instruction's name (1), shape (3) and id (35), with a custom call's opcode and target."""
    own = b"".join(field.raw for field in instruction if field.number in (1, 3, 35))
    return own + _message(2, b"custom-call") + _message(28, b"a fusion's body")


def _fields(message: bytes) -> Iterator[Field]:
    """The fields of a message in their order."""
    at = 0
    while at < len(message):
        start = at
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(message, at)
        elif kind in (1, 2, 5):
            length, at = _varint(message, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = message[at : at + length], at + length
        else:
            raise ValueError("This is no message of a protocol buffer.")
        if at > len(message):
            raise ValueError("A message ends too early.")
        yield Field(key >> 3, value, message[start:at])


def _value(fields: list[Field], number: int) -> bytes | int:
    for field in fields:
        if field.number == number:
            return field.value
    raise ValueError(f"Field {number} is not there.")


def _bytes(field: Field) -> bytes:
    if not isinstance(field.value, bytes):
        raise ValueError(f"Field {field.number} is not a message.")
    return field.value


def _message(number: int, value: bytes) -> bytes:
    return _tag(number << 3 | 2) + _tag(len(value)) + value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where the next field begins."""
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at


def _tag(number: int) -> bytes:
    """A number as a varint."""
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
