-- Sessions: bids of a bidder of which none comes more than 10 s after the one before; one that comes
-- exactly 10 s after belongs to it, as on Flink. A session ends 10 s after its last bid.
WITH begins AS (
    SELECT
        bidder, date_time,
        coalesce(
            date_time - lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time)
                > INTERVAL 10 SECONDS,
            true
        ) AS is_new
    FROM bid
),
numbered AS (
    SELECT
        bidder, date_time,
        count(*) FILTER (WHERE is_new) OVER (PARTITION BY bidder ORDER BY date_time) AS session
    FROM begins
)
SELECT
    bidder,
    count(*) AS bid_count,
    min(date_time) AS start_time,
    max(date_time) + INTERVAL 10 SECONDS AS end_time
FROM numbered
GROUP BY bidder, session
