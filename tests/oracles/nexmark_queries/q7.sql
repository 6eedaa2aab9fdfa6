-- Highest bid: the bids with the highest price of each window of 10 s. The benchmark's join takes both
-- ends of a window in: a bid at the very end of a window is found if its price is the window's highest.
WITH highest AS (
    SELECT time_bucket(INTERVAL 10 SECONDS, date_time) AS window_start, max(price) AS price
    FROM bid
    GROUP BY window_start
)
SELECT bid.auction, bid.bidder, bid.price, bid.date_time, bid.extra
FROM bid
JOIN highest
    ON bid.price = highest.price
    AND bid.date_time BETWEEN highest.window_start AND highest.window_start + INTERVAL 10 SECONDS
