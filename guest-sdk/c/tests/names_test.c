/* A field of a state called like a key field is refused, as by a host. */

#include "howdah_testing.h"

typedef struct bid {
    int64_t auction, price;
} bid;
static const howdah_field bid_fields[] = {
    HOWDAH_FIELD(bid, auction, HOWDAH_INT64),
    HOWDAH_FIELD(bid, price, HOWDAH_INT64),
};
static const howdah_row bid_row = HOWDAH_ROW(bid, bid_fields);
static const howdah_row key_row = { &bid_fields[0], 1, sizeof(bid) };

static const howdah_field clashing_fields[] = {
    { .name = "Auction", .type = HOWDAH_INT64, .offset = offsetof(bid, price) },
};
static const howdah_row clashing_row = HOWDAH_ROW(bid, clashing_fields);

static howdah_state highest = { .name = "highest", .kind = HOWDAH_VALUE, .row = &clashing_row };

static void on_bid(const void *row) {
    howdah_value_put(&highest, row);
}

static howdah_input bids = { .name = "bids", .row = &bid_row, .each = on_bid };

const howdah_operator howdah_the_operator = {
    .key = &key_row,
    .inputs = (howdah_input *const[]){ &bids, NULL },
    .states = (howdah_state *const[]){ &highest, NULL },
};

int main(void) {
    HOWDAH_CHECK(!howdah_test_open("{}"));
    HOWDAH_CHECK(strcmp(howdah_test_failure, "state `highest`: its field `Auction` is called like a key field: "
                                             "rename it") == 0);
    return 0;
}
