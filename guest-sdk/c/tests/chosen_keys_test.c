/* States and timers under keys of the operator's choice, in functions without a record. */

#include "../../../operators/c/conformance.c"
#include "howdah_testing.h"

static command later(const char *of, const char *name, int64_t at, int64_t n) {
    return (command){ .key = howdah_text(of), .command = howdah_text("later"), .map_key = at, .number = n,
                      .text = howdah_text(name) };
}

/* Lets a barrier carry out commands, and checks the answers: keys and numbers. */
static void check_barrier(const command *rows, uint32_t count, const char *const *keys, const int64_t *numbers,
                          uint32_t expected) {
    howdah_test_process(&commands, rows, count, NULL);
    howdah_test_barrier();
    HOWDAH_CHECK(howdah_test_failure == NULL);
    HOWDAH_CHECK(howdah_test_event_count == expected + 1); /* the barrier itself has one */
    for (uint32_t i = 0; i < expected; i++) {
        const command *found = howdah_test_events[i].row;
        HOWDAH_CHECK(is(found->key, keys[i]) && found->number == numbers[i]);
    }
}

#define COUNT(ARRAY) ((uint32_t)(sizeof(ARRAY) / sizeof *(ARRAY)))

int main(void) {
    /* States are written and read in one call for all keys. */
    HOWDAH_CHECK(howdah_test_open("{}"));
    command rows[] = {
        later("a", "value.put", 0, 1), later("b", "value.put", 0, 2), later("a", "value.put", 0, 3),
        later("a", "list.append", 0, 4), later("b", "list.append", 0, 5), later("a", "list.append", 0, 6),
        later("a", "map.put", 9, 7), later("b", "map.put", 1, 8), later("a", "map.put", 2, 9),
        later("a", "reducing.add", 0, 10), later("a", "reducing.add", 0, 20),
        later("a", "value.get", 0, 0), later("c", "value.get", 0, 0),
        later("b", "list.get", 0, 0), later("a", "list.get", 0, 0),
        later("b", "map.get", 1, 0), later("b", "map.get", 2, 0), later("a", "map.entries", 0, 0),
        later("c", "reducing.get", 0, 0), later("a", "reducing.get", 0, 0),
    };
    const char *keys[] = { "a", "b", "a", "a", "b", "a", "a", "a", "a", "a", "a", "a", "a" };
    int64_t numbers[] = { 3, 5, 4, 6, 8, 9, 7, 30, 10, 20, 2, 10, 20 };
    check_barrier(rows, COUNT(rows), keys, numbers, COUNT(numbers));

    /* And removed. */
    command removals[] = {
        later("a", "value.delete", 0, 0), later("a", "list.clear", 0, 0), later("a", "map.clear", 0, 0),
        later("b", "map.delete", 1, 0), later("a", "reducing.clear", 0, 0),
        later("a", "value.get", 0, 0), later("a", "list.get", 0, 0), later("b", "list.get", 0, 0),
        later("a", "map.entries", 0, 0), later("b", "map.entries", 0, 0), later("a", "reducing.get", 0, 0),
    };
    check_barrier(removals, COUNT(removals), (const char *const[]){ "b" }, (const int64_t[]){ 5 }, 1);

    /* Timers are set and deleted. */
    command timers[] = { later("a", "event.set", 0, 5), later("b", "event.set", 0, 6) };
    check_barrier(timers, COUNT(timers), NULL, NULL, 0);
    command no_timer = later("a", "event.delete", 0, 5);
    check_barrier(&no_timer, 1, NULL, NULL, 0);
    howdah_test_advance_watermark(10);
    HOWDAH_CHECK(howdah_test_failure == NULL);
    return 0;
}
