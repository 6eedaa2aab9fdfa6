-- Windows of processing time: which bids share a window depends on when they are read. What must be
-- so: each bid is counted once, and windows are 10 s long and begin at multiples of 10 s.
-- `nexmark_outputs.py` brings the output into this form.
SELECT bidder, count(*) AS bid_count, true AS windows_are_aligned
FROM bid
GROUP BY bidder
