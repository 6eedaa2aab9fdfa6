"""What is mended in components changes the one function, and only where it is known.

That memory stays level then is a test of `host/runtime`, which runs components.
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from howdah.errors import Error  # noqa: E402
from howdah.mend import _MODULE, _COMPONENT, _exports, _section, _sections, marked, mended  # noqa: E402

POP_LIST_TYPE, DEALLOCATE_TYPE = b"\x60\x03\x7f\x7f\x7f\x01\x7f", b"\x60\x05\x7f\x7f\x7f\x7f\x7f\x00"
OTHER = _section(1, _MODULE + _section(7, b"\x01\x03use\x00\x00"))
MEMORY, GLOBAL, TABLE = b"\x02\x01\x01\x02", b"\x03\x7f\x01", b"\x01\x70\x00\x01"


def runtime(pop_list_type: bytes = POP_LIST_TYPE) -> bytes:
    """A module that imports one of each kind, and has the two functions that are looked for."""
    imports = b"".join(b"\x03env\x01x" + kind for kind in (b"\x00\x00", MEMORY, GLOBAL, TABLE))
    exports = b"\x12wit_dylib_pop_list\x00\x01" + b"\x17wit_dylib_dealloc_bytes\x00\x02"
    return _MODULE + b"".join((
        _section(1, b"\x02" + pop_list_type + DEALLOCATE_TYPE),
        _section(2, b"\x04" + imports),
        _section(3, b"\x02\x00\x01"),
        _section(7, b"\x02" + exports),
        _section(10, b"\x02" + b"\x04\x00\x41\x00\x0b" + b"\x02\x00\x0b"),
        _section(0, b"\x04name"),
    ))  # fmt: skip


def component(*sections: bytes) -> bytes:
    return _COMPONENT + b"".join(sections)


class TestMend(unittest.TestCase):
    def test_the_function_is_replaced_where_it_is_exported(self):
        given = runtime()
        made = mended(component(OTHER, _section(1, given), OTHER))
        modules = [section for _, section in _sections(made, len(_COMPONENT))]
        self.assertEqual([_section(1, modules[0]), _section(1, modules[2])], [OTHER, OTHER])
        self.assertEqual(
            _exports(modules[1]), {b"wit_dylib_pop_list": 3, b"wit_dylib_dealloc_bytes": 2}
        )
        before = dict(_sections(given, len(_MODULE)))
        after = dict(_sections(modules[1], len(_MODULE)))
        self.assertEqual(list(before), list(after))
        self.assertEqual(after[3], b"\x03\x00\x01\x00")
        self.assertTrue(after[10].startswith(b"\x03" + before[10][1:]))
        for unchanged in (0, 1, 2):
            self.assertEqual(before[unchanged], after[unchanged])

    def test_a_function_of_another_type_is_refused(self):
        with self.assertRaisesRegex(Error, "another wit_dylib_pop_list than expected"):
            mended(component(_section(1, runtime(pop_list_type=b"\x60\x01\x7f\x01\x7f"))))

    def test_a_component_without_the_runtime_is_refused(self):
        with self.assertRaisesRegex(Error, "0 modules"):
            mended(component(OTHER))

    def test_a_component_that_is_cut_off_is_refused(self):
        with self.assertRaisesRegex(Error, "cut off"):
            mended(component(_section(1, runtime()))[:-1])

    def test_the_mark_is_a_section_with_language_and_sdk(self):
        made = marked(component(OTHER), "Python", "0.1.0")
        [*_, (number, data)] = _sections(made, len(_COMPONENT))
        said = b"\x09producers\x02\x08language\x01\x06Python\x00\x03sdk\x01\x06howdah\x050.1.0"
        self.assertEqual((number, data), (0, said))

    def test_other_bytes_are_refused(self):
        with self.assertRaisesRegex(Error, "no component"):
            mended(runtime())


if __name__ == "__main__":
    unittest.main()
