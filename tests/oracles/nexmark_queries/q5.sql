-- Hot items: the auctions with most bids in each window of 10 s that begins every 2 s. Every one of
-- those with equally many.
WITH counts AS (
    SELECT
        time_bucket(INTERVAL 2 SECONDS, date_time) - slide * INTERVAL 2 SECONDS AS window_start,
        auction,
        count(*) AS num
    FROM bid, range(5) AS slides (slide)
    GROUP BY ALL
)
SELECT window_start, auction, num
FROM counts
QUALIFY num = max(num) OVER (PARTITION BY window_start)
