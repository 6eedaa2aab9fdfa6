"""The operator that benchmarks run: its two paths give the same."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "operators" / "python"))

from echo import Echo, Row, Value  # noqa: E402
from howdah.testing import TestHost  # noqa: E402


def value(count: int) -> bytes:
    return count.to_bytes(8, "little") + b"x" * 56


class TestEcho(unittest.TestCase):
    def test_columns_and_rows_count_the_same(self):
        host = TestHost(Echo)
        rows = [Row(key, value(key)) for key in range(5)]
        host.process(rows)
        events = host.process(rows)
        self.assertEqual([event.row for event in events], [Row(n, value(n + 1)) for n in range(5)])
        events = host.process(rows[:2] * 2)
        counts = [int.from_bytes(event.row.value[:8], "little") for event in events]
        self.assertEqual(counts, [2, 3, 3, 4])
        self.assertEqual(host.state("values")[(4,)], Value(value(5)))


if __name__ == "__main__":
    unittest.main()
