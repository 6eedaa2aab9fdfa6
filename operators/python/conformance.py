"""Does what its rows say, with everything that the contract has, and answers with rows. There is one
in the language of each SDK, and one test suite for all of them.

A row of `commands` is one call: `list.append` with a number appends it. What it answers has the key,
command, event time and kind of the row. What there is no row for has no answer. Commands given to
`later` are held back until the next barrier, and carried out with explicit keys: all of one sort
together, in the order of `LATER`. Rows of `values` are kept, and answered with the row before.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from howdah import (
    Date, Decimal, Error, Float32, Input, Int32, ListState, MapState, Operator, Output,
    ReducingState, RowKind, Timers, Timestamp, ValueState, clock, log, metrics,
)  # fmt: skip


class Command(NamedTuple):
    key: str
    command: str
    map_key: int | None
    number: int | None
    text: str | None


class Key(NamedTuple):
    key: str


class Values(NamedTuple):
    key: str
    boolean: bool | None
    int32: Int32 | None
    int64: int | None
    float32: Float32 | None
    float64: float | None
    decimal: Decimal[38, 10] | None
    date: Date | None
    timestamp: Timestamp | None
    utf8: str | None
    binary: bytes | None


class Stored(NamedTuple):
    boolean: bool | None
    int32: Int32 | None
    int64: int | None
    float32: Float32 | None
    float64: float | None
    decimal: Decimal[38, 10] | None
    date: Date | None
    timestamp: Timestamp | None
    utf8: str | None
    binary: bytes | None


class Pair(NamedTuple):
    number: int | None
    text: str | None


class Number(NamedTuple):
    number: int | None


class Place(NamedTuple):
    map_key: int


class Folded(NamedTuple):
    sum: int | None
    min: int | None
    max: int | None
    count: int | None
    first: int | None
    last: int | None


class Answer(NamedTuple):
    """What of an answer is not the key and the command."""

    map_key: int | None = None
    number: int | None = None
    text: str | None = None


KINDS = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}

LATER = [
    "value.delete", "value.put", "value.get",
    "list.clear", "list.append", "list.get",
    "map.clear", "map.put", "map.delete", "map.get", "map.entries",
    "reducing.clear", "reducing.add", "reducing.get",
    "event.delete", "event.set", "processing.delete", "processing.set",
]  # fmt: skip


def place(row: Command) -> Place:
    return Place(row.map_key or 0)


def pair_answers(row: Pair | None) -> list[Answer]:
    return [] if row is None else [Answer(None, row.number, row.text)]


def list_answers(rows: Iterable[Number]) -> list[Answer]:
    return [Answer(None, row.number) for row in rows]


def entry_answers(map_key: int | None, row: Number | None) -> list[Answer]:
    return [] if row is None else [Answer(map_key, row.number)]


def entries_answers(entries: Iterable[tuple[Place, Number]]) -> list[Answer]:
    return [Answer(at.map_key, row.number) for at, row in entries]


def folded_answers(row: Folded | None) -> list[Answer]:
    return [] if row is None else [Answer(None, n, name) for name, n in row._asdict().items()]


class Conformance(Operator):
    commands = Input(Command, key=Key, changelog=True)
    values = Input(Values, key=Key)
    results = Output(Command, changelog=True)
    echoes = Output(Values)
    value = ValueState(Pair)
    list = ListState(Number)
    map = MapState(Place, Number)
    reducing = ReducingState(Folded, reducers={name: name for name in Folded._fields})
    stored = ValueState(Stored)
    event = Timers()
    processing = Timers(processing_time=True)

    def open(self) -> None:
        self.held_back: Any = []

    @commands.each
    def on_command(self, row: Command) -> None:
        obey = getattr(self, "do_" + row.command.replace(".", "_"), None)
        if obey is None:
            raise Error(f"unknown command {row.command}")
        self.answer(self.record.key.key, row.command, obey(row) or [], self.record.kind)

    @values.each
    def on_values(self, row: Values) -> None:
        before = self.stored.get()
        none = [None] * len(Stored._fields)
        self.echoes.emit(Values(row.key, *(none if before is None else before)))
        self.stored.put(Stored(*row[1:]))

    @event.fired
    def on_event(self, time: int) -> None:
        self.announce(self.record.key.key, "event", time)

    @processing.fired
    def on_processing(self, time: int) -> None:
        self.announce(self.record.key.key, "processing", time)

    def on_watermark(self, watermark: int) -> None:
        self.announce("", "on-watermark", watermark)

    def on_barrier(self, checkpoint: int) -> None:
        self.carry_out()
        self.announce("", "on-barrier", checkpoint)

    def on_checkpoint_complete(self, checkpoint: int) -> None:
        log.info("checkpoint %d is complete", checkpoint)

    def close(self) -> None:
        self.carry_out()
        self.announce("", "close", 0)

    def announce(self, key: str, command: str, number: int) -> None:
        self.answer(key, command, [Answer(None, number)], RowKind.INSERT)

    def answer(self, key: str, command: str, rows: Iterable[Answer], kind: RowKind) -> None:
        for row in rows:
            self.results.emit(Command(key, command, *row), kind=kind)

    # What a row does to its key; what these give are the answers.

    def do_value_put(self, row: Command) -> None:
        self.value.put(Pair(row.number, row.text))

    def do_value_get(self, row: Command) -> Any:
        return pair_answers(self.value.get())

    def do_value_delete(self, row: Command) -> None:
        self.value.delete()

    def do_list_append(self, row: Command) -> None:
        self.list.append(Number(row.number))

    def do_list_get(self, row: Command) -> Any:
        return list_answers(self.list.get())

    def do_list_clear(self, row: Command) -> None:
        self.list.clear()

    def do_map_put(self, row: Command) -> None:
        self.map.put(place(row), Number(row.number))

    def do_map_get(self, row: Command) -> Any:
        return entry_answers(row.map_key, self.map.get(place(row)))

    def do_map_delete(self, row: Command) -> None:
        self.map.delete(place(row))

    def do_map_entries(self, row: Command) -> Any:
        return entries_answers(self.map.items())

    def do_map_range(self, row: Command) -> Any:
        first = None if row.map_key is None else Place(row.map_key)
        end = None if row.number is None else Place(row.number)
        if row.text is None:
            return entries_answers(self.map.items(first, end))
        return entries_answers(self.map.items(first, end, limit_rows=int(row.text)))

    def do_map_clear(self, row: Command) -> None:
        self.map.clear()

    def do_reducing_add(self, row: Command) -> None:
        self.reducing.add(Folded(*[row.number] * len(Folded._fields)))

    def do_reducing_get(self, row: Command) -> Any:
        return folded_answers(self.reducing.get())

    def do_reducing_clear(self, row: Command) -> None:
        self.reducing.clear()

    def do_event_set(self, row: Command) -> None:
        self.event.set(row.number or 0)

    def do_event_delete(self, row: Command) -> None:
        self.event.delete(row.number or 0)

    def do_processing_set(self, row: Command) -> None:
        self.processing.set(row.number or 0)

    def do_processing_delete(self, row: Command) -> None:
        self.processing.delete(row.number or 0)

    def do_now(self, row: Command) -> Any:
        return [Answer(None, clock.now())]

    def do_watermark(self, row: Command) -> Any:
        return [Answer(None, self.record.watermark)]

    def do_kind(self, row: Command) -> Any:
        return [Answer(text=KINDS[self.record.kind])]

    def do_config(self, row: Command) -> Any:
        return [Answer(text=self.config.get("greeting"))]

    def do_context(self, row: Command) -> Any:
        at = self.subtask
        assert at is not None
        return [
            Answer(at.index, at.parallelism, at.pipeline),
            Answer(None, at.restored_from, at.operator),
        ]

    def do_emit(self, row: Command) -> None:
        row = row._replace(key=self.record.key.key)
        self.results.emit(row, kind=self.record.kind, timestamp=row.number or 0)

    def do_later(self, row: Command) -> None:
        self.held_back.append(row._replace(key=self.record.key.key, command=row.text))

    def do_log(self, row: Command) -> None:
        level = 2 if row.number is None else row.number
        [log.trace, log.debug, log.info, log.warn, log.error][level]("%s", row.text)

    def do_counter(self, row: Command) -> None:
        metrics.counter_add("commands_total", row.number or 0)

    def do_gauge(self, row: Command) -> None:
        metrics.gauge_set("level_bytes", row.number or 0)

    def do_histogram(self, row: Command) -> None:
        metrics.histogram_record("wait_ms", row.number or 0)

    def do_fail(self, row: Command) -> None:
        raise Error(row.text or "")

    def do_crash(self, row: Command) -> None:
        raise ValueError(row.text)

    def carry_out(self) -> None:
        """Does what was held back."""
        for command in LATER:
            rows = [row for row in self.held_back if row.command == command]
            if rows:
                answers = self.obey_all(command, rows, [Key(row.key) for row in rows]) or []
                for row, of_row in zip(rows, answers):
                    self.answer(row.key, command, of_row, RowKind.INSERT)
        self.held_back = []

    def obey_all(self, command: str, rows: Any, keys: Any) -> Any:
        """What this gives has the answers to each row."""
        times = [(key, row.number or 0) for key, row in zip(keys, rows)]
        numbers = [(key, Number(row.number)) for key, row in zip(keys, rows)]
        places = [(key, place(row)) for key, row in zip(keys, rows)]
        match command:
            case "value.delete":
                self.value.delete_many(keys)
            case "value.put":
                pairs = [Pair(row.number, row.text) for row in rows]
                self.value.put_many(dict(zip(keys, pairs)))
            case "value.get":
                return [pair_answers(row) for row in self.value.get_many(keys)]
            case "list.clear":
                self.list.clear_many(keys)
            case "list.append":
                self.list.append_many(numbers)
            case "list.get":
                return [list_answers(found) for found in self.list.get_many(keys)]
            case "map.clear":
                self.map.clear_many(keys)
            case "map.put":
                self.map.put_many([(*at, row) for at, (_, row) in zip(places, numbers)])
            case "map.delete":
                self.map.delete_many(places)
            case "map.get":
                found = zip(rows, self.map.get_many(places))
                return [entry_answers(row.map_key, entry) for row, entry in found]
            case "map.entries":
                return [entries_answers(entries) for entries in self.map.items_many(keys)]
            case "reducing.clear":
                self.reducing.clear_many(keys)
            case "reducing.add":
                count = len(Folded._fields)
                folded = [(key, Folded(*[row.number] * count)) for key, row in numbers]
                self.reducing.add_many(folded)
            case "reducing.get":
                return [folded_answers(row) for row in self.reducing.get_many(keys)]
            case "event.delete":
                self.event.delete_many(times)
            case "event.set":
                self.event.set_many(times)
            case "processing.delete":
                self.processing.delete_many(times)
            case "processing.set":
                self.processing.set_many(times)
        return None
