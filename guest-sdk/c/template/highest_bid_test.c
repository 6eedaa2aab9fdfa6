/* Runs the operator over states in memory. */

#include "highest_bid.c"
#include "howdah_testing.h"

int main(void) {
    bid given[] = { { 1, 10, 1000 }, { 1, 5, 2000 }, { 1, 20, 3000 } };
    HOWDAH_CHECK(howdah_test_open("{}"));
    howdah_test_process(&bids, given, 3, NULL);
    HOWDAH_CHECK(howdah_test_event_count == 2);
    HOWDAH_CHECK(((const bid *)howdah_test_events[1].row)->price == 20);

    /* The highest bid survives a crash. */
    howdah_test_barrier();
    howdah_test_crash();
    howdah_test_process(&bids, &given[0], 1, NULL);
    HOWDAH_CHECK(howdah_test_event_count == 0);
    return 0;
}
