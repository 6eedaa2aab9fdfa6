//! Bids with three parts of their URL (Nexmark query 22): a text that is split.
//!
//! Works on whole columns: the parts are copied from the column of URLs into their own.

use howdah_sdk::columns::texts;
use howdah_sdk::prelude::*;

/// A bid.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct Bid {
    auction: i64,
    bidder: i64,
    price: i64,
    channel: String,
    url: String,
}

/// What rows are spread over subtasks by.
#[derive(Key, Debug)]
pub struct Auction {
    auction: i64,
}

/// A bid with the parts of its URL behind the host, if it has so many.
#[derive(Row, Debug, Clone, PartialEq)]
pub struct UrlBid {
    auction: i64,
    bidder: i64,
    price: i64,
    channel: String,
    dir1: Option<String>,
    dir2: Option<String>,
    dir3: Option<String>,
}

/// The operator.
#[derive(States)]
pub struct Directories;

#[operator]
impl Directories {
    fn process_batch(
        &mut self,
        batch: &Batch<Bid, Auction>,
        out: &mut Emitter<UrlBid>,
    ) -> Result<()> {
        let urls = batch.column::<String>("url")?;
        let mut directories = [const { Vec::new() }; 3];
        for row in 0..batch.rows() {
            // "https:", "" and the host come before.
            let mut parts = urls.text(row)?.split('/').skip(3);
            directories.iter_mut().for_each(|directory| directory.push(parts.next()));
        }
        let mut columns = batch.copy(&["auction", "bidder", "price", "channel"])?;
        columns.extend(directories.map(texts));
        out.emit_columns_of(batch, columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use howdah_sdk::testing::TestHost;

    #[test]
    fn a_url_has_up_to_three_parts() -> Result<()> {
        let mut host = TestHost::<Directories>::new()?;
        let urls = ["https://www.nexmark.com/a/b//c", "https://www.nexmark.com/a", "none"];
        let bids = host.process(urls.map(|url| {
            let (channel, url) = ("Apple".to_owned(), url.to_owned());
            Bid { auction: 1, bidder: 2, price: 3, channel, url }
        }))?;
        let parts: Vec<_> = bids
            .iter()
            .map(|event| [&event.row.dir1, &event.row.dir2, &event.row.dir3].map(Option::as_deref))
            .collect();
        let expected = [[Some("a"), Some("b"), Some("")], [Some("a"), None, None], [None; 3]];
        assert_eq!(parts, expected);
        Ok(())
    }
}
