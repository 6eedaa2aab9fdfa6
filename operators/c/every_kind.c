/* Every kind of state and a timer: what the tests of all languages run.
 *
 * Each row has a key, a verb and a number; what is asked for is emitted as a number. */

#include "howdah.h"

typedef struct word {
    howdah_bytes key, verb;
    int64_t number, at;
} word;

static const howdah_field word_fields[] = {
    HOWDAH_FIELD(word, key, HOWDAH_UTF8),
    HOWDAH_FIELD(word, verb, HOWDAH_UTF8),
    HOWDAH_FIELD(word, number, HOWDAH_INT64),
    HOWDAH_FIELD(word, at, HOWDAH_TIMESTAMP),
};
static const howdah_row word_row = HOWDAH_ROW(word, word_fields);

typedef struct key {
    howdah_bytes key;
} key;

static const howdah_field key_fields[] = { HOWDAH_FIELD(key, key, HOWDAH_UTF8) };
static const howdah_row key_row = HOWDAH_ROW(key, key_fields);

typedef struct answer {
    howdah_bytes key, verb;
    int64_t answer;
} answer;

static const howdah_field answer_fields[] = {
    HOWDAH_FIELD(answer, key, HOWDAH_UTF8),
    HOWDAH_FIELD(answer, verb, HOWDAH_UTF8),
    HOWDAH_FIELD(answer, answer, HOWDAH_INT64),
};
static const howdah_row answer_row = HOWDAH_ROW(answer, answer_fields);

typedef struct number {
    int64_t number;
} number;

static const howdah_field number_fields[] = { HOWDAH_FIELD(number, number, HOWDAH_INT64) };
static const howdah_row number_row = HOWDAH_ROW(number, number_fields);

typedef struct place {
    int64_t place;
} place;

static const howdah_field place_fields[] = { HOWDAH_FIELD(place, place, HOWDAH_INT64) };
static const howdah_row place_row = HOWDAH_ROW(place, place_fields);

typedef struct total {
    int64_t total, least, count;
} total;

static const howdah_field total_fields[] = {
    HOWDAH_FIELD(total, total, HOWDAH_INT64),
    HOWDAH_FIELD(total, least, HOWDAH_INT64),
    HOWDAH_FIELD(total, count, HOWDAH_INT64),
};
static const howdah_row total_row = HOWDAH_ROW(total, total_fields);
static const howdah_reducer reducers[] = { HOWDAH_SUM, HOWDAH_MIN, HOWDAH_COUNT };

static howdah_state value = { .name = "value", .kind = HOWDAH_VALUE, .row = &number_row };
static howdah_state items = { .name = "list", .kind = HOWDAH_LIST, .row = &number_row };
static howdah_state map = { .name = "map", .kind = HOWDAH_MAP, .row = &number_row, .map_key = &place_row };
static howdah_state totals = { .name = "totals", .kind = HOWDAH_REDUCING, .row = &total_row, .reducers = reducers };
static howdah_output answers = { .name = "answers", .row = &answer_row };

static void emit(const char *verb, int64_t number) {
    answer row = { ((const key *)howdah_key())->key, howdah_text(verb), number };
    howdah_emit(&answers, &row);
}

/* The next digit of numbers that are folded into one. */
static int64_t digit(int64_t folded, int64_t number) {
    return (folded * 10 + number) % 1000000007;
}

static void on_end(int64_t time) {
    emit("timer", time);
}

static howdah_timers ends = { .name = "ends", .fired = on_end };

static void emit_list(void) {
    uint32_t count;
    const number *numbers = howdah_list_get(&items, &count);
    int64_t folded = 0;
    for (uint32_t i = 0; i < count; i++) folded = digit(folded, numbers[i].number);
    emit("list", folded);
}

static void emit_entries(const place *first) {
    const void *places, *rows;
    uint32_t count = howdah_map_entries(&map, first, NULL, 3, &places, &rows);
    int64_t folded = 0;
    for (uint32_t i = 0; i < count; i++) folded = digit(folded, ((const place *)places)[i].place);
    emit("entries", folded);
}

static void on_word(const void *row) {
    const word *word = row;
    number given = { word->number }, doubled = { 2 * word->number };
    place at = { word->number };
    const number *found;
#define IS(VERB) (word->verb.length == strlen(VERB) && memcmp(word->verb.data, VERB, strlen(VERB)) == 0)
    if (IS("put")) howdah_value_put(&value, &given);
    if (IS("get")) emit("get", (found = howdah_value_get(&value)) ? found->number : -1);
    if (IS("delete")) howdah_value_delete(&value);
    if (IS("append")) howdah_list_append(&items, &given);
    if (IS("list")) emit_list();
    if (IS("enter")) howdah_map_put(&map, &at, &doubled);
    if (IS("remove")) howdah_map_delete(&map, &at);
    if (IS("entry")) emit("entry", (found = howdah_map_get(&map, &at)) ? found->number : -1);
    if (IS("entries")) emit_entries(&at);
    if (IS("add")) howdah_reducing_add(&totals, &(total){ given.number, given.number, 0 });
    if (IS("total")) {
        const total *now = howdah_reducing_get(&totals);
        emit("total", now ? now->total * 10000 + now->least * 1000 + now->count : -1);
    }
    if (IS("clear")) {
        howdah_list_clear(&items);
        howdah_map_clear(&map);
        howdah_reducing_clear(&totals);
    }
    if (IS("timer")) howdah_timer_set(&ends, howdah_timestamp() + 5000);
    if (IS("fail")) howdah_fail("cannot take %d", (int)word->number);
}

static howdah_input words = { .name = "words", .row = &word_row, .each = on_word };

const howdah_operator howdah_the_operator = {
    .key = &key_row,
    .inputs = (howdah_input *const[]){ &words, NULL },
    .outputs = (howdah_output *const[]){ &answers, NULL },
    .states = (howdah_state *const[]){ &value, &items, &map, &totals, NULL },
    .timers = (howdah_timers *const[]){ &ends, NULL },
};
