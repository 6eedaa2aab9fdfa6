/* Every kind of state, timers, types, changelogs and failures. */

#include "howdah_testing.h"

#include <stdio.h>

/* All types, the first half nullable. */
typedef struct every {
    bool flag, flag_null, small_null, large_null, text_null, data_null;
    int32_t small, day;
    int64_t large, at;
    float single;
    double wide;
    howdah_decimal money;
    howdah_bytes text, data;
} every;

static const howdah_field every_fields[] = {
    HOWDAH_NULLABLE(every, flag, HOWDAH_BOOLEAN, flag_null),
    HOWDAH_NULLABLE(every, small, HOWDAH_INT32, small_null),
    HOWDAH_NULLABLE(every, large, HOWDAH_INT64, large_null),
    HOWDAH_NULLABLE(every, text, HOWDAH_UTF8, text_null),
    HOWDAH_NULLABLE(every, data, HOWDAH_BINARY, data_null),
    HOWDAH_FIELD(every, single, HOWDAH_FLOAT32),
    HOWDAH_FIELD(every, wide, HOWDAH_FLOAT64),
    HOWDAH_DECIMAL(every, money, 38, 2),
    HOWDAH_FIELD(every, day, HOWDAH_DATE),
    HOWDAH_FIELD(every, at, HOWDAH_TIMESTAMP),
};
static const howdah_row every_row = HOWDAH_ROW(every, every_fields);

typedef struct word {
    howdah_bytes key;
    int64_t number;
    howdah_bytes verb;
} word;

static const howdah_field word_fields[] = {
    HOWDAH_FIELD(word, key, HOWDAH_UTF8),
    HOWDAH_FIELD(word, number, HOWDAH_INT64),
    HOWDAH_FIELD(word, verb, HOWDAH_UTF8),
};
static const howdah_row word_row = HOWDAH_ROW(word, word_fields);

typedef struct name {
    howdah_bytes key;
} name;
static const howdah_field name_fields[] = { HOWDAH_FIELD(name, key, HOWDAH_UTF8) };
static const howdah_row name_row = HOWDAH_ROW(name, name_fields);

typedef struct number {
    int64_t number;
} number;
static const howdah_field number_fields[] = { HOWDAH_FIELD(number, number, HOWDAH_INT64) };
static const howdah_row number_row = HOWDAH_ROW(number, number_fields);

/* The same number under another name, and the verb of a word alone. */
static const howdah_field place_fields[] = {
    { .name = "place", .type = HOWDAH_INT64, .offset = offsetof(number, number) },
};
static const howdah_row place_row = HOWDAH_ROW(number, place_fields);
static const howdah_row verb_row = { &word_fields[2], 1, sizeof(word) };

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

static bool wanted(const void *row, void *map_key) {
    ((number *)map_key)->number = ((const word *)row)->number;
    return true;
}

static howdah_state value = { .name = "value", .kind = HOWDAH_VALUE, .row = &number_row };
static howdah_state items = { .name = "items", .kind = HOWDAH_LIST, .row = &number_row };
static howdah_state map = { .name = "map", .kind = HOWDAH_MAP, .row = &verb_row, .map_key = &place_row };
static howdah_state counts = { .name = "counts", .kind = HOWDAH_MAP, .row = &number_row,
                               .map_key = &place_row, .prefetch = wanted };
static howdah_state totals = { .name = "totals", .kind = HOWDAH_REDUCING, .row = &total_row, .reducers = reducers };
static howdah_output answers = { .name = "answers", .row = &number_row, .changelog = true };
static howdah_output plain = { .name = "plain", .row = &number_row };

static void answer(int64_t number_of) {
    number row = { number_of };
    howdah_emit(&answers, &row);
}

static void on_end(int64_t time) {
    answer(time);
}

static howdah_timers ends = { .name = "ends", .fired = on_end };

static void on_word(const void *row) {
    const word *word = row;
    number given = { word->number };
    const number *found;
    const void *keys, *rows;
    uint32_t count;
#define IS(VERB) (word->verb.length == strlen(VERB) && memcmp(word->verb.data, VERB, strlen(VERB)) == 0)
    if (IS("put")) howdah_value_put(&value, &given);
    if (IS("delete")) howdah_value_delete(&value);
    if (IS("get")) answer((found = howdah_value_get(&value)) ? found->number : -1);
    if (IS("append")) howdah_list_append(&items, &given);
    if (IS("list")) {
        const number *numbers = howdah_list_get(&items, &count);
        int64_t all = 0;
        for (uint32_t i = 0; i < count; i++) all = all * 10 + numbers[i].number;
        answer(all);
    }
    if (IS("clear")) howdah_list_clear(&items), howdah_map_clear(&map), howdah_reducing_clear(&totals);
    if (IS("enter")) howdah_map_put(&map, &given, word);
    if (IS("remove")) howdah_map_delete(&map, &given);
    if (IS("entry")) answer(howdah_map_get(&map, &given) ? 1 : 0);
    if (IS("entries")) {
        int64_t all = 0;
        count = howdah_map_entries(&map, &given, NULL, 2, &keys, &rows);
        for (uint32_t i = 0; i < count; i++) all = all * 10 + ((const number *)keys)[i].number;
        answer(all);
    }
    if (IS("count")) {
        number next = { (found = howdah_map_get(&counts, &given)) ? found->number + 1 : 1 };
        howdah_map_put(&counts, &given, &next);
    }
    if (IS("add")) howdah_reducing_add(&totals, &(total){ given.number, given.number, 0 });
    if (IS("total")) {
        const total *folded = howdah_reducing_get(&totals);
        answer(folded ? folded->total * 10000 + folded->least * 100 + folded->count : -1);
    }
    if (IS("timer")) howdah_timer_set(&ends, given.number);
    if (IS("untimer")) howdah_timer_delete(&ends, given.number);
    if (IS("gone")) howdah_emit_kind(&answers, HOWDAH_DELETE, &given);
    if (IS("wrong")) howdah_emit_kind(&plain, HOWDAH_DELETE, &given);
    if (IS("fail")) howdah_fail("cannot take %d", (int)given.number);
    if (IS("fail-long")) {
        char text[2003] = "\xff\xfe";
        for (int at = 2; at < 2002; at += 2) memcpy(text + at, "\xc3\xa4", 2);
        howdah_fail("%s", text);
    }
}

static void on_barrier(uint64_t checkpoint) {
    name keys[] = { { howdah_text("a") }, { howdah_text("nobody") } };
    const number *const *found = (const number *const *)howdah_value_get_many(&value, keys, 2);
    answer(found[0] && !found[1] ? found[0]->number : -(int64_t)checkpoint);
}

static void configure(void) {
    howdah_bytes mode;
    if (howdah_config_int64("limit", 5) != 5) howdah_fail_config("`limit` must be 5");
    if (howdah_config_text("mode", &mode) && mode.length != 4) howdah_fail_config("`mode` has 4 letters");
}

static howdah_input words = { .name = "words", .row = &word_row, .each = on_word };

const howdah_operator howdah_the_operator = {
    .key = &name_row,
    .inputs = (howdah_input *const[]){ &words, NULL },
    .outputs = (howdah_output *const[]){ &answers, &plain, NULL },
    .states = (howdah_state *const[]){ &value, &items, &map, &counts, &totals, NULL },
    .timers = (howdah_timers *const[]){ &ends, NULL },
    .on_barrier = on_barrier,
    .configure = configure,
};

/* Runs lines like "put 1" for key `a`, all in one batch or each in one, and checks the answers. */
static void check(const char *script, const int64_t *expected, uint32_t count) {
    static char verbs[32][16];
    word rows[32];
    uint32_t lines = 0, answered = 0;
    for (const char *at = script; *at; at += strcspn(at, ";"), at += *at == ';', lines++) {
        long long number_of = 0;
        sscanf(at, " %15[a-z] %lld", verbs[lines], &number_of);
        rows[lines] = (word){ howdah_text("a"), number_of, howdah_text(verbs[lines]) };
    }
    for (int one_by_one = 0; one_by_one < 2; one_by_one++) {
        HOWDAH_CHECK(howdah_test_open("{}"));
        answered = 0;
        for (uint32_t i = 0; i < lines; i += one_by_one ? 1 : lines) {
            howdah_test_process(&words, rows + i, one_by_one ? 1 : lines, NULL);
            HOWDAH_CHECK(howdah_test_failure == NULL);
            for (uint32_t e = 0; e < howdah_test_event_count; e++, answered++) {
                HOWDAH_CHECK(answered < count);
                HOWDAH_CHECK(((const number *)howdah_test_events[e].row)->number == expected[answered]);
            }
        }
        HOWDAH_CHECK(answered == count);
    }
}

#define CHECK(SCRIPT, ...) \
    check(SCRIPT, (const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }) / 8)

static void columns_keep_every_type(void) {
    every rows[9] = {
        { .flag_null = true, .small_null = true, .large_null = true, .text_null = true, .data_null = true },
        { .flag = true, .small = INT32_MIN, .large = INT64_MIN, .text = howdah_text("na\xC3\xAFve"),
          .data = { (const uint8_t *)"\0\xFF", 2 }, .single = 1.5f, .wide = -0.0,
          .money = { UINT64_MAX, -1 }, .day = INT32_MIN, .at = INT64_MAX },
        { .text = howdah_text(""), .data = howdah_text("") },
    };
    howdah_column columns[10];
    for (uint32_t f = 0; f < 10; f++) columns[f] = howdah_encode(&every_fields[f], &every_row, rows, 9);
    const every *again = howdah_decode(&every_row, columns, 9);
    HOWDAH_CHECK(again[0].flag_null && again[0].small_null && again[0].text_null && again[0].data_null);
    HOWDAH_CHECK(!again[1].flag_null && again[1].flag && again[1].small == INT32_MIN);
    HOWDAH_CHECK(again[1].large == INT64_MIN && again[1].at == INT64_MAX && again[1].day == INT32_MIN);
    HOWDAH_CHECK(again[1].text.length == 6 && memcmp(again[1].text.data, "na\xC3\xAFve", 6) == 0);
    HOWDAH_CHECK(again[1].data.length == 2 && again[1].data.data[1] == 0xFF);
    HOWDAH_CHECK(again[1].money.high == -1 && again[1].money.low == UINT64_MAX);
    HOWDAH_CHECK(again[1].single == 1.5f && 1 / again[1].wide < 0);
    HOWDAH_CHECK(!again[2].text_null && again[2].text.length == 0);
    HOWDAH_CHECK(columns[5].validity.is_some == false && columns[3].validity.val.len == 2);
}

int main(void) {
    HOWDAH_CHECK(howdah_test_open("{}"));
    columns_keep_every_type();
    CHECK("get; put 1; get; put 2; get; delete; get", -1, 1, 2, -1);
    CHECK("append 2; list; append 1; list; clear; append 3; list", 2, 21, 3);
    CHECK("enter 5; enter 3; enter 9; entries 0; entries 4; remove 5; entry 5; entries 0; clear; entry 3; enter 1; entries 0",
          35, 59, 0, 39, 0, 1);
    CHECK("total; add 5; total; add 2; total; clear; total; add 7; total", -1, 50501, 70202, -1, 70701);

    /* Entries that rows will ask for come in one call. */
    HOWDAH_CHECK(howdah_test_open("{}"));
    word count[3];
    for (int i = 0; i < 3; i++) count[i] = (word){ howdah_text("a"), i % 2, howdah_text("count") };
    howdah_test_process(&words, count, 3, NULL);
    HOWDAH_CHECK(howdah_test_reads == 1 && howdah_test_writes == 1);

    /* Timers fire once, in order; a deleted one does not. */
    word timers[] = { { howdah_text("a"), 20, howdah_text("timer") }, { howdah_text("a"), 10, howdah_text("timer") },
                      { howdah_text("a"), 20, howdah_text("timer") }, { howdah_text("a"), 10, howdah_text("untimer") } };
    howdah_test_process(&words, timers, 4, NULL);
    howdah_test_advance_watermark(30);
    HOWDAH_CHECK(howdah_test_failure == NULL);

    /* Values of any keys, outside of rows. */
    word put = { howdah_text("a"), 7, howdah_text("put") };
    howdah_test_process(&words, &put, 1, NULL);
    howdah_test_barrier();
    HOWDAH_CHECK(((const number *)howdah_test_events[0].row)->number == 7);

    /* Changes go to outputs that take them, and to no others. */
    word gone = { howdah_text("a"), 7, howdah_text("gone") }, wrong = { howdah_text("a"), 7, howdah_text("wrong") };
    howdah_test_process(&words, &gone, 1, (const int64_t[]){ 42 });
    HOWDAH_CHECK(howdah_test_events[0].kind == HOWDAH_DELETE && howdah_test_events[0].timestamp == 42);
    howdah_test_process(&words, &wrong, 1, NULL);
    HOWDAH_CHECK(howdah_test_failure && strstr(howdah_test_failure, "output `plain` is no changelog"));

    /* A failure has its message, and fails the batch. */
    word fails[] = { put, { howdah_text("a"), 3, howdah_text("fail") } };
    fails[0].number = 8;
    howdah_test_process(&words, fails, 2, NULL);
    HOWDAH_CHECK(strcmp(howdah_test_failure, "cannot take 3") == 0);
    HOWDAH_CHECK(((const number *)howdah_test_value(&value, &(name){ howdah_text("a") }))->number == 7);

    /* A configuration is refused before the operator runs. */
    HOWDAH_CHECK(howdah_test_open("{\"other\": {\"limit\": 1}, \"limit\": 5, \"mode\": \"slow\"}"));
    HOWDAH_CHECK(!howdah_test_open("{\"limit\": 6}"));
    HOWDAH_CHECK(!howdah_test_open("{\"mode\": \"fast!\"}"));
    HOWDAH_CHECK(!howdah_test_open("{\"limit\": 9223372036854775808}"));

    /* Its texts, and the names of its members, come without the escapes of JSON. */
    howdah_bytes text;
    HOWDAH_CHECK(howdah_test_open("{\"a\\u0000\": \"no\", \"\\u00e4\\\"\": \"\\u0000\\n\\\\\\/\\ud83d\\ude00\\ud800x\"}"));
    HOWDAH_CHECK(howdah_config_text("\xc3\xa4\"", &text));
    HOWDAH_CHECK(text.length == 12 && !memcmp(text.data, "\0\n\\/\xf0\x9f\x98\x80\xef\xbf\xbdx", 12));
    HOWDAH_CHECK(!howdah_config_text("a", &text));

    /* A message is UTF-8, however it was cut and whatever was put into it. */
    HOWDAH_CHECK(howdah_test_open("{}"));
    word cut[] = { { howdah_text("a"), 3, howdah_text("fail-long") } };
    howdah_test_process(&words, cut, 1, NULL);
    HOWDAH_CHECK(strlen(howdah_test_failure) == 1023);
    HOWDAH_CHECK(!strncmp(howdah_test_failure, "??\xc3\xa4", 4) && !strcmp(howdah_test_failure + 1020, "\xc3\xa4?"));
    return 0;
}
