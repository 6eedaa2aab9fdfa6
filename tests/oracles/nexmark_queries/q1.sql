-- Currency: the price of every bid in euros. A decimal, so that nothing is rounded.
SELECT auction, bidder, (0.908 * price)::DECIMAL(23, 3) AS price, date_time, extra
FROM bid
