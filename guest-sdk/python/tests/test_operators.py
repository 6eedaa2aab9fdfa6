"""Every kind of state, timers, streams and errors, over the test host."""

import array
import decimal
import struct
import sys
import unittest
from pathlib import Path
from typing import Annotated, Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from howdah import (  # noqa: E402
    ConfigError, Date, Decimal, Error, Float32, Input, Int32, ListState, MapState, Operator,
    Output, ReducingState, RowKind, Timers, Timestamp, Ttl, ValueState, clock, digits, log, metrics,
)  # fmt: skip
from howdah.rows import fields_of  # noqa: E402
from howdah.columns import decode_rows, encode_rows  # noqa: E402
from howdah.testing import Event, TestHost  # noqa: E402


Money = Annotated[decimal.Decimal, digits(38, 2)]


class Every(NamedTuple):
    flag: bool | None
    small: Int32 | None
    large: int | None
    single: Float32 | None
    double: float | None
    money: Money | None
    day: Date | None
    at: Timestamp | None
    text: str | None
    data: bytes | None


NULLS = Every(*[None] * 10)
EXTREMES = [
    NULLS,
    Every(True, -(2**31), -(2**63), 1.5, -0.0, decimal.Decimal("-" + "9" * 36 + ".98"),
          -(2**31), -(2**63), "", b""),
    Every(False, 2**31 - 1, 2**63 - 1, float("inf"), 5e-324, decimal.Decimal("9" * 36 + ".99"),
          2**31 - 1, 2**63 - 1, "naïve \0 𝄞", bytes(range(256))),
]  # fmt: skip


class Word(NamedTuple):
    key: str
    number: int
    kind: str = "put"


class Key(NamedTuple):
    key: str


class Number(NamedTuple):
    number: int


class Place(NamedTuple):
    place: int


class Kept(NamedTuple):
    kind: str


class Total(NamedTuple):
    total: int | None
    least: int | None
    added: int


class Answer(NamedTuple):
    key: str
    answer: str


class Kinds(Operator):
    """Does what `kind` says to states of every kind."""

    words = Input(Word, key=Key)
    answers = Output(Answer)
    late = Output(Answer, changelog=True)
    value = ValueState(Number, ttl=Ttl(1000, on_read=True), schema_version=3)
    list = ListState(Number)
    map = MapState(Place, Kept)
    fetched = MapState(Place, Number, prefetch=lambda word: Place(word.number))
    totals = ReducingState(Total, reducers={"total": "sum", "least": "min", "added": "count"})
    ends = Timers()
    alarms = Timers(processing_time=True)

    def configure(self) -> None:
        if self.config.get("unknown"):
            raise ConfigError("`unknown` is no setting")

    @words.each
    def on_word(self, word: Word) -> None:
        getattr(self, "do_" + word.kind)(word)

    def answer(self, answer: object) -> None:
        self.answers.emit(Answer(self.record.key.key, str(answer)))

    def do_put(self, word: Word) -> None:
        self.value.put(Number(word.number))

    def do_get(self, word: Word) -> None:
        found = self.value.get()
        self.answer(found and found.number)

    def do_delete(self, word: Word) -> None:
        self.value.delete()

    def do_append(self, word: Word) -> None:
        self.list.append(Number(word.number))

    def do_list(self, word: Word) -> None:
        self.answer([row.number for row in self.list.get()])

    def do_clear(self, word: Word) -> None:
        for state in (self.list, self.map, self.totals):
            state.clear()

    def do_enter(self, word: Word) -> None:
        self.map.put(Place(word.number), Kept(word.kind))

    def do_remove(self, word: Word) -> None:
        self.map.delete(Place(word.number))

    def do_entry(self, word: Word) -> None:
        self.answer(self.map.get(Place(word.number)))

    def do_entries(self, word: Word) -> None:
        self.answer([key.place for key, _ in self.map.items()])

    def do_from(self, word: Word) -> None:
        entries = self.map.items(Place(word.number), limit_rows=2)
        self.answer([key.place for key, _ in entries])

    def do_count(self, word: Word) -> None:
        place = Place(word.number)
        seen = self.fetched.get(place)
        self.fetched.put(place, Number(1 if seen is None else seen.number + 1))

    def do_add(self, word: Word) -> None:
        self.totals.add(Total(word.number, word.number, 1))

    def do_nothing(self, word: Word) -> None:
        self.totals.add(Total(None, None, 1))

    def do_total(self, word: Word) -> None:
        total = self.totals.get()
        self.answer(total and tuple(total))

    def do_timer(self, word: Word) -> None:
        self.ends.set(word.number)

    def do_untimer(self, word: Word) -> None:
        self.ends.delete(word.number)

    def do_alarm(self, word: Word) -> None:
        self.alarms.set(clock.now() + word.number)

    def do_change(self, word: Word) -> None:
        before, after = Answer(word.key, "before"), Answer(word.key, "after")
        self.late.emit_update(before, after)
        self.late.emit_delete(after)

    def do_tell(self, word: Word) -> None:
        log.info("number %d", word.number)
        metrics.counter_add("words_total")
        metrics.histogram_record("word_bytes", 3.0)

    def do_fail(self, word: Word) -> None:
        raise ValueError(f"cannot take {word.number}")

    @ends.fired
    def on_end(self, time: int) -> None:
        self.answer(f"end {time} {self.value.get()}")
        if time < 100:
            self.ends.set(time + 100)

    @alarms.fired
    def on_alarm(self, time: int) -> None:
        self.answer(f"alarm {time} at {clock.now()}")

    def on_watermark(self, watermark: int) -> None:
        self.answers.emit(Answer("", f"watermark {watermark}"))

    def on_barrier(self, checkpoint: int) -> None:
        found = self.value.get_many([Key("a"), Key("nobody")])
        self.answers.emit(Answer("", f"barrier {checkpoint} {found}"))

    def on_checkpoint_complete(self, checkpoint: int) -> None:
        log.info("complete %d", checkpoint)


def run(*words: tuple[str, int]) -> list[str]:
    """What is answered to words of key `a`, all in one batch, and each in a batch of its own."""
    rows = [Word("a", number, kind) for kind, number in words]
    at_once = [event.row.answer for event in TestHost(Kinds).process(rows)]
    host = TestHost(Kinds)
    one_by_one = [event.row.answer for row in rows for event in host.process([row])]
    assert at_once == one_by_one, (at_once, one_by_one)
    return at_once


class TestRows(unittest.TestCase):
    def test_every_type_survives_the_buffers_with_nulls_and_extremes(self):
        fields = fields_of(Every, "test")
        for rows in ([], EXTREMES[:1], EXTREMES, EXTREMES * 9):
            decoded = decode_rows(Every, fields, len(rows), encode_rows(fields, rows))
            self.assertEqual(repr(decoded), repr(rows))

    def test_numbers_are_little_endian_and_text_has_offsets(self):
        [column] = encode_rows(fields_of(Number, ""), [Number(1), Number(-2)])
        self.assertEqual(column.data, struct.pack("<qq", 1, -2))
        [column] = encode_rows(fields_of(Key, ""), [Key("ab"), Key("ç")])
        self.assertEqual((column.data, column.offsets), ("abç".encode(), struct.pack("<III", 0, 2, 4)))

    def test_a_value_that_does_not_fit_names_the_column(self):
        class Small(NamedTuple):
            small: Int32
            money: Decimal[3, 1]

        fields = fields_of(Small, "test")
        for row, column in (
            (Small(2**31, decimal.Decimal(0)), "small"),
            (Small("1", decimal.Decimal(0)), "small"),
            (Small(None, decimal.Decimal(0)), "small"),
            (Small(1, decimal.Decimal("1.25")), "money"),
            (Small(1, decimal.Decimal("100")), "money"),
        ):
            with self.assertRaisesRegex(Error, f"column `{column}`"):
                encode_rows(fields, [row])

    def test_a_value_of_another_type_is_refused_in_every_column(self):
        whole = (bool, int)
        # What Python takes for each other, the columns do.
        taken: dict[str, tuple[type, ...]] = {
            "flag": (bool,), "small": whole, "large": whole, "day": whole, "at": whole,
            "single": (*whole, float, decimal.Decimal), "double": (*whole, float, decimal.Decimal),
            "money": (decimal.Decimal,), "text": (str,), "data": (bytes,),
        }  # fmt: skip
        fields = fields_of(Every, "test")
        for name, types in taken.items():
            for value in (True, 7, 1.5, decimal.Decimal("1.5"), "x", "\ud800", b"x", [1], NULLS):
                row = EXTREMES[1]._replace(**{name: value})
                with self.subTest(column=name, value=value):
                    if type(value) in types and value != "\ud800":
                        encode_rows(fields, [row])
                    else:
                        with self.assertRaisesRegex(Error, f"column `{name}`"):
                            encode_rows(fields, [EXTREMES[1], row])

    def test_a_view_of_wide_items_has_all_its_bytes(self):
        class Data(NamedTuple):
            data: bytes

        fields = fields_of(Data, "test")
        wide = memoryview(array.array("I", [1, 2]))
        rows = [Data(b"a"), Data(wide), Data(b"")]  # type: ignore[arg-type]
        again = decode_rows(Data, fields, 3, encode_rows(fields, rows))
        self.assertEqual([row.data for row in again], [b"a", struct.pack("<II", 1, 2), b""])

    def test_a_type_that_is_no_column_is_refused_by_name(self):
        class Wrong(NamedTuple):
            numbers: list[int]

        with self.assertRaisesRegex(Error, "Wrong.numbers"):
            fields_of(Wrong, "test")


class TestStates(unittest.TestCase):
    def test_a_value_is_what_was_written_last(self):
        words = [("get", 0), ("put", 1), ("get", 0), ("put", 2), ("get", 0), ("delete", 0), ("get", 0)]
        self.assertEqual(run(*words), ["None", "1", "2", "None"])

    def test_a_list_keeps_the_order(self):
        words = [("append", 2), ("list", 0), ("append", 1), ("list", 0), ("clear", 0), ("append", 3),
                 ("list", 0)]  # fmt: skip
        self.assertEqual(run(*words), ["[2]", "[2, 1]", "[3]"])

    def test_appending_reads_nothing(self):
        host = TestHost(Kinds)
        host.process([Word("a", 1, "append"), Word("b", 2, "append"), Word("a", 3, "append")])
        self.assertEqual(host.calls, {("list", "append"): 1})
        self.assertEqual(host.state("list"), {("a",): [(1,), (3,)], ("b",): [(2,)]})

    def test_a_map_has_entries_in_order(self):
        words = [("enter", 5), ("enter", 3), ("enter", 9), ("entries", 0), ("from", 4), ("remove", 5),
                 ("entry", 5), ("from", 1), ("entries", 0), ("clear", 0), ("entry", 3), ("enter", 1),
                 ("entries", 0)]  # fmt: skip
        expected = ["[3, 5, 9]", "[5, 9]", "None", "[3, 9]", "[3, 9]", "None", "[1]"]
        self.assertEqual(run(*words), expected)

    def test_prefetched_entries_come_in_one_call(self):
        host = TestHost(Kinds)
        words = [Word(key, n % 3, "count") for n in range(9) for key in "ab"]
        host.process(words)
        host.process(words)
        self.assertEqual(host.calls, {("fetched", "get"): 2, ("fetched", "put"): 2})
        self.assertEqual(host.state("fetched")[("a",)], {(n,): (6,) for n in range(3)})

    def test_a_reduced_row_is_folded_and_visible_at_once(self):
        words = [("total", 0), ("add", 5), ("total", 0), ("add", -7), ("nothing", 0), ("total", 0),
                 ("clear", 0), ("total", 0), ("nothing", 0), ("total", 0)]  # fmt: skip
        expected = ["None", "(5, 5, 1)", "(-2, -7, 3)", "None", "(None, None, 1)"]
        self.assertEqual(run(*words), expected)

    def test_adding_reads_nothing(self):
        host = TestHost(Kinds)
        host.process([Word("a", n, "add") for n in range(5)])
        self.assertEqual(host.calls, {("totals", "add"): 1})

    def test_states_of_other_keys_are_for_calls_without_rows(self):
        host = TestHost(Kinds)
        host.process([Word("a", 7)])
        [event] = host.barrier()
        self.assertEqual(event.row.answer, "barrier 1 [Number(number=7), None]")

    def test_the_spec_says_all_that_was_declared(self):
        spec = TestHost(Kinds).spec
        kinds = {state.name: type(state.kind).__name__ for state in spec.states}
        self.assertEqual(kinds, {
            "value": "StateKind_Value", "list": "StateKind_List", "map": "StateKind_Map",
            "fetched": "StateKind_Map", "totals": "StateKind_Reducing",
        })  # fmt: skip
        self.assertEqual((spec.states[0].ttl.millis, spec.states[0].schema_version), (1000, 3))
        self.assertEqual([output.changelog for output in spec.outputs], [False, True])
        self.assertEqual([timer.name for timer in spec.timers], ["ends", "alarms"])


class TestTime(unittest.TestCase):
    def test_timers_fire_once_in_order_before_the_watermark(self):
        host = TestHost(Kinds)
        host.process([Word("a", 20, "timer"), Word("a", 10, "timer"), Word("a", 20, "timer"),
                      Word("a", 15, "timer"), Word("a", 15, "untimer"), Word("a", 1, "put")])  # fmt: skip
        answers = [event.row.answer for event in host.advance_watermark(115)]
        value = "Number(number=1)"
        expected = [f"end {time} {value}" for time in (10, 20, 110)] + ["watermark 115"]
        self.assertEqual(answers, expected)
        self.assertEqual(host.timers("ends"), [(120, ("a",))])

    def test_the_clock_fires_timers_of_its_own(self):
        host = TestHost(Kinds)
        host.advance_clock(1000)
        host.process([Word("a", 50, "alarm")])
        self.assertEqual(host.advance_clock(1049), [])
        [event] = host.advance_clock(1060)
        self.assertEqual(event.row.answer, "alarm 1050 at 1060")

    def test_a_crash_takes_timers_back(self):
        host = TestHost(Kinds)
        host.process([Word("a", 10, "timer")])
        host.barrier()
        host.process([Word("b", 10, "timer")])
        host.crash()
        self.assertEqual(host.timers("ends"), [(10, ("a",))])


class TestStreams(unittest.TestCase):
    def test_changes_go_to_the_output_that_takes_them(self):
        events = TestHost(Kinds).process([Word("a", 0, "change")], timestamps=[5])
        before, after = Answer("a", "before"), Answer("a", "after")
        self.assertEqual(events, [
            Event("late", before, RowKind.UPDATE_BEFORE, 5),
            Event("late", after, RowKind.UPDATE_AFTER, 5),
            Event("late", after, RowKind.DELETE, 5),
        ])  # fmt: skip

    def test_two_inputs_share_a_state(self):
        class Left(NamedTuple):
            id: int
            left: str

        class Right(NamedTuple):
            of: int
            right: str

        class Id(NamedTuple):
            id: int

        class Text(NamedTuple):
            text: str

        class Join(Operator):
            lefts = Input(Left, key=Id)
            rights = Input(Right, key=Id, key_fields=["of"])
            joined = Output(Text)
            left = ValueState(Text)

            @lefts.each
            def on_left(self, row: Left) -> None:
                self.left.put(Text(row.left))

            @rights.each
            def on_right(self, row: Right) -> None:
                left = self.left.get()
                self.joined.emit(Text(f"{self.record.key.id}{left and left.text}{row.right}"))

        host = TestHost(Join)
        host.process([Left(1, "x")], input="lefts")
        events = host.process([Right(1, "y"), Right(2, "z")], input="rights")
        self.assertEqual([event.row.text for event in events], ["1xy", "2Nonez"])

    def test_a_batch_of_columns_needs_no_rows(self):
        class Doubler(Operator):
            input = Input(Word, key=Key)
            output = Output(Number)
            seen = ValueState(Number)

            @input.batch
            def on_batch(self, batch):
                loaded = self.seen.load_columns()
                numbers = batch.columns["number"].view()
                doubled = struct.pack(f"<{batch.rows}q", *[2 * number for number in numbers])
                column = type(batch.raw[0])(doubled, None, None)
                self.output.emit_columns(batch.rows, [column], batch.timestamps)
                assert loaded.rows == batch.key_count
                if batch.rows == batch.key_count:
                    self.seen.store_columns([column])

        host = TestHost(Doubler)
        events = host.process([Word("a", 4), Word("b", 5)], timestamps=[1, 2])
        self.assertEqual(events, [Event("output", Number(8), timestamp=1),
                                  Event("output", Number(10), timestamp=2)])  # fmt: skip
        self.assertEqual(host.state("seen"), {("a",): (8,), ("b",): (10,)})

    def test_logs_and_metrics_reach_the_host(self):
        host = TestHost(Kinds)
        host.process([Word("a", 7, "tell"), Word("a", 8, "tell")])
        host.barrier()
        host.complete_checkpoint()
        messages = [message for _, message in host.logs]
        self.assertEqual(messages, ["number 7", "number 8", "complete 1"])
        self.assertEqual(host.metrics, {"words_total": 2, "word_bytes": [3.0, 3.0]})


class TestErrors(unittest.TestCase):
    def test_an_exception_arrives_with_message_and_traceback(self):
        with self.assertRaises(Error) as caught:
            TestHost(Kinds).process([Word("a", 3, "fail")])
        message = str(caught.exception)
        self.assertRegex(message, "^ValueError: cannot take 3 ")
        self.assertRegex(message, r"test_operators\.py:\d+ in do_fail\)$")

    def test_what_a_failed_batch_did_is_forgotten(self):
        host = TestHost(Kinds)
        with self.assertRaises(Error):
            host.process([Word("a", 3, "put"), Word("a", 3, "change"), Word("a", 3, "fail")])
        self.assertEqual(host.process([Word("a", 0, "get")]), [Event("answers", Answer("a", "None"))])

    def test_a_configuration_is_refused_before_the_operator_runs(self):
        with self.assertRaisesRegex(Error, "`unknown` is no setting") as caught:
            TestHost(Kinds, {"unknown": True})
        self.assertEqual(caught.exception.kind, "INVALID_CONFIG")

    def test_a_key_that_the_input_lacks_is_refused(self):
        class Lost(Operator):
            input = Input(Number, key=Key)

            @input.each
            def on_row(self, row): ...

        with self.assertRaisesRegex(Error, "key field `key` is no field of input `input`"):
            TestHost(Lost)

    def test_a_row_of_another_type_is_refused(self):
        class Wrong(Operator):
            input = Input(Word, key=Key)
            output = Output(Number)

            @input.each
            def on_row(self, row):
                self.output.emit(row)

        with self.assertRaisesRegex(Error, "output `output` has rows of Number, got Word"):
            TestHost(Wrong).process([Word("a", 1)])

    def test_a_value_that_does_not_fit_is_shown_with_its_row_and_who_emitted_it(self):
        class Wrong(Operator):
            input = Input(Word, key=Key)
            output = Output(Number)

            @input.each
            def on_row(self, row):
                self.output.emit(Number(row.kind if row.number == 7 else row.number))

        said = r"column `number` is int64: .*, in Number\(number='put'\); from on_row \(test_operators\.py:\d+\)"
        with self.assertRaisesRegex(Error, said):
            TestHost(Wrong).process([Word("a", 1), Word("b", 7)])

    def test_a_field_of_a_state_called_like_a_key_field_is_refused(self):
        class Field(NamedTuple):
            Key: int

        for state, what in (
            (ValueState(Field), "its field `Key` is called like a key field"),
            (MapState(Key, Number), "its map key field `key` is called like a key field"),
            (MapState(Number, Number), "its field `number` is called like a map key field"),
        ):

            class Clash(Operator):
                input = Input(Word, key=Key)
                kept = state

                @input.each
                def on_row(self, row): ...

            with self.assertRaisesRegex(Error, f"state `kept`: {what}: rename it"):
                TestHost(Clash)

    def test_a_state_called_like_a_part_of_every_operator_is_refused(self):
        for name in ("record", "config", "open"):
            with self.assertRaisesRegex(Error, f"`{name}` of Clash is a name of every operator"):
                type("Clash", (Operator,), {name: ValueState(Number)})

    def test_a_ttl_that_is_a_number_is_refused_with_what_to_write(self):
        with self.assertRaisesRegex(Error, r"not 60000: ttl=Ttl\(60_000\)"):
            ListState(Number, ttl=60_000)


if __name__ == "__main__":
    unittest.main()
