"""Every kind of state and a timer: what the tests of all languages run.

Each row has a key, a verb and a number; what is asked for is emitted as a number.
"""

from typing import NamedTuple

from howdah import Input, ListState, MapState, Operator, Output, ReducingState, Timers, Timestamp
from howdah import ValueState


class Word(NamedTuple):
    key: str
    verb: str
    number: int
    at: Timestamp


class Key(NamedTuple):
    key: str


class Answer(NamedTuple):
    key: str
    verb: str
    answer: int


class Number(NamedTuple):
    number: int


class Place(NamedTuple):
    place: int


class Total(NamedTuple):
    total: int
    least: int
    count: int


def digits(numbers: list[int]) -> int:
    folded = 0
    for number in numbers:
        folded = (folded * 10 + number) % 1_000_000_007
    return folded


class EveryKind(Operator):
    words = Input(Word, key=Key)
    answers = Output(Answer)
    value = ValueState(Number)
    list = ListState(Number)
    map = MapState(Place, Number)
    totals = ReducingState(Total, reducers={"total": "sum", "least": "min", "count": "count"})
    ends = Timers()

    @words.each
    def on_word(self, word: Word) -> None:
        getattr(self, "do_" + word.verb)(word.number)

    def answer(self, verb: str, answer: int) -> None:
        self.answers.emit(Answer(self.record.key.key, verb, answer))

    def do_put(self, number: int) -> None:
        self.value.put(Number(number))

    def do_get(self, number: int) -> None:
        row = self.value.get()
        self.answer("get", -1 if row is None else row.number)

    def do_delete(self, number: int) -> None:
        self.value.delete()

    def do_append(self, number: int) -> None:
        self.list.append(Number(number))

    def do_list(self, number: int) -> None:
        self.answer("list", digits([row.number for row in self.list.get()]))

    def do_enter(self, number: int) -> None:
        self.map.put(Place(number), Number(2 * number))

    def do_remove(self, number: int) -> None:
        self.map.delete(Place(number))

    def do_entry(self, number: int) -> None:
        row = self.map.get(Place(number))
        self.answer("entry", -1 if row is None else row.number)

    def do_entries(self, number: int) -> None:
        entries = self.map.items(Place(number), limit_rows=3)
        self.answer("entries", digits([place.place for place, _ in entries]))

    def do_add(self, number: int) -> None:
        self.totals.add(Total(number, number, 0))

    def do_total(self, number: int) -> None:
        row = self.totals.get()
        folded = -1 if row is None else row.total * 10_000 + row.least * 1_000 + row.count
        self.answer("total", folded)

    def do_clear(self, number: int) -> None:
        self.list.clear()
        self.map.clear()
        self.totals.clear()

    def do_timer(self, number: int) -> None:
        self.ends.set(self.record.timestamp + 5_000)

    def do_fail(self, number: int) -> None:
        raise ValueError(f"cannot take {number}")

    @ends.fired
    def on_end(self, time: int) -> None:
        self.answer("timer", time)
