/* Does what its rows say, with everything that the contract has, and answers with rows. There is one
 * in the language of each SDK, and one test suite for all of them.
 *
 * A row of `commands` is one call: `list.append` with a number appends it. What it answers has the
 * key, command, event time and kind of the row. What there is no row for has no answer. Commands given
 * to `later` are held back until the next barrier, and carried out with explicit keys: all of one
 * sort together, in the order of `laters`. Rows of `values` are kept, and answered with the row
 * before. */

#include <stdlib.h>

#include "howdah.h"

/* ---- Rows ---- */

typedef struct command {
    howdah_bytes key, command;
    int64_t map_key, number;
    howdah_bytes text;
    bool no_map_key, no_number, no_text;
} command;

static const howdah_field command_fields[] = {
    HOWDAH_FIELD(command, key, HOWDAH_UTF8),
    HOWDAH_FIELD(command, command, HOWDAH_UTF8),
    HOWDAH_NULLABLE(command, map_key, HOWDAH_INT64, no_map_key),
    HOWDAH_NULLABLE(command, number, HOWDAH_INT64, no_number),
    HOWDAH_NULLABLE(command, text, HOWDAH_UTF8, no_text),
};
static const howdah_row command_row = HOWDAH_ROW(command, command_fields);

typedef struct key {
    howdah_bytes key;
} key;

static const howdah_field key_fields[] = { HOWDAH_FIELD(key, key, HOWDAH_UTF8) };
static const howdah_row key_row = HOWDAH_ROW(key, key_fields);

typedef struct values {
    howdah_bytes key;
    bool boolean;
    int32_t int32;
    int64_t int64;
    float float32;
    double float64;
    howdah_decimal decimal;
    int32_t date;
    int64_t timestamp;
    howdah_bytes utf8, binary;
    bool no_boolean, no_int32, no_int64, no_float32, no_float64;
    bool no_decimal, no_date, no_timestamp, no_utf8, no_binary;
} values;

#define VALUES \
    HOWDAH_NULLABLE(values, boolean, HOWDAH_BOOLEAN, no_boolean), \
    HOWDAH_NULLABLE(values, int32, HOWDAH_INT32, no_int32), \
    HOWDAH_NULLABLE(values, int64, HOWDAH_INT64, no_int64), \
    HOWDAH_NULLABLE(values, float32, HOWDAH_FLOAT32, no_float32), \
    HOWDAH_NULLABLE(values, float64, HOWDAH_FLOAT64, no_float64), \
    HOWDAH_NULLABLE_DECIMAL(values, decimal, 38, 10, no_decimal), \
    HOWDAH_NULLABLE(values, date, HOWDAH_DATE, no_date), \
    HOWDAH_NULLABLE(values, timestamp, HOWDAH_TIMESTAMP, no_timestamp), \
    HOWDAH_NULLABLE(values, utf8, HOWDAH_UTF8, no_utf8), \
    HOWDAH_NULLABLE(values, binary, HOWDAH_BINARY, no_binary)

static const howdah_field values_fields[] = { HOWDAH_FIELD(values, key, HOWDAH_UTF8), VALUES };
static const howdah_row values_row = HOWDAH_ROW(values, values_fields);
static const howdah_field stored_fields[] = { VALUES };
static const howdah_row stored_row = HOWDAH_ROW(values, stored_fields);

static const values no_values = {
    .no_boolean = true, .no_int32 = true, .no_int64 = true, .no_float32 = true, .no_float64 = true,
    .no_decimal = true, .no_date = true, .no_timestamp = true, .no_utf8 = true, .no_binary = true,
};

typedef struct pair {
    int64_t number;
    howdah_bytes text;
    bool no_number, no_text;
} pair;

static const howdah_field pair_fields[] = {
    HOWDAH_NULLABLE(pair, number, HOWDAH_INT64, no_number),
    HOWDAH_NULLABLE(pair, text, HOWDAH_UTF8, no_text),
};
static const howdah_row pair_row = HOWDAH_ROW(pair, pair_fields);

typedef struct number {
    int64_t number;
    bool no_number;
} number;

static const howdah_field number_fields[] = { HOWDAH_NULLABLE(number, number, HOWDAH_INT64, no_number) };
static const howdah_row number_row = HOWDAH_ROW(number, number_fields);

typedef struct place {
    int64_t map_key;
} place;

static const howdah_field place_fields[] = { HOWDAH_FIELD(place, map_key, HOWDAH_INT64) };
static const howdah_row place_row = HOWDAH_ROW(place, place_fields);

typedef struct folded {
    int64_t sum, min, max, count, first, last;
    bool no_sum, no_min, no_max, no_count, no_first, no_last;
} folded;

static const howdah_field folded_fields[] = {
    HOWDAH_NULLABLE(folded, sum, HOWDAH_INT64, no_sum),
    HOWDAH_NULLABLE(folded, min, HOWDAH_INT64, no_min),
    HOWDAH_NULLABLE(folded, max, HOWDAH_INT64, no_max),
    HOWDAH_NULLABLE(folded, count, HOWDAH_INT64, no_count),
    HOWDAH_NULLABLE(folded, first, HOWDAH_INT64, no_first),
    HOWDAH_NULLABLE(folded, last, HOWDAH_INT64, no_last),
};
static const howdah_row folded_row = HOWDAH_ROW(folded, folded_fields);
static const howdah_reducer reducers[] = {
    HOWDAH_SUM, HOWDAH_MIN, HOWDAH_MAX, HOWDAH_COUNT, HOWDAH_FIRST, HOWDAH_LAST,
};

static howdah_state value = { .name = "value", .kind = HOWDAH_VALUE, .row = &pair_row };
static howdah_state items = { .name = "list", .kind = HOWDAH_LIST, .row = &number_row };
static howdah_state map = { .name = "map", .kind = HOWDAH_MAP, .row = &number_row, .map_key = &place_row };
static howdah_state reducing = { .name = "reducing", .kind = HOWDAH_REDUCING, .row = &folded_row, .reducers = reducers };
static howdah_state stored = { .name = "stored", .kind = HOWDAH_VALUE, .row = &stored_row };
static howdah_output results = { .name = "results", .row = &command_row, .changelog = true };
static howdah_output echoes = { .name = "echoes", .row = &values_row };

/* ---- Answers ---- */

/* What answers have in common. */
static command asked;
static howdah_kind asked_kind;

static void answer(const int64_t *map_key, const int64_t *number, const howdah_bytes *text) {
    command row = { .key = asked.key, .command = asked.command };
    row.no_map_key = !map_key;
    row.no_number = !number;
    row.no_text = !text;
    if (map_key) row.map_key = *map_key;
    if (number) row.number = *number;
    if (text) row.text = *text;
    howdah_emit_kind(&results, asked_kind, &row);
}

static void answer_number(int64_t number) {
    answer(NULL, &number, NULL);
}

static void answer_text(const char *text) {
    howdah_bytes bytes = howdah_text(text);
    answer(NULL, NULL, &bytes);
}

static void answer_pair(const pair *row) {
    if (row) answer(NULL, row->no_number ? NULL : &row->number, row->no_text ? NULL : &row->text);
}

static void answer_item(const number *row) {
    answer(NULL, row->no_number ? NULL : &row->number, NULL);
}

static void answer_entry(const int64_t *map_key, const number *row) {
    if (row) answer(map_key, row->no_number ? NULL : &row->number, NULL);
}

static void answer_folded(const folded *row) {
    if (!row) return;
#define ANSWER(FIELD) do { \
        howdah_bytes name = howdah_text(#FIELD); \
        answer(NULL, row->no_##FIELD ? NULL : &row->FIELD, &name); \
    } while (0)
    ANSWER(sum);
    ANSWER(min);
    ANSWER(max);
    ANSWER(count);
    ANSWER(first);
    ANSWER(last);
}

static void announce(howdah_bytes of, const char *what, int64_t number) {
    asked = (command){ .key = of, .command = howdah_text(what) };
    asked_kind = HOWDAH_INSERT;
    answer_number(number);
}

/* ---- Commands ---- */

static void on_event(int64_t time) {
    announce(((const key *)howdah_key())->key, "event", time);
}

static void on_processing(int64_t time) {
    announce(((const key *)howdah_key())->key, "processing", time);
}

static howdah_timers event = { .name = "event", .fired = on_event };
static howdah_timers processing = { .name = "processing", .processing_time = true, .fired = on_processing };

static folded fold(const command *row) {
    int64_t n = row->number;
    bool no = row->no_number;
    return (folded){ n, n, n, n, n, n, no, no, no, no, no, no };
}

static bool is(howdah_bytes bytes, const char *text) {
    return bytes.length == strlen(text) && memcmp(bytes.data, text, bytes.length) == 0;
}

/* What lasts past the call: operators hold it in memory of their own. */
static howdah_bytes keep(howdah_bytes bytes) {
    uint8_t *kept = malloc(bytes.length + 1);
    if (!kept) abort();
    if (bytes.length) memcpy(kept, bytes.data, bytes.length);
    return (howdah_bytes){ kept, bytes.length };
}

static command *held_back;
static uint32_t held_count;

static void hold_back(const command *row) {
    held_back = realloc(held_back, (held_count + 1) * sizeof *held_back);
    if (!held_back) abort();
    command *held = &held_back[held_count++];
    *held = *row;
    held->key = keep(((const key *)howdah_key())->key);
    held->command = held->text = keep(row->text);
}

static uint32_t parse(howdah_bytes digits) {
    uint32_t number = 0;
    for (uint32_t i = 0; i < digits.length; i++) number = number * 10 + (digits.data[i] - '0');
    return number;
}

static void answer_list(void) {
    uint32_t count;
    const number *rows = howdah_list_get(&items, &count);
    for (uint32_t i = 0; i < count; i++) answer_item(&rows[i]);
}

static void answer_range(const place *first, const place *end, uint32_t limit) {
    const void *places, *rows;
    uint32_t count = howdah_map_entries(&map, first, end, limit, &places, &rows);
    for (uint32_t i = 0; i < count; i++)
        answer_entry(&((const place *)places)[i].map_key, (const number *)rows + i);
}

static void answer_context(void) {
    howdah_bytes name = howdah_text(howdah_pipeline());
    int64_t subtask = howdah_subtask(), parallelism = howdah_parallelism();
    answer(&subtask, &parallelism, &name);
    name = howdah_text(howdah_operator_name());
    uint64_t checkpoint;
    int64_t restored;
    bool is_restored = howdah_restored_from(&checkpoint);
    if (is_restored) restored = (int64_t)checkpoint;
    answer(NULL, is_restored ? &restored : NULL, &name);
}

static void on_command(const void *given) {
    static const char *const kinds[] = { "+I", "-U", "+U", "-D" };
    const command *row = given;
    number one = { row->number, row->no_number };
    place at = { row->no_map_key ? 0 : row->map_key }, to = { row->number };
    int64_t n = row->no_number ? 0 : row->number;
    howdah_bytes text;
    asked = *row;
    asked.key = ((const key *)howdah_key())->key;
    asked_kind = howdah_row_kind();
#define IS(NAME) is(row->command, NAME)
    if (IS("value.put")) howdah_value_put(&value, &(pair){ row->number, row->text, row->no_number, row->no_text });
    else if (IS("value.get")) answer_pair(howdah_value_get(&value));
    else if (IS("value.delete")) howdah_value_delete(&value);
    else if (IS("list.append")) howdah_list_append(&items, &one);
    else if (IS("list.get")) answer_list();
    else if (IS("list.clear")) howdah_list_clear(&items);
    else if (IS("map.put")) howdah_map_put(&map, &at, &one);
    else if (IS("map.get")) answer_entry(row->no_map_key ? NULL : &row->map_key, howdah_map_get(&map, &at));
    else if (IS("map.delete")) howdah_map_delete(&map, &at);
    else if (IS("map.entries")) answer_range(NULL, NULL, UINT32_MAX);
    else if (IS("map.range"))
        answer_range(row->no_map_key ? NULL : &at, row->no_number ? NULL : &to,
                     row->no_text ? UINT32_MAX : parse(row->text));
    else if (IS("map.clear")) howdah_map_clear(&map);
    else if (IS("reducing.add")) { folded added = fold(row); howdah_reducing_add(&reducing, &added); }
    else if (IS("reducing.get")) answer_folded(howdah_reducing_get(&reducing));
    else if (IS("reducing.clear")) howdah_reducing_clear(&reducing);
    else if (IS("event.set")) howdah_timer_set(&event, n);
    else if (IS("event.delete")) howdah_timer_delete(&event, n);
    else if (IS("processing.set")) howdah_timer_set(&processing, n);
    else if (IS("processing.delete")) howdah_timer_delete(&processing, n);
    else if (IS("now")) answer_number(howdah_now());
    else if (IS("watermark")) answer_number(howdah_watermark());
    else if (IS("kind")) answer_text(kinds[asked_kind]);
    else if (IS("config")) answer(NULL, NULL, howdah_config_text("greeting", &text) ? &text : NULL);
    else if (IS("context")) answer_context();
    else if (IS("emit")) howdah_emit_at(&results, asked_kind, n, row);
    else if (IS("later")) hold_back(row);
    else if (IS("log"))
        howdah_log(row->no_number ? HOWDAH_INFO_LEVEL : (howdah_level)row->number, "%.*s",
                   (int)row->text.length, (const char *)row->text.data);
    else if (IS("counter")) howdah_counter_add("commands_total", (uint64_t)n);
    else if (IS("gauge")) howdah_gauge_set("level_bytes", (double)n);
    else if (IS("histogram")) howdah_histogram_record("wait_ms", (double)n);
    else if (IS("fail")) howdah_fail("%.*s", (int)row->text.length, (const char *)row->text.data);
    else if (IS("crash")) {
        howdah_log(HOWDAH_ERROR_LEVEL, "%.*s", (int)row->text.length, (const char *)row->text.data);
        abort();
    }
    else howdah_fail("unknown command %.*s", (int)row->command.length, (const char *)row->command.data);
}

static void on_values(const void *given) {
    const values *row = given, *before = howdah_value_get(&stored);
    values echo = before ? *before : no_values;
    echo.key = row->key;
    howdah_emit(&echoes, &echo);
    howdah_value_put(&stored, row);
}

/* ---- What is held back ---- */

/* Rows of one sort of command, in the shapes that calls want. */
typedef struct batch {
    uint32_t count;
    const command *rows;
    const key *keys;
    const pair *pairs;
    const number *numbers;
    const place *places;
    const folded *folded;
    const int64_t *times;
} batch;

static void ask(const command *row) {
    asked = *row;
    asked_kind = HOWDAH_INSERT;
}

static void value_delete(const batch *of) { howdah_value_delete_many(&value, of->keys, of->count); }
static void value_put(const batch *of) { howdah_value_put_many(&value, of->keys, of->pairs, of->count); }
static void value_get(const batch *of) {
    const void **rows = howdah_value_get_many(&value, of->keys, of->count);
    for (uint32_t i = 0; i < of->count; i++) ask(&of->rows[i]), answer_pair(rows[i]);
}
static void list_clear(const batch *of) { howdah_list_clear_many(&items, of->keys, of->count); }
static void list_append(const batch *of) { howdah_list_append_many(&items, of->keys, of->numbers, of->count); }
static void list_get(const batch *of) {
    const uint32_t *key_of;
    const void *rows;
    uint32_t count = howdah_list_get_many(&items, of->keys, of->count, &key_of, &rows);
    for (uint32_t i = 0; i < count; i++) ask(&of->rows[key_of[i]]), answer_item((const number *)rows + i);
}
static void map_clear(const batch *of) { howdah_map_clear_many(&map, of->keys, of->count); }
static void map_put(const batch *of) { howdah_map_put_many(&map, of->keys, of->places, of->numbers, of->count); }
static void map_delete(const batch *of) { howdah_map_delete_many(&map, of->keys, of->places, of->count); }
static void map_get(const batch *of) {
    const void **rows = howdah_map_get_many(&map, of->keys, of->places, of->count);
    for (uint32_t i = 0; i < of->count; i++) {
        ask(&of->rows[i]);
        answer_entry(of->rows[i].no_map_key ? NULL : &of->rows[i].map_key, rows[i]);
    }
}
static void map_entries(const batch *of) {
    const uint32_t *key_of;
    const void *places, *rows;
    uint32_t count = howdah_map_entries_many(&map, of->keys, of->count, &key_of, &places, &rows);
    for (uint32_t i = 0; i < count; i++) {
        ask(&of->rows[key_of[i]]);
        answer_entry(&((const place *)places)[i].map_key, (const number *)rows + i);
    }
}
static void reducing_clear(const batch *of) { howdah_reducing_clear_many(&reducing, of->keys, of->count); }
static void reducing_add(const batch *of) { howdah_reducing_add_many(&reducing, of->keys, of->folded, of->count); }
static void reducing_get(const batch *of) {
    const void **rows = howdah_reducing_get_many(&reducing, of->keys, of->count);
    for (uint32_t i = 0; i < of->count; i++) ask(&of->rows[i]), answer_folded(rows[i]);
}
static void event_delete(const batch *of) { howdah_timer_delete_many(&event, of->keys, of->times, of->count); }
static void event_set(const batch *of) { howdah_timer_set_many(&event, of->keys, of->times, of->count); }
static void processing_delete(const batch *of) { howdah_timer_delete_many(&processing, of->keys, of->times, of->count); }
static void processing_set(const batch *of) { howdah_timer_set_many(&processing, of->keys, of->times, of->count); }

static const struct {
    const char *name;
    void (*obey)(const batch *of);
} laters[] = {
    { "value.delete", value_delete }, { "value.put", value_put }, { "value.get", value_get },
    { "list.clear", list_clear }, { "list.append", list_append }, { "list.get", list_get },
    { "map.clear", map_clear }, { "map.put", map_put }, { "map.delete", map_delete },
    { "map.get", map_get }, { "map.entries", map_entries },
    { "reducing.clear", reducing_clear }, { "reducing.add", reducing_add }, { "reducing.get", reducing_get },
    { "event.delete", event_delete }, { "event.set", event_set },
    { "processing.delete", processing_delete }, { "processing.set", processing_set },
};

static void carry_out_all(const char *name, void (*obey)(const batch *of)) {
    command *rows = howdah_allocate(held_count * sizeof *rows);
    key *keys = howdah_allocate(held_count * sizeof *keys);
    pair *pairs = howdah_allocate(held_count * sizeof *pairs);
    number *numbers = howdah_allocate(held_count * sizeof *numbers);
    place *places = howdah_allocate(held_count * sizeof *places);
    folded *added = howdah_allocate(held_count * sizeof *added);
    int64_t *times = howdah_allocate(held_count * sizeof *times);
    uint32_t count = 0;
    for (uint32_t i = 0; i < held_count; i++) {
        const command *row = &held_back[i];
        if (!is(row->command, name)) continue;
        rows[count] = *row;
        keys[count] = (key){ row->key };
        pairs[count] = (pair){ row->number, row->text, row->no_number, row->no_text };
        numbers[count] = (number){ row->number, row->no_number };
        places[count] = (place){ row->no_map_key ? 0 : row->map_key };
        added[count] = fold(row);
        times[count++] = row->no_number ? 0 : row->number;
    }
    batch of = { count, rows, keys, pairs, numbers, places, added, times };
    if (count) obey(&of);
}

/* Moves what was kept to the memory of the running call. */
static void let_go(howdah_bytes *kept) {
    uint8_t *copy = howdah_allocate(kept->length);
    if (kept->length) memcpy(copy, kept->data, kept->length);
    free((void *)kept->data);
    kept->data = copy;
}

static void carry_out(void) {
    for (uint32_t i = 0; i < held_count; i++) {
        let_go(&held_back[i].key);
        let_go(&held_back[i].text);
        held_back[i].command = held_back[i].text;
    }
    for (size_t i = 0; i < sizeof laters / sizeof *laters; i++) carry_out_all(laters[i].name, laters[i].obey);
    held_count = 0;
}

static void on_watermark(int64_t watermark) {
    announce(howdah_text(""), "on-watermark", watermark);
}

static void on_barrier(uint64_t checkpoint) {
    carry_out();
    announce(howdah_text(""), "on-barrier", (int64_t)checkpoint);
}

static void on_checkpoint_complete(uint64_t checkpoint) {
    howdah_log(HOWDAH_INFO_LEVEL, "checkpoint %llu is complete", (unsigned long long)checkpoint);
}

static void on_close(void) {
    carry_out();
    announce(howdah_text(""), "close", 0);
}

static howdah_input commands = { .name = "commands", .row = &command_row, .changelog = true, .each = on_command };
static howdah_input values_input = { .name = "values", .row = &values_row, .each = on_values };

const howdah_operator howdah_the_operator = {
    .key = &key_row,
    .inputs = (howdah_input *const[]){ &commands, &values_input, NULL },
    .outputs = (howdah_output *const[]){ &results, &echoes, NULL },
    .states = (howdah_state *const[]){ &value, &items, &map, &reducing, &stored, NULL },
    .timers = (howdah_timers *const[]){ &event, &processing, NULL },
    .on_watermark = on_watermark,
    .on_barrier = on_barrier,
    .on_checkpoint_complete = on_checkpoint_complete,
    .close = on_close,
};
