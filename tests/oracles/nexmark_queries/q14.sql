-- Calculation: bids of some prices in euros (a decimal), the time of day in UTC, and how many letters
-- `c` are in `extra`.
SELECT
    auction,
    bidder,
    (0.908 * price)::DECIMAL(23, 3) AS price,
    CASE
        WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime'
        ELSE 'otherTime'
    END AS bid_time_type,
    date_time,
    extra,
    len(extra) - len(replace(extra, 'c', '')) AS c_counts
FROM bid
WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
