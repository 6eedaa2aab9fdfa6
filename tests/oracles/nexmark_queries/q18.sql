-- Last bid of each bidder on each auction. Of two at the same time, the later event.
SELECT auction, bidder, price, channel, url, date_time, extra
FROM bid
QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, seq DESC) = 1
