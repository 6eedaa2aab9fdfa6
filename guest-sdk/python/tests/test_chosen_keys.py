"""States and timers under keys of the operator's choice, in methods without a record."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "operators" / "python"))

from conformance import Command, Conformance, Key  # noqa: E402
from howdah.testing import TestHost  # noqa: E402


def later(key, command, map_key=None, number=None):
    return Command(key, "later", map_key, number, command)


def at_barrier(host, commands):
    """What commands that a barrier carries out come to: key, map key, number, text."""
    host.process(commands, input="commands")
    rows = [event.row for event in host.barrier()]
    return [(row[0], *row[2:]) for row in rows if row.command != "on-barrier"]


class TestChosenKeys(unittest.TestCase):
    def test_states_are_written_read_and_removed_in_one_call_for_all_keys(self):
        host = TestHost(Conformance)
        commands = []
        for name in ("value.put", "list.append", "map.put", "reducing.add"):
            commands += [later("a", name, 7, 1), later("b", name, 8, 2), later("a", name, 5, 3)]
        for key in ("a", "c"):
            for name in ("value.get", "list.get", "map.entries", "reducing.get"):
                commands.append(later(key, name))
        commands.append(later("b", "map.get", 8))
        folded = {"sum": 4, "min": 1, "max": 3, "count": 2, "first": 1, "last": 3}
        self.assertEqual(
            at_barrier(host, commands),
            [
                ("a", None, 3, "value.put"),
                ("a", None, 1, None),
                ("a", None, 3, None),
                ("b", 8, 2, None),
                ("a", 5, 3, None),
                ("a", 7, 1, None),
                *[("a", None, number, text) for text, number in folded.items()],
            ],
        )
        names = ("value.delete", "list.clear", "map.clear", "reducing.clear")
        commands = [*[later("a", name) for name in names], later("b", "map.delete", 8)]
        for key in ("a", "b"):
            commands += [later(key, "list.get"), later(key, "map.entries")]
        self.assertEqual(at_barrier(host, commands), [("b", None, 2, None)])

    def test_timers_are_set_and_deleted_in_one_call_for_all_keys(self):
        host = TestHost(Conformance)
        at_barrier(host, [later("a", "event.set", None, 5), later("b", "event.set", None, 6)])
        at_barrier(host, [later("a", "event.delete", None, 5)])
        self.assertEqual(host.timers("event"), [(6, Key("b"))])

    def test_keys_of_ones_choice_are_refused_while_rows_are_processed(self):
        class Wrong(Conformance):
            def do_now(self, row):
                self.event.set_many([(Key("a"), 1)])

        with self.assertRaisesRegex(Exception, "timers `event`: while rows are processed"):
            TestHost(Wrong).process([Command("a", "now", None, None, None)], input="commands")


if __name__ == "__main__":
    unittest.main()
