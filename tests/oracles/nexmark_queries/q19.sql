-- The ten highest bids on each auction, with their rank. Of equal prices the earliest comes first; of
-- those at the same time, the first event.
SELECT
    auction, bidder, price, channel, url, date_time, extra,
    row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time, seq) AS rank_number
FROM bid
QUALIFY rank_number <= 10
