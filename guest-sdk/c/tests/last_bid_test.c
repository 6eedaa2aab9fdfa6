/* The operator of the examples, with tests that its Rust sister has. */

#include "../../../operators/c/last_bid.c"
#include "howdah_testing.h"

static bid bid_of(int64_t price, int64_t date_time, int64_t seq) {
    return (bid){ .auction = 2, .bidder = 1, .price = price, .date_time = date_time, .seq = seq };
}

/* The prices that are emitted if these bids come in one batch. */
static void check_emitted(const bid *bids, uint32_t count, const int64_t *prices, uint32_t expected) {
    HOWDAH_CHECK(howdah_test_open("{}"));
    howdah_test_process(&input, bids, count, NULL);
    HOWDAH_CHECK(howdah_test_failure == NULL);
    HOWDAH_CHECK(howdah_test_event_count == expected);
    for (uint32_t i = 0; i < expected; i++)
        HOWDAH_CHECK(((const bid *)howdah_test_events[i].row)->price == prices[i]);
}

int main(void) {
    /* A later bid replaces the last, whatever its price; a late one changes nothing; the greater
     * event number wins a tie. */
    bid bids[] = { bid_of(100, 10, 5), bid_of(50, 11, 6), bid_of(900, 9, 7), bid_of(800, 11, 4), bid_of(60, 11, 8) };
    check_emitted(bids, 5, (const int64_t[]){ 100, 50, 60 }, 3);

    /* A batch looks up and writes once. */
    HOWDAH_CHECK(howdah_test_reads == 1 && howdah_test_writes == 1);

    /* Bids that change nothing write nothing. */
    howdah_test_process(&input, &bids[2], 1, NULL);
    HOWDAH_CHECK(howdah_test_writes == 1);

    /* The state survives a crash, and what came after the barrier does not. */
    howdah_test_barrier();
    bid later = bid_of(70, 20, 9);
    howdah_test_process(&input, &later, 1, NULL);
    howdah_test_crash();
    bidder_auction key = { 1, 2 };
    HOWDAH_CHECK(((const last *)howdah_test_value(&state, &key))->price == 60);
    howdah_test_process(&input, &later, 1, NULL);
    HOWDAH_CHECK(howdah_test_event_count == 1);
    return 0;
}
